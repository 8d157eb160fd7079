//! cachegrind's output file: what each source line cost. There are no callers, so stacks have one frame.

use flamelet_profile::{ErrorKind, LabelSetId, Profile, Result};

use crate::assembly::Assembly;
use crate::input::{Input, LineResult};
use crate::number::{decimal, words};
use crate::{Error, FormatOptions, Notes};

const MAX_EVENTS: usize = 64;

/// Returns whether `head` looks like cachegrind's output file: `events:` and `fl=`, and nothing that only callgrind
/// has.
pub(crate) fn recognise(head: &[u8]) -> bool {
    let mut lines = head.split(|&byte| byte == b'\n').take(200);
    let mut has_events = false;
    lines.any(|line| {
        has_events |= line.starts_with(b"events:");
        has_events && (line.starts_with(b"fl=") || line.starts_with(b"fn="))
    })
}

/// Reads cachegrind's output file.
pub(crate) fn read(input: Input<'_>, _options: &FormatOptions, _notes: &mut Notes) -> Result<Profile> {
    let assembly = Assembly::new(false, input.budget());
    let mut parser = Parser { assembly, file: String::new(), function: String::new() };
    input.each_line(|line| parser.line(line.trim_ascii()))?;
    parser.finish()
}

struct Parser {
    assembly: Assembly,
    file: String,
    function: String,
}

impl Parser {
    fn line(&mut self, line: &[u8]) -> LineResult {
        let text = |bytes: &[u8]| match bytes {
            b"???" => String::new(),
            known => String::from_utf8_lossy(known).into_owned(),
        };
        match line {
            [] | [b'=', ..] | [b'#', ..] => {}
            [b'f', b'l', b'=', file @ ..] => self.file = text(file),
            [b'f', b'n', b'=', name @ ..] => self.function = String::from_utf8_lossy(name).into_owned(),
            [b'0'..=b'9', ..] => return self.cost_line(line),
            _ => return self.header(line),
        }
        Ok(())
    }

    fn header(&mut self, line: &[u8]) -> LineResult {
        let colon = memchr::memchr(b':', line).ok_or("neither a cost nor a name")?;
        let value = line[colon + 1..].trim_ascii();
        match &line[..colon] {
            b"events" => {
                for event in words(value).take(MAX_EVENTS) {
                    self.assembly.column(&String::from_utf8_lossy(event), "count");
                }
                let first = words(value).next().ok_or("no events")?;
                let first = self.assembly.builder.string(&String::from_utf8_lossy(first));
                self.assembly.builder.header_mut().default_sample_type = first;
            }
            b"cmd" => {
                let comment = format!("cachegrind: cmd {}", String::from_utf8_lossy(value));
                self.assembly.builder.comment(&comment);
            }
            _ => {}
        }
        Ok(())
    }

    fn cost_line(&mut self, line: &[u8]) -> LineResult {
        let mut words = words(line);
        let at = words.next().and_then(decimal).ok_or("a bad line number")?;
        let location = self.assembly.frame(&self.function, &self.file, i64::try_from(at).unwrap_or(0));
        let row = self.assembly.row(&[location], LabelSetId::EMPTY);
        for column in 0..self.assembly.column_count() {
            let Some(word) = words.next() else { break };
            // A dot stands for a count that does not apply.
            let cost = if word == b"." { 0 } else { decimal(word).ok_or("a cost is not a number")? };
            self.assembly.add(row, column, i64::try_from(cost).unwrap_or(i64::MAX));
        }
        Ok(())
    }

    fn finish(self) -> Result<Profile> {
        if self.assembly.row_count() == 0 || self.assembly.column_count() == 0 {
            return Err(Error::new(ErrorKind::Truncated, "the cachegrind file has no costs"));
        }
        self.assembly.finish()
    }
}
