//! Receives the files of builds, as Pyroscope does: `flamelet symbols push --to pyroscope+http://…`.

use axum::http::header;
use axum::response::Response;
use flamelet_profile::protobuf::{MessageWriter, bytes_field};

use super::answer::response;
use super::call::Call;
use crate::collector::{Collector, Refused};

/// Where Pyroscope's calls for symbols are.
pub(super) const SYMBOLS: &str = "/debuginfo.v1alpha1.DebuginfoService/";
const UPLOAD: &str = "Upload/";
const PROTO: &str = "application/proto";

/// Returns whether the body of a call is a file.
pub(super) fn is_upload(path: &str) -> bool {
    path.strip_prefix(SYMBOLS).is_some_and(|name| name.starts_with(UPLOAD))
}

pub(super) fn receive(collector: &Collector, call: &Call) -> Result<Response, Refused> {
    if collector.is_read_only() {
        return Err(Refused::new(405, "this collector only reads (--read-only)"));
    }
    let name = call.path.strip_prefix(SYMBOLS).unwrap_or_default();
    match (name, name.strip_prefix(UPLOAD)) {
        (_, Some(id)) => collector.symbols().put(id, &call.body).map(|()| response(200, PROTO, Vec::new())),
        ("ShouldInitiateUpload", _) => return wants(collector, call),
        // The file is kept when its upload is answered.
        ("UploadFinished", _) => Ok(response(200, PROTO, Vec::new())),
        _ => return Err(Refused::new(501, "this call of Pyroscope's API is not supported here")),
    }
    .map_err(Refused::from)
}

/// Answers whether the file of a build is wanted.
fn wants(collector: &Collector, call: &Call) -> Result<Response, Refused> {
    if !call.header(header::CONTENT_TYPE).starts_with(PROTO) {
        return Err(Refused::new(415, "the content type must be application/proto"));
    }
    let file = bytes_field(&call.body, 1)?;
    let id = String::from_utf8_lossy(bytes_field(file, 1)?).into_owned();
    let (is_wanted, reason) = collector.symbols().wants(&id)?;
    let mut message = MessageWriter::default();
    message.uint(1, u64::from(is_wanted));
    message.bytes(2, reason.as_bytes());
    Ok(response(200, PROTO, message.into_bytes()))
}
