//! A request, read within the caps.

use std::future::poll_fn;
use std::pin::Pin;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, Method, header};
use flamelet_profile::{ErrorKind, percent};
use flamelet_remote::receive::unpack_body;

use crate::collector::{Collector, Refused};

/// How much of a body that is too large is read, for the sender to see the answer.
const THROWN_AWAY: usize = 64 << 20;

/// A request whose body was read.
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Call {
    pub(super) fn header(&self, name: impl header::AsHeaderName) -> &str {
        text_of(&self.headers, name)
    }

    /// Returns the body, unpacked by its content encoding, up to a cap.
    pub(super) fn unpacked(&self, most: usize) -> Result<Vec<u8>, Refused> {
        let unpacked = unpack_body(self.header(header::CONTENT_ENCODING), (&*self.body).into(), most);
        unpacked.map_err(|error| match error.kind() {
            ErrorKind::TooLarge => Refused::new(413, format!("{error} (limits.body)")),
            ErrorKind::Unsupported => Refused::new(415, error.to_string()),
            _ => error.into(),
        })
    }
}

/// A question about what a collector keeps.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) collector: &'a Collector,
    pub(super) call: &'a Call,
    /// Whether the viewer is served.
    pub(super) has_viewer: bool,
}

/// Returns the text of a header; empty if it is missing or not text.
pub(super) fn text_of(headers: &HeaderMap, name: impl header::AsHeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Reads a body. If it is too large, the rest is read for a while and thrown away: a sender that is still sending does
/// not see the answer.
pub(super) async fn read_body(mut body: Body, most: usize, limit: &str) -> Result<Vec<u8>, Refused> {
    let (mut bytes, mut length) = (Vec::new(), 0);
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|error| Refused::new(400, format!("the body is incomplete: {error}")))?;
        let data = frame.data_ref().map_or(&[][..], |data| &data[..]);
        length += data.len();
        if length <= most {
            bytes.extend_from_slice(data);
        } else {
            bytes = Vec::new();
        }
        if length > most.saturating_add(THROWN_AWAY) {
            break;
        }
    }
    match length > most {
        true => Err(Refused::new(413, format!("the body is larger than {} MiB ({limit})", most >> 20))),
        false => Ok(bytes),
    }
}

/// Returns whether a browser sends the request for a page of another site.
pub(super) fn is_of_another_site(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text("sec-fetch-site") {
        return !matches!(site, "same-origin" | "none");
    }
    // A page that hides where it is from has the origin `null`.
    let is_other = |origin: &str| origin.split_once("://").is_none_or(|(_, host)| Some(host) != text("host"));
    text("origin").is_some_and(is_other)
}

/// Reads the parameters of an address.
pub(super) fn parameters(query: &str) -> Vec<(String, String)> {
    let plain = |text: &str| percent::decode_lossy(&text.replace('+', " "));
    let pairs = query.split('&').filter(|part| !part.is_empty()).take(1000);
    pairs
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .map(|(name, value)| (plain(name), plain(value)))
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (header::HeaderName::from_static(name), value.parse().expect("a value")))
            .collect()
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        assert!(!is_of_another_site(&headers(&[])));
        assert!(!is_of_another_site(&headers(&[("sec-fetch-site", "same-origin")])));
        assert!(!is_of_another_site(&headers(&[("origin", "http://h:1"), ("host", "h:1")])));
        assert!(is_of_another_site(&headers(&[("sec-fetch-site", "cross-site")])));
        assert!(is_of_another_site(&headers(&[("origin", "http://evil"), ("host", "h:1")])));
        assert!(is_of_another_site(&headers(&[("origin", "http://evil")])));
        assert!(is_of_another_site(&headers(&[("origin", "null"), ("host", "h:1")])));
        assert!(is_of_another_site(&headers(&[("origin", "null")])));
    }

    #[test]
    fn parameters_are_read() {
        let read = parameters("name=a%7Bb%3D1%7D&x=1+2&y&z=%zz%");
        let pairs: Vec<(&str, &str)> = read.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(pairs, [("name", "a{b=1}"), ("x", "1 2"), ("y", ""), ("z", "%zz%")]);
    }
}
