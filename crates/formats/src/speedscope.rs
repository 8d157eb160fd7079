//! speedscope's JSON: `evented` and `sampled` profiles over one table of frames.
//!
//! A file holds several profiles, usually one per thread. Each becomes a thread; profiles in different units become
//! different kinds of values.

use flamelet_profile::{ErrorKind, LocationId, Profile, Result};
use serde::{Deserialize, Serialize};

use crate::assembly::{Assembly, ThreadRef};
use crate::frames::{FrameTable, nanos_per, value_type};
use crate::input::Input;
use crate::number::to_count;
use crate::output::Output;
use crate::{Error, FormatOptions, Notes, json};

/// How many frames are compared per step of work.
const FRAMES_PER_STEP: usize = 8;
const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

#[derive(Deserialize)]
struct SpeedscopeFile {
    shared: SharedFrames,
    profiles: Vec<FileProfile>,
    #[serde(default, deserialize_with = "json::or_default")]
    exporter: String,
}

#[derive(Deserialize)]
struct SharedFrames {
    frames: Vec<FileFrame>,
}

#[derive(Deserialize, Serialize)]
struct FileFrame {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    line: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    col: Option<f64>,
}

#[derive(Deserialize)]
struct FileProfile {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, deserialize_with = "json::or_default")]
    name: String,
    #[serde(default, deserialize_with = "json::or_default")]
    unit: String,
    #[serde(rename = "startValue", default)]
    start: f64,
    #[serde(rename = "endValue", default)]
    end: f64,
    #[serde(default)]
    events: Vec<FileEvent>,
    #[serde(default)]
    samples: Vec<Vec<u32>>,
    #[serde(default)]
    weights: Vec<f64>,
}

#[derive(Deserialize)]
struct FileEvent {
    #[serde(rename = "type")]
    kind: String,
    frame: u32,
    at: f64,
}

/// Returns whether a file with these keys is speedscope's.
pub(crate) fn recognise(keys: &json::Keys<'_>) -> bool {
    keys.has("profiles") && (keys.has("shared") || keys.has("$schema"))
}

/// Reads a speedscope file.
pub(crate) fn read(input: Input<'_>, options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let budget = &input.budget().clone();
    let file: SpeedscopeFile = json::parse(&input.slurp()?, "speedscope", budget)?;
    let mut assembly = Assembly::new(options.timeline, budget);
    let frames: Vec<LocationId> = file
        .shared
        .frames
        .iter()
        .map(|frame| {
            let line = frame.line.map_or(0, to_count);
            assembly.frame(&frame.name, frame.file.as_deref().unwrap_or(""), line)
        })
        .collect();
    if !file.exporter.is_empty() {
        assembly.builder.comment(&format!("speedscope: exported by {}", file.exporter));
    }
    for (number, profile) in file.profiles.iter().enumerate() {
        budget.check()?;
        let scale = UnitScale::of(&profile.unit, &mut assembly);
        let (process, pid, name) = split_process(&profile.name).unwrap_or(("", 0, &profile.name));
        let (name, tid) = split_tid(name).unwrap_or((name, number as u64 + 1));
        let thread = assembly.thread(pid, tid, name, process);
        let reader = &mut ProfileReader { assembly: &mut assembly, frames: &frames, thread, scale };
        match &*profile.kind {
            "sampled" => reader.sampled(profile, number)?,
            "evented" => reader.evented(profile, number, notes)?,
            other => notes.push(format!("a profile of type `{other}` is dropped")),
        }
    }
    if assembly.column_count() == 0 {
        return Err(Error::new(ErrorKind::Corrupt, "the speedscope file has no profiles"));
    }
    assembly.finish()
}

/// Splits `name (123)`, a common way to write threads.
fn split_tid(name: &str) -> Option<(&str, u64)> {
    let (name, tid) = name.strip_suffix(')')?.rsplit_once(" (")?;
    Some((name, tid.parse().ok()?))
}

/// Splits `process [12] / thread`, which this crate writes for several processes; their names may be unknown.
fn split_process(name: &str) -> Option<(&str, u64, &str)> {
    let (process, thread) = name.split_once("] / ")?;
    let (process, pid) = process.rsplit_once('[')?;
    Some((process.trim_end(), pid.parse().ok()?, thread))
}

/// How the numbers of a profile are converted to values.
#[derive(Clone, Copy)]
struct UnitScale {
    column: usize,
    factor: f64,
    is_time: bool,
}

