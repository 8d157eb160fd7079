//! Sending debug files to Pyroscope and Parca: each asks first whether it wants the file of a build.
//!
//! | | wants it? | begin | the file | end |
//! |---|---|---|---|---|
//! | Pyroscope | `ShouldInitiateUpload` | | `POST …/Upload/{build id}` | `UploadFinished` |
//! | Parca | `ShouldInitiateUpload` | `InitiateUpload` | `Upload`, a stream of chunks | `MarkUploadFinished` |

use std::io::{self, Read, Write};

use flamelet_profile::protobuf::{FieldValue, Fields, MessageWriter, bytes_field};
use flamelet_profile::terminal::one_line;
use flamelet_profile::{Error, Result};

use crate::frame::{first_message, frame};
use crate::push::Protocol;

/// A chunk of a file for Parca, which takes messages of up to 32 MiB.
const CHUNK: usize = 1 << 20;
/// Parca's and Pyroscope's number for a file with code and symbols.
const EXECUTABLE: u64 = 1;
/// Parca's number for GNU build ids.
const GNU: u64 = 1;

/// A file of a build.
#[derive(Clone, Debug)]
pub struct DebugFile {
    /// In hexadecimal.
    pub build_id: String,
    /// Without folders.
    pub name: String,
    /// In bytes.
    pub size: u64,
    /// Of its contents; any that changes with them.
    pub hash: String,
}

/// A request: the path after the server's address, and the body.
pub type UploadRequest = (String, Vec<u8>);

const PYROSCOPE: &str = "/debuginfo.v1alpha1.DebuginfoService";
const PARCA: &str = "/parca.debuginfo.v1alpha1.DebuginfoService";

/// Asks whether the server wants the file.
pub fn should_upload(protocol: Protocol, file: &DebugFile) -> Result<UploadRequest> {
    let mut message = MessageWriter::default();
    if protocol == Protocol::Parca {
        message.bytes(1, file.build_id.as_bytes());
        message.bytes(2, file.hash.as_bytes());
        message.uint(4, EXECUTABLE);
        message.uint(5, GNU);
        return Ok((format!("{PARCA}/ShouldInitiateUpload"), frame(message.as_bytes())?));
    }
    message.message(1, |out| {
        out.bytes(1, file.build_id.as_bytes());
        out.bytes(4, file.name.as_bytes());
        out.uint(5, EXECUTABLE);
    });
    Ok((format!("{PYROSCOPE}/ShouldInitiateUpload"), message.into_bytes()))
}

/// Returns whether the server wants the file, and its reason.
pub fn wants(protocol: Protocol, answer: &[u8]) -> Result<(bool, String)> {
    let (mut is_wanted, mut reason) = (false, String::new());
    each_field(content(protocol, answer)?, |number, value| match (number, value) {
        (1, FieldValue::Varint(flag)) => is_wanted = flag != 0,
        (2, FieldValue::Bytes(text)) => reason = shown(text),
        _ => {}
    })?;
    Ok((is_wanted, reason))
}

/// Begins an upload to Parca.
pub fn begin(file: &DebugFile) -> Result<UploadRequest> {
    let mut message = MessageWriter::default();
    message.bytes(1, file.build_id.as_bytes());
    message.uint(2, file.size);
    message.bytes(3, file.hash.as_bytes());
    message.uint(5, EXECUTABLE);
    message.uint(6, GNU);
    Ok((format!("{PARCA}/InitiateUpload"), frame(message.as_bytes())?))
}

/// How Parca wants the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upload {
    /// By its own `Upload`, with this id.
    Here(String),
    /// With `PUT` to this URL of a bucket; then the end is reported with this id.
    To(String, String),
}

/// Reads Parca's answer to [`begin`].
pub fn begun(answer: &[u8]) -> Result<Upload> {
    let (mut id, mut strategy, mut url) = (String::new(), 0, String::new());
    let instructions = bytes_field(content(Protocol::Parca, answer)?, 1)?;
    each_field(instructions, |number, value| match (number, value) {
        (2, FieldValue::Bytes(text)) => id = shown(text),
        (3, FieldValue::Varint(number)) => strategy = number,
        (4, FieldValue::Bytes(text)) => url = shown(text),
        _ => {}
    })?;
    match strategy {
        1 => Ok(Upload::Here(id)),
        2 => Ok(Upload::To(url, id)),
        _ => Err(Error::invalid("the server requires a way of uploading that flamelet does not know")),
    }
}

