//! Chrome's trace events, as written by Chrome, Perfetto's older tools and `tracing-chrome`.
//!
//! Durations (`B`/`E` and `X`) nest by thread; asynchronous spans (`b`/`e`) nest by their id, whichever threads begin
//! and end them. Both become stacks whose value is the time a span does not spend in spans inside it. Embedded CPU
//! profiles (`Profile`, `ProfileChunk`) become samples. The file is read as a stream; only one small record per span
//! stays in memory.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Write};
use std::rc::Rc;

use flamelet_profile::budget::{ALLOCATION, hash_entry};
use flamelet_profile::{Budget, ErrorKind, LocationId, Profile, Result, StringId};
use rustc_hash::FxHashMap as HashMap;
use serde::Deserialize;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::assembly::Assembly;
use crate::cpuprofile::{Chunk, Chunked, Columns, note_missing};
use crate::frames::{FrameTable, events_by_thread, nanos_per, value_type};
use crate::input::Input;
use crate::output::Output;
use crate::{Error, FormatOptions, Notes, json};

/// One event of the file, with only the fields that are needed.
#[derive(Deserialize, Default)]
struct FileEvent {
    #[serde(default, deserialize_with = "json::or_default")]
    name: String,
    #[serde(default, deserialize_with = "json::or_default")]
    ph: String,
    #[serde(default, deserialize_with = "json::loose_text")]
    pid: String,
    #[serde(default, deserialize_with = "json::loose_text")]
    tid: String,
    #[serde(default)]
    ts: Option<f64>,
    #[serde(default)]
    dur: Option<f64>,
    #[serde(default, deserialize_with = "json::loose_text")]
    cat: String,
    #[serde(default, deserialize_with = "json::loose_text")]
    scope: String,
    #[serde(default)]
    id: Option<Value>,
    /// Whether the id is local to the process or global: `{"local": "0x1"}`.
    #[serde(default)]
    id2: Option<Value>,
    /// Where `tracing-chrome` puts the source file of a span.
    #[serde(rename = ".file", default, deserialize_with = "json::loose_text")]
    file: String,
    #[serde(rename = ".line", default, deserialize_with = "json::loose_text")]
    line: String,
    #[serde(default)]
    args: Option<Value>,
}

impl FileEvent {
    fn arg(&self, key: &str) -> Option<&Value> {
        self.args.as_ref()?.get(key)
    }

    fn thread_track(&self) -> TrackKey {
        TrackKey::Thread { pid: self.pid.clone(), tid: self.tid.clone() }
    }

    /// Returns the track of an asynchronous span.
    fn async_track(&self) -> TrackKey {
        let second = |kind: &str| self.id2.as_ref().and_then(|id| id.get(kind));
        let (pid, id) = match (second("global"), second("local").or(self.id.as_ref())) {
            (Some(global), _) => ("", Some(global)),
            (None, id) => (&*self.pid, id),
        };
        // Chrome's ids are text, and unique within their category. Those of `tracing-chrome` are the numbers of the
        // outermost spans, while the spans below them have the categories of their modules.
        let category = if matches!(id, Some(Value::Number(_))) { "" } else { &self.cat };
        let id = id.map_or_else(String::new, id_text);
        TrackKey::Async { pid: pid.into(), category: category.into(), scope: self.scope.clone(), id }
    }
}

fn id_text(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// Returns whether a file with these keys holds trace events, in an object or as a bare list.
pub(crate) fn recognise(keys: &json::Keys<'_>) -> bool {
    keys.has("traceEvents") || keys.items_have("ph")
}

/// Reads trace events.
pub(crate) fn read(input: Input<'_>, options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let budget = &input.budget().clone();
    let mut trace = Trace::new(options, budget);
    let pending = trace.pending.clone();
    let source = Pending { input, pending };
    let mut stream = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 18, source));
    if let Err(error) = TopLevel(&mut trace).deserialize(&mut stream) {
        budget.check()?;
        // The array form may lack its end, if its writer was killed.
        let cut_array = error.is_eof() && trace.events > 0;
        if !cut_array {
            return Err(json::explain(&error, "trace-event", budget));
        }
        notes.push("the trace ends in the middle".into());
    }
    trace.finish(notes)
}

/// A stream whose bytes are charged until the event they belong to has been read: the parser assembles texts in its
/// own memory first.
struct Pending<R> {
    input: R,
    pending: Rc<Cell<usize>>,
}

