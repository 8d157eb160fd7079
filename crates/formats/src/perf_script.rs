//! The text of `perf script`: a header line a sample, its frames below it, an empty line between samples.
//!
//! Which fields a header has depends on `-F` and on the version; what is looked for is, from the right end
//! of what is fixed: `COMM PID[/TID] [CPU] TIME: [PERIOD] EVENT: rest`. Everything but the name may be
//! missing. Each event becomes a kind of value.

use flamelet_profile::{ErrorKind, Line, LocationId, MappingId, Profile, Result};

use crate::assembly::{Assembly, ByteIndex, ThreadRef};
use crate::input::Input;
use crate::number::{decimal, hex, seconds, words};
use crate::{Error, Notes, Options};

/// Reads the text of `perf script`.
pub(crate) fn read(input: Input<'_>, options: &Options, notes: &mut Notes) -> Result<Profile> {
    let mut reader = Reader::new(options);
    let mut lines = input.lines();
    while let Some(line) = lines.next()? {
        reader.line(line);
    }
    reader.finish(notes)
}

/// Whether `head` looks like the text of `perf script`: a header of a sample, and a frame or an event.
pub(crate) fn recognise(head: &[u8]) -> bool {
    let mut lines = head.split(|&byte| byte == b'\n').take(400).filter(|line| !line.starts_with(b"#"));
    let mut was_header = false;
    lines.any(|line| {
        if was_header && is_frame(line) {
            return true;
        }
        let header = parse_header(line);
        was_header = header.is_some();
        header.is_some_and(|header| header.time.is_some() && !header.event.is_empty())
    })
}

/// The fixed part of a sample's first line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Header<'a> {
    comm: &'a [u8],
    pid: u64,
    tid: u64,
    time: Option<u64>,
    period: Option<u64>,
    event: &'a [u8],
    /// What follows the event: nothing, an address of a sample without a stack, or a tracepoint's fields.
    rest: &'a [u8],
}

fn is_frame(line: &[u8]) -> bool {
    if !matches!(line.first(), Some(b' ' | b'\t')) {
        return false;
    }
    let mut words = words(line);
    words.next().is_some_and(|word| hex(word).is_some()) && words.next().is_some()
}

fn parse_header(line: &[u8]) -> Option<Header<'_>> {
    let line = line.trim_ascii_end();
    if line.first().is_none_or(|&byte| byte == b'\t') {
        return None;
    }
    let line = line.trim_ascii_start();
    match find_time(line) {
        Some((start, end, time)) => {
            let (comm, pid, tid) = parse_task(&line[..start])?;
            let (period, event, rest) = parse_event(line[end..].trim_ascii_start());
            Some(Header { comm, pid, tid, time: Some(time), period, event, rest })
        }
        None => parse_untimed(line),
    }
}

/// The first word that is `seconds.fraction:`, as its start, the end after the colon, and its value.
fn find_time(line: &[u8]) -> Option<(usize, usize, u64)> {
    memchr::memchr_iter(b':', line).find_map(|colon| {
        let start = line[..colon].iter().rposition(|&byte| byte == b' ')? + 1;
        let ends_here = line.get(colon + 1).is_none_or(|&byte| byte == b' ');
        let time = if ends_here { seconds(&line[start..colon])? } else { return None };
        Some((start, colon + 1, time))
    })
}

/// `COMM PID[/TID] [CPU] FLAGS`, read from the right: a command may hold spaces and numbers.
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

/// `PID/TID`, or the one number that `perf script` prints by default, which is the thread's.
fn parse_ids(word: &[u8]) -> Option<(u64, u64)> {
    match memchr::memchr(b'/', word) {
        Some(slash) => Some((decimal(&word[..slash])?, decimal(&word[slash + 1..])?)),
        None => Some((0, decimal(word)?)),
    }
}

/// `[PERIOD] EVENT: rest`. An event may hold colons (`sched:sched_switch`, `cycles:u`).
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