impl UnitScale {
    fn of(unit: &str, assembly: &mut Assembly) -> Self {
        if let Some(factor) = nanos_per(unit) {
            return Self { column: assembly.column("time", "nanoseconds"), factor, is_time: true };
        }
        let column = match unit {
            "bytes" => assembly.column("space", "bytes"),
            _ => assembly.column("samples", "count"),
        };
        Self { column, factor: 1.0, is_time: false }
    }
}

struct ProfileReader<'a> {
    assembly: &'a mut Assembly,
    frames: &'a [LocationId],
    thread: ThreadRef,
    scale: UnitScale,
}

impl ProfileReader<'_> {
    fn location(&self, frame: u32, number: usize) -> Result<LocationId> {
        self.frames.get(frame as usize).copied().ok_or_else(|| {
            Error::new(
                ErrorKind::Corrupt,
                format!("profile {number} refers to frame {frame}, which does not exist"),
            )
        })
    }

    /// Adds `weight` to the stack, at a time given in the file's unit.
    fn add(&mut self, leaf_first: &[LocationId], at: f64, weight: f64) -> Result<()> {
        let value = to_count(weight * self.scale.factor);
        let row = self.assembly.row(leaf_first, self.thread.labels);
        self.assembly.add(row, self.scale.column, value);
        if self.scale.is_time {
            self.assembly.events_count(self.scale.column);
            let time = (at * self.scale.factor).max(0.0) as u64;
            self.assembly.event(time, row, self.thread.id, value);
        }
        self.assembly.check_room()
    }

    fn sampled(&mut self, profile: &FileProfile, number: usize) -> Result<()> {
        if !profile.weights.is_empty() && profile.weights.len() != profile.samples.len() {
            let (samples, weights) = (profile.samples.len(), profile.weights.len());
            let message = format!("profile {number} has {samples} samples but {weights} weights");
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        let mut at = profile.start;
        let mut stack = Vec::new();
        for (index, sample) in profile.samples.iter().enumerate() {
            let weight = profile.weights.get(index).copied().unwrap_or(1.0);
            // The thread did nothing that was recorded.
            if sample.is_empty() {
                at += weight;
                continue;
            }
            stack.clear();
            for &frame in sample.iter().rev() {
                stack.push(self.location(frame, number)?);
            }
            self.add(&stack, at, weight)?;
            at += weight;
        }
        Ok(())
    }

    fn evented(&mut self, profile: &FileProfile, number: usize, notes: &mut Notes) -> Result<()> {
        let mut open: Vec<u32> = Vec::new();
        let mut at = profile.start;
        let mut unmatched = 0u64;
        for event in &profile.events {
            self.span(&open, at, event.at, number)?;
            at = at.max(event.at);
            if event.kind == "O" {
                open.push(event.frame);
            } else if let Some(from) = self.find_open(&open, event.frame)? {
                unmatched += (open.len() - 1 - from) as u64;
                open.truncate(from);
            } else {
                unmatched += 1;
            }
        }
        self.span(&open, at, profile.end, number)?;
        if unmatched > 0 {
            notes.push(format!("profile {number}: {unmatched} frames are only opened or only closed"));
        }
        Ok(())
    }

    /// Returns which of the open frames an event ends, usually the last one.
    fn find_open(&self, open: &[u32], wanted: u32) -> Result<Option<usize>> {
        let found = open.iter().rposition(|&frame| frame == wanted);
        self.assembly.budget().work((open.len() - found.unwrap_or(0)) / FRAMES_PER_STEP)?;
        Ok(found)
    }

    fn span(&mut self, open: &[u32], from: f64, to: f64, number: usize) -> Result<()> {
        if open.is_empty() || to <= from {
            return Ok(());
        }
        let stack: Vec<_> =
            open.iter().rev().map(|&frame| self.location(frame, number)).collect::<Result<_>>()?;
        self.add(&stack, from, to - from)
    }
}

#[derive(Serialize)]
struct OutFile<'a> {
    #[serde(rename = "$schema")]
    schema: &'a str,
    exporter: &'a str,
    name: &'a str,
    #[serde(rename = "activeProfileIndex")]
    active: usize,
    profiles: Vec<OutProfile>,
    shared: OutShared,
}

#[derive(Serialize)]
struct OutShared {
    frames: Vec<FileFrame>,
}

#[derive(Serialize)]
struct OutProfile {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    #[serde(rename = "startValue")]
    start: i64,
    #[serde(rename = "endValue")]
    end: i64,
    samples: Vec<Vec<u32>>,
    weights: Vec<i64>,
}

impl OutProfile {
    fn new(name: String, unit: &'static str) -> Self {
        Self { kind: "sampled", name, unit, start: 0, end: 0, samples: Vec::new(), weights: Vec::new() }
    }

