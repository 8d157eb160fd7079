//! The text of `perf script`: one header line per sample, its frames below it, an empty line between samples.
//!
//! Functions inlined into a frame are on the lines before it; `-F srcline` adds a line with the source below each.
//! Each event becomes a kind of value.

mod frame;
mod header;

use std::ops::Range;

use flamelet_profile::{
    Budget, ErrorKind, FunctionId, Line, LocationId, MappingId, Profile, Quality, Result,
};

use self::frame::{FrameKey, FrameLine, KnownFrames, address_of, is_bare_frame, is_frame, parse_frame};
use self::header::{SampleHeader, parse_header};
use crate::assembly::{Assembly, ByteIndex, ThreadRef};
use crate::input::Input;
use crate::number::decimal;
use crate::{Error, FormatOptions, Notes};

/// Reads the text of `perf script`.
pub(crate) fn read(input: Input<'_>, options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let mut reader = ScriptReader::new(options, input.budget());
    input.each_line(|line| {
        reader.line(line);
        Ok(())
    })?;
    reader.finish(notes)
}

/// Returns whether `head` looks like the text of `perf script`: a header of a sample, and a frame or an event.
pub(crate) fn recognise(head: &[u8]) -> bool {
    let mut lines = head.split(|&byte| byte == b'\n').take(400).filter(|line| !line.starts_with(b"#"));
    let (mut was_header, mut is_certain) = (false, false);
    lines.any(|line| {
        if was_header && is_frame(line) || is_certain && is_bare_frame(line) {
            return true;
        }
        let header = parse_header(line);
        is_certain = header.as_ref().is_some_and(|it| it.time.is_some() || !it.event.is_empty());
        // Other text has words and numbers too: logs of strace, tables.
        let is_plain = |it: &SampleHeader<'_>| it.rest.is_empty() && decimal(it.comm).is_none();
        was_header = is_certain || header.as_ref().is_some_and(is_plain);
        header.is_some_and(|header| header.time.is_some() && !header.event.is_empty())
    })
}

/// A sample whose frames are being read.
struct OpenSample {
    thread: ThreadRef,
    time: Option<u64>,
    period: u64,
    column: usize,
}

struct ScriptReader {
    assembly: Assembly,
    frames: KnownFrames,
    functions: ByteIndex<FunctionId>,
    modules: ByteIndex<MappingId>,
    /// The columns of the events of the file, by name.
    events: ByteIndex<usize>,
    columns: Vec<usize>,
    event_kinds: Vec<String>,
    samples: u64,
    threads: ByteIndex<ThreadRef>,
    open: Option<OpenSample>,
    stack: Vec<LocationId>,
    open_frames: OpenFrames,
    key: Vec<u8>,
    without_period: bool,
    untimed: u64,
    odd_lines: u64,
    tracepoint_fields: bool,
}

/// The end of a line whose function was inlined into the frame below.
const INLINED: &[u8] = b" (inlined)";

/// The frames of a sample as they are read. They are looked up together when the sample ends: one at a time, each
/// lookup would wait for memory separately.
#[derive(Default)]
struct OpenFrames {
    /// The lines of each frame: functions inlined into it, then its own. Each line is followed by a tab and its
    /// source, if known.
    text: Vec<u8>,
    /// The key to look up, and where in `text` the frame ends.
    keys: Vec<(FrameKey, usize)>,
    /// Where in `text` the frame being read starts.
    start: usize,
    address: u64,
    /// The frame's own line was read.
    is_whole: bool,
    /// Places on the stack of new frames, and where in `text` they are.
    new: Vec<(usize, FrameKey, Range<usize>)>,
    /// What the largest sample so far was charged.
    charged: usize,
}

/// What a frame of the open sample costs in addition to its text: its key, its place on the stack, and another one if
/// it is new.
const OPEN_FRAME: usize =
    size_of::<(FrameKey, usize)>() + size_of::<LocationId>() + size_of::<(usize, FrameKey, Range<usize>)>();

impl OpenFrames {
    /// Takes a line that starts with `address`.
    fn line(&mut self, address: u64, line: &[u8]) {
        if self.is_whole {
            self.end_frame();
        }
        if self.text.len() > self.start {
            self.text.push(b'\n');
        }
        self.text.extend_from_slice(line);
        (self.address, self.is_whole) = (address, !line.ends_with(INLINED));
    }

