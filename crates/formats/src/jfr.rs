//! Java Flight Recorder: self-describing chunks of events.
//!
//! The reader takes execution samples (`samples`), allocation samples (`alloc_space`), and waits for monitors
//! (`contentions`, `delay`); of async-profiler also samples of the wall clock (`wall`) and native memory (`malloc_…`, and
//! what of it was not freed, `inuse_…`). Each chunk has its own metadata and constants.

mod chunk;
mod constants;
mod metadata;
mod native_memory;
mod value;

use chunk::{Bytes, ChunkHeader};
use constants::Pools;
use flamelet_profile::budget::{ALLOCATION, hash_entry};
use flamelet_profile::{Budget, ErrorKind, LocationId, Profile, Result};
use metadata::Metadata;
use native_memory::{NativeBlock, NativeMemory};
use rustc_hash::FxHashMap as HashMap;
use value::JavaValue;

use crate::assembly::{Assembly, ThreadRef};
use crate::input::Input;
use crate::{Error, FormatOptions, Notes};

const MAGIC: &[u8] = b"FLR\0";
/// What a resolved stack costs in addition to its frames.
const STACK: usize = hash_entry(size_of::<(i64, Vec<LocationId>)>()) + ALLOCATION;

/// Returns whether `head` is a flight recording.
pub(crate) fn recognise(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// Reads a flight recording.
pub(crate) fn read(input: Input<'_>, options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let budget = &input.budget().clone();
    let bytes = input.slurp()?;
    let mut recording = Recording::new(options, budget);
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let header = ChunkHeader::parse(rest)?;
        // A chunk that is still being written has no size yet.
        let size = usize::try_from(header.size).ok().filter(|&size| size > 0).unwrap_or(rest.len());
        let Some((chunk, after)) = rest.split_at_checked(size) else {
            if recording.chunks == 0 {
                return Err(Error::new(ErrorKind::Truncated, "the flight recording ends in its first chunk"));
            }
            notes.push("the flight recording ends in the middle of a chunk, which is dropped".into());
            break;
        };
        let read = recording.chunk(chunk, &header);
        budget.check()?;
        read.ok_or_else(|| {
            Error::new(
                ErrorKind::Corrupt,
                format!("chunk {} of the flight recording is damaged", recording.chunks + 1),
            )
        })?;
        rest = after;
    }
    recording.finish(notes)
}

/// What an event is converted to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EventMeaning {
    Sample,
    /// The field with the number of bytes, and the column it goes to.
    Allocation(&'static str, &'static str),
    Contention,
    /// Samples of the wall clock: one event may stand for several.
    WallClock,
    Malloc,
    Free,
}

/// Bytes by the buffers that threads allocate from, and by samples: two ways of counting the same thing.
const ALLOCATED: &str = "alloc_space";
const ALLOCATED_SAMPLED: &str = "sampled_alloc_space";
/// Samples of the wall clock, of threads that run and that wait.
const WALL: &str = "wall";

fn kind_of(event: &str) -> Option<EventMeaning> {
    Some(match event {
        "jdk.ExecutionSample" | "jdk.NativeMethodSample" | "jdk.CPUTimeSample" => EventMeaning::Sample,
        "profiler.WallClockSample" => EventMeaning::WallClock,
        "profiler.Malloc" => EventMeaning::Malloc,
        "profiler.Free" => EventMeaning::Free,
        "jdk.ObjectAllocationSample" => EventMeaning::Allocation("weight", ALLOCATED_SAMPLED),
        "jdk.ObjectAllocationInNewTLAB" => EventMeaning::Allocation("tlabSize", ALLOCATED),
        "jdk.ObjectAllocationOutsideTLAB" => EventMeaning::Allocation("allocationSize", ALLOCATED),
        "jdk.JavaMonitorEnter" => EventMeaning::Contention,
        _ => return None,
    })
}

struct Recording {
    assembly: Assembly,
    chunks: usize,
    samples: u64,
    others: u64,
    native: NativeMemory,
}

impl Recording {
    fn new(options: &FormatOptions, budget: &Budget) -> Self {
        let mut assembly = Assembly::new(options.timeline, budget);
        assembly.column("samples", "count");
        Self { assembly, chunks: 0, samples: 0, others: 0, native: NativeMemory::default() }
    }

