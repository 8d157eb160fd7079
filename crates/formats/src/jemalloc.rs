//! jemalloc's heap dump, `heap_v2`.
//!
//! ```text
//! heap_v2/524288
//!   t*: 13: 6688 [40: 20480]
//!   t0: 13: 6688 [40: 20480]
//! @ 0x5f025d8cae 0x5f02…
//!   t*: 13: 6688 [40: 20480]
//!   t3: …
//!
//! MAPPED_LIBRARIES:
//! 5f02500000-5f02600000 r-xp …
//! ```
//!
//! Figures are of sampled objects: live, and in brackets all since the start (0 unless `prof_accum` is on). Each
//! stack is scaled up by its mean size. `t*` is the sum of all threads, and the line jeprof reads; if threads are
//! listed, the sum is divided among them, labelled, in proportion to their own figures. (Scaled from few samples,
//! those would be less accurate than the sum.)

use flamelet_profile::{Budget, Error, ErrorKind, Profile, Result, allocation_frames};

use crate::addresses::{AddressSamples, parse_module};
use crate::assembly::Assembly;
use crate::heap::{add_go_columns, unbias};
use crate::input::{Input, LineResult};
use crate::number::{decimal, prefixed_hex, words};
use crate::{FormatOptions, Notes};

const START: &[u8] = b"heap_v2/";

/// Returns whether `head` is a jemalloc dump.
pub(crate) fn recognise(head: &[u8]) -> bool {
    head.starts_with(START)
}

/// Reads a jemalloc dump.
pub(crate) fn read(input: Input<'_>, _options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let mut reader = DumpReader::new(input.budget());
    input.each_line(|line| reader.line(line.trim_ascii()))?;
    reader.finish(notes)
}

/// Sampled figures: live objects and bytes, then all since the start.
type Counts = [i64; 4];

struct DumpReader {
    assembly: Assembly,
    samples: AddressSamples,
    rate: Option<i64>,
    stack: Vec<u64>,
    /// The figures of the open stack: for all threads, and for each thread.
    all: Option<Counts>,
    threads: Vec<(u64, Counts)>,
    in_stack: bool,
    in_modules: bool,
}

impl DumpReader {
    fn new(budget: &Budget) -> Self {
        let mut assembly = Assembly::new(false, budget);
        add_go_columns(&mut assembly);
        Self {
            assembly,
            samples: AddressSamples::new(budget),
            rate: None,
            stack: Vec::new(),
            all: None,
            threads: Vec::new(),
            in_stack: false,
            in_modules: false,
        }
    }

    fn line(&mut self, line: &[u8]) -> LineResult {
        if self.rate.is_none() {
            let rate = line.strip_prefix(START).and_then(decimal).ok_or("no `heap_v2/RATE`")?;
            self.rate = Some(i64::try_from(rate).unwrap_or(i64::MAX));
            return Ok(());
        }
        match line {
            [] => {}
            b"MAPPED_LIBRARIES:" => {
                self.close();
                self.in_modules = true;
            }
            _ if self.in_modules => {
                if let Some(module) = parse_module(line) {
                    self.samples.module(module);
                }
            }
            [b'@', addresses @ ..] => {
                self.close();
                self.in_stack = true;
                for word in words(addresses) {
                    // Return addresses; subtracting 1 gives an address inside the call.
                    self.stack.push(prefixed_hex(word).ok_or("a bad address")?.saturating_sub(1));
                }
            }
            [b't', rest @ ..] => self.thread_line(rest)?,
            _ => return Err("neither a stack nor counts"),
        }
        Ok(())
    }

    /// Takes `*: 13: 6688 [40: 20480]` or `3: …`; the lines above the first stack are totals.
    fn thread_line(&mut self, line: &[u8]) -> LineResult {
        let colon = memchr::memchr(b':', line).ok_or("no colon after the thread")?;
        let counts = parse_counts(&line[colon + 1..]).ok_or("bad counts")?;
        if !self.in_stack {
            return Ok(());
        }
        match &line[..colon] {
            b"*" => self.all = Some(counts),
            number => self.threads.push((decimal(number).ok_or("a bad thread number")?, counts)),
        }
        Ok(())
    }