    /// Takes the source of the previous line, which also says whether that was inlined; returns false if it is not a
    /// source.
    fn source(&mut self, line: &[u8]) -> bool {
        let source = line.strip_suffix(INLINED).unwrap_or(line);
        let is_source = self.text.len() > self.start && split_source(source).is_some();
        if is_source {
            self.text.push(b'\t');
            self.text.extend_from_slice(source);
            self.is_whole &= source.len() == line.len();
        }
        is_source
    }

    /// Ends the last frame read. Inlined functions without a frame are dropped.
    fn end_frame(&mut self) {
        if self.is_whole {
            let key = FrameKey::new(self.address, &self.text[self.start..]);
            self.keys.push((key, self.text.len()));
        }
        self.text.truncate(self.keys.last().map_or(0, |&(_, end)| end));
        (self.start, self.is_whole) = (self.text.len(), false);
    }

    /// Charges what the open sample takes beyond the largest one before.
    fn charge(&mut self, budget: &Budget) {
        let size = self.text.len() + (self.keys.len() + 1) * OPEN_FRAME;
        if size > self.charged {
            budget.has_room(size - self.charged);
            self.charged = size;
        }
    }

    fn clear(&mut self) {
        self.text.clear();
        self.keys.clear();
        (self.start, self.is_whole) = (0, false);
    }
}

