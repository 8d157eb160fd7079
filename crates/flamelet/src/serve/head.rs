//! Reading the head of a request, and writing the head of an answer.

use std::fmt::Write;

use http::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use http::request::Parts;
use http::{Method, StatusCode};

/// The longest head of a request.
pub(super) const MAX_HEAD: usize = 32 << 10;

const MAX_HEADERS: usize = 100;

/// Why a request cannot be read.
pub(super) type Unreadable = (StatusCode, &'static str);

const BAD: StatusCode = StatusCode::BAD_REQUEST;

/// Returns where the head ends, with the empty line after it.
pub(super) fn end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

/// Reads a head: the request line and the headers, without the empty line after them.
pub(super) fn parse(head: &[u8]) -> Result<Parts, Unreadable> {
    let head = std::str::from_utf8(head).map_err(|_| (BAD, "the head of the request is not text"))?;
    let mut lines = head.trim_end_matches("\r\n").split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(address), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err((BAD, "the first line is not METHOD ADDRESS HTTP/1.1"));
    };
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err((StatusCode::HTTP_VERSION_NOT_SUPPORTED, "only HTTP/1.0 and HTTP/1.1 are supported"));
    }
    let mut builder = http::Request::builder().method(method).uri(address);
    for (index, line) in lines.enumerate() {
        let (name, value) = line.split_once(':').ok_or((BAD, "a header has no colon"))?;
        if index == MAX_HEADERS {
            return Err((StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the request has too many headers"));
        }
        builder = builder.header(name, value.trim_matches([' ', '\t']));
    }
    let request = builder.body(()).map_err(|_| (BAD, "the request is not valid HTTP"))?;
    Ok(request.into_parts().0)
}

/// Returns the length of a request's body.
pub(super) fn body_length(headers: &HeaderMap) -> Result<usize, Unreadable> {
    if headers.contains_key(TRANSFER_ENCODING) {
        return Err((StatusCode::LENGTH_REQUIRED, "a body needs a Content-Length"));
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let Some(first) = lengths.next() else { return Ok(0) };
    let digits = first.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let length = digits.and_then(|text| text.parse().ok());
    match length {
        Some(length) if lengths.all(|other| other == first) => Ok(length),
        _ => Err((BAD, "the Content-Length is not a number")),
    }
}

/// Returns the head of an answer with a body of `length` bytes. The connection ends after it.
pub(super) fn write(status: StatusCode, headers: &HeaderMap, method: &Method, length: usize) -> Vec<u8> {
    let reason = status.canonical_reason().unwrap_or("Unknown");
    let mut head = format!("HTTP/1.1 {} {reason}\r\nConnection: close\r\n", status.as_u16()).into_bytes();
    for (name, value) in headers {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    // The length of what GET would get is in the headers, if it is known.
    if method != Method::HEAD && !headers.contains_key(CONTENT_LENGTH) {
        let mut line = String::new();
        let _ = write!(line, "Content-Length: {length}\r\n");
        head.extend_from_slice(line.as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read() {
        let text =
            b"GET /debug/pprof/heap?debug=1 HTTP/1.1\r\nHost: a:1\r\nAccept:\t text/html \r\nX:\r\n\r\n";
        assert_eq!(end(text), Some(text.len()));
        let parts = parse(text).expect("a request");
        assert_eq!((parts.uri.path(), parts.uri.query()), ("/debug/pprof/heap", Some("debug=1")));
        assert!(parts.headers["host"] == "a:1" && parts.headers["accept"] == "text/html");
        assert_eq!((parts.headers["x"].len(), body_length(&parts.headers)), (0, Ok(0)));
        assert!(end(b"GET / HTTP/1.1\r\nHost: a\r\n").is_none());
    }

    #[test]
    fn what_is_not_http_is_refused_with_a_reason() {
        let many = format!("GET / HTTP/1.1\r\n{}", "A: b\r\n".repeat(MAX_HEADERS + 1));
        for (text, status) in [
            (&b""[..], 400),
            (b"GET /", 400),
            (b"GET  / HTTP/1.1", 400),
            (b"GET / HTTP/1.1 more", 400),
            (b"GET / HTTP/2", 505),
            (b"G\xc0T / HTTP/1.1", 400),
            (b"G(T / HTTP/1.1", 400),
            (b"GET /\x01 HTTP/1.1", 400),
            (b"GET / HTTP/1.1\r\nno colon", 400),
            (b"GET / HTTP/1.1\r\nHost : a", 400),
            (b"GET / HTTP/1.1\r\n folded: a", 400),
            (b"GET / HTTP/1.1\r\nHost: a\nb: c", 400),
            (many.as_bytes(), 431),
        ] {
            let refused = parse(text).expect_err("not HTTP");
            assert_eq!(refused.0.as_u16(), status, "{:?}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn lengths_are_numbers_that_agree() {
        let length = |headers: &str| {
            let text = format!("POST / HTTP/1.1\r\n{headers}");
            body_length(&parse(text.as_bytes()).expect("a request").headers)
                .map_err(|(status, _)| status.as_u16())
        };
        assert_eq!(length("Content-Length: 7"), Ok(7));
        assert_eq!(length("Content-Length: 7\r\nContent-Length: 7"), Ok(7));
        for bad in ["-1", "+1", "0x10", "", "99999999999999999999999", "7, 7"] {
            assert_eq!(length(&format!("Content-Length: {bad}")), Err(400), "{bad}");
        }
        assert_eq!(length("Content-Length: 7\r\nContent-Length: 8"), Err(400));
        assert_eq!(length("Transfer-Encoding: chunked"), Err(411));
    }
}
