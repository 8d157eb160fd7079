//! The Firefox profiler's JSON: processed profiles (including samply's) and the unprocessed ones that Firefox writes.
//!
//! Tables are stored as columns. Newer versions moved them from each thread to `shared`; the reader accepts both.

pub(crate) mod gecko;
mod write;

use flamelet_profile::budget::hash_entry;
use flamelet_profile::{
    Budget, ErrorKind, LabelSetId, LocationId, Mapping, MappingId, MappingSymbols, Profile, Result,
};
use rustc_hash::FxHashMap as HashMap;
use serde::Deserialize;
pub(crate) use write::write;

use crate::assembly::Assembly;
use crate::input::Input;
use crate::number::to_count;
use crate::{Error, FormatOptions, Notes, json};

#[derive(Deserialize)]
struct ProcessedFile {
    #[serde(default)]
    meta: Meta,
    #[serde(default)]
    libs: Vec<Lib>,
    #[serde(default)]
    shared: Option<SharedTables>,
    threads: Vec<ProcessedThread>,
}

#[derive(Deserialize, Default)]
struct Meta {
    /// Milliseconds between samples.
    #[serde(default)]
    interval: f64,
    /// Milliseconds since 1970.
    #[serde(rename = "startTime", default)]
    start: f64,
    #[serde(default, deserialize_with = "json::or_default")]
    product: String,
    /// Whether addresses have names already. samply saves profiles without them: its page requests them.
    #[serde(rename = "symbolicated", default)]
    is_symbolicated: Option<bool>,
    #[serde(rename = "sampleUnits", default)]
    units: Option<Units>,
}

#[derive(Deserialize)]
struct Units {
    #[serde(rename = "threadCPUDelta", default)]
    cpu: String,
}

#[derive(Deserialize)]
struct Lib {
    #[serde(default, deserialize_with = "json::or_default")]
    name: String,
    #[serde(default, deserialize_with = "json::or_default")]
    path: String,
    #[serde(rename = "codeId", default, deserialize_with = "json::or_default")]
    code_id: String,
}

/// The tables that are either in a thread or in `shared`.
#[derive(Deserialize, Default)]
struct SharedTables {
    #[serde(rename = "stringArray", alias = "stringTable", default)]
    strings: Option<Vec<String>>,
    #[serde(rename = "stackTable", default)]
    stacks: Option<StackTable>,
    #[serde(rename = "frameTable", default)]
    frames: Option<FrameColumns>,
    #[serde(rename = "funcTable", default)]
    functions: Option<FuncTable>,
    #[serde(rename = "resourceTable", default)]
    resources: Option<ResourceTable>,
    #[serde(default)]
    sources: Option<SourceTable>,
}

#[derive(Deserialize)]
struct ProcessedThread {
    #[serde(rename = "stringArray", alias = "stringTable", default)]
    strings: Option<Vec<String>>,
    #[serde(rename = "stackTable", default)]
    stacks: Option<StackTable>,
    #[serde(rename = "frameTable", default)]
    frames: Option<FrameColumns>,
    #[serde(rename = "funcTable", default)]
    functions: Option<FuncTable>,
    #[serde(rename = "resourceTable", default)]
    resources: Option<ResourceTable>,
    #[serde(default, deserialize_with = "json::or_default")]
    name: String,
    #[serde(rename = "processName", default, deserialize_with = "json::or_default")]
    process: String,
    #[serde(default, deserialize_with = "json::loose_text")]
    pid: String,
    #[serde(default, deserialize_with = "json::loose_text")]
    tid: String,
    #[serde(default)]
    samples: Samples,
    #[serde(rename = "nativeAllocations", default)]
    allocations: Option<Samples>,
}

impl ProcessedThread {
    fn take_tables(&mut self) -> SharedTables {
        SharedTables {
            strings: self.strings.take(),
            stacks: self.stacks.take(),
            frames: self.frames.take(),
            functions: self.functions.take(),
            resources: self.resources.take(),
            sources: None,
        }
    }
}

#[derive(Deserialize, Default)]
struct StackTable {
    #[serde(default)]
    frame: Vec<u32>,
    #[serde(default, deserialize_with = "json::indices")]
    prefix: Vec<Option<u32>>,
}

