//! Text reports, with names from profiles, which may contain anything.

use std::io::{self, Write};
use std::path::Path;

use flamelet_profile::{Profile, Renamed};

use crate::error::Result;
use crate::note::escaped;

/// Writes a text report. In a file it is exact; what goes to a terminal, or through a pipe to one, is escaped.
pub(crate) fn write(path: Option<&Path>, produce: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    super::write(path, |out| {
        if is_file(path) {
            return produce(out);
        }
        plainly(out, produce)
    })
}

/// Passes on what is written, escaped.
pub(crate) fn plainly(out: &mut dyn Write, produce: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let mut plain = Plain { out, begun: Vec::new() };
    let produced = produce(&mut plain);
    plain.finish()?;
    produced
}

/// Puts names of functions and files on one line each: a name with a line break could pass for a row of its own.
pub(crate) fn keep_rows_apart(profile: &mut Profile, path: Option<&Path>) {
    if is_file(path) {
        return;
    }
    let on_one_line = |name: &str| name.contains('\n').then(|| name.replace('\n', "\\n"));
    profile.rename_functions(|name, filename| Renamed {
        name: on_one_line(name),
        filename: on_one_line(filename),
    });
}

/// Returns whether the report goes to a file and not to standard output or a device, such as a terminal.
fn is_file(path: Option<&Path>) -> bool {
    let path = path.filter(|path| *path != Path::new("-"));
    path.is_some_and(|path| path.metadata().map_or(true, |about| about.is_file()))
}

/// Escapes what is written. Bytes that are not UTF-8 are shown as `\xff`.
struct Plain<W> {
    out: W,
    /// The first bytes of a character whose remaining bytes have not arrived yet.
    begun: Vec<u8>,
}

impl<W: Write> Plain<W> {
    /// Writes the complete characters of `bytes` and returns the rest.
    fn write_complete<'b>(&mut self, bytes: &'b [u8]) -> io::Result<&'b [u8]> {
        let mut rest = bytes;
        loop {
            let error = match std::str::from_utf8(rest) {
                Ok(text) => return self.out.write_all(escaped(text).as_bytes()).map(|()| &[][..]),
                Err(error) => error,
            };
            let (text, wrong) = rest.split_at(error.valid_up_to());
            self.out.write_all(escaped(&String::from_utf8_lossy(text)).as_bytes())?;
            let Some(length) = error.error_len() else { return Ok(wrong) };
            self.write_bytes(&wrong[..length])?;
            rest = &wrong[length..];
        }
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes.iter().try_for_each(|byte| write!(self.out, "\\x{byte:02x}"))
    }

    /// Writes the bytes of an incomplete character at the end.
    fn finish(mut self) -> io::Result<()> {
        let begun = std::mem::take(&mut self.begun);
        self.write_bytes(&begun)
    }
}

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.begun.is_empty() {
            self.begun = self.write_complete(bytes)?.to_vec();
        } else {
            let mut joined = std::mem::take(&mut self.begun);
            joined.extend_from_slice(bytes);
            self.begun = self.write_complete(&joined)?.to_vec();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the output for `pieces`, written one after the other.
    fn written(pieces: &[&[u8]]) -> String {
        let mut out = Vec::new();
        let mut plain = Plain { out: &mut out, begun: Vec::new() };
        pieces.iter().for_each(|piece| plain.write_all(piece).expect("memory"));
        plain.finish().expect("memory");
        String::from_utf8(out).expect("nothing but text comes out")
    }

    #[test]
    fn characters_may_come_in_pieces() {
        assert_eq!(written(&["a🦀\n".as_bytes()]), "a🦀\n");
        let crab: Vec<&[u8]> = "🦀\u{9b}".as_bytes().chunks(1).collect();
        assert_eq!(written(&crab), "🦀\\u{9b}");
        assert_eq!(written(&[b"\x1b", b"[31m"]), "\\x1b[31m");
    }

    #[test]
    fn bytes_that_are_no_text_are_shown() {
        assert_eq!(written(&[b"a\xff\x9bb", b"\xc3", b"x\xe2\x80"]), "a\\xff\\x9bb\\xc3x\\xe2\\x80");
    }
}
