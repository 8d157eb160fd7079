//! Contention and mutex profiles: how long and how often threads waited for locks.

use flamelet_profile::{ErrorKind, Result};

use super::{LineReader, TextProfile, numbers, stack};
use crate::input::LineResult;
use crate::{Error, Notes};

pub(super) struct Contention {
    started: bool,
    period: i64,
    cycles_per_second: f64,
}

impl Default for Contention {
    fn default() -> Self {
        Self { started: false, period: 1, cycles_per_second: 0.0 }
    }
}

impl LineReader for Contention {
    fn line(&mut self, line: &[u8], text: &mut TextProfile) -> LineResult {
        if line.is_empty() {
            return Ok(());
        }
        if line.starts_with(b"---") {
            if !std::mem::replace(&mut self.started, true) {
                text.assembly.column("contentions", "count");
                text.assembly.column("delay", "nanoseconds");
            }
            return Ok(());
        }
        if let [b'#', comment @ ..] = line {
            super::heap::go_symbol(comment, text);
            return Ok(());
        }
        match line.iter().position(|&byte| byte == b'=') {
            Some(at) if !line.contains(&b'@') => self.setting(line[..at].trim_ascii(), &line[at + 1..]),
            _ => self.sample(line, text),
        }
    }

    fn finish(&mut self, text: &mut TextProfile, _notes: &mut Notes) -> Result<()> {
        if !self.started {
            return Err(Error::new(ErrorKind::Truncated, "the contention profile is empty"));
        }
        let contentions = text.assembly.builder.value_type("contentions", "count");
        let header = text.assembly.builder.header_mut();
        header.period_type = Some(contentions);
        header.period = self.period;
        Ok(())
    }
}

impl Contention {
    fn setting(&mut self, key: &[u8], value: &[u8]) -> LineResult {
        let number = numbers(value).next();
        match key {
            b"cycles/second" => self.cycles_per_second = number.ok_or("bad cycles/second")? as f64,
            b"sampling period" => self.period = number.filter(|&n| n > 0).ok_or("a bad sampling period")?,
            _ => {}
        }
        Ok(())
    }

    /// Takes `DELAY COUNT @ 0x1 0x2`; the delay is in cycles if their rate is known, otherwise in nanoseconds.
    fn sample(&self, line: &[u8], text: &mut TextProfile) -> LineResult {
        let at = memchr::memchr(b'@', line).ok_or("a sample without `@`")?;
        let mut counts = numbers(&line[..at]);
        let (Some(delay), Some(count)) = (counts.next(), counts.next()) else {
            return Err("a sample without counts");
        };
        let delay = delay.saturating_mul(self.period);
        let nanos = match self.cycles_per_second {
            rate if rate > 0.0 => (delay as f64 * 1e9 / rate) as i64,
            _ => delay,
        };
        text.samples.push(
            stack(&line[at + 1..])?.into_iter(),
            Vec::new(),
            vec![count.saturating_mul(self.period), nanos],
        );
        Ok(())
    }
}