    fn close(&mut self) {
        if !std::mem::take(&mut self.in_stack) {
            return;
        }
        let rate = self.rate.unwrap_or(1);
        let (all, threads) = (self.all.take(), std::mem::take(&mut self.threads));
        if threads.is_empty() {
            let all = all.unwrap_or_default();
            self.sample(None, all, scaled(all, rate));
        }
        let parts: Vec<Counts> = threads.iter().map(|&(_, counts)| scaled(counts, rate)).collect();
        let shares = all.map_or_else(|| parts.clone(), |all| shared_out(scaled(all, rate), &parts));
        for ((thread, counts), share) in threads.into_iter().zip(shares) {
            self.sample(Some(thread), counts, share);
        }
        self.stack.clear();
    }

    /// Adds a sample of the `seen` figures, which stand for the `scaled` ones.
    fn sample(&mut self, thread: Option<u64>, seen: Counts, scaled: Counts) {
        let mut labels = Vec::new();
        if let Some(thread) = thread {
            labels.push(self.assembly.builder.text_label("thread", &format!("t{thread}")));
        }
        let (objects, bytes) = if seen[0] > 0 { (seen[0], seen[1]) } else { (seen[2], seen[3]) };
        if objects > 0 {
            labels.push(self.assembly.builder.number_label("bytes", bytes / objects, "bytes"));
        }
        let [live, live_bytes, all, all_bytes] = scaled;
        self.samples.push(self.stack.iter().copied(), labels, vec![all, all_bytes, live, live_bytes]);
    }

    fn finish(mut self, notes: &mut Notes) -> Result<Profile> {
        self.close();
        let Some(rate) = self.rate else {
            return Err(Error::new(ErrorKind::Truncated, "the jemalloc dump is empty"));
        };
        let space = self.assembly.builder.value_type("space", "bytes");
        self.assembly.builder.set_drop_frames(&allocation_frames());
        let header = self.assembly.builder.header_mut();
        header.period_type = Some(space);
        header.period = rate;
        self.samples.finish(&mut self.assembly);
        let profile = self.assembly.finish()?;
        if profile.total(0) == 0 && profile.sample_count() > 0 {
            notes.push("the dump has no totals since the start (prof_accum was off): alloc_… are 0".into());
        }
        Ok(profile)
    }
}

/// Returns what sampled figures stand for.
fn scaled([live, live_bytes, all, all_bytes]: Counts, rate: i64) -> Counts {
    let ((live, live_bytes), (all, all_bytes)) =
        (unbias(live, live_bytes, rate), unbias(all, all_bytes, rate));
    [live, live_bytes, all, all_bytes]
}

/// Divides `all` in the proportions of `parts`, so that the results add up to it.
fn shared_out(all: Counts, parts: &[Counts]) -> Vec<Counts> {
    let mut shares = vec![[0; 4]; parts.len()];
    for (column, &whole) in all.iter().enumerate() {
        let sum: i128 = parts.iter().map(|part| i128::from(part[column])).sum();
        let (mut so_far, mut given) = (0, 0);
        for (share, part) in shares.iter_mut().zip(parts) {
            so_far += i128::from(part[column]);
            // Cumulative, so that what rounding takes from one part goes to the next.
            let up_to_here = if sum > 0 { i128::from(whole) * so_far / sum } else { 0 };
            share[column] = i64::try_from(up_to_here - given).unwrap_or(i64::MAX);
            given = up_to_here;
        }
    }
    shares
}

/// `13: 6688 [40: 20480]`.
fn parse_counts(text: &[u8]) -> Option<Counts> {
    let mut numbers = text
        .split(|byte| b" :[]\t".contains(byte))
        .filter(|word| !word.is_empty())
        .map(|word| decimal(word).map(|number| i64::try_from(number).unwrap_or(i64::MAX)));
    let counts = [numbers.next()??, numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_whatever_the_parts_say() {
        let parts = [[1, 10, 0, 0], [1, 11, 0, 0], [1, 9, 0, i64::MAX]];
        let all = [10, 31, 5, i64::MAX];
        let shares = shared_out(all, &parts);
        assert_eq!(shares, [[3, 10, 0, 0], [3, 11, 0, 0], [4, 10, 0, i64::MAX]]);
        assert_eq!(shared_out([7; 4], &[]), Vec::<Counts>::new());
    }
}
