//! Putting a profile together from a file: kinds of values may turn up at any time, samples with the same
//! stack and labels become one row, and moments are kept beside them.

use flamelet_profile::{
    Error, ErrorKind, Event, Function, FunctionId, Label, LabelSetId, Line, LocationId, Mapping, MappingId,
    MappingSymbols, Profile, ProfileBuilder, Result, StackId, StringId, Thread, ThreadId, Timeline,
};
use hashbrown::{HashMap, HashTable};
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher;

use crate::linked_names::readable;

/// The most frames that all stacks of a profile can have.
const MAX_FRAMES: u64 = u32::MAX as u64;

/// A thread as samples need it: its row in the timeline and its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadRef {
    pub(crate) id: ThreadId,
    pub(crate) labels: LabelSetId,
}

struct Column {
    kind: String,
    unit: String,
    /// Values by row; rows past the end are 0.
    values: Vec<i64>,
}

/// A profile being put together.
pub(crate) struct Assembly {
    pub(crate) builder: ProfileBuilder,
    frames: HashMap<(StringId, StringId, i64), LocationId, FxBuildHasher>,
    rows: HashMap<(StackId, LabelSetId), u32, FxBuildHasher>,
    keys: Vec<(StackId, LabelSetId)>,
    columns: Vec<Column>,
    threads: Vec<Thread>,
    thread_refs: HashMap<(u64, u64, StringId), ThreadRef, FxBuildHasher>,
    events: Vec<Event>,
    keep_timeline: bool,
    /// There were times, which were not kept.
    drops_times: bool,
    value_type: usize,
    start_nanos: i64,
    /// How many different stacks there are, and how many frames further ones may have.
    stack_count: usize,
    frames_left: u64,
    /// There were more frames than that.
    is_full: bool,
}

impl Assembly {
    /// An empty profile; `keep_timeline` says whether moments are kept.
    pub(crate) fn new(keep_timeline: bool) -> Self {
        Self {
            builder: ProfileBuilder::new(&[]),
            frames: HashMap::default(),
            rows: HashMap::default(),
            keys: Vec::new(),
            columns: Vec::new(),
            threads: Vec::new(),
            thread_refs: HashMap::default(),
            events: Vec::new(),
            keep_timeline,
            drops_times: false,
            value_type: 0,
            start_nanos: 0,
            stack_count: 0,
            frames_left: MAX_FRAMES,
            is_full: false,
        }
    }

    /// Lets all stacks together take `max_bytes` at most. For formats that hold trees: each node becomes a stack of
    /// its own, so a deep tree takes the square of its size.
    pub(crate) fn with_stacks_within(mut self, max_bytes: u64) -> Self {
        self.frames_left = (max_bytes / size_of::<LocationId>() as u64).min(MAX_FRAMES);
        self
    }

    /// An error if there was no room for a stack. [`Assembly::finish`] asks too; who walks trees asks earlier.
    pub(crate) fn check_room(&self) -> Result<()> {
        if !self.is_full {
            return Ok(());
        }
        let message =
            "the stacks of this file take too much memory; raise the cap with --max-memory if you trust it";
        Err(Error::new(ErrorKind::TooLarge, message))
    }

    /// The column of values of this kind, added if it is new.
    pub(crate) fn column(&mut self, kind: &str, unit: &str) -> usize {
        let found = self.columns.iter().position(|column| column.kind == kind && column.unit == unit);
        found.unwrap_or_else(|| {
            self.columns.push(Column { kind: kind.into(), unit: unit.into(), values: Vec::new() });
            self.columns.len() - 1
        })
    }