    fn push(&mut self, stack: &[u32], weight: i64) {
        self.samples.push(stack.to_vec());
        self.weights.push(weight);
        self.end = self.end.saturating_add(weight);
    }

    /// Continues at `time`, unless that has passed.
    fn go_to(&mut self, time: i64) {
        if time > self.end {
            self.push(&[], time - self.end);
        }
    }
}

/// Writes one value as a speedscope file: one profile per thread if times are known, otherwise one profile.
pub(crate) fn write(profile: &Profile, Output { out, options, notes }: Output<'_>) -> Result<()> {
    let index = options.sample_index(profile)?;
    notes.dropped_values(profile, index);
    notes.dropped_places(profile, "addresses and modules");
    notes.dropped_comments(profile);
    let mut table = FrameTable::with_lines(profile);
    let unit = speedscope_unit(value_type(profile, index).1, notes);
    let profiles = match &profile.timeline {
        Some(timeline) if !timeline.events.is_empty() => {
            let nanos = nanos_per(unit);
            if nanos.is_none() {
                notes.push(
                    "times are dropped: the axis of the format is the value, which is not a time".into(),
                );
            }
            notes.dropped_labels_but_threads(profile);
            by_thread(profile, &mut table, index, unit, nanos)
        }
        _ => {
            notes.dropped_timeline(profile);
            notes.dropped_labels(profile);
            vec![in_one(profile, &mut table, index, unit)]
        }
    };
    let known = |number: i64| (number != 0).then_some(number as f64);
    let frames = table.frames().iter().map(|frame| FileFrame {
        name: frame.name.clone(),
        file: (!frame.file.is_empty()).then(|| frame.file.clone()),
        line: known(frame.line),
        col: known(frame.column),
    });
    let shared = OutShared { frames: frames.collect() };
    let name = value_type(profile, index).0;
    let file = OutFile { schema: SCHEMA, exporter: "flamelet", name, active: 0, profiles, shared };
    json::write(out, &file)
}

fn speedscope_unit(unit: &str, notes: &mut Notes) -> &'static str {
    match unit {
        "nanoseconds" => "nanoseconds",
        "microseconds" => "microseconds",
        "milliseconds" => "milliseconds",
        "seconds" => "seconds",
        "bytes" => "bytes",
        "count" | "" => "none",
        other => {
            notes.push(format!("the unit {other} is dropped"));
            "none"
        }
    }
}

fn in_one(profile: &Profile, table: &mut FrameTable<'_>, index: usize, unit: &'static str) -> OutProfile {
    let mut one = OutProfile::new(value_type(profile, index).0.into(), unit);
    let mut stack = Vec::new();
    for sample in profile.samples().filter(|sample| sample.values[index] != 0) {
        table.stack(sample.stack, &mut stack);
        one.push(&stack, sample.values[index]);
    }
    one
}

/// Makes a profile of each thread; with `nanos` in a unit, each sample begins at its time.
fn by_thread(
    profile: &Profile,
    table: &mut FrameTable<'_>,
    index: usize,
    unit: &'static str,
    nanos: Option<f64>,
) -> Vec<OutProfile> {
    let Some(timeline) = &profile.timeline else { return Vec::new() };
    let one = timeline.threads.first().map(|thread| thread.pid);
    let has_processes = timeline.threads.iter().any(|thread| Some(thread.pid) != one);
    let name = |thread: &flamelet_profile::Thread| thread_name(profile, thread, has_processes);
    let mut threads: Vec<_> =
        timeline.threads.iter().map(|thread| OutProfile::new(name(thread), unit)).collect();
    let mut stack = Vec::new();
    for event in profile.events_in(index).into_iter().flatten() {
        table.stack(profile.sample(event.sample as usize).stack, &mut stack);
        let thread = &mut threads[event.thread.index()];
        nanos.into_iter().for_each(|nanos| thread.go_to((event.time as f64 / nanos) as i64));
        thread.push(&stack, event.value);
    }
    threads.retain(|thread| !thread.samples.is_empty());
    threads
}

fn thread_name(profile: &Profile, thread: &flamelet_profile::Thread, with_process: bool) -> String {
    let name = match (profile.string(thread.name), thread.tid) {
        ("", tid) => format!("thread {tid}"),
        (name, 0) => name.to_owned(),
        (name, tid) => format!("{name} ({tid})"),
    };
    match with_process {
        true => {
            format!("{} [{}] / {name}", profile.string(thread.process), thread.pid).trim_start().to_owned()
        }
        false => name,
    }
}
