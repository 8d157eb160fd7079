//! Text in UTF-16, as some shells write redirected output: read as UTF-8.

use std::io::{self, Read};

/// How much is converted at a time.
const CHUNK: usize = 16 << 10;

/// Returns the byte order of a file that starts with the mark of UTF-16: true for big-endian.
pub(crate) fn byte_order(head: &[u8]) -> Option<bool> {
    match head {
        // Four bytes of this kind are UTF-32.
        [0xff, 0xfe, 0, 0, ..] => None,
        [0xff, 0xfe, ..] => Some(false),
        [0xfe, 0xff, ..] => Some(true),
        _ => None,
    }
}

/// Reads UTF-16 as UTF-8. What is not valid becomes U+FFFD.
pub(crate) struct Utf16<R> {
    inner: R,
    is_big: bool,
    /// Bytes that are not converted yet: half of a unit, or the first of two that belong together.
    rest: Vec<u8>,
    text: Vec<u8>,
    taken: usize,
    is_first: bool,
    is_over: bool,
}

impl<R: Read> Utf16<R> {
    pub(crate) fn new(inner: R, is_big: bool) -> Self {
        Self { inner, is_big, rest: Vec::new(), text: Vec::new(), taken: 0, is_first: true, is_over: false }
    }

    /// Converts the next chunk.
    fn convert(&mut self) -> io::Result<()> {
        let got = (&mut self.inner).take(CHUNK as u64).read_to_end(&mut self.rest)?;
        let is_end = got == 0;
        self.is_over = is_end;
        let (pairs, half) = self.rest.as_chunks();
        let units = pairs
            .iter()
            .map(|&pair| if self.is_big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) });
        let mut units: Vec<u16> = units.collect();
        let mut kept = half.to_vec();
        // The first half of a pair waits for the second.
        if !is_end && units.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit)) {
            units.pop();
            kept = self.rest[units.len() * 2..].to_vec();
        }
        let letters = char::decode_utf16(units).map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER));
        let text: String = letters.collect();
        let text = match std::mem::take(&mut self.is_first) {
            true => text.trim_start_matches('\u{feff}'),
            false => &text,
        };
        self.text = text.as_bytes().to_vec();
        (self.rest, self.taken) = (if is_end { Vec::new() } else { kept }, 0);
        Ok(())
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.text.len() && !self.is_over {
            self.convert()?;
        }
        let count = (self.text.len() - self.taken).min(buffer.len());
        buffer[..count].copy_from_slice(&self.text[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &str, is_big: bool) -> Vec<u8> {
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        units.flat_map(|unit: u16| if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
    }

    fn decoded(bytes: &[u8]) -> String {
        let is_big = byte_order(bytes).expect("a mark");
        let mut text = String::new();
        Utf16::new(bytes, is_big).read_to_string(&mut text).expect("read");
        text
    }

    #[test]
    fn both_byte_orders_are_read_in_any_pieces() {
        for is_big in [false, true] {
            for text in ["", "main;grüße;日本 7\r\n", "a"] {
                assert_eq!(decoded(&encoded(text, is_big)), text);
            }
            // Pairs of units cross the ends of chunks.
            let long = "x🦀".repeat(20_000);
            assert_eq!(decoded(&encoded(&long, is_big)), long);
        }
    }

    #[test]
    fn what_is_cut_or_invalid_is_replaced_or_dropped() {
        let mut bytes = encoded("ab", false);
        bytes.push(b'x');
        assert_eq!(decoded(&bytes), "ab");
        assert_eq!(decoded(&[0xff, 0xfe, 0x00, 0xd8, b'a', 0]), "\u{fffd}a");
        assert_eq!(decoded(&[0xff, 0xfe, 0x00, 0xd8]), "\u{fffd}");
        assert_eq!((byte_order(b"main"), byte_order(&[0xff, 0xfe, 0, 0])), (None, None));
    }
}