impl ScriptReader {
    fn new(options: &FormatOptions, budget: &Budget) -> Self {
        let mut assembly = Assembly::new(options.timeline, budget);
        assembly.column("samples", "count");
        Self {
            assembly,
            frames: KnownFrames::default(),
            functions: ByteIndex::new(budget),
            modules: ByteIndex::new(budget),
            events: ByteIndex::new(budget),
            columns: Vec::new(),
            event_kinds: Vec::new(),
            samples: 0,
            threads: ByteIndex::new(budget),
            open: None,
            stack: Vec::new(),
            open_frames: OpenFrames::default(),
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
        let is_bare = || is_bare_frame(line) && parse_header(line).is_none_or(|header| header.time.is_none());
        let is_frame = matches!(line[0], b' ' | b'\t') || is_bare();
        if self.open.is_some() && is_frame {
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

    fn header(&mut self, header: &SampleHeader<'_>) {
        self.close();
        let thread = self.thread(header);
        let column = self.column(header.event);
        self.without_period |= header.period.is_none();
        self.open =
            Some(OpenSample { thread, time: header.time, period: header.period.unwrap_or(1), column });
        // Samples without a call chain have their only frame on the same line; tracepoints have their fields there.
        if let Some(frame) = parse_frame(header.rest).filter(|frame| !frame.module.is_empty()) {
            let location = self.location(frame.address, header.rest);
            self.stack.push(location);
        } else if !header.rest.is_empty() {
            self.tracepoint_fields = true;
        }
    }

    fn thread(&mut self, header: &SampleHeader<'_>) -> ThreadRef {
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

    /// Returns the column of an event's values.
    fn column(&mut self, name: &[u8]) -> usize {
        let name = plain_event(name);
        if let Some(known) = self.events.get(name) {
            return known;
        }
        let (kind, unit) = event_value_type(&String::from_utf8_lossy(name));
        let column = self.assembly.column(&kind, unit);
        self.events.insert(name, column);
        self.assembly.budget().push(&mut self.event_kinds, kind);
        self.assembly.budget().push(&mut self.columns, column);
        column
    }

    fn frame_line(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        match address_of(line) {
            Some(address) => {
                self.open_frames.line(address, line);
                self.open_frames.charge(self.assembly.budget());
            }
            // `-F srcline` prints `file:line` under each frame.
            None => self.odd_lines += u64::from(!self.open_frames.source(line)),
        }
    }

    /// Puts the frames that were read on the stack.
    fn end_frames(&mut self) {
        let mut open = std::mem::take(&mut self.open_frames);
        open.end_frame();
        let mut start = 0;
        for &(key, end) in &open.keys {
            let found = self.frames.get(key).unwrap_or_else(|| {
                open.new.push((self.stack.len(), key, start..end));
                LocationId::from_index(0)
            });
            self.stack.push(found);
            start = end;
        }
        for (place, key, text) in open.new.drain(..) {
            // The same frame may occur more than once on a stack.
            self.stack[place] = self.frames.get(key).unwrap_or_else(|| {
                let location = self.location(key.address(), &open.text[text]);
                if self.assembly.budget().has_room(KnownFrames::ENTRY) {
                    self.frames.insert(key, location);
                }
                location
            });
        }
        open.clear();
        self.open_frames = open;
    }

    /// Returns the location that the lines of a frame describe, innermost first.
    fn location(&mut self, address: u64, text: &[u8]) -> LocationId {
        let mut lines = Vec::new();
        let mut module = None;
        for line in text.split(|&byte| byte == b'\n') {
            let (line, source) = match memchr::memchr(b'\t', line) {
                Some(tab) => (&line[..tab], split_source(&line[tab + 1..])),
                None => (line, None),
            };
            let Some(frame) = parse_frame(line) else { continue };
            lines.extend(self.line_of(&frame, source));
            let is_known = !matches!(frame.module, b"" | b"[unknown]" | b"inlined");
            module = is_known.then(|| self.module(frame.module));
        }
        self.assembly.builder.location(module, address, &lines)
    }

    fn line_of(&mut self, frame: &FrameLine<'_>, source: Option<(&[u8], i64)>) -> Option<Line> {
        if matches!(frame.symbol, b"" | b"[unknown]") {
            return None;
        }
        let (file, line) = source.unwrap_or_default();
        Some(Line { function: Some(self.function(frame.symbol, file)), line, column: 0 })
    }

    fn function(&mut self, symbol: &[u8], file: &[u8]) -> FunctionId {
        self.key.clear();
        self.key.extend_from_slice(symbol);
        self.key.push(b'\t');
        self.key.extend_from_slice(file);
        if let Some(found) = self.functions.get(&self.key) {
            return found;
        }
        let (name, filename) = (String::from_utf8_lossy(symbol), String::from_utf8_lossy(file));
        let function = self.assembly.builder.named_function(&name, &filename);
        self.functions.insert(&self.key, function);
        function
    }

    fn module(&mut self, name: &[u8]) -> MappingId {
        if let Some(found) = self.modules.get(name) {
            return found;
        }
        let module = self.assembly.module(&String::from_utf8_lossy(name));
        self.modules.insert(name, module);
        module
    }

    /// Ends the open sample.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        self.end_frames();
        let row = self.assembly.row(&self.stack, open.thread.labels);
        let period = i64::try_from(open.period).unwrap_or(i64::MAX);
        self.samples += 1;
        self.assembly.add(row, 0, 1);
        self.assembly.add(row, open.column, period);
        match open.time {
            Some(time) => self.assembly.event(time, row, open.thread.id, period),
            None => self.untimed += 1,
        }
        self.stack.clear();
    }

    fn finish(mut self, notes: &mut Notes) -> Result<Profile> {
        self.close();
        if self.assembly.row_count() == 0 {
            return Err(Error::new(ErrorKind::Corrupt, "the perf script text has no sample"));
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
        match self.columns[..] {
            [only] => self.assembly.events_count(only),
            _ => self.assembly.events_count_samples(0),
        }
        if let Some(kind) = preferred_event(self.event_kinds.iter().map(String::as_str)) {
            self.assembly.builder.set_default_sample_type(kind);
        }
        let mut profile = self.assembly.finish()?;
        let engine = profile.intern("perf");
        profile.quality = Some(Quality { engine, samples: self.samples, ..Quality::default() });
        Ok(profile)
    }
}

/// Splits `file:line`; `??:0` means unknown.
fn split_source(line: &[u8]) -> Option<(&[u8], i64)> {
    let colon = memchr::memrchr(b':', line)?;
    let (file, line) = (&line[..colon], i64::try_from(decimal(&line[colon + 1..])?).ok()?);
    Some((if file == b"??" { b"" } else { file }, line))
}

/// Returns an event's name without its modifiers: `cycles` for `cycles:u`, `cpu-clock` for `cpu-clock:pppH`.
pub(crate) fn plain_event(name: &[u8]) -> &[u8] {
    match memchr::memrchr(b':', name) {
        Some(at) if name[at + 1..].iter().all(|byte| b"ukhpPHGIDSWe".contains(byte)) => &name[..at],
        _ => name,
    }
}

/// Returns what an event counts, as kind and unit.
pub(crate) fn event_value_type(event: &str) -> (String, &'static str) {
    match event {
        "cpu-clock" | "task-clock" => ("cpu".into(), "nanoseconds"),
        "" => ("events".into(), "count"),
        other => (other.into(), "count"),
    }
}

/// Returns which of several events to show first: CPU time, else cycles, else the first.
pub(crate) fn preferred_event<'a>(mut kinds: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let is_cpu = |kind: &&str| *kind == "cpu";
    let is_cycles = |kind: &&str| kind.contains("cycles");
    kinds.clone().find(is_cpu).or_else(|| kinds.clone().find(is_cycles)).or_else(|| kinds.next())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the functions of each location of the only stack, with their sources.
    fn stack_of(text: &str) -> (Vec<Vec<String>>, u64) {
        let mut reader = ScriptReader::new(&FormatOptions::default(), &Budget::new(crate::Limits::default()));
        text.lines().for_each(|line| reader.line(line.as_bytes()));
        let odd_lines = reader.odd_lines;
        let profile = reader.finish(&mut Notes::default()).unwrap();
        let name = |line: &Line| {
            let function = profile.function(line.function.unwrap());
            let (name, file) = (profile.string(function.name), profile.string(function.filename));
            format!("{name} {file}:{}", line.line)
        };
        let stack = profile.stack(profile.sample(0).stack);
        (stack.iter().map(|&id| profile.lines(id).iter().map(name).collect()).collect(), odd_lines)
    }

    #[test]
    fn inlined_functions_belong_to_the_frame_below_them() {
        let plain = "main 1 1.5: 1 cycles: \n\t 10 c+0x1 (inlined)\n\t 10 b+0x1 (/m)\n\t 20 a+0x2 (/m)\n";
        let (stack, odd_lines) = stack_of(plain);
        assert_eq!((stack, odd_lines), (vec![vec!["c :0".into(), "b :0".into()], vec!["a :0".into()]], 0));
    }

    #[test]
    fn sources_belong_to_the_line_above_them() {
        let text = "main 1 1.5: 1 cycles: \n\t 10 c+0x1\n  c.rs:7 (inlined)\n\t 10 b+0x1 (/m)\n  b.rs:8\n\
                    \t 20 a+0x2 (/m)\n  ??:0\n  sense: less\n";
        let (stack, odd_lines) = stack_of(text);
        let expected = vec![vec!["c c.rs:7".into(), "b b.rs:8".into()], vec!["a :0".into()]];
        assert_eq!((stack, odd_lines), (expected, 1));
    }

    #[test]
    fn frames_may_have_lost_their_indentation() {
        let text =
            "dad 1 1.5: 1 cycles: \n10 b+0x1 (/m)\n20 a+0x2 (/m)\ncafe 1 2.5: 1 cycles: \n10 b+0x1 (/m)\n";
        assert!(recognise(text.as_bytes()));
        let (stack, odd_lines) = stack_of(text);
        assert_eq!((stack, odd_lines), (vec![vec!["b :0".into()], vec!["a :0".into()]], 0));
    }

    #[test]
    fn other_text_with_numbers_is_none() {
        let strace = "7 execve(\"/bin/ls\", [\"ls\"], 0x7ffd /* 39 vars */) = 0\n7 brk(NULL) = 0x55\n\
                      7 access(\"/etc/ld.so.preload\", R_OK) = -1 ENOENT (No such file or directory)\n";
        let table = " 12 3 foo\n 13 4 bar\n 14 5\n 15 6\n";
        assert!(![strace, table].iter().any(|text| recognise(text.as_bytes())));
        assert!(recognise(b"node 12 cycles:u: \n\t 10 a+0x1 (/m)\n"));
        assert!(recognise(b"node 12 [001]\n\t 10 a+0x1 (/m)\n"));
    }

    #[test]
    fn cpu_time_is_shown_first() {
        assert_eq!(preferred_event(["page-faults", "cpu", "cycles"].into_iter()), Some("cpu"));
        assert_eq!(
            preferred_event(["page-faults", "cpu_core/cycles/"].into_iter()),
            Some("cpu_core/cycles/")
        );
        assert_eq!(preferred_event(["page-faults", "faults"].into_iter()), Some("page-faults"));
        assert_eq!(preferred_event([].into_iter()), None);
    }

    #[test]
    fn a_frame_that_stands_on_a_stack_again_is_one_location() {
        let text = "main 1 1.5: 1 cycles: \n\t 10 a+0x1 (/m)\n\t 10 a+0x1 (/m)\n\t 10 a+0x1 (/other)\n";
        let mut reader = ScriptReader::new(&FormatOptions::default(), &Budget::new(crate::Limits::default()));
        text.lines().for_each(|line| reader.line(line.as_bytes()));
        let profile = reader.finish(&mut Notes::default()).unwrap();
        assert_eq!((profile.locations().len(), profile.stack(profile.sample(0).stack).len()), (2, 3));
    }
}
