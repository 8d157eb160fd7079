//! What a receiver of profiles gets: requests over HTTP, and messages in them.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::TcpStream;

use flamelet_capture::profile::protobuf::bytes_field;

/// One request that was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// Reads a request; `None` if it is cut off.
pub(crate) fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|at| at == b"\r\n\r\n") {
            break end;
        }
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk).ok().filter(|&count| count > 0)?;
        bytes.extend_from_slice(&chunk[..count]);
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers: BTreeMap<String, String> = lines.filter_map(header).collect();
    let length: usize = headers.get("content-length")?.parse().ok()?;
    let mut body = bytes.split_off(end + 4);
    let mut rest = vec![0; length.checked_sub(body.len())?];
    stream.read_exact(&mut rest).ok()?;
    body.extend(rest);
    Some(Request { path, headers, body })
}

pub(crate) fn field(message: &[u8], wanted: u32) -> Vec<u8> {
    let field = bytes_field(message, wanted).expect("a message");
    assert!(!field.is_empty(), "no field {wanted}");
    field.to_vec()
}
