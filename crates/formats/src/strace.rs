//! The log of `strace -f -T -ttt [-k]`: each system call is a sample of the time it took.
//!
//! The leaf is the call; with `-k` its stack is above it. Calls that are interrupted in the log (`<unfinished ...>`,
//! `<... resumed>`) are joined again. The table of `strace -c` is read too.

pub(crate) mod summary;

use flamelet_profile::budget::hash_entry;
use flamelet_profile::{Budget, ErrorKind, LocationId, Profile, Result};
use rustc_hash::FxHashMap as HashMap;

use crate::assembly::{Assembly, ThreadRef};
use crate::input::Input;
use crate::number::{decimal, float, prefixed_hex, seconds, to_count};
use crate::{Error, FormatOptions, Notes};

/// Returns whether `head` looks like an strace log: several of its first lines are calls.
pub(crate) fn recognise(head: &[u8]) -> bool {
    let lines = head.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).take(50);
    let (mut calls, mut others) = (0, 0);
    for line in lines {
        match parse(line) {
            Some(Parsed { what: What::Call { rest, .. }, .. }) if rest.is_some() || is_unfinished(line) => {
                calls += 1;
            }
            Some(_) => {}
            None if parse_frame(line).is_some() => {}
            None => others += 1,
        }
    }
    calls > 0 && others <= calls
}

fn is_unfinished(line: &[u8]) -> bool {
    line.trim_ascii_end().ends_with(b"<unfinished ...>")
}

/// Reads an strace log.
pub(crate) fn read(input: Input<'_>, options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let mut reader = LogReader::new(options, input.budget());
    input.each_line(|line| {
        reader.line(line);
        Ok(())
    })?;
    reader.finish(notes)
}

/// A line of the log.
struct Parsed<'a> {
    pid: u64,
    time: Option<u64>,
    what: What<'a>,
}

enum What<'a> {
    /// A call, and what follows `) = ` when it is finished.
    Call { name: &'a [u8], rest: Option<&'a [u8]> },
    /// The end of a call that was left unfinished.
    Resumed { name: &'a [u8], rest: &'a [u8] },
    /// A signal or an exit.
    Other,
}

fn parse(line: &[u8]) -> Option<Parsed<'_>> {
    // Times of `-r` are indented.
    let (pid, rest) = split_pid(line.trim_ascii_start())?;
    let (time, rest) = split_time(rest);
    let what = if rest.starts_with(b"--- ") || rest.starts_with(b"+++ ") {
        What::Other
    } else if let Some(resumed) = rest.strip_prefix(b"<... ") {
        let end = memchr::memmem::find(resumed, b" resumed>")?;
        What::Resumed { name: &resumed[..end], rest: result(&resumed[end + 9..])? }
    } else {
        let paren = memchr::memchr(b'(', rest)?;
        let name = &rest[..paren];
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        if name.is_empty() || !name.iter().all(is_name) || name[0].is_ascii_digit() {
            return None;
        }
        What::Call { name, rest: if is_unfinished(rest) { None } else { result(&rest[paren..]) } }
    };
    Some(Parsed { pid, time, what })
}

/// Splits `[pid 123] rest` or `123 rest`; a log of one process has neither.
fn split_pid(line: &[u8]) -> Option<(u64, &[u8])> {
    if let Some(rest) = line.strip_prefix(b"[pid") {
        let end = memchr::memchr(b']', rest)?;
        return Some((decimal(rest[..end].trim_ascii())?, rest[end + 1..].trim_ascii_start()));
    }
    let end = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
    match decimal(&line[..end]) {
        Some(pid) => Some((pid, line[end..].trim_ascii_start())),
        None => Some((0, line)),
    }
}

/// Splits `1794711191.748771 rest` or `12:34:56.789 rest`. The time since the line before (`-r`) is left out.
fn split_time(line: &[u8]) -> (Option<u64>, &[u8]) {
    let end = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
    let word = &line[..end];
    let clock = || {
        let mut parts = word.split(|&byte| byte == b':');
        let (hours, minutes) = (decimal(parts.next()?)?, decimal(parts.next()?)?);
        let last = parts.next()?;
        let nanos = seconds(last).or_else(|| decimal(last)?.checked_mul(1_000_000_000))?;
        hours
            .checked_mul(3600)?
            .checked_add(minutes.checked_mul(60)?)?
            .checked_mul(1_000_000_000)?
            .checked_add(nanos)
    };
    /// Seconds since 1970 are more than this, in nanoseconds, since 2001.
    const EPOCH: u64 = 1_000_000_000_000_000_000;
    let time = seconds(word).map(|time| Some(time).filter(|&time| time >= EPOCH));
    match time.or_else(|| clock().map(Some)) {
        Some(time) => (time, line[end..].trim_ascii_start()),
        None => (None, line),
    }
}

