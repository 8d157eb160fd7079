//! Writes a processed profile, version 49, which has every table in its thread.

use flamelet_profile::{Event, Profile, Result, StackId, Thread};
use rustc_hash::FxHashMap as HashMap;
use serde_json::{Value, json};

use crate::frames::{FrameTable, events_by_thread, nanos_per, value_type};
use crate::output::Output;

const VERSION: u32 = 49;

/// Writes one value as a processed profile.
pub(crate) fn write(profile: &Profile, Output { out, options, notes }: Output<'_>) -> Result<()> {
    let index = options.sample_index(profile)?;
    notes.dropped_values(profile, index);
    notes.dropped_comments(profile);
    let (kind, unit) = value_type(profile, index);
    let nanos = nanos_per(unit);
    let weight = match (unit, nanos) {
        (_, Some(_)) => "tracing-ms",
        ("bytes", _) => "bytes",
        _ => "samples",
    };
    let timeline = profile.timeline.as_ref().filter(|timeline| !timeline.events.is_empty());
    let scale = nanos.map(|nanos| nanos / 1e6);
    let libs = Libs::of(profile);
    let mut frames = FrameTable::with_lines(profile);
    let mut threads = Vec::new();
    match timeline {
        Some(timeline) => {
            notes.dropped_labels_but_threads(profile);
            for (thread, events) in timeline.threads.iter().zip(events_by_thread(profile, timeline, index)) {
                if !events.is_empty() {
                    let mut tables = ThreadTables::new(profile, &libs, &mut frames);
                    events.iter().for_each(|event| tables.event(event, scale));
                    threads.push(tables.finish(thread, weight));
                }
            }
        }
        None => {
            notes.dropped_timeline(profile);
            notes.dropped_labels(profile);
            notes.push("samples are placed one after another, because the format needs times".into());
            let mut tables = ThreadTables::new(profile, &libs, &mut frames);
            for sample in profile.samples().filter(|sample| sample.values[index] != 0) {
                tables.in_turn(sample.stack, sample.values[index], scale);
            }
            threads.push(tables.finish(&Thread::default(), weight));
        }
    }
    let file = json!({
        "meta": meta(profile, kind),
        "libs": libs.json(profile),
        "pages": [],
        "profilerOverhead": [],
        "counters": [],
        "threads": threads,
    });
    crate::json::write(out, &file)
}

fn meta(profile: &Profile, kind: &str) -> Value {
    let period = profile.header.period_type.and_then(|value| nanos_per(profile.string(value.unit)));
    let interval = period.map_or(1.0, |nanos| profile.header.period as f64 * nanos / 1e6).max(0.001);
    let start = profile.timeline.as_ref().map_or(profile.header.time_nanos, |timeline| timeline.start_nanos);
    json!({
        "version": 30,
        "preprocessedProfileVersion": VERSION,
        "product": format!("flamelet ({kind})"),
        "interval": interval,
        "startTime": start as f64 / 1e6,
        "processType": 0,
        "debug": false,
        "stackwalk": 1,
        "symbolicated": true,
        "usesOnlyOneStackType": true,
        "doesNotUseFrameImplementation": true,
        "sourceCodeIsNotOnSearchfox": true,
        "categories": [
            {"name": "Other", "color": "grey", "subcategories": ["Other"]},
            {"name": "User", "color": "yellow", "subcategories": ["Other"]},
        ],
        "markerSchema": [],
        "extensions": {"length": 0, "baseURL": [], "id": [], "name": []},
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
    })
}

/// The modules of the profile by name.
struct Libs {
    mappings: Vec<usize>,
    numbers: HashMap<String, usize>,
}

impl Libs {
    fn of(profile: &Profile) -> Self {
        let mut libs = Self { mappings: Vec::new(), numbers: HashMap::default() };
        for (row, mapping) in profile.mappings().iter().enumerate() {
            let name = profile.string(mapping.filename);
            if !name.is_empty() && !libs.numbers.contains_key(name) {
                libs.numbers.insert(name.into(), libs.mappings.len());
                libs.mappings.push(row);
            }
        }
        libs
    }

