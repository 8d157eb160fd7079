//! The first line of a sample.
//!
//! Its fields depend on `-F` and on the version of perf. The parser looks for this, from the right end of the fixed
//! part: `COMM PID[/TID] [CPU] TIME: [PERIOD] EVENT: rest`. Everything but the name may be missing.

use crate::number::{decimal, seconds};

/// The fixed part of a sample's first line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SampleHeader<'a> {
    pub(super) comm: &'a [u8],
    pub(super) pid: u64,
    pub(super) tid: u64,
    pub(super) time: Option<u64>,
    pub(super) period: Option<u64>,
    pub(super) event: &'a [u8],
    /// What follows the event: nothing, the address of a sample without a stack, or a tracepoint's fields.
    pub(super) rest: &'a [u8],
}

/// Parses a sample's first line, if `line` is one.
pub(super) fn parse_header(line: &[u8]) -> Option<SampleHeader<'_>> {
    let line = line.trim_ascii_end();
    if line.first().is_none_or(|&byte| byte == b'\t') {
        return None;
    }
    let line = line.trim_ascii_start();
    match find_time(line) {
        Some((start, end, time)) => {
            let (comm, pid, tid) = parse_task(&line[..start])?;
            let (period, event, rest) = parse_event(line[end..].trim_ascii_start());
            Some(SampleHeader { comm, pid, tid, time: Some(time), period, event, rest })
        }
        None => parse_untimed(line),
    }
}

/// Finds the first word of the form `seconds.fraction:`; returns its start, its end after the colon, and its value.
fn find_time(line: &[u8]) -> Option<(usize, usize, u64)> {
    memchr::memchr_iter(b':', line).find_map(|colon| {
        // The cheap check comes first: only the last colon of a word may end it, so each word is scanned once.
        let ends_here = line.get(colon + 1).is_none_or(|&byte| byte == b' ');
        if !ends_here {
            return None;
        }
        let start = line[..colon].iter().rposition(|&byte| byte == b' ')? + 1;
        Some((start, colon + 1, seconds(&line[start..colon])?))
    })
}

/// Parses `COMM PID[/TID] [CPU] FLAGS` from the right, since a command may contain spaces and numbers.
fn parse_task(text: &[u8]) -> Option<(&[u8], u64, u64)> {
    let mut text = text.trim_ascii_end();
    for _ in 0..4 {
        let start = text.iter().rposition(|&byte| byte == b' ').map_or(0, |at| at + 1);
        let word = &text[start..];
        if let Some((pid, tid)) = parse_ids(word) {
            return Some((text[..start].trim_ascii_end(), pid, tid));
        }
        text = text[..start].trim_ascii_end();
    }
    None
}

/// Parses `PID/TID`, or the single number that `perf script` prints by default, which is the thread's.
fn parse_ids(word: &[u8]) -> Option<(u64, u64)> {
    match memchr::memchr(b'/', word) {
        Some(slash) => Some((decimal(&word[..slash])?, decimal(&word[slash + 1..])?)),
        None => Some((0, decimal(word)?)),
    }
}

/// Parses `[PERIOD] EVENT: rest`. An event may contain colons (`sched:sched_switch`, `cycles:u`).
fn parse_event(text: &[u8]) -> (Option<u64>, &[u8], &[u8]) {
    let end_of_word = |text: &[u8]| text.iter().position(|&byte| byte == b' ').unwrap_or(text.len());
    let mut text = text;
    let first = &text[..end_of_word(text)];
    let period = decimal(first);
    if period.is_some() {
        text = text[first.len()..].trim_ascii_start();
    }
    let word = &text[..end_of_word(text)];
    match word.strip_suffix(b":") {
        Some(event) => (period, event, text[word.len()..].trim_ascii_start()),
        None => (period, b"", text),
    }
}

/// Parses a header without a time: the ids are the first word after the name that is one or two numbers.
fn parse_untimed(line: &[u8]) -> Option<SampleHeader<'_>> {
    let mut at = 0;
    let mut seen_name = false;
    while at < line.len() {
        let start = at + line[at..].iter().position(|&byte| byte != b' ')?;
        let end = line[start..].iter().position(|&byte| byte == b' ').map_or(line.len(), |len| start + len);
        if let Some((pid, tid)) = parse_ids(&line[start..end]).filter(|_| seen_name) {
            let after = skip_cpu(line[end..].trim_ascii_start());
            let (period, event, rest) = parse_event(after);
            return Some(SampleHeader {
                comm: line[..start].trim_ascii_end(),
                pid,
                tid,
                time: None,
                period,
                event,
                rest,
            });
        }
        seen_name = true;
        at = end;
    }
    None
}

fn skip_cpu(text: &[u8]) -> &[u8] {
    match (text.first(), memchr::memchr(b']', text)) {
        (Some(b'['), Some(end)) => text[end + 1..].trim_ascii_start(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn header(line: &str) -> (String, u64, u64, Option<u64>, Option<u64>, String) {
        let header = parse_header(line.as_bytes()).expect("a header");
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (text(header.comm), header.pid, header.tid, header.time, header.period, text(header.event))
    }

    #[test]
    fn headers_of_every_layout() {
        assert_eq!(
            header("fixture  7722   846.712030:    1003009 cpu-clock:pppH: "),
            ("fixture".into(), 0, 7722, Some(846_712_030_000), Some(1_003_009), "cpu-clock:pppH".into())
        );
        assert_eq!(
            header("V8 WorkerThread 24636/25607 [000] 94564.109216: cycles: "),
            ("V8 WorkerThread".into(), 24636, 25607, Some(94_564_109_216_000), None, "cycles".into())
        );
        assert_eq!(
            header("   java 25607 [003] 4794564.109216: 10101010 sched:sched_switch: prev_comm=x y"),
            (
                "java".into(),
                0,
                25607,
                Some(4_794_564_109_216_000),
                Some(10_101_010),
                "sched:sched_switch".into()
            )
        );
        assert_eq!(header("node 12 cycles:u: "), ("node".into(), 0, 12, None, None, "cycles:u".into()));
        assert_eq!(
            header("odd 12 name 7/8 [001] d..1. 5.5: 1 e: "),
            ("odd 12 name".into(), 7, 8, Some(5_500_000_000), Some(1), "e".into())
        );
    }
}
