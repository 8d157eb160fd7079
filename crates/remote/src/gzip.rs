//! Unpacks the bodies of requests.

use std::borrow::Cow;
use std::io::Read;

use flamelet_profile::{Error, ErrorKind, Result};

/// Unpacks a body by its `Content-Encoding`, up to `most` bytes.
pub fn unpack_body(encoding: &str, body: Cow<'_, [u8]>, most: usize) -> Result<Vec<u8>> {
    match encoding.trim() {
        "" | "identity" => Ok(body.into_owned()),
        "gzip" => gunzip(&body, most),
        other => {
            let shown: String = other.chars().take(20).collect();
            let message = format!("the content encoding {shown:?} is not supported; use gzip");
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}

/// Unpacks gzip, up to `most` bytes.
pub fn gunzip(packed: &[u8], most: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let reader = flate2::read::MultiGzDecoder::new(packed);
    let read = reader.take((most as u64).saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| Error::invalid(format!("the body is not complete gzip data: {error}")))?;
    if bytes.len() > most { Err(too_large(most)) } else { Ok(bytes) }
}

pub(crate) fn too_large(most: usize) -> Error {
    let mib = most >> 20;
    Error::new(ErrorKind::TooLarge, format!("the body is larger than {mib} MiB after unpacking"))
}
