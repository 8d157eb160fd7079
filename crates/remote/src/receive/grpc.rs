//! The messages of unary gRPC and gRPC-Web calls.

use flamelet_profile::{Error, ErrorKind, Result};

use crate::frame::{Frame, first_frame, frame};
use crate::gzip::{gunzip, too_large};

const COMPRESSED: u8 = 1;
const TRAILERS: u8 = 0x80;

/// Returns the message of a unary call; `encoding` is the header `grpc-encoding`, and `most` the longest message that is
/// read.
pub fn message(body: &[u8], encoding: &str, most: usize) -> Result<Vec<u8>> {
    let Frame { flag, message, rest } = first_frame(body).ok_or_else(|| wrong("the message is not whole"))?;
    // gRPC-Web may send trailers after the message, which do not matter here.
    if rest.first().is_some_and(|flag| flag & TRAILERS == 0) {
        return Err(wrong("it has several messages"));
    }
    match (flag, encoding) {
        (0, _) if message.len() > most => Err(too_large(most)),
        (0, _) => Ok(message.to_vec()),
        (COMPRESSED, "gzip") => gunzip(message, most),
        (COMPRESSED, _) => {
            Err(Error::new(ErrorKind::Unsupported, "only gzip is supported for compressed messages"))
        }
        _ => Err(wrong("the flag of the message is unknown")),
    }
}

/// Returns the frame of a message.
pub fn framed(message: &[u8]) -> Result<Vec<u8>> {
    frame(message)
}

/// Returns the last frame of an answer over gRPC-Web.
pub fn web_trailers(code: u32, why: &str) -> Vec<u8> {
    let text = format!("grpc-status: {code}\r\ngrpc-message: {}\r\n", percent_encoded(why));
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    [&[TRAILERS][..], &length.to_be_bytes(), text.as_bytes()].concat()
}

/// Encodes a text for the field `grpc-message`.
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOption, format!("the gRPC call cannot be read: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::{Answer, Protocol, Verdict, judge};
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(bytes).expect("written");
        gzip.finish().expect("written")
    }

    #[test]
    fn messages_are_unframed() {
        assert_eq!(message(b"\0\0\0\0\x02hi", "", 2).expect("read"), b"hi");
        assert_eq!(message(b"\0\0\0\0\0", "gzip", 2).expect("read"), b"");
        let packed = gzip(b"hello");
        let body = [&[1, 0, 0, 0, packed.len() as u8], &packed[..]].concat();
        assert_eq!(message(&body, "gzip", 5).expect("read"), b"hello");
        assert_eq!(message(&body, "gzip", 4).expect_err("long").kind(), ErrorKind::TooLarge);
        assert_eq!(message(&body, "", 5).expect_err("not named").kind(), ErrorKind::Unsupported);
        assert_eq!(message(b"\0\0\0\0\x02hi", "", 1).expect_err("long").kind(), ErrorKind::TooLarge);
        let with_trailers = [&b"\0\0\0\0\x02hi"[..], &web_trailers(0, "")].concat();
        assert_eq!(message(&with_trailers, "", 2).expect("read"), b"hi");
    }

    #[test]
    fn damaged_frames_are_refused() {
        for body in [
            &b""[..],
            b"\0\0\0\0",
            b"\0\0\0\0\x03hi",
            b"\0\xff\xff\xff\xffhi",
            b"\x02\0\0\0\0",
            b"\x01\0\0\0\x02hi",
        ] {
            assert!(message(body, "gzip", 100).is_err(), "{body:?}");
        }
        assert!(message(b"\0\0\0\0\0\0\0\0\0\0", "", 100).is_err(), "two messages");
    }

    #[test]
    fn our_sender_understands_the_trailers() {
        let judged =
            |body: Vec<u8>| judge(Protocol::Parca, &Answer { status: 200, body, ..Answer::default() });
        let whole = [framed(b"").expect("short"), web_trailers(0, "")].concat();
        assert_eq!(judged(whole), Verdict::Accepted);
        assert!(
            matches!(judged(web_trailers(3, "50 %\nmore")), Verdict::Refused(why) if why.contains("50 %25%0Amore"))
        );
    }
}