#[derive(Deserialize, Default)]
struct FrameColumns {
    #[serde(default)]
    func: Vec<u32>,
    #[serde(default, deserialize_with = "json::loose_numbers")]
    address: Vec<Option<i64>>,
    #[serde(default, deserialize_with = "json::loose_numbers")]
    line: Vec<Option<i64>>,
}

#[derive(Deserialize, Default)]
struct FuncTable {
    #[serde(default)]
    name: Vec<u32>,
    #[serde(rename = "fileName", default, deserialize_with = "json::indices")]
    file: Vec<Option<u32>>,
    #[serde(default, deserialize_with = "json::indices")]
    source: Vec<Option<u32>>,
    #[serde(default, deserialize_with = "json::loose_numbers")]
    resource: Vec<Option<i64>>,
}

#[derive(Deserialize, Default)]
struct ResourceTable {
    #[serde(default, deserialize_with = "json::indices")]
    lib: Vec<Option<u32>>,
}

#[derive(Deserialize, Default)]
struct SourceTable {
    #[serde(default)]
    filename: Vec<u32>,
}

#[derive(Deserialize, Default)]
struct Samples {
    #[serde(default, deserialize_with = "json::indices")]
    stack: Vec<Option<u32>>,
    #[serde(default)]
    time: Option<Vec<f64>>,
    #[serde(rename = "timeDeltas", default)]
    deltas: Option<Vec<f64>>,
    #[serde(default)]
    weight: Option<Vec<f64>>,
    #[serde(rename = "weightType", default)]
    weight_type: Option<String>,
    #[serde(rename = "threadCPUDelta", default)]
    cpu: Option<Vec<Option<f64>>>,
}

impl Samples {
    /// Returns the times in milliseconds.
    fn times(&self, budget: &Budget) -> Result<Vec<f64>> {
        let count = self.time.as_ref().or(self.deltas.as_ref()).map_or(0, Vec::len);
        budget.charge(count * size_of::<f64>())?;
        Ok(match (&self.time, &self.deltas) {
            (Some(times), _) => times.clone(),
            (None, Some(deltas)) => deltas
                .iter()
                .scan(0.0, |sum, delta| {
                    *sum += delta;
                    Some(*sum)
                })
                .collect(),
            (None, None) => Vec::new(),
        })
    }
}

/// Returns whether a file with these keys is a processed profile.
pub(crate) fn recognise(keys: &json::Keys<'_>) -> bool {
    keys.has("meta") && keys.mentions("\"preprocessedProfileVersion\"")
}

/// Reads a processed profile.
pub(crate) fn read(input: Input<'_>, options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let budget = &input.budget().clone();
    let file: ProcessedFile = json::parse(&input.slurp()?, "Firefox", budget)?;
    let mut assembly = Assembly::new(options.timeline, budget);
    let values = ValueColumns::new(&file.meta, &mut assembly);
    if !file.meta.product.is_empty() {
        assembly.builder.comment(&format!("Firefox profile of {}", file.meta.product));
    }
    assembly.starts_at(to_count(file.meta.start * 1e6));
    let is_symbolicated = file.meta.is_symbolicated.unwrap_or(true);
    let modules: Vec<MappingId> =
        file.libs.iter().map(|lib| module(lib, is_symbolicated, &mut assembly)).collect();
    let empty = SharedTables::default();
    for mut thread in file.threads {
        let shared = file.shared.as_ref().unwrap_or(&empty);
        let own = thread.take_tables();
        let mut stacks = ThreadStacks::new(&own, shared, &modules);
        let (pid, tid) = (number(&thread.pid), number(&thread.tid));
        let at = assembly.thread(pid, tid, &thread.name, &thread.process);
        values.samples(&thread.samples, &mut stacks, at, &mut assembly)?;
        if let Some(allocations) = &thread.allocations {
            values.allocations(allocations, &mut stacks, at, &mut assembly)?;
        }
    }
    notes.push("markers, counters and categories are dropped".into());
    assembly.finish()
}

/// Parses an id, written as `123`, `"123"`, or `"123.1"` for the second process with the same number.
fn number(id: &str) -> u64 {
    id.split('.').next().and_then(|id| id.parse().ok()).unwrap_or(0)
}

