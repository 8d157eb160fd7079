//! Parca's `WriteRawRequest` in a gRPC-Web frame.

use std::io::Write;

use flamelet_profile::protobuf::MessageWriter;
use flamelet_profile::{Error, ErrorKind, Result};

use super::{Series, labels};

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

/// Puts a message into a frame: a flag for "not compressed", and its length.
pub(crate) fn frame(message: &[u8]) -> Result<Vec<u8>> {
    let too_large = |_| Error::new(ErrorKind::TooLarge, "the profile is too large for gRPC");
    let length = u32::try_from(message.len()).map_err(too_large)?;
    Ok([&[0][..], &length.to_be_bytes(), message].concat())
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