    /// Reads one chunk; `None` when it is damaged.
    fn chunk(&mut self, chunk: &[u8], header: &ChunkHeader) -> Option<()> {
        let budget = self.assembly.budget().clone();
        let before = budget.used();
        let metadata =
            Metadata::parse(header.at(chunk, header.metadata_offset)?, header.compressed, &budget)?;
        let pools = Pools::parse(chunk, header, &metadata)?;
        let constants = budget.used() - before;
        let mut reader = ChunkReader {
            recording: self,
            header,
            metadata: &metadata,
            pools: &pools,
            stacks: HashMap::default(),
            stack_memory: 0,
        };
        let mut at = ChunkHeader::SIZE;
        while at < chunk.len() {
            let mut event = Bytes::new(&chunk[at..], header.compressed);
            let size = usize::try_from(event.size()?).ok().filter(|&size| size > 0)?;
            let body = chunk.get(at..at.checked_add(size)?)?;
            reader.event(body)?;
            at += size;
        }
        let stacks = reader.stack_memory;
        drop((pools, metadata));
        budget.refund(constants + stacks);
        self.chunks += 1;
        Some(())
    }

    fn finish(mut self, notes: &mut Notes) -> Result<Profile> {
        if self.chunks == 0 {
            return Err(Error::new(ErrorKind::Truncated, "the flight recording is empty"));
        }
        if self.samples > 0 {
            self.assembly.events_count(0);
        }
        std::mem::take(&mut self.native).finish(&mut self.assembly);
        self.choose_default();
        self.count_allocations_once(notes);
        if self.others > 0 {
            notes.push(format!("{} events of other kinds are dropped", self.others));
        }
        self.assembly.finish()
    }
}

impl Recording {
    /// Shows execution samples first, else those of the wall clock, else what there is.
    fn choose_default(&mut self) {
        let has_wall = self.assembly.find_column(WALL).is_some();
        match (self.samples > 0, has_wall) {
            (true, _) if has_wall => self.assembly.builder.set_default_sample_type("samples"),
            (false, true) => self.assembly.builder.set_default_sample_type(WALL),
            _ => {}
        }
    }

    /// Drops the samples if a recording counts allocations both ways.
    fn count_allocations_once(&mut self, notes: &mut Notes) {
        let Some(sampled) = self.assembly.find_column(ALLOCATED_SAMPLED) else { return };
        if self.assembly.find_column(ALLOCATED).is_some() {
            self.assembly.drop_column(sampled);
            notes.push("allocations are counted by thread buffers; samples of them are dropped".into());
        } else {
            self.assembly.rename(sampled, ALLOCATED);
        }
    }
}

struct ChunkReader<'a> {
    recording: &'a mut Recording,
    header: &'a ChunkHeader,
    metadata: &'a Metadata,
    pools: &'a Pools,
    /// Stacks by their number in the constants.
    stacks: HashMap<i64, Vec<LocationId>>,
    /// What the stacks were charged.
    stack_memory: usize,
}

