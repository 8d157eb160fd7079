//! Unprocessed Firefox profiles: rows with a schema, and frames as text.

use flamelet_profile::budget::hash_entry;
use flamelet_profile::{ErrorKind, LocationId, Profile, Result};
use rustc_hash::FxHashMap as HashMap;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::assembly::Assembly;
use crate::input::Input;
use crate::number::to_count;
use crate::{Error, FormatOptions, Notes, json};

/// Cells are looked up by the names of their columns.
const STEPS_PER_FRAME: usize = 4;

#[derive(Deserialize)]
struct GeckoFile {
    #[serde(default)]
    meta: super::Meta,
    #[serde(default)]
    threads: Vec<ThreadOrText>,
    #[serde(default)]
    processes: Vec<GeckoFile>,
}

/// A thread, or the profile of another process as text, as until version 4.
enum ThreadOrText {
    Text(String),
    Thread(Box<GeckoThread>),
}

impl<'de> Deserialize<'de> for ThreadOrText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = ThreadOrText;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a thread, or a profile as text")
            }

            fn visit_str<E>(self, text: &str) -> std::result::Result<ThreadOrText, E> {
                Ok(ThreadOrText::Text(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> std::result::Result<ThreadOrText, A::Error> {
                let thread = GeckoThread::deserialize(MapAccessDeserializer::new(map))?;
                Ok(ThreadOrText::Thread(Box::new(thread)))
            }
        }
        from.deserialize_any(Either)
    }
}

#[derive(Deserialize)]
struct GeckoThread {
    #[serde(default, deserialize_with = "json::or_default")]
    name: String,
    #[serde(rename = "processName", default, deserialize_with = "json::or_default")]
    process: String,
    #[serde(default, deserialize_with = "json::loose_text")]
    pid: String,
    #[serde(default, deserialize_with = "json::loose_text")]
    tid: String,
    #[serde(default, deserialize_with = "json::or_default")]
    samples: RowTable,
    #[serde(rename = "stackTable", default, deserialize_with = "json::or_default")]
    stacks: RowTable,
    #[serde(rename = "frameTable", default, deserialize_with = "json::or_default")]
    frames: RowTable,
    #[serde(rename = "stringTable", default, deserialize_with = "json::or_default")]
    strings: Vec<String>,
}

#[derive(Deserialize, Default)]
struct RowTable {
    #[serde(default)]
    schema: HashMap<String, usize>,
    #[serde(default)]
    data: Vec<Vec<Value>>,
}

impl RowTable {
    fn get(&self, row: usize, column: &str) -> Option<&Value> {
        self.data.get(row)?.get(*self.schema.get(column)?)
    }

    fn index(&self, row: usize, column: &str) -> Option<usize> {
        self.get(row, column)?.as_u64().map(|at| at as usize)
    }
}

/// Returns whether a file with these keys is an unprocessed profile.
pub(crate) fn recognise(keys: &json::Keys<'_>) -> bool {
    keys.has("threads") && (keys.has("meta") || keys.has("libs"))
}

/// Reads a Gecko profile, including the processes inside it.
pub(crate) fn read(input: Input<'_>, options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let budget = &input.budget().clone();
    let file: GeckoFile = json::parse(&input.slurp()?, "Gecko", budget)?;
    let mut assembly = Assembly::new(options.timeline, budget);
    let samples = assembly.column("samples", "count");
    let time = assembly.column("time", "nanoseconds");
    assembly.events_count(time);
    assembly.starts_at(to_count(file.meta.start * 1e6));
    process(&file, file.meta.interval, (samples, time), &mut assembly)?;
    notes.push("markers, counters and categories are dropped".into());
    assembly.finish()
}

fn process(file: &GeckoFile, interval: f64, columns: (usize, usize), assembly: &mut Assembly) -> Result<()> {
    for thread in &file.threads {
        match thread {
            ThreadOrText::Thread(thread) => read_thread(thread, interval, columns, assembly)?,
            ThreadOrText::Text(text) => {
                let budget = assembly.budget().clone();
                let inner: GeckoFile = json::parse(text.as_bytes(), "Gecko", &budget)?;
                process(&inner, interval, columns, assembly)?;
            }
        }
    }
    file.processes.iter().try_for_each(|inner| process(inner, interval, columns, assembly))
}