    fn json(&self, profile: &Profile) -> Vec<Value> {
        let lib = |&row: &usize| {
            let mapping = &profile.mappings()[row];
            let path = profile.string(mapping.filename);
            let name = path.rsplit('/').next().unwrap_or(path);
            let id = profile.string(mapping.build_id);
            json!({
                "name": name, "path": path, "debugName": name, "debugPath": path, "arch": "",
                "breakpadId": breakpad_id(id), "codeId": (!id.is_empty()).then_some(id),
            })
        };
        self.mappings.iter().map(lib).collect()
    }
}

/// Formats the first 16 bytes of a build id as a GUID, whose first three fields are little-endian numbers.
fn breakpad_id(build_id: &str) -> String {
    let mut hex = build_id.to_ascii_uppercase();
    hex.retain(|c| c.is_ascii_hexdigit());
    hex.truncate(32);
    while hex.len() < 32 {
        hex.push('0');
    }
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let swapped: String = order.iter().map(|&at| &hex[at * 2..at * 2 + 2]).collect();
    swapped + "0"
}

struct ThreadTables<'a, 'p> {
    profile: &'p Profile,
    libs: &'a Libs,
    frames: &'a mut FrameTable<'p>,
    stacks: HashMap<(Option<u32>, u32), u32>,
    prefixes: Vec<Option<u32>>,
    stack_frames: Vec<u32>,
    sample_stacks: Vec<u32>,
    times: Vec<f64>,
    weights: Vec<Value>,
    end: f64,
    scratch: Vec<u32>,
}

impl<'a, 'p> ThreadTables<'a, 'p> {
    fn new(profile: &'p Profile, libs: &'a Libs, frames: &'a mut FrameTable<'p>) -> Self {
        frames.restart();
        Self {
            profile,
            libs,
            frames,
            stacks: HashMap::default(),
            prefixes: Vec::new(),
            stack_frames: Vec::new(),
            sample_stacks: Vec::new(),
            times: Vec::new(),
            weights: Vec::new(),
            end: 0.0,
            scratch: Vec::new(),
        }
    }

    fn event(&mut self, event: &Event, scale: Option<f64>) {
        let stack = self.profile.sample(event.sample as usize).stack;
        self.push(stack, event.time as f64 / 1e6, event.value, scale);
    }

    fn in_turn(&mut self, stack: StackId, value: i64, scale: Option<f64>) {
        self.push(stack, self.end, value, scale);
        self.end += scale.map_or(1.0, |scale| value as f64 * scale);
    }

    fn push(&mut self, stack: StackId, time: f64, value: i64, scale: Option<f64>) {
        let mut frames = std::mem::take(&mut self.scratch);
        self.frames.stack(stack, &mut frames);
        let mut prefix = None;
        for &frame in &frames {
            let next = self.prefixes.len() as u32;
            let at = *self.stacks.entry((prefix, frame)).or_insert(next);
            if at == next {
                self.prefixes.push(prefix);
                self.stack_frames.push(frame);
            }
            prefix = Some(at);
        }
        self.scratch = frames;
        let Some(top) = prefix else { return };
        self.sample_stacks.push(top);
        self.times.push(time);
        self.weights.push(scale.map_or(json!(value), |scale| json!(value as f64 * scale)));
    }

