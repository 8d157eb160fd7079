//! OTLP's exports.

use flamelet_profile::{Limits, pprof};
use flamelet_remote::querier::Codec;
use flamelet_remote::receive::otlp;

use crate::collector::{Collector, Offered, Refused};

/// Keeps the profiles of an export.
///
/// If some are refused forever, the answer says how many, and the sender continues. If one may be accepted later, the
/// whole export is refused: it is sent again, and what was kept already is recognized.
pub(in crate::http) fn export(collector: &Collector, codec: Codec, body: &[u8]) -> Result<Vec<u8>, Refused> {
    let resources = collector.outside.read_otlp(body, codec == Codec::Json, Limits::SERVICE)?;
    let (mut kept, mut refused) = (0, Vec::new());
    for resource in resources {
        let (service, labels) = otlp::labels(&resource.attributes);
        for profile in &resource.profiles {
            let offered = Offered {
                service: service.clone(),
                labels: labels.clone(),
                is_delta: true,
                bytes: pprof::encode(profile),
                ..Offered::default()
            };
            match collector.accept(&offered) {
                Ok(()) => kept += 1,
                Err(later @ Refused { status: 429 | 503, .. }) => return Err(later),
                Err(never) => refused.push(never),
            }
        }
    }
    let Some(first) = refused.first().cloned() else { return Ok(otlp::response(codec, 0, "")) };
    match kept {
        0 => Err(first),
        _ => Ok(otlp::response(codec, refused.len() as u64, &first.message)),
    }
}
