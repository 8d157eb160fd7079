//! Go's count profiles with `debug=1`: `goroutine profile: total 7`, then `2 @ 0x1 0x2` with names below.

use flamelet_profile::{ErrorKind, Result};

use super::{LineReader, TextProfile, numbers, stack};
use crate::input::LineResult;
use crate::{Error, Notes};

/// Returns the kind of count that a first line names.
pub(super) fn parse_first(line: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(line).ok()?;
    let (kind, total) = text.split_once(" profile: total ")?;
    let is_word = !kind.is_empty() && kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_word && total.trim().parse::<u64>().is_ok()).then_some(kind)
}

#[derive(Default)]
pub(super) struct Count {
    started: bool,
}

impl LineReader for Count {
    fn line(&mut self, line: &[u8], text: &mut TextProfile) -> LineResult {
        match line {
            [] => Ok(()),
            [b'#', comment @ ..] => {
                super::heap::go_symbol(comment, text);
                Ok(())
            }
            _ if !self.started => {
                let kind = parse_first(line).ok_or("no `KIND profile: total N`")?;
                text.assembly.column(kind, "count");
                self.started = true;
                Ok(())
            }
            _ => {
                let at = memchr::memchr(b'@', line).ok_or("a sample without `@`")?;
                let count = numbers(&line[..at]).next().ok_or("a sample without a count")?;
                text.samples.push(stack(&line[at + 1..])?.into_iter(), Vec::new(), vec![count]);
                Ok(())
            }
        }
    }

    fn finish(&mut self, _text: &mut TextProfile, _notes: &mut Notes) -> Result<()> {
        if self.started {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::Truncated, "the count profile is empty"))
        }
    }
}
