//! Parca's raw writes.

use flamelet_profile::{Budget, Limits};
use flamelet_remote::querier::Codec;
use flamelet_remote::receive::parca;

use super::outcome::Outcome;
use crate::collector::{Collector, Offered, Refused};

/// Keeps the profiles of a raw write; those that are refused do not stop the others.
pub(in crate::http) fn write_raw(
    collector: &Collector,
    codec: Codec,
    body: &[u8],
) -> Result<Vec<u8>, Refused> {
    let mut outcome = Outcome::default();
    for series in parca::write_raw(codec, body, &Budget::new(Limits::SERVICE))? {
        let Some(service) = parca::service_of(&series).map(str::to_owned) else {
            outcome.add(Err(Refused::new(
                400,
                "the labels service_name and job are missing; one of them names the service",
            )))?;
            continue;
        };
        let name = series.label("__name__").map(str::to_owned);
        for profile in series.profiles {
            outcome.add(collector.accept(&Offered {
                service: service.clone(),
                labels: series.labels.clone(),
                name: name.clone(),
                is_delta_if_timed: true,
                bytes: profile.raw,
                ..Offered::default()
            }))?;
        }
    }
    outcome.finish().map(|()| super::empty(codec))
}