impl ChunkReader<'_> {
    fn event(&mut self, body: &[u8]) -> Option<()> {
        let mut bytes = Bytes::new(body, self.header.compressed);
        bytes.size()?;
        let type_id = bytes.long()?;
        let Some(class) = self.metadata.class(type_id) else { return Some(()) };
        let Some(kind) = kind_of(&class.name) else {
            // Types 0 and 1 are the metadata and the constants themselves.
            self.recording.others += u64::from(type_id > 1);
            return Some(());
        };
        let before = self.metadata.budget.used();
        let values = self.metadata.read_fields(class, &mut bytes, 0)?;
        let values_memory = self.metadata.budget.used() - before;
        let field = |name: &str| class.field(name).and_then(|at| values.get(at));
        self.metadata.budget.refund(values_memory);
        let number = |name: &str| field(name).and_then(JavaValue::number).unwrap_or(0);
        if kind == EventMeaning::Free {
            let time = self.header.nanos(number("startTime"));
            self.recording.native.freed(number("address"), time, &self.metadata.budget);
            return Some(());
        }
        let Some(stack) = field("stackTrace").and_then(JavaValue::reference) else { return Some(()) };
        self.resolve_stack(stack)?;
        let thread = field("sampledThread").or(field("eventThread")).and_then(|value| self.thread(value));
        let thread = thread.unwrap_or_else(|| self.recording.assembly.thread(0, 0, "", ""));
        let assembly = &mut self.recording.assembly;
        let row = assembly.row(self.stacks.get(&stack.1)?, thread.labels);
        match kind {
            EventMeaning::Sample => {
                assembly.add(row, 0, 1);
                assembly.event(self.header.nanos(number("startTime")), row, thread.id, 1);
                assembly.starts_at(1);
                self.recording.samples += 1;
            }
            EventMeaning::Allocation(bytes, kind) => {
                let column = assembly.column(kind, "bytes");
                assembly.add(row, column, number(bytes));
            }
            EventMeaning::Contention => {
                let (count, delay) =
                    (assembly.column("contentions", "count"), assembly.column("delay", "nanoseconds"));
                assembly.add(row, count, 1);
                assembly.add(row, delay, self.header.duration_nanos(number("duration")));
            }
            EventMeaning::WallClock => {
                let column = assembly.column(WALL, "count");
                assembly.add(row, column, number("samples").max(1));
            }
            EventMeaning::Malloc => {
                let time = self.header.nanos(number("startTime"));
                let block = NativeBlock { address: number("address"), time, row, size: number("size") };
                self.recording.native.allocated(block, &self.metadata.budget);
            }
            EventMeaning::Free => {}
        }
        Some(())
    }

    fn thread(&mut self, value: &JavaValue) -> Option<ThreadRef> {
        let (class, value) = self.pools.resolve(value, self.metadata)?;
        let text = |name: &str| {
            let value = value.get(class.field(name)?)?;
            self.text(value).filter(|text| !text.is_empty())
        };
        let number = |name: &str| value.get(class.field(name)?)?.number();
        let name = text("javaName").or_else(|| text("osName")).unwrap_or_default();
        let tid = number("osThreadId").or_else(|| number("javaThreadId")).unwrap_or(0);
        Some(self.recording.assembly.thread(0, tid as u64, &name, ""))
    }

    /// Returns the text of a string or of a symbol, which is a constant that contains a string.
    fn text(&self, value: &JavaValue) -> Option<String> {
        if let JavaValue::Text(text) = value {
            return Some(text.to_string());
        }
        let (class, fields) = self.pools.resolve(value, self.metadata)?;
        match fields.get(class.field("string").unwrap_or(0))? {
            JavaValue::Text(text) => Some(text.to_string()),
            inner @ JavaValue::Reference(..) => self.pools.text(inner),
            _ => None,
        }
    }

    fn resolve_stack(&mut self, stack: (i64, i64)) -> Option<()> {
        if self.stacks.contains_key(&stack.1) {
            return Some(());
        }
        let reference = JavaValue::Reference(stack.0, stack.1);
        let mut locations = Vec::new();
        if let Some((class, trace)) = self.pools.resolve(&reference, self.metadata)
            && let Some(JavaValue::Array(frames)) = class.field("frames").and_then(|at| trace.get(at))
        {
            let frame_class = self.metadata.class(class.fields.get(class.field("frames")?)?.class)?;
            for frame in frames {
                let JavaValue::Struct(fields) = frame else { continue };
                let line =
                    frame_class.field("lineNumber").and_then(|at| fields.get(at)?.number()).unwrap_or(0);
                let method = frame_class.field("method").and_then(|at| fields.get(at));
                let name =
                    method.and_then(|method| self.method(method)).unwrap_or_else(|| "(unknown)".into());
                locations.push(self.recording.assembly.frame(&name, "", line));
                self.metadata.budget.check().ok()?;
            }
        }
        let size = STACK + size_of_val(&*locations);
        self.stack_memory += size;
        self.metadata.budget.charge(size).ok()?;
        self.stacks.insert(stack.1, locations);
        Some(())
    }

    /// `package.Class.method`.
    fn method(&self, method: &JavaValue) -> Option<String> {
        let (class, fields) = self.pools.resolve(method, self.metadata)?;
        let name = self.text(fields.get(class.field("name")?)?)?;
        let holder = self.pools.resolve(fields.get(class.field("type")?)?, self.metadata);
        let holder = holder.and_then(|(class, fields)| self.text(fields.get(class.field("name")?)?));
        Some(holder.map_or(name.clone(), |holder| format!("{}.{name}", holder.replace('/', "."))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the totals of a recording whose allocation events are `kinds`, each of 100 bytes.
    fn totals(kinds: &[&str]) -> Vec<(String, i64)> {
        let mut recording = Recording::new(&FormatOptions::default(), &Budget::new(crate::Limits::default()));
        recording.chunks = 1;
        for kind in kinds {
            let Some(EventMeaning::Allocation(_, kind)) = kind_of(kind) else {
                panic!("{kind} is no allocation")
            };
            let column = recording.assembly.column(kind, "bytes");
            let frame = recording.assembly.frame("leaf", "", 0);
            let row = recording.assembly.row(&[frame], flamelet_profile::LabelSetId::EMPTY);
            recording.assembly.add(row, column, 100);
        }
        let profile = recording.finish(&mut Notes::default()).unwrap();
        let types = profile.sample_types().iter().enumerate().skip(1);
        types.map(|(at, value)| (profile.string(value.kind).into(), profile.total(at))).collect()
    }

    #[test]
    fn allocations_that_are_counted_in_two_ways_count_once() {
        let [in_buffer, outside, sample] = [
            "jdk.ObjectAllocationInNewTLAB",
            "jdk.ObjectAllocationOutsideTLAB",
            "jdk.ObjectAllocationSample",
        ];
        let space = |bytes| vec![("alloc_space".to_owned(), bytes)];
        assert_eq!(totals(&[in_buffer, outside]), space(200));
        assert_eq!(totals(&[sample, sample]), space(200));
        assert_eq!(totals(&[sample, in_buffer, sample]), space(100));
    }
}
