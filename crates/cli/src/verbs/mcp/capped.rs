//! Text of a bounded length, which says how much was left out.

use std::io::{self, Write};

/// Keeps the first bytes that are written, up to a limit, and counts the lines after them.
pub(super) struct Capped {
    kept: Vec<u8>,
    most: usize,
    is_full: bool,
    lines_left_out: usize,
    /// Whether the last line has begun and not ended.
    is_within_line: bool,
}

impl Capped {
    pub(super) fn new(most: usize) -> Self {
        Self { kept: Vec::new(), most, is_full: false, lines_left_out: 0, is_within_line: false }
    }

    /// Returns the whole lines that fit, and a last line that says what is missing.
    pub(super) fn finish(mut self, advice: &str) -> String {
        if !self.is_full {
            return String::from_utf8_lossy(&self.kept).into_owned();
        }
        let end = self.kept.iter().rposition(|byte| *byte == b'\n').map_or(self.kept.len(), |at| at + 1);
        self.lines_left_out += usize::from(self.is_within_line);
        self.kept.truncate(end);
        let text = String::from_utf8_lossy(&self.kept);
        format!(
            "{}\n[{} more lines are left out; {advice}]\n",
            text.trim_end_matches('\n'),
            self.lines_left_out
        )
    }
}

impl Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = if self.is_full { 0 } else { self.most - self.kept.len() };
        let (kept, rest) = bytes.split_at(room.min(bytes.len()));
        self.kept.extend_from_slice(kept);
        self.is_full |= !rest.is_empty();
        self.is_within_line = bytes.last().map_or(self.is_within_line, |byte| *byte != b'\n');
        self.lines_left_out += rest.iter().filter(|byte| **byte == b'\n').count();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capped(most: usize, text: &str) -> String {
        let mut capped = Capped::new(most);
        text.as_bytes().chunks(3).for_each(|piece| capped.write_all(piece).expect("memory"));
        capped.finish("ask for less")
    }

    #[test]
    fn what_fits_is_unchanged() {
        assert_eq!(capped(8, "one\ntwo\n"), "one\ntwo\n");
    }

    #[test]
    fn lines_are_cut_off_whole_and_counted() {
        assert_eq!(
            capped(9, "one\ntwo\nthree\nfour\n"),
            "one\ntwo\n[2 more lines are left out; ask for less]\n"
        );
        assert_eq!(
            capped(8, "one\ntwo\nthree\nfour\n"),
            "one\ntwo\n[2 more lines are left out; ask for less]\n"
        );
    }

    #[test]
    fn a_long_line_is_cut_in_the_middle() {
        assert_eq!(capped(4, "äöü"), "äö\n[1 more lines are left out; ask for less]\n");
    }
}