impl Read for Pending<Input<'_>> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.input.read(buffer)?;
        self.pending.set(self.pending.get() + got);
        self.input.budget().charge(got).map_err(io::Error::other)?;
        Ok(got)
    }
}

/// The outermost value: an array of events, or an object that contains one.
struct TopLevel<'a>(&'a mut Trace);

impl<'de> DeserializeSeed<'de> for TopLevel<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> std::result::Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TopLevel<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("trace events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<(), A::Error> {
        // Only the needed fields of an event are kept, and these are charged separately.
        let budget = self.0.assembly.budget().clone();
        budget.refund(self.0.pending.take());
        let mut before = budget.used();
        while let Some(event) = items.next_element_seed(json::Charged::<FileEvent>::new(&budget))? {
            let parsed = budget.used() - before - self.0.pending.get();
            self.0.event(event);
            budget.refund(parsed + self.0.pending.take());
            budget.check().map_err(serde::de::Error::custom)?;
            before = budget.used();
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> std::result::Result<(), A::Error> {
        while let Some(key) = entries.next_key::<String>()? {
            match &*key {
                "traceEvents" => entries.next_value_seed(TopLevel(&mut *self.0))?,
                _ => drop(entries.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// A finished span on a thread, in nanoseconds.
struct FinishedSpan {
    start: u64,
    end: u64,
    frame: LocationId,
    /// The number of the event that began it: of two spans with the same times, the first contains the other.
    number: u64,
}

/// What a span costs, including its share of the memory for sorting; and what an open one costs.
const SPAN: usize = size_of::<FinishedSpan>() / 2 * 3;
const OPEN: usize =
    hash_entry(size_of::<(StringId, Vec<(u64, LocationId, u64)>)>()) + 4 * size_of::<FinishedSpan>();
/// What a track and a CPU profile cost in addition to their texts. The nodes of their maps are half full.
const TRACK: usize = 2 * size_of::<(TrackKey, Track)>() + 4 * ALLOCATION;
const PROFILE: usize = 2 * size_of::<((String, String), (String, Chunked))>() + 4 * ALLOCATION;

/// The key of spans that nest in each other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum TrackKey {
    Thread { pid: String, tid: String },
    Async { pid: String, category: String, scope: String, id: String },
}

impl TrackKey {
    /// Returns how much text the key contains.
    fn text_size(&self) -> usize {
        match self {
            Self::Thread { pid, tid } => pid.len() + tid.len(),
            Self::Async { pid, category, scope, id } => pid.len() + category.len() + scope.len() + id.len(),
        }
    }
}

/// The state of one thread, or of one asynchronous track.
#[derive(Default)]
struct Track {
    process: String,
    pid: u64,
    tid: u64,
    name: String,
    spans: Vec<FinishedSpan>,
    /// Open spans: start, frame and number. Those of a thread end in order; asynchronous ones are found by name.
    open: HashMap<StringId, Vec<(u64, LocationId, u64)>>,
}

struct Trace {
    /// Bytes of the file that are charged because their event is incomplete.
    pending: Rc<Cell<usize>>,
    assembly: Assembly,
    tracks: BTreeMap<TrackKey, Track>,
    processes: HashMap<String, String>,
    profiles: BTreeMap<(String, String), (String, Chunked)>,
    events: u64,
    unmatched: u64,
    last: u64,
    ignored: BTreeMap<String, u64>,
}

impl Trace {
    fn new(options: &FormatOptions, budget: &Budget) -> Self {
        Self {
            pending: Rc::default(),
            assembly: Assembly::new(options.timeline, budget),
            tracks: BTreeMap::new(),
            processes: HashMap::default(),
            profiles: BTreeMap::new(),
            events: 0,
            unmatched: 0,
            last: 0,
            ignored: BTreeMap::new(),
        }
    }

    fn event(&mut self, event: FileEvent) {
        self.events += 1;
        let start = event.ts.map_or(0, nanos);
        self.last = self.last.max(start);
        match &*event.ph {
            "X" => {
                let end = start.saturating_add(event.dur.map_or(0, nanos));
                self.last = self.last.max(end);
                let frame = self.frame(&event);
                let number = self.events;
                if self.has_room(SPAN) {
                    self.track(&event, event.thread_track()).spans.push(FinishedSpan {
                        start,
                        end,
                        frame,
                        number,
                    });
                }
            }
            "B" => self.begin(&event, event.thread_track(), start),
            "E" => self.end(&event, event.thread_track(), start),
            "b" => self.begin(&event, event.async_track(), start),
            "e" => self.end(&event, event.async_track(), start),
            "M" => self.metadata(event),
            "P" => self.profile_event(event, start),
            other => self.ignore(other),
        }
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.assembly.budget().has_room(bytes)
    }

    fn ignore(&mut self, kind: &str) {
        if let Some(count) = self.ignored.get_mut(kind) {
            *count += 1;
        } else if self.has_room(TRACK + kind.len()) {
            self.ignored.insert(kind.into(), 1);
        }
    }

    fn frame(&mut self, event: &FileEvent) -> LocationId {
        let (file, line) = if event.file.is_empty() {
            let file = event.arg(".file").or(event.arg("[file]")).and_then(Value::as_str);
            let line = event.arg(".line").or(event.arg("[line]")).and_then(Value::as_i64);
            (file.unwrap_or(""), line)
        } else {
            (&*event.file, event.line.parse().ok())
        };
        let name = if event.name.is_empty() { "(unnamed)" } else { &event.name };
        self.assembly.frame(name, file, line.unwrap_or(0))
    }

    fn track(&mut self, event: &FileEvent, key: TrackKey) -> &mut Track {
        let next = self.tracks.len() as u64 + 1;
        let budget = self.assembly.budget().clone();
        self.tracks.entry(key).or_insert_with_key(|key| {
            // The caller that adds the event checks for room later.
            budget.has_room(TRACK + key.text_size() + event.pid.len());
            Track {
                process: event.pid.clone(),
                pid: event.pid.parse().unwrap_or(0),
                tid: event.tid.parse().unwrap_or(next),
                ..Track::default()
            }
        })
    }

    /// Returns what an end must have in common with its beginning, within the same track.
    fn pair(&mut self, event: &FileEvent, key: &TrackKey) -> StringId {
        match key {
            TrackKey::Thread { .. } => StringId::EMPTY,
            TrackKey::Async { .. } => self.assembly.builder.string(&event.name),
        }
    }

    fn begin(&mut self, event: &FileEvent, key: TrackKey, start: u64) {
        let (frame, number, pair) = (self.frame(event), self.events, self.pair(event, &key));
        if self.has_room(SPAN + OPEN) {
            self.track(event, key).open.entry(pair).or_default().push((start, frame, number));
        }
    }

    fn end(&mut self, event: &FileEvent, key: TrackKey, end: u64) {
        let pair = self.pair(event, &key);
        let track = self.track(event, key);
        match track.open.get_mut(&pair).and_then(Vec::pop) {
            Some((start, frame, number)) => {
                track.spans.push(FinishedSpan { start, end: end.max(start), frame, number });
            }
            None => self.unmatched += 1,
        }
    }

    fn metadata(&mut self, event: FileEvent) {
        let name = event.arg("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        match &*event.name {
            _ if !self.has_room(TRACK + name.len() + event.pid.len()) => {}
            "thread_name" => self.track(&event, event.thread_track()).name = name,
            "process_name" => drop(self.processes.insert(event.pid, name)),
            _ => {}
        }
    }

    /// `Profile` starts a CPU profile and `ProfileChunk` continues it.
    fn profile_event(&mut self, mut event: FileEvent, start: u64) {
        let data = event.args.as_mut().and_then(|args| args.get_mut("data")).map(Value::take);
        let key = (event.pid.clone(), event.id.as_ref().map_or_else(String::new, id_text));
        if !self.profiles.contains_key(&key) && !self.has_room(PROFILE + key.0.len() + key.1.len()) {
            return;
        }
        let (_, chunked) =
            self.profiles.entry(key).or_insert_with(|| (event.tid.clone(), Chunked::default()));
        if event.name == "Profile" {
            let said = data.as_ref().and_then(|data| data.get("startTime")).and_then(|time| time.as_i64());
            chunked.start = said.unwrap_or((start / 1000) as i64);
        } else if let Some(Ok(chunk)) = data.map(serde_json::from_value::<Chunk>) {
            chunked.push(&chunk, &mut self.assembly);
        } else {
            self.unmatched += 1;
        }
    }

    fn finish(mut self, notes: &mut Notes) -> Result<Profile> {
        if !self.profiles.is_empty() {
            self.finish_profiles(notes)?;
        } else {
            self.finish_spans(notes)?;
        }
        if self.unmatched > 0 {
            notes.push(format!(
                "{} events end a span that did not start, or are not understood",
                self.unmatched
            ));
        }
        if !self.ignored.is_empty() {
            let kinds: Vec<_> =
                self.ignored.iter().map(|(kind, count)| format!("{count} `{kind}`")).collect();
            notes.push(format!("events without a duration are dropped: {}", kinds.join(", ")));
        }
        if self.assembly.row_count() == 0 {
            return Err(Error::new(ErrorKind::Corrupt, "the trace has no spans"));
        }
        self.assembly.finish()
    }

    fn finish_profiles(&mut self, notes: &mut Notes) -> Result<()> {
        let spans: usize = self.tracks.values().map(|track| track.spans.len()).sum();
        if spans > 0 {
            notes.push(format!("the trace has CPU profiles: its {spans} spans are dropped"));
        }
        let columns = Columns::new(&mut self.assembly);
        let mut missing = 0;
        for ((pid, _), (tid, chunked)) in &self.profiles {
            let key = TrackKey::Thread { pid: pid.clone(), tid: tid.clone() };
            let name = self.tracks.get(&key).map_or("", |track| &track.name);
            let process = self.processes.get(pid).map_or("", |name| name);
            let (pid, tid) = (pid.parse().unwrap_or(0), tid.parse().unwrap_or(0));
            let thread = self.assembly.thread(pid, tid, name, process);
            missing += chunked.finish(columns, thread, &mut self.assembly)?;
        }
        note_missing(missing, notes);
        Ok(())
    }

    fn finish_spans(&mut self, notes: &mut Notes) -> Result<()> {
        let count = self.assembly.column("spans", "count");
        let time = self.assembly.column("time", "nanoseconds");
        self.assembly.events_count(time);
        let mut unclosed = 0;
        for mut track in std::mem::take(&mut self.tracks).into_values() {
            for (start, frame, number) in track.open.into_values().flatten() {
                unclosed += 1;
                track.spans.push(FinishedSpan { start, end: self.last.max(start), frame, number });
            }
            let process = self.processes.get(&track.process).map_or("", |name| name);
            let thread = self.assembly.thread(track.pid, track.tid, &track.name, process);
            Nesting::new(&mut self.assembly, thread, count, time).run(track.spans)?;
        }
        if unclosed > 0 {
            notes.push(format!("{unclosed} spans do not end; they are extended to the end of the trace"));
        }
        Ok(())
    }
}

/// Converts the file's microseconds to nanoseconds.
fn nanos(micros: f64) -> u64 {
    (micros * 1000.0).round().max(0.0) as u64
}

/// Converts the spans of one track to stacks with their own time.
struct Nesting<'a> {
    assembly: &'a mut Assembly,
    thread: crate::assembly::ThreadRef,
    count: usize,
    time: usize,
    /// The spans that contain the current one: end, frame, start, and time spent in spans inside.
    open: Vec<(u64, LocationId, u64, u64)>,
}

impl<'a> Nesting<'a> {
    fn new(
        assembly: &'a mut Assembly,
        thread: crate::assembly::ThreadRef,
        count: usize,
        time: usize,
    ) -> Self {
        Self { assembly, thread, count, time, open: Vec::new() }
    }

    fn run(mut self, mut spans: Vec<FinishedSpan>) -> Result<()> {
        spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end), span.number));
        for span in spans {
            while self.open.last().is_some_and(|open| open.0 <= span.start) {
                self.close()?;
            }
            // A span that outlives its parent is cut to fit.
            let end = self.open.last().map_or(span.end, |open| span.end.min(open.0));
            if let Some(outer) = self.open.last_mut() {
                outer.3 += end - span.start;
            }
            self.open.push((end, span.frame, span.start, 0));
        }
        while !self.open.is_empty() {
            self.close()?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        let stack: Vec<_> = self.open.iter().rev().map(|open| open.1).collect();
        let Some((end, _, start, inside)) = self.open.pop() else { return Ok(()) };
        let own = i64::try_from((end - start).saturating_sub(inside)).unwrap_or(i64::MAX);
        let row = self.assembly.row(&stack, self.thread.labels);
        self.assembly.add(row, self.count, 1);
        self.assembly.add(row, self.time, own);
        self.assembly.event(start, row, self.thread.id, own);
        self.assembly.check_room()
    }
}

/// Writes the timeline as spans: frames that consecutive samples of a thread share stay open.
pub(crate) fn write(profile: &Profile, Output { out, options, notes }: Output<'_>) -> Result<()> {
    let Some(timeline) = profile.timeline.as_ref().filter(|timeline| !timeline.events.is_empty()) else {
        let message =
            "a trace needs times, which this profile does not have; use speedscope or cpuprofile instead";
        return Err(Error::new(ErrorKind::Incompatible, message));
    };
    let index = timeline.value_type;
    if options.sample_index.is_some_and(|wanted| wanted != index) {
        notes.push(format!("times are known for {} only", value_type(profile, index).0));
    }
    notes.dropped_values(profile, index);
    notes.dropped_places(profile, "addresses, lines and modules");
    notes.dropped_labels_but_threads(profile);
    notes.dropped_comments(profile);
    let scale = nanos_per(value_type(profile, index).1);
    if scale.is_none() {
        notes.push("samples have no duration: each lasts until the next sample of its thread".into());
    }
    let mut writer = SpanWriter { table: FrameTable::by_function(profile), out, first: true };
    writer.out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    for (thread, events) in timeline.threads.iter().zip(events_by_thread(profile, timeline, index)) {
        if !events.is_empty() {
            writer.thread(profile, thread, &events, scale)?;
        }
    }
    writer.out.write_all(b"]}\n")?;
    Ok(())
}

struct SpanWriter<'a, 'b> {
    table: FrameTable<'a>,
    out: &'b mut dyn Write,
    first: bool,
}

impl SpanWriter<'_, '_> {
    fn thread(
        &mut self,
        profile: &Profile,
        thread: &flamelet_profile::Thread,
        events: &[flamelet_profile::Event],
        scale: Option<f64>,
    ) -> Result<()> {
        let ids = format!("\"pid\":{},\"tid\":{}", thread.pid, thread.tid);
        for (kind, name) in [("thread_name", thread.name), ("process_name", thread.process)] {
            let name = serde_json::Value::from(profile.string(name));
            if !name.as_str().unwrap_or_default().is_empty() {
                self.item(&format!("\"ph\":\"M\",\"name\":\"{kind}\",{ids},\"args\":{{\"name\":{name}}}"))?;
            }
        }
        let mut open: Vec<(u32, u64)> = Vec::new();
        let mut stack = Vec::new();
        let mut end = 0;
        for (index, event) in events.iter().enumerate() {
            self.table.stack(profile.sample(event.sample as usize).stack, &mut stack);
            let adjoins = event.time <= end;
            let common = open.iter().zip(&stack).take_while(|(open, frame)| open.0 == **frame).count();
            let common = if adjoins { common } else { 0 };
            self.close(&mut open, common, end.min(event.time), &ids)?;
            open.extend(stack[common..].iter().map(|&frame| (frame, event.time)));
            end = end_of(event, events.get(index + 1).map(|next| next.time), scale);
        }
        self.close(&mut open, 0, end, &ids)
    }

    fn close(&mut self, open: &mut Vec<(u32, u64)>, keep: usize, end: u64, ids: &str) -> Result<()> {
        // Outermost first: of two spans with the same times, the first is the outer one.
        for (frame, start) in open.drain(keep..) {
            let name = serde_json::Value::from(&*self.table.frames()[frame as usize].name);
            let (at, length) = (micros(start), micros(end.saturating_sub(start)));
            self.item(&format!("\"ph\":\"X\",\"name\":{name},{ids},\"ts\":{at},\"dur\":{length}"))?;
        }
        Ok(())
    }

    fn item(&mut self, fields: &str) -> Result<()> {
        let comma = if std::mem::take(&mut self.first) { "" } else { "," };
        write!(self.out, "{comma}\n{{{fields}}}")?;
        Ok(())
    }
}

/// Returns when a sample ends: after its value, or at the next sample if that follows soon.
fn end_of(event: &flamelet_profile::Event, next: Option<u64>, scale: Option<f64>) -> u64 {
    let Some(scale) = scale else { return next.unwrap_or(event.time + 1) };
    let length = (event.value as f64 * scale).max(0.0);
    let end = event.time.saturating_add(length as u64);
    match next {
        Some(next) if next <= event.time.saturating_add((length * 1.5) as u64) => next,
        _ => end,
    }
}

/// Formats nanoseconds as microseconds with their fraction.
fn micros(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}