fn module(lib: &Lib, is_symbolicated: bool, assembly: &mut Assembly) -> MappingId {
    let path = if lib.path.is_empty() { &lib.name } else { &lib.path };
    let filename = assembly.builder.string(path);
    let build_id = assembly.builder.string(&lib.code_id.to_ascii_lowercase());
    let symbols = MappingSymbols { functions: is_symbolicated, ..MappingSymbols::default() };
    assembly.builder.mapping(Mapping { filename, build_id, symbols, ..Mapping::default() })
}

/// The columns that samples add to.
struct ValueColumns {
    samples: usize,
    time: usize,
    interval_nanos: f64,
    /// Nanoseconds in one unit of `threadCPUDelta`, when it is a time.
    cpu_factor: Option<f64>,
}

impl ValueColumns {
    fn new(meta: &Meta, assembly: &mut Assembly) -> Self {
        let unit = meta.units.as_ref().map_or("", |units| &units.cpu);
        let cpu_factor = crate::frames::nanos_per(unit);
        let samples = assembly.column("samples", "count");
        let time = match cpu_factor {
            Some(_) => assembly.column("cpu", "nanoseconds"),
            None => assembly.column("time", "nanoseconds"),
        };
        assembly.events_count(time);
        Self { samples, time, interval_nanos: meta.interval * 1e6, cpu_factor }
    }

    fn samples(
        &self,
        samples: &Samples,
        stacks: &mut ThreadStacks<'_>,
        thread: crate::assembly::ThreadRef,
        assembly: &mut Assembly,
    ) -> Result<()> {
        let times = samples.times(assembly.budget())?;
        let is_time = samples.weight_type.as_deref() == Some("tracing-ms");
        for (index, stack) in samples.stack.iter().enumerate() {
            let weight =
                samples.weight.as_ref().and_then(|weights| weights.get(index)).copied().unwrap_or(1.0);
            let cpu = samples.cpu.as_ref().and_then(|cpu| cpu.get(index)).copied().flatten();
            let nanos = match (cpu.zip(self.cpu_factor), is_time) {
                (Some((cpu, factor)), _) => cpu * factor,
                (None, true) => weight * 1e6,
                (None, false) => weight * self.interval_nanos,
            };
            let Some(stack) = stack else { continue };
            let row = stacks.row(*stack, thread.labels, assembly)?;
            assembly.add(row, self.samples, if is_time { 1 } else { to_count(weight) });
            assembly.add(row, self.time, to_count(nanos));
            if let Some(time) = times.get(index) {
                assembly.event((time * 1e6).max(0.0) as u64, row, thread.id, to_count(nanos));
            }
        }
        Ok(())
    }

    fn allocations(
        &self,
        samples: &Samples,
        stacks: &mut ThreadStacks<'_>,
        thread: crate::assembly::ThreadRef,
        assembly: &mut Assembly,
    ) -> Result<()> {
        let column = assembly.column("alloc_space", "bytes");
        for (stack, weight) in samples.stack.iter().zip(samples.weight.iter().flatten()) {
            let Some(stack) = stack else { continue };
            let row = stacks.row(*stack, thread.labels, assembly)?;
            assembly.add(row, column, to_count(weight.max(0.0)));
        }
        Ok(())
    }
}

/// What a row that was looked up costs.
const KNOWN: usize = hash_entry(size_of::<(u32, u32)>());

/// The stacks of one thread, resolved on first use.
struct ThreadStacks<'a> {
    own: &'a SharedTables,
    shared: &'a SharedTables,
    modules: &'a [MappingId],
    locations: HashMap<u32, LocationId>,
    /// The rows of stacks: each is walked once, however many samples have it.
    rows: HashMap<u32, u32>,
    stack: Vec<LocationId>,
}

impl<'a> ThreadStacks<'a> {
    fn new(own: &'a SharedTables, shared: &'a SharedTables, modules: &'a [MappingId]) -> Self {
        Self {
            own,
            shared,
            modules,
            locations: HashMap::default(),
            rows: HashMap::default(),
            stack: Vec::new(),
        }
    }