    /// The column of this kind, if there is one.
    pub(crate) fn find_column(&self, kind: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.kind == kind)
    }

    /// How many columns there are.
    pub(crate) fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// The location of a function without an address.
    pub(crate) fn frame(&mut self, name: &str, filename: &str, line: i64) -> LocationId {
        let key = (self.builder.string(name), self.builder.string(filename), line);
        if let Some(&id) = self.frames.get(&key) {
            return id;
        }
        let function = self.builder.named_function(name, filename);
        let id = self.builder.frame(function, line);
        self.frames.insert(key, id);
        id
    }

    /// The function with a name as the linker or another tool has it.
    pub(crate) fn linked_function(&mut self, name: &str, filename: &str) -> FunctionId {
        let system_name = self.builder.string(name);
        let (name, filename) = (self.builder.string(&readable(name)), self.builder.string(filename));
        self.builder.function(Function { name, system_name, filename, ..Function::default() })
    }

    /// The mapping of a file of which only the name is known, and whose functions are named already.
    pub(crate) fn module(&mut self, filename: &str) -> MappingId {
        let filename = self.builder.string(filename);
        let symbols = MappingSymbols { functions: true, ..MappingSymbols::default() };
        self.builder.mapping(Mapping { filename, symbols, ..Mapping::default() })
    }

    /// A location in a module, with the name of its function.
    pub(crate) fn named_address(
        &mut self,
        module: Option<MappingId>,
        address: u64,
        name: &str,
        filename: &str,
        line: i64,
    ) -> LocationId {
        let function = Some(self.builder.named_function(name, filename));
        self.builder.location(module, address, &[Line { function, line, column: 0 }])
    }

    /// The thread with these numbers and name; its labels are `thread`, `tid` and `pid`, where known.
    pub(crate) fn thread(&mut self, pid: u64, tid: u64, name: &str, process: &str) -> ThreadRef {
        let name_id = self.builder.string(name);
        if let Some(&found) = self.thread_refs.get(&(pid, tid, name_id)) {
            return found;
        }
        let labels = self.thread_labels(pid, tid, name);
        let process = self.builder.string(process);
        self.threads.push(Thread { pid, tid, name: name_id, process });
        let found = ThreadRef { id: ThreadId::from_index(self.threads.len() - 1), labels };
        self.thread_refs.insert((pid, tid, name_id), found);
        found
    }

    fn thread_labels(&mut self, pid: u64, tid: u64, name: &str) -> LabelSetId {
        let mut labels: Vec<Label> = Vec::with_capacity(3);
        if !name.is_empty() {
            labels.push(self.builder.text_label("thread", name));
        }
        if tid != 0 {
            labels.push(self.builder.number_label("tid", tid as i64, ""));
        }
        if pid != 0 {
            labels.push(self.builder.number_label("pid", pid as i64, ""));
        }
        self.builder.labels(&labels)
    }

    /// The row of a stack (leaf first) and labels. Where there is no room for the stack, it is left out; see
    /// [`Assembly::check_room`].
    pub(crate) fn row(&mut self, stack: &[LocationId], labels: LabelSetId) -> u32 {
        let frames = stack.len() as u64;
        self.is_full |= frames > self.frames_left;
        let stack = self.builder.stack(if self.is_full { &[] } else { stack });
        if stack.index() >= self.stack_count && !self.is_full {
            self.stack_count = stack.index() + 1;
            self.frames_left -= frames;
        }
        *self.rows.entry((stack, labels)).or_insert_with(|| {
            self.keys.push((stack, labels));
            u32::try_from(self.keys.len() - 1).expect("a profile holds fewer than 2^32 samples")
        })
    }

    /// How many rows there are.
    pub(crate) fn row_count(&self) -> usize {
        self.keys.len()
    }

    /// Adds to one value of a row.
    pub(crate) fn add(&mut self, row: u32, column: usize, value: i64) {
        let (values, row) = (&mut self.columns[column].values, row as usize);
        if values.len() <= row {
            values.resize(row + 1, 0);
        }
        values[row] = values[row].saturating_add(value);
    }

    /// Leaves a column out.
    pub(crate) fn drop_column(&mut self, column: usize) {
        self.columns.remove(column);
        self.value_type -= usize::from(self.value_type > column);
    }

    /// Gives the values of a column another name.
    pub(crate) fn rename(&mut self, column: usize, kind: &str) {
        self.columns[column].kind = kind.into();
    }

    /// Multiplies a column by `factor` and renames its unit.
    pub(crate) fn rescale(&mut self, column: usize, factor: i64, unit: &str) {
        let column = &mut self.columns[column];
        column.values.iter_mut().for_each(|value| *value = value.saturating_mul(factor));
        column.unit = unit.into();
    }

    /// Notes that `row` was sampled at `time` (nanoseconds) on `thread`, with this share of its value.
    pub(crate) fn event(&mut self, time: u64, row: u32, thread: ThreadId, value: i64) {
        if self.keep_timeline {
            self.events.push(Event { time, sample: row, thread, value });
        } else {
            self.drops_times = true;
        }
    }

    /// Says which column the values of events are given in.
    pub(crate) fn events_count(&mut self, column: usize) {
        self.value_type = column;
    }

    /// Makes every event count 1 of `column`.
    pub(crate) fn events_count_samples(&mut self, column: usize) {
        self.value_type = column;
        self.events.iter_mut().for_each(|event| event.value = 1);
    }

    /// The wall-clock time of time 0 in nanoseconds since 1970, when the file knows it.
    pub(crate) fn starts_at(&mut self, nanos: i64) {
        self.start_nanos = nanos;
    }

    /// Ends the work. Events are sorted and made relative to the first one.
    pub(crate) fn finish(mut self) -> Result<Profile> {
        self.check_room()?;
        for column in &self.columns {
            self.builder.add_sample_type(&column.kind, &column.unit);
        }
        let mut values = vec![0; self.columns.len()];
        for (row, &(stack, labels)) in self.keys.iter().enumerate() {
            for (value, column) in values.iter_mut().zip(&self.columns) {
                *value = column.values.get(row).copied().unwrap_or(0);
            }
            self.builder.sample(stack, labels, &values);
        }
        if self.events.is_empty() {
            if self.start_nanos != 0 {
                self.builder.header_mut().time_nanos = self.start_nanos;
            }
            // A timeline without moments: a writer can still say that there were some.
            return Ok(self.builder.finish_with(self.drops_times.then(Timeline::default), None));
        }
        let timeline = self.timeline();
        let header = self.builder.header_mut();
        header.time_nanos = timeline.start_nanos;
        if header.duration_nanos == 0 {
            header.duration_nanos = i64::try_from(timeline.span_nanos()).unwrap_or(i64::MAX);
        }
        Ok(self.builder.finish_with(Some(timeline), None))
    }

    fn timeline(&mut self) -> Timeline {
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(|event| event.time);
        let first = events.first().map_or(0, |event| event.time);
        events.iter_mut().for_each(|event| event.time -= first);
        let start_nanos = match self.start_nanos {
            0 => 0,
            known => known.saturating_add(i64::try_from(first).unwrap_or(i64::MAX)),
        };
        Timeline {
            start_nanos,
            threads: std::mem::take(&mut self.threads),
            events,
            value_type: self.value_type,
        }
    }
}

/// Finds what was made of a piece of text before, without allocating for the question.
pub(crate) struct ByteIndex<T> {
    text: Vec<u8>,
    table: HashTable<Known<T>>,
}

struct Known<T> {
    /// Kept, so that growing the table does not read all text again.
    hash: u64,
    start: usize,
    length: u32,
    value: T,
}

impl<T: Copy> ByteIndex<T> {
    pub(crate) fn new() -> Self {
        Self { text: Vec::new(), table: HashTable::new() }
    }

    /// What `key` was stored with.
    pub(crate) fn get(&self, key: &[u8]) -> Option<T> {
        let is_key = |known: &Known<T>| {
            known.length as usize == key.len() && self.text[known.start..][..key.len()] == *key
        };
        self.table.find(FxBuildHasher.hash_one(key), is_key).map(|known| known.value)
    }

    /// Stores a new `key`.
    pub(crate) fn insert(&mut self, key: &[u8], value: T) {
        let known = Known {
            hash: FxBuildHasher.hash_one(key),
            start: self.text.len(),
            length: u32::try_from(key.len()).expect("a line is shorter than 4 GiB"),
            value,
        };
        self.text.extend_from_slice(key);
        self.table.insert_unique(known.hash, known, |known| known.hash);
    }
}
