//! Pyroscope's pushes.

use flamelet_profile::{Budget, Limits};
use flamelet_remote::querier::Codec;
use flamelet_remote::receive;

use super::outcome::Outcome;
use crate::collector::{Collector, Offered, Refused};

/// The service of series that name none, as Pyroscope calls it.
const NO_SERVICE: &str = "unspecified";

/// Keeps the profiles of a push. If some are refused forever, the others are kept, and the answer says why; if one may be
/// accepted later, the whole push is refused: it is sent again, and what was kept already is recognized.
pub(in crate::http) fn push(collector: &Collector, codec: Codec, body: &[u8]) -> Result<Vec<u8>, Refused> {
    let mut outcome = Outcome::default();
    for series in receive::push(codec, body, &Budget::new(Limits::SERVICE))? {
        let service =
            series.label("service_name").filter(|name| !name.is_empty()).unwrap_or(NO_SERVICE).to_owned();
        let name = series.label("__name__").map(str::to_owned);
        let is_delta = series.label("__delta__") == Some("false");
        for profile in series.profiles {
            outcome.add(collector.accept(&Offered {
                service: service.clone(),
                labels: series.labels.clone(),
                name: name.clone(),
                id: profile.id,
                is_delta,
                bytes: profile.raw,
                ..Offered::default()
            }))?;
        }
    }
    outcome.finish().map(|()| super::empty(codec))
}