/// Returns the path to send the file to.
pub fn upload_path(protocol: Protocol, file: &DebugFile) -> String {
    match protocol {
        Protocol::Parca => format!("{PARCA}/Upload"),
        _ => format!("{PYROSCOPE}/Upload/{}", file.build_id),
    }
}

/// Writes what Parca's `Upload` takes: what is coming, and the file in chunks, each in a frame.
pub fn write_chunks(file: &DebugFile, id: &str, mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let framed = |message: &MessageWriter| frame(message.as_bytes()).map_err(io::Error::other);
    let mut message = MessageWriter::default();
    message.message(1, |info| write_upload(file, id, info));
    to.write_all(&framed(&message)?)?;
    let mut chunk = Vec::with_capacity(CHUNK);
    loop {
        chunk.clear();
        from.by_ref().take(CHUNK as u64).read_to_end(&mut chunk)?;
        if chunk.is_empty() {
            // Dropping a buffer would hide that it cannot be written.
            return to.flush();
        }
        message.clear();
        message.bytes(2, &chunk);
        to.write_all(&framed(&message)?)?;
    }
}

fn write_upload(file: &DebugFile, id: &str, out: &mut MessageWriter) {
    out.bytes(1, file.build_id.as_bytes());
    out.bytes(2, id.as_bytes());
    out.uint(3, EXECUTABLE);
}

/// Says that the file is there.
pub fn finish(protocol: Protocol, file: &DebugFile, id: &str) -> Result<UploadRequest> {
    let mut message = MessageWriter::default();
    if protocol == Protocol::Parca {
        write_upload(file, id, &mut message);
        return Ok((format!("{PARCA}/MarkUploadFinished"), frame(message.as_bytes())?));
    }
    message.bytes(1, file.build_id.as_bytes());
    Ok((format!("{PYROSCOPE}/UploadFinished"), message.into_bytes()))
}

/// Returns the message in an answer.
fn content(protocol: Protocol, answer: &[u8]) -> Result<&[u8]> {
    if protocol != Protocol::Parca {
        return Ok(answer);
    }
    first_message(answer).ok_or_else(|| Error::invalid(format!("the server refuses: {}", shown(answer))))
}

fn shown(bytes: &[u8]) -> String {
    one_line(&String::from_utf8_lossy(bytes), 300)
}

fn each_field<'a>(message: &'a [u8], mut each: impl FnMut(u32, FieldValue<'a>)) -> Result<()> {
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        each(number, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::first_frame;

    fn file() -> DebugFile {
        DebugFile { build_id: "abcd".into(), name: "checkout".into(), size: 3, hash: "1f".into() }
    }

    #[test]
    fn answers_are_read_and_others_are_refused() {
        let yes = [8, 1, 18, 3, b'n', b'e', b'w'];
        assert_eq!(wants(Protocol::Pyroscope, &yes).expect("read"), (true, "new".into()));
        assert_eq!(
            wants(Protocol::Parca, &frame(&yes).expect("a frame")).expect("read"),
            (true, "new".into())
        );
        assert_eq!(wants(Protocol::Pyroscope, b"").expect("read"), (false, String::new()));
        assert!(wants(Protocol::Parca, b"\x80\0\0\0\x0egrpc-status: 12").is_err());
        let instructions = [&[10, 8, 18, 2, b'i', b'd', 24, 1, 34, 0][..]].concat();
        assert_eq!(begun(&frame(&instructions).expect("a frame")).expect("read"), Upload::Here("id".into()));
        assert!(begun(&frame(&[]).expect("a frame")).is_err());
    }

    #[test]
    fn a_file_is_sent_in_frames() {
        let bytes: Vec<u8> = (0..CHUNK + 5).map(|at| at as u8).collect();
        let mut sent = Vec::new();
        write_chunks(&file(), "id", &*bytes, &mut sent).expect("written");
        let (mut rest, mut read, mut frames) = (&sent[..], Vec::new(), 0);
        while let Some(frame) = first_frame(rest) {
            read.extend_from_slice(bytes_field(frame.message, 2).expect("a message"));
            rest = frame.rest;
            frames += 1;
        }
        assert_eq!((read, frames), (bytes, 3));
    }

    #[test]
    fn a_disk_that_is_full_at_the_end_is_an_error() {
        let mut space = [0; 30];
        let full = std::io::BufWriter::with_capacity(1 << 20, &mut space[..]);
        let sent = write_chunks(&file(), "id", &b"longer than the space for it"[..], full);
        assert_eq!(sent.expect_err("no space").kind(), io::ErrorKind::WriteZero);
    }
}
