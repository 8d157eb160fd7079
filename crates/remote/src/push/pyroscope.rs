//! Pyroscope's `push.v1.PushRequest`.

use flamelet_profile::Result;
use flamelet_profile::protobuf::MessageWriter;

use super::{Series, id, labels, parca};

/// Returns `series { labels, samples { raw_profile, ID } }`.
pub(super) fn body(pprof: &[u8], series: &Series<'_>, id: u128) -> Result<Vec<u8>> {
    // Windows of time are not to be taken for totals since the start.
    let own = [("__name__", series.name), ("service_name", series.service), ("__delta__", "false")];
    let all = labels::sorted(&own, series.labels);
    let raw = parca::gzip(pprof)?;
    let mut message = MessageWriter::default();
    message.message(1, |out| {
        all.iter().for_each(|label| out.message(1, |out| parca::write_label(label, out)));
        out.message(2, |sample| {
            sample.bytes(1, &raw);
            sample.bytes(2, id::uuid(id).as_bytes());
        });
    });
    Ok(message.into_bytes())
}
