//! Parca's `WriteRawRequest` in a gRPC-Web frame.

use std::io::Write;

use flamelet_profile::Result;
use flamelet_profile::protobuf::MessageWriter;

use super::{Series, labels};
use crate::frame::frame;

/// Returns the frame of `series { labels { labels }, samples { raw_profile } }`.
pub(super) fn body(pprof: &[u8], series: &Series<'_>) -> Result<Vec<u8>> {
    let own = [("__name__", series.name), ("job", series.service), ("service_name", series.service)];
    let all = labels::sorted(&own, series.labels);
    let raw = gzip(pprof)?;
    let mut message = MessageWriter::default();
    message.message(2, |out| {
        out.message(1, |set| all.iter().for_each(|label| set.message(1, |out| write_label(label, out))));
        out.message(2, |sample| sample.bytes(1, &raw));
    });
    frame(message.as_bytes())
}

pub(super) fn write_label((name, value): &(String, String), out: &mut MessageWriter) {
    out.bytes(1, name.as_bytes());
    out.bytes(2, value.as_bytes());
}

pub(super) fn gzip(message: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = flate2::GzBuilder::new().mtime(0).write(Vec::new(), flate2::Compression::new(5));
    gzip.write_all(message)?;
    Ok(gzip.finish()?)
}