/// A header without a time: the first word after the name that is one or two numbers.
fn parse_untimed(line: &[u8]) -> Option<Header<'_>> {
    let mut at = 0;
    let mut seen_name = false;
    while at < line.len() {
        let start = at + line[at..].iter().position(|&byte| byte != b' ')?;
        let end = line[start..].iter().position(|&byte| byte == b' ').map_or(line.len(), |len| start + len);
        if let Some((pid, tid)) = parse_ids(&line[start..end]).filter(|_| seen_name) {
            let after = skip_cpu(line[end..].trim_ascii_start());
            let (period, event, rest) = parse_event(after);
            return Some(Header {
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

/// A frame line: `ADDRESS SYMBOL+0xOFFSET (MODULE)`.
struct FrameLine<'a> {
    address: u64,
    symbol: &'a [u8],
    module: &'a [u8],
}

fn parse_frame(line: &[u8]) -> Option<FrameLine<'_>> {
    let line = line.trim_ascii();
    let end = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
    let address = hex(&line[..end])?;
    let (symbol, module) = split_module(line[end..].trim_ascii());
    Some(FrameLine { address, symbol: strip_offset(symbol), module })
}

fn split_module(text: &[u8]) -> (&[u8], &[u8]) {
    let Some(inside) = text.strip_suffix(b")") else { return (text, b"") };
    let (inside, deleted) = match inside.strip_suffix(b" (deleted)") {
        Some(path) => (path, true),
        None => (inside, false),
    };
    match memchr::memmem::rfind(inside, b" (") {
        Some(at) => (text[..at].trim_ascii_end(), &inside[at + 2..]),
        // A module without a symbol.
        None if inside.first() == Some(&b'(') => (b"", &inside[1..]),
        None if deleted => (text, b""),
        None => (text, b""),
    }
}

fn strip_offset(symbol: &[u8]) -> &[u8] {
    match memchr::memmem::rfind(symbol, b"+0x") {
        Some(at) if at > 0 && hex(&symbol[at + 3..]).is_some() => &symbol[..at],
        _ => symbol,
    }
}

/// A sample whose frames are being read.
struct Open {
    thread: ThreadRef,
    time: Option<u64>,
    period: u64,
    event: usize,
}

/// An event of the file and its columns.
struct EventColumns {
    name: Box<[u8]>,
    value: usize,
}

struct Reader {
    assembly: Assembly,
    frames: ByteIndex<LocationId>,
    modules: ByteIndex<MappingId>,
    events: Vec<EventColumns>,
    threads: ByteIndex<ThreadRef>,
    open: Option<Open>,
    stack: Vec<LocationId>,
    /// Lines of functions inlined into the frame that follows.
    inlined: Vec<u8>,
    /// The frame before, to which a source line may belong.
    last_frame: Vec<u8>,
    key: Vec<u8>,
    without_period: bool,
    untimed: u64,
    odd_lines: u64,
    tracepoint_fields: bool,
}

impl Reader {
    fn new(options: &Options) -> Self {
        let mut assembly = Assembly::new(options.timeline);
        assembly.column("samples", "count");
        Self {
            assembly,
            frames: ByteIndex::new(),
            modules: ByteIndex::new(),
            events: Vec::new(),
            threads: ByteIndex::new(),
            open: None,
            stack: Vec::new(),
            inlined: Vec::new(),
            last_frame: Vec::new(),
            key: Vec::new(),
            without_period: false,
            untimed: 0,
            odd_lines: 0,
            tracepoint_fields: false,
        }
    }

    fn line(&mut self, line: &[u8]) {
        if line.is_empty() {
            return self.close();
        }
        if self.open.is_some() && matches!(line[0], b' ' | b'\t') {
            return self.frame_line(line);
        }
        if line[0] == b'#' {
            return self.comment(line);
        }
        match parse_header(line) {
            Some(header) => self.header(&header),
            None if line.trim_ascii().is_empty() => self.close(),
            None => self.odd_lines += 1,
        }
    }

    fn comment(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        if let Some((_, command)) = text.strip_prefix("# cmdline").and_then(|rest| rest.split_once(": ")) {
            self.assembly.builder.comment(&format!("perf: {command}"));
        }
    }

    fn header(&mut self, header: &Header<'_>) {
        self.close();
        let thread = self.thread(header);
        let event = self.event(header.event);
        self.without_period |= header.period.is_none();
        self.open = Some(Open { thread, time: header.time, period: header.period.unwrap_or(1), event });
        // Samples without a call chain have their only frame on the same line; tracepoints their fields.
        if let Some(frame) = parse_frame(header.rest).filter(|frame| !frame.module.is_empty()) {
            let location = self.location(&frame, None);
            self.stack.push(location);
        } else if !header.rest.is_empty() {
            self.tracepoint_fields = true;
        }
    }

    fn thread(&mut self, header: &Header<'_>) -> ThreadRef {
        self.key.clear();
        self.key.extend_from_slice(header.comm);
        self.key.extend_from_slice(&header.pid.to_le_bytes());
        self.key.extend_from_slice(&header.tid.to_le_bytes());
        if let Some(found) = self.threads.get(&self.key) {
            return found;
        }
        let thread = self.assembly.thread(header.pid, header.tid, &String::from_utf8_lossy(header.comm), "");
        self.threads.insert(&self.key, thread);
        thread
    }

    fn event(&mut self, name: &[u8]) -> usize {
        let name = plain_event(name);
        if let Some(at) = self.events.iter().position(|event| *event.name == *name) {
            return at;
        }
        let (kind, unit) = event_value_type(&String::from_utf8_lossy(name));
        let value = self.assembly.column(&kind, unit);
        self.events.push(EventColumns { name: name.into(), value });
        self.events.len() - 1
    }

    fn frame_line(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        let known = if self.inlined.is_empty() { self.frames.get(line) } else { None };
        if let Some(found) = known {
            self.stack.push(found);
            self.last_frame.clear();
            self.last_frame.extend_from_slice(line);
            return;
        }
        match parse_frame(line) {
            Some(frame) if frame.module == b"inlined" => {
                self.inlined.extend_from_slice(line);
                self.inlined.push(b'\n');
            }
            Some(frame) => self.new_frame(line, &frame, None),
            None => self.source_line(line),
        }
    }

    /// Interns a frame, with what was inlined into it.
    fn new_frame(&mut self, line: &[u8], frame: &FrameLine<'_>, source: Option<(&str, i64)>) {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.extend_from_slice(&self.inlined);
        key.extend_from_slice(line);
        // A line of its own was asked for already.
        let known = if self.inlined.is_empty() { None } else { self.frames.get(&key) };
        let location = match known.filter(|_| source.is_none()) {
            Some(found) => found,
            None => {
                let location = self.location(frame, source);
                if source.is_none() {
                    self.frames.insert(&key, location);
                }
                location
            }
        };
        self.stack.push(location);
        if source.is_none() {
            self.last_frame.clear();
            self.last_frame.extend_from_slice(line);
        }
        self.inlined.clear();
        self.key = key;
    }

    /// `-F srcline` prints `file:line` under each frame.
    fn source_line(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let place = text.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse::<i64>().ok()?)));
        let last = std::mem::take(&mut self.last_frame);
        if let (Some(place), Some(frame)) = (place, parse_frame(&last)) {
            self.stack.pop();
            self.new_frame(&last, &frame, Some(place));
        } else {
            self.odd_lines += 1;
        }
    }

    fn location(&mut self, frame: &FrameLine<'_>, source: Option<(&str, i64)>) -> LocationId {
        let known = !frame.module.is_empty() && frame.module != b"[unknown]";
        let module = known.then(|| self.module(frame.module));
        let mut lines = Vec::new();
        for line in self.inlined.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            if let Some(inlined) = parse_frame(line) {
                let name = String::from_utf8_lossy(inlined.symbol);
                let function = Some(self.assembly.builder.named_function(&name, ""));
                lines.push(Line { function, line: 0, column: 0 });
            }
        }
        let name = String::from_utf8_lossy(frame.symbol);
        if !name.is_empty() && name != "[unknown]" {
            let (file, line) = source.unwrap_or_default();
            let function = Some(self.assembly.builder.named_function(&name, file));
            lines.push(Line { function, line, column: 0 });
        }
        self.assembly.builder.location(module, frame.address, &lines)
    }

    fn module(&mut self, name: &[u8]) -> MappingId {
        if let Some(found) = self.modules.get(name) {
            return found;
        }
        let module = self.assembly.module(&String::from_utf8_lossy(name));
        self.modules.insert(name, module);
        module
    }

    /// Ends the sample whose frames were read.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let row = self.assembly.row(&self.stack, open.thread.labels);
        let period = i64::try_from(open.period).unwrap_or(i64::MAX);
        self.assembly.add(row, 0, 1);
        self.assembly.add(row, self.events[open.event].value, period);
        match open.time {
            Some(time) => self.assembly.event(time, row, open.thread.id, period),
            None => self.untimed += 1,
        }
        self.stack.clear();
        self.inlined.clear();
        self.last_frame.clear();
    }

    fn finish(mut self, notes: &mut Notes) -> Result<Profile> {
        self.close();
        if self.assembly.row_count() == 0 {
            return Err(Error::new(ErrorKind::Corrupt, "the perf script text holds no sample"));
        }
        if self.odd_lines > 0 {
            notes.push(format!("{} lines of the perf script text were not understood", self.odd_lines));
        }
        if self.untimed > 0 {
            notes.push(format!("{} samples have no time", self.untimed));
        }
        if self.without_period {
            notes.push("samples without a period count as 1".into());
        }
        if self.tracepoint_fields {
            notes.push("the fields of tracepoints are dropped".into());
        }
        match &self.events[..] {
            [only] => self.assembly.events_count(only.value),
            _ => self.assembly.events_count_samples(0),
        }
        Ok(self.assembly.finish())
    }
}