    fn finish(self, thread: &Thread, weight_type: &str) -> Value {
        let mut strings = Strings::default();
        let mut functions = FunctionTable::default();
        let frames = self.frames.frames();
        let of_frame: Vec<usize> =
            frames.iter().map(|frame| functions.add(frame, self.libs, &mut strings)).collect();
        let resources: Vec<_> = functions
            .resources
            .iter()
            .map(|&lib| {
                let row = self.libs.mappings[lib];
                let path = self.profile.string(self.profile.mappings()[row].filename);
                strings.add(path.rsplit('/').next().unwrap_or(path))
            })
            .collect();
        let count = frames.len();
        let or_null = |number: i64| (number > 0).then_some(number);
        let name = self.profile.string(thread.name);
        let process = self.profile.string(thread.process);
        let end = self.times.last().copied().unwrap_or(0.0);
        json!({
            "name": if name.is_empty() { "samples" } else { name },
            "isMainThread": thread.pid == thread.tid,
            "processType": "default",
            "processName": process,
            "processStartupTime": 0, "processShutdownTime": Value::Null,
            "registerTime": 0, "unregisterTime": end,
            "pausedRanges": [], "showMarkersInTimeline": false,
            "pid": thread.pid.to_string(), "tid": thread.tid,
            "samples": {
                "length": self.sample_stacks.len(), "stack": self.sample_stacks, "time": self.times,
                "weight": self.weights, "weightType": weight_type,
            },
            "markers": {"length": 0, "category": [], "data": [], "endTime": [], "name": [], "phase": [], "startTime": []},
            "stackTable": {
                "length": self.prefixes.len(), "prefix": self.prefixes, "frame": self.stack_frames,
                "category": vec![1; self.prefixes.len()], "subcategory": vec![0; self.prefixes.len()],
            },
            "frameTable": {
                "length": count,
                "address": frames.iter().map(|frame| or_null(frame.address as i64).unwrap_or(-1)).collect::<Vec<_>>(),
                "inlineDepth": frames.iter().map(|frame| frame.inline_depth).collect::<Vec<_>>(),
                "category": vec![1; count], "subcategory": vec![0; count],
                "func": of_frame,
                "nativeSymbol": vec![Value::Null; count], "innerWindowID": vec![0; count],
                "implementation": vec![Value::Null; count],
                "line": frames.iter().map(|frame| or_null(frame.line)).collect::<Vec<_>>(),
                "column": frames.iter().map(|frame| or_null(frame.column)).collect::<Vec<_>>(),
            },
            "funcTable": functions.json(),
            "resourceTable": {
                "length": resources.len(), "lib": functions.resources, "name": resources,
                "host": vec![Value::Null; resources.len()], "type": vec![1; resources.len()],
            },
            "nativeSymbols": {"length": 0, "address": [], "functionSize": [], "libIndex": [], "name": []},
            "stringArray": strings.texts,
        })
    }
}

#[derive(Default)]
struct Strings {
    texts: Vec<String>,
    index: HashMap<String, usize>,
}

impl Strings {
    fn add(&mut self, text: &str) -> usize {
        if let Some(&at) = self.index.get(text) {
            return at;
        }
        self.texts.push(text.into());
        self.index.insert(text.into(), self.texts.len() - 1);
        self.texts.len() - 1
    }
}

#[derive(Default)]
struct FunctionTable {
    index: HashMap<(usize, Option<usize>, i64), usize>,
    rows: Vec<(usize, Option<usize>, i64)>,
    /// The modules that are used, by resource number.
    resources: Vec<usize>,
}

impl FunctionTable {
    fn add(&mut self, frame: &crate::frames::WrittenFrame, libs: &Libs, strings: &mut Strings) -> usize {
        let file = (!frame.file.is_empty()).then(|| strings.add(&frame.file));
        let key = (strings.add(&frame.name), file, self.resource(libs.numbers.get(&frame.module).copied()));
        let rows = &mut self.rows;
        *self.index.entry(key).or_insert_with(|| {
            rows.push(key);
            rows.len() - 1
        })
    }

    fn resource(&mut self, lib: Option<usize>) -> i64 {
        let Some(lib) = lib else { return -1 };
        let at = self.resources.iter().position(|&known| known == lib);
        at.unwrap_or_else(|| {
            self.resources.push(lib);
            self.resources.len() - 1
        }) as i64
    }

    fn json(&self) -> Value {
        let count = self.rows.len();
        json!({
            "length": count,
            "name": self.rows.iter().map(|row| row.0).collect::<Vec<_>>(),
            "isJS": vec![false; count], "relevantForJS": vec![false; count],
            "resource": self.rows.iter().map(|row| row.2).collect::<Vec<_>>(),
            "fileName": self.rows.iter().map(|row| row.1).collect::<Vec<_>>(),
            "lineNumber": vec![Value::Null; count], "columnNumber": vec![Value::Null; count],
        })
    }
}