/// Returns what follows the last `) = ` of a call.
fn result(text: &[u8]) -> Option<&[u8]> {
    let mut at = memchr::memmem::rfind(text, b" = ");
    while let Some(equals) = at {
        if text[..equals].trim_ascii_end().ends_with(b")") {
            return Some(text[equals + 3..].trim_ascii());
        }
        at = memchr::memmem::rfind(&text[..equals], b" = ");
    }
    None
}

/// Returns the `<0.000413>` at the end, in nanoseconds.
fn duration(result: &[u8]) -> Option<i64> {
    let inside = result.strip_suffix(b">")?;
    let start = memchr::memrchr(b'<', inside)?;
    float(&inside[start + 1..]).map(|seconds| to_count(seconds * 1e9))
}

/// A line of `-k`: ` > /lib/libc.so.6(read+0x12) [0x1ab70]`.
struct FrameLine<'a> {
    module: &'a [u8],
    symbol: &'a [u8],
    address: u64,
}

fn parse_frame(line: &[u8]) -> Option<FrameLine<'_>> {
    let text = line.trim_ascii().strip_prefix(b"> ")?;
    let bracket = memchr::memrchr(b'[', text)?;
    let address = prefixed_hex(text[bracket + 1..].strip_suffix(b"]")?)?;
    let place = text[..bracket].trim_ascii_end();
    let Some(inside) = place.strip_suffix(b")") else {
        return Some(FrameLine { module: place, symbol: b"", address });
    };
    // Module names contain no parentheses, while demangled names do.
    let paren = memchr::memchr(b'(', inside)?;
    let symbol = &inside[paren + 1..];
    let symbol = memchr::memmem::rfind(symbol, b"+0x").map_or(symbol, |plus| &symbol[..plus]);
    Some(FrameLine { module: &inside[..paren], symbol, address })
}

/// A finished call that may be followed by its stack.
struct FinishedCall {
    thread: ThreadRef,
    time: Option<u64>,
    nanos: Option<i64>,
    failed: bool,
    call: LocationId,
}

struct LogReader {
    assembly: Assembly,
    /// When unfinished calls began, by thread.
    unfinished: HashMap<u64, Option<u64>>,
    open: Option<FinishedCall>,
    stack: Vec<LocationId>,
    without_time: u64,
    unmatched: u64,
    odd_lines: u64,
    is_epoch: bool,
}

/// What an unfinished call costs.
const UNFINISHED: usize = hash_entry(size_of::<(u64, Option<u64>)>());
const CALLS: usize = 0;
const ERRORS: usize = 1;
const TIME: usize = 2;

impl LogReader {
    fn new(options: &FormatOptions, budget: &Budget) -> Self {
        let mut assembly = Assembly::new(options.timeline, budget);
        assembly.column("calls", "count");
        assembly.column("errors", "count");
        let time = assembly.column("time", "nanoseconds");
        assembly.events_count(time);
        Self {
            assembly,
            unfinished: HashMap::default(),
            open: None,
            stack: Vec::new(),
            without_time: 0,
            unmatched: 0,
            odd_lines: 0,
            is_epoch: false,
        }
    }

    fn line(&mut self, line: &[u8]) {
        if let Some(frame) = parse_frame(line) {
            if self.open.is_some() {
                let location = self.frame(&frame);
                self.stack.push(location);
            }
            return;
        }
        self.close();
        let Some(Parsed { pid, time, what }) = parse(line) else {
            self.odd_lines += u64::from(!line.trim_ascii().is_empty());
            return;
        };
        self.is_epoch |= time.is_some_and(|time| time > 1_000_000_000_000_000_000);
        match what {
            What::Other => {}
            What::Call { rest: None, .. } => self.begin(pid, time),
            What::Call { name, rest: Some(rest) } => self.finished(pid, time, name, rest),
            What::Resumed { name, rest } => match self.unfinished.remove(&pid) {
                Some(began) => {
                    self.assembly.budget().refund(UNFINISHED);
                    self.finished(pid, began.or(time), name, rest);
                }
                None => self.unmatched += 1,
            },
        }
    }