/// An event's name without its modifiers: `cycles:u` and `cpu-clock:pppH` are `cycles` and `cpu-clock`.
fn plain_event(name: &[u8]) -> &[u8] {
    match memchr::memrchr(b':', name) {
        Some(at) if name[at + 1..].iter().all(|byte| b"ukhpPHGIDSWe".contains(byte)) => &name[..at],
        _ => name,
    }
}

/// What an event counts.
pub(crate) fn event_value_type(event: &str) -> (String, &'static str) {
    match event {
        "cpu-clock" | "task-clock" => ("cpu".into(), "nanoseconds"),
        "" => ("events".into(), "count"),
        other => (other.into(), "count"),
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

    #[test]
    fn frames_of_every_layout() {
        let frame = |line: &str| {
            let frame = parse_frame(line.as_bytes()).expect("a frame");
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            (frame.address, text(frame.symbol), text(frame.module))
        };
        assert_eq!(
            frame("\t 16734 fixture::leaf+0x24 (/tmp/x)"),
            (0x16734, "fixture::leaf".into(), "/tmp/x".into())
        );
        assert_eq!(frame(" 7f [unknown] ([unknown])"), (0x7f, "[unknown]".into(), "[unknown]".into()));
        assert_eq!(frame(" 1 a(int) const+0x1 (/b (deleted))"), (1, "a(int) const".into(), "/b".into()));
        assert_eq!(frame(" 1 foo (inlined)"), (1, "foo".into(), "inlined".into()));
        assert_eq!(frame(" 1 (/lib/a b.so)"), (1, String::new(), "/lib/a b.so".into()));
    }
}
