//! Heap, growth and fragmentation profiles: tcmalloc's, and Go's with `debug=1`.

use flamelet_profile::{ErrorKind, Result};

use super::{LineReader, TextProfile, numbers, stack};
use crate::addresses::Symbol;
use crate::heap::{add_go_columns, unbias};
use crate::input::LineResult;
use crate::number::{decimal, prefixed_hex};
use crate::{Error, Notes};

#[derive(Default)]
pub(super) struct Heap {
    started: bool,
    rate: i64,
    /// Whether figures are for sampled objects and must be scaled up.
    sampled: bool,
}

impl LineReader for Heap {
    fn line(&mut self, line: &[u8], text: &mut TextProfile) -> LineResult {
        match line {
            [] => Ok(()),
            [b'#', comment @ ..] => {
                go_symbol(comment, text);
                Ok(())
            }
            _ if !self.started => self.first(line, text),
            _ => self.sample(line, text),
        }
    }

    fn finish(&mut self, text: &mut TextProfile, _notes: &mut Notes) -> Result<()> {
        if !self.started {
            return Err(Error::new(ErrorKind::Truncated, "the heap profile is empty"));
        }
        let space = text.assembly.builder.value_type("space", "bytes");
        let header = text.assembly.builder.header_mut();
        header.period_type = Some(space);
        header.period = self.rate.max(1);
        Ok(())
    }
}

impl Heap {
    /// `heap profile: 1: 4 [7: 1000] @ heap_v2/524288`.
    fn first(&mut self, line: &[u8], text: &mut TextProfile) -> LineResult {
        let at = memchr::memchr(b'@', line).ok_or("no `@` in the first line")?;
        let kind = line[at + 1..].trim_ascii();
        let slash = memchr::memchr(b'/', kind);
        let (name, rate) = match slash {
            Some(slash) => (&kind[..slash], decimal(&kind[slash + 1..]).ok_or("a bad sampling rate")?),
            None => (kind, 1),
        };
        let rate = i64::try_from(rate).unwrap_or(i64::MAX);
        (self.sampled, self.rate) = match name {
            b"heap_v2" | b"heapz_v2" => (true, rate),
            // Go writes twice its rate, as the first version of this format requires.
            b"heap" => (true, rate / 2),
            _ => (false, 1),
        };
        add_go_columns(&mut text.assembly);
        self.started = true;
        Ok(())
    }

    /// Takes `1: 4 [7: 1000] @ 0x1 0x2`: live objects, and in brackets all.
    fn sample(&mut self, line: &[u8], text: &mut TextProfile) -> LineResult {
        let at = memchr::memchr(b'@', line).ok_or("a sample without `@`")?;
        let counts: Vec<i64> = numbers(&line[..at]).collect();
        let [live, live_bytes, all, all_bytes] = counts[..] else {
            return Err("a sample without four counts");
        };
        let frames = stack(&line[at + 1..])?;
        let mut labels = Vec::new();
        let (objects, bytes) = if all > 0 { (all, all_bytes) } else { (live, live_bytes) };
        if objects > 0 {
            labels.push(text.assembly.builder.number_label("bytes", bytes / objects, "bytes"));
        }
        let scale =
            |objects, bytes| if self.sampled { unbias(objects, bytes, self.rate) } else { (objects, bytes) };
        let ((live, live_bytes), (all, all_bytes)) = (scale(live, live_bytes), scale(all, all_bytes));
        text.samples.push(frames.into_iter(), labels, vec![all, all_bytes, live, live_bytes]);
        Ok(())
    }
}

/// Takes one of Go's names below a stack: `# 0x43b1f2 runtime.gopark+0xd2 /go/src/runtime/proc.go:364`.
pub(super) fn go_symbol(comment: &[u8], text: &mut TextProfile) {
    let mut fields = crate::number::words(comment);
    let (Some(address), Some(name), Some(place)) =
        (fields.next().and_then(prefixed_hex), fields.next(), fields.next())
    else {
        return;
    };
    let address = address.saturating_sub(1);
    let name = String::from_utf8_lossy(name);
    let name = name.rsplit_once("+0x").map_or(&*name, |(name, _)| name).to_owned();
    let place = String::from_utf8_lossy(place);
    let (file, line) = place.rsplit_once(':').unwrap_or((&place, ""));
    let symbol = Symbol { name, file: file.into(), line: line.parse().unwrap_or(0) };
    if !text.samples.is_named(address) {
        text.samples.symbol(address, symbol);
    }
}
