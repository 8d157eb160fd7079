//! Pyroscope's pushes.

use flamelet_profile::{Budget, Limits};
use flamelet_remote::querier::Codec;
use flamelet_remote::receive;

use crate::collector::{Collector, Offered, Refused};

/// The service of series that name none, as Pyroscope calls it.
const NO_SERVICE: &str = "unspecified";

/// Keeps the profiles of a push.
pub(super) fn push(collector: &Collector, codec: Codec, body: &[u8]) -> Result<Vec<u8>, Refused> {
    for series in receive::push(codec, body, &Budget::new(Limits::SERVICE))? {
        let service =
            series.label("service_name").filter(|name| !name.is_empty()).unwrap_or(NO_SERVICE).to_owned();
        let name = series.label("__name__").map(str::to_owned);
        let is_delta = series.label("__delta__") == Some("false");
        for profile in series.profiles {
            collector.accept(&Offered {
                service: service.clone(),
                labels: series.labels.clone(),
                name: name.clone(),
                id: profile.id,
                is_delta,
                bytes: profile.raw,
                ..Offered::default()
            })?;
        }
    }
    Ok(super::empty(codec))
}