fn read_thread(
    thread: &GeckoThread,
    interval: f64,
    columns: (usize, usize),
    assembly: &mut Assembly,
) -> Result<()> {
    let (pid, tid) = (super::number(&thread.pid), super::number(&thread.tid));
    let at = assembly.thread(pid, tid, &thread.name, &thread.process);
    let nanos = to_count(interval * 1e6);
    let mut frames: HashMap<usize, LocationId> = HashMap::default();
    let mut stack = Vec::new();
    // Many samples have the same stack, which is walked only once.
    let mut rows: HashMap<usize, u32> = HashMap::default();
    for row in 0..thread.samples.data.len() {
        let Some(top) = thread.samples.index(row, "stack") else { continue };
        let sample = match rows.get(&top) {
            Some(&known) => known,
            None => {
                assembly.budget().charge(hash_entry(size_of::<(usize, u32)>()))?;
                resolve(thread, top, &mut frames, &mut stack, assembly)?;
                let sample = assembly.row(&stack, at.labels);
                rows.insert(top, sample);
                sample
            }
        };
        assembly.check_room()?;
        assembly.add(sample, columns.0, 1);
        assembly.add(sample, columns.1, nanos);
        if let Some(time) = thread.samples.get(row, "time").and_then(Value::as_f64) {
            assembly.event((time * 1e6).max(0.0) as u64, sample, at.id, nanos);
        }
    }
    Ok(())
}

fn resolve(
    thread: &GeckoThread,
    top: usize,
    frames: &mut HashMap<usize, LocationId>,
    stack: &mut Vec<LocationId>,
    assembly: &mut Assembly,
) -> Result<()> {
    stack.clear();
    let mut next = Some(top);
    while let Some(at) = next {
        assembly.budget().work(STEPS_PER_FRAME)?;
        let frame = thread.stacks.index(at, "frame").filter(|_| stack.len() <= thread.stacks.data.len());
        let frame = frame.ok_or_else(|| Error::new(ErrorKind::Corrupt, format!("stack {at} is damaged")))?;
        let location = match frames.get(&frame) {
            Some(&known) => known,
            None => {
                let text = thread.frames.index(frame, "location").and_then(|at| thread.strings.get(at));
                let text =
                    text.ok_or_else(|| Error::new(ErrorKind::Corrupt, format!("frame {frame} is damaged")))?;
                let line = thread.frames.get(frame, "line").and_then(Value::as_i64);
                let location = location(text, line, assembly);
                assembly.budget().charge(hash_entry(size_of::<(usize, LocationId)>()))?;
                frames.insert(frame, location);
                location
            }
        };
        stack.push(location);
        next = thread.stacks.index(at, "prefix");
    }
    Ok(())
}

/// `0x7f00`, `name (in library)`, `name (file:line)` or only a name.
fn location(text: &str, line: Option<i64>, assembly: &mut Assembly) -> LocationId {
    if let Some(address) = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
        return assembly.builder.address(None, address);
    }
    let inside = text.strip_suffix(')').and_then(|rest| rest.rsplit_once(" ("));
    let Some((name, place)) = inside else { return assembly.frame(text, "", line.unwrap_or(0)) };
    if let Some(library) = place.strip_prefix("in ") {
        let module = assembly.module(library);
        return assembly.builder.named_address(Some(module), 0, name, "", line.unwrap_or(0));
    }
    let mut file = place;
    let mut numbers = Vec::new();
    while let Some((before, number)) = file.rsplit_once(':') {
        let Ok(number) = number.parse::<i64>() else { break };
        numbers.push(number);
        file = before;
    }
    assembly.frame(name, file, line.or(numbers.last().copied()).unwrap_or(0))
}