    fn begin(&mut self, pid: u64, time: Option<u64>) {
        if self.assembly.budget().has_room(UNFINISHED) {
            self.unfinished.insert(pid, time);
        }
    }

    fn finished(&mut self, pid: u64, time: Option<u64>, name: &[u8], rest: &[u8]) {
        let thread = self.assembly.thread(0, pid, "", "");
        let call = self.assembly.frame(&String::from_utf8_lossy(name), "", 0);
        // These calls do not return, so they have no time.
        let ends = matches!(name, b"exit" | b"exit_group").then_some(0);
        let nanos = duration(rest).or(ends);
        self.open = Some(FinishedCall { thread, time, nanos, failed: rest.starts_with(b"-1 E"), call });
    }

    fn frame(&mut self, frame: &FrameLine<'_>) -> LocationId {
        let module = self.assembly.module(&String::from_utf8_lossy(frame.module));
        match frame.symbol {
            [] => self.assembly.builder.address(Some(module), frame.address),
            name => self.assembly.builder.named_address(
                Some(module),
                frame.address,
                &String::from_utf8_lossy(name),
                "",
                0,
            ),
        }
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        self.stack.insert(0, open.call);
        let row = self.assembly.row(&self.stack, open.thread.labels);
        self.stack.clear();
        self.assembly.add(row, CALLS, 1);
        self.assembly.add(row, ERRORS, i64::from(open.failed));
        match open.nanos {
            Some(nanos) => self.assembly.add(row, TIME, nanos),
            None => self.without_time += 1,
        }
        if let Some(time) = open.time {
            self.assembly.event(time, row, open.thread.id, open.nanos.unwrap_or(0));
        }
    }

    fn finish(mut self, notes: &mut Notes) -> Result<Profile> {
        self.close();
        if self.assembly.row_count() == 0 {
            return Err(Error::new(ErrorKind::Corrupt, "the strace log has no finished call"));
        }
        if self.is_epoch {
            // Times count from 1970, so time zero is 1970; it is written as 1 ns, since 0 means unknown.
            self.assembly.starts_at(1);
        }
        let counts = [
            (self.without_time, "calls have no time (use strace -T)"),
            (self.unmatched, "calls end without having started"),
            (self.unfinished.len() as u64, "calls have not ended"),
            (self.odd_lines, "lines were not understood"),
        ];
        for (count, what) in counts.iter().filter(|(count, _)| *count > 0) {
            notes.push(format!("{count} {what}"));
        }
        notes.push("arguments and results of calls are dropped".into());
        self.assembly.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_with_hostile_arguments() {
        let line = br#"7834  1794711191.748771 write(1, ") = 5 <9.9>\n"..., 20) = -1 EPIPE (Broken pipe) <0.000413>"#;
        let Some(Parsed { pid, time, what: What::Call { name, rest: Some(rest) } }) = parse(line) else {
            panic!("a call")
        };
        assert_eq!((pid, time, name), (7834, Some(1_794_711_191_748_771_000), &b"write"[..]));
        assert!(rest.starts_with(b"-1 EPIPE"));
        assert_eq!(duration(rest), Some(413_000));
    }

    #[test]
    fn times_of_every_kind() {
        let time = |line: &str| parse(line.as_bytes()).map(|parsed| (parsed.pid, parsed.time));
        assert_eq!(time("     0.000270 brk(NULL) = 0x5592"), Some((0, None)));
        assert_eq!(time("1047       0.000255 brk(NULL) = 0x5563"), Some((1047, None)));
        assert_eq!(time("7 00:00:01.5 brk(NULL) = 0x5563"), Some((7, Some(1_500_000_000))));
        assert_eq!(time("[pid  7] 1794711191.5 brk(NULL) = 0"), Some((7, Some(1_794_711_191_500_000_000))));
    }

    #[test]
    fn frames_with_and_without_symbols() {
        let frame = parse_frame(b" > /usr/lib/ld.so(_dl_catch+0x26f0) [0x1ab70]").unwrap();
        assert_eq!(
            (frame.module, frame.symbol, frame.address),
            (&b"/usr/lib/ld.so"[..], &b"_dl_catch"[..], 0x1ab70)
        );
        assert_eq!(parse_frame(b" > /usr/bin/x() [0x10]").unwrap().symbol, b"");
        assert!(parse_frame(b"> unexpected_backtracing_error [").is_none());
    }
}