    /// Returns the row of stack `at` with the labels of the thread.
    fn row(&mut self, at: u32, labels: LabelSetId, assembly: &mut Assembly) -> Result<u32> {
        if let Some(&known) = self.rows.get(&at) {
            return Ok(known);
        }
        self.walk(at, assembly)?;
        let row = assembly.row(&self.stack, labels);
        assembly.budget().charge(KNOWN)?;
        self.rows.insert(at, row);
        Ok(row)
    }

    /// Puts the locations of stack `at` into `self.stack`, leaf first.
    fn walk(&mut self, at: u32, assembly: &mut Assembly) -> Result<()> {
        let table = table(&self.own.stacks, &self.shared.stacks)?;
        self.stack.clear();
        let mut at = Some(at);
        while let Some(row) = at {
            let frame = *table.frame.get(row as usize).ok_or_else(|| missing("stack", row))?;
            if self.stack.len() > table.frame.len() {
                return Err(Error::new(ErrorKind::Corrupt, format!("stack {row} is its own prefix")));
            }
            let location = self.location(frame, assembly)?;
            assembly.budget().work(1)?;
            self.stack.push(location);
            at = table.prefix.get(row as usize).copied().flatten();
        }
        Ok(())
    }

    fn location(&mut self, frame: u32, assembly: &mut Assembly) -> Result<LocationId> {
        if let Some(&found) = self.locations.get(&frame) {
            return Ok(found);
        }
        let row = frame as usize;
        let frames = table(&self.own.frames, &self.shared.frames)?;
        let function = *frames.func.get(row).ok_or_else(|| missing("frame", frame))?;
        let functions = table(&self.own.functions, &self.shared.functions)?;
        let name = self
            .string(*functions.name.get(function as usize).ok_or_else(|| missing("function", function))?)?;
        let file = self.file_of(functions, function)?;
        let address = frames.address.get(row).copied().flatten().filter(|&address| address > 0).unwrap_or(0);
        let line = frames.line.get(row).copied().flatten().unwrap_or(0);
        let module = self.module_of(functions, function);
        let location = match unnamed_address(name) {
            // The name may be an address in the process; the frame's own address is relative to the start of the
            // module.
            Some(_) if module.is_some() && address > 0 => assembly.builder.address(module, address as u64),
            Some(in_process) => assembly.builder.address(None, in_process),
            None => assembly.builder.named_address(module, address as u64, name, file, line),
        };
        assembly.budget().charge(KNOWN)?;
        self.locations.insert(frame, location);
        Ok(location)
    }

    fn file_of(&self, functions: &FuncTable, function: u32) -> Result<&'a str> {
        let at = |column: &[Option<u32>]| column.get(function as usize).copied().flatten();
        if let Some(file) = at(&functions.file) {
            return self.string(file);
        }
        let sources = self.own.sources.as_ref().or(self.shared.sources.as_ref());
        match at(&functions.source).and_then(|source| sources?.filename.get(source as usize)) {
            Some(&file) => self.string(file),
            None => Ok(""),
        }
    }

    fn module_of(&self, functions: &FuncTable, function: u32) -> Option<MappingId> {
        let resource = functions.resource.get(function as usize).copied().flatten()?;
        let resources = self.own.resources.as_ref().or(self.shared.resources.as_ref())?;
        let lib = resources.lib.get(usize::try_from(resource).ok()?).copied().flatten()?;
        self.modules.get(lib as usize).copied()
    }

    fn string(&self, at: u32) -> Result<&'a str> {
        let strings = table(&self.own.strings, &self.shared.strings)?;
        strings.get(at as usize).map(|text| &**text).ok_or_else(|| missing("string", at))
    }
}

/// Returns the address of a frame whose function is unknown: it takes the place of the name.
fn unnamed_address(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix("0x")?, 16).ok()
}

fn table<'a, T>(own: &'a Option<T>, shared: &'a Option<T>) -> Result<&'a T> {
    own.as_ref()
        .or(shared.as_ref())
        .ok_or_else(|| Error::new(ErrorKind::Corrupt, "the profile has a table missing"))
}

fn missing(what: &str, at: u32) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the profile has no {what} {at}"))
}
