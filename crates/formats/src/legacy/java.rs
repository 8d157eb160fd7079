//! Java's heap and contention profiles: settings, samples, then the name of each address.

use flamelet_profile::{ErrorKind, Result};

use super::{LineReader, TextProfile, numbers};
use crate::addresses::{AddressSamples, Symbol};
use crate::heap::unbias;
use crate::input::LineResult;
use crate::number::{prefixed_hex, words};
use crate::{Error, Notes};

/// The agents' sampling period for heaps, which files do not always state; pprof assumes it too.
const USUAL_HEAP_PERIOD: i64 = 512 << 10;

#[derive(Default)]
pub(super) struct Java {
    started: bool,
    is_heap: bool,
    period: i64,
    /// Nanoseconds per unit of delay.
    resolution: i64,
}

impl LineReader for Java {
    fn line(&mut self, line: &[u8], text: &mut TextProfile) -> LineResult {
        if line.is_empty() {
            return Ok(());
        }
        if line.starts_with(b"--- ") {
            self.start(line.starts_with(b"--- heapz"), text);
            return Ok(());
        }
        if line.starts_with(b"0x") {
            return symbol(line, &mut text.samples);
        }
        match (memchr::memchr(b'@', line), memchr::memchr(b'=', line)) {
            (Some(at), _) => self.sample(&line[..at], &line[at + 1..], text),
            (None, Some(equals)) => {
                self.setting(line[..equals].trim_ascii(), line[equals + 1..].trim_ascii())
            }
            (None, None) => Err("neither a setting, a sample nor a name"),
        }
    }

    fn finish(&mut self, _text: &mut TextProfile, _notes: &mut Notes) -> Result<()> {
        if self.started { Ok(()) } else { Err(Error::new(ErrorKind::Truncated, "the Java profile is empty")) }
    }
}

impl Java {
    fn start(&mut self, is_heap: bool, text: &mut TextProfile) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        (self.is_heap, self.period, self.resolution) =
            (is_heap, if is_heap { USUAL_HEAP_PERIOD } else { 1 }, 1);
        let columns = match is_heap {
            true => [("inuse_objects", "count"), ("inuse_space", "bytes")],
            false => [("contentions", "count"), ("delay", "nanoseconds")],
        };
        for (kind, unit) in columns {
            text.assembly.column(kind, unit);
        }
    }

    fn setting(&mut self, key: &[u8], value: &[u8]) -> LineResult {
        match (key, value) {
            (b"sampling period", _) => {
                self.period = numbers(value).next().ok_or("a bad sampling period")?.max(1);
            }
            (b"resolution", b"microseconds") => self.resolution = 1_000,
            (b"resolution", b"milliseconds") => self.resolution = 1_000_000,
            _ => {}
        }
        Ok(())
    }

    /// Takes `OBJECTS BYTES @ …` for a heap, `DELAY COUNT @ …` for contention. Addresses only refer to names.
    fn sample(&self, figures: &[u8], stack: &[u8], text: &mut TextProfile) -> LineResult {
        let mut figures = numbers(figures);
        let (Some(first), Some(second)) = (figures.next(), figures.next()) else {
            return Err("a sample without counts");
        };
        let frames: Option<Vec<u64>> = words(stack).map(prefixed_hex).collect();
        let frames = frames.ok_or("a bad address")?;
        let values = if self.is_heap {
            let (objects, bytes) = unbias(first, second, self.period);
            vec![objects, bytes]
        } else {
            let delay = first.saturating_mul(self.period).saturating_mul(self.resolution);
            vec![second.saturating_mul(self.period), delay]
        };
        text.samples.push(frames.into_iter(), Vec::new(), values);
        Ok(())
    }
}

/// `0x1 com.example.Class.method (Class.java:123)`.
pub(super) fn symbol(line: &[u8], samples: &mut AddressSamples) -> LineResult {
    let space = memchr::memchr2(b' ', b'\t', line).unwrap_or(line.len());
    let address = prefixed_hex(&line[..space]).ok_or("a bad address")?;
    let rest = String::from_utf8_lossy(line[space..].trim_ascii());
    let (name, place) = match rest.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (")) {
        Some((name, place)) => (name, place),
        None => (&*rest, ""),
    };
    let (file, number) = place.rsplit_once(':').unwrap_or((place, ""));
    let symbol = Symbol { name: name.into(), file: file.into(), line: number.parse().unwrap_or(0) };
    if !samples.is_named(address) {
        samples.symbol(address, symbol);
    }
    Ok(())
}
