//! Assembles a profile from a file: kinds of values may appear at any time, samples with the same stack and labels
//! become one row, and the times of samples are kept in addition.

use flamelet_profile::budget::hash_entry;
use flamelet_profile::{
    Budget, Event, Function, FunctionId, Label, LabelSetId, LocationId, Mapping, MappingId, MappingSymbols,
    Profile, ProfileBuilder, Result, StackId, StringId, Thread, ThreadId, Timeline, TimelineBuilder,
    ValueType,
};
use hashbrown::{HashMap, HashTable};
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher;

use crate::linked_names::readable;

/// What a row of each table costs, including its entry in the index used to look it up.
const FRAME: usize = hash_entry(size_of::<(StringId, StringId, i64, LocationId)>());
const ROW: usize = size_of::<(StackId, LabelSetId)>() + hash_entry(size_of::<(StackId, LabelSetId, u32)>());
/// Readers index what they know about a thread by its ids.
const THREAD: usize = size_of::<Thread>() + 2 * hash_entry(size_of::<((u64, u64, StringId), ThreadRef)>());
const COLUMN: usize = 3 * size_of::<ValueColumn>() + hash_entry(size_of::<((StringId, StringId), usize)>());
/// An event, and its share of the memory that sorting takes.
const EVENT: usize = size_of::<Event>() / 2 * 3;

/// What samples need to know about a thread: its row in the timeline and its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadRef {
    pub(crate) id: ThreadId,
    pub(crate) labels: LabelSetId,
}

struct ValueColumn {
    kind: StringId,
    unit: StringId,
    /// Values by row; rows past the end are 0.
    values: Vec<i64>,
}

/// A profile being assembled within a budget. Once the budget has run out, whatever is added is left out, and
/// [`Assembly::finish`] returns the budget's error.
pub(crate) struct Assembly {
    pub(crate) builder: ProfileBuilder,
    budget: Budget,
    frames: HashMap<(StringId, StringId, i64), LocationId, FxBuildHasher>,
    rows: HashMap<(StackId, LabelSetId), u32, FxBuildHasher>,
    keys: Vec<(StackId, LabelSetId)>,
    columns: Vec<ValueColumn>,
    column_index: HashMap<(StringId, StringId), usize, FxBuildHasher>,
    timeline: TimelineBuilder,
    thread_refs: HashMap<(u64, u64, StringId), ThreadRef, FxBuildHasher>,
    keep_timeline: bool,
    /// The file has times that were not kept.
    drops_times: bool,
    value_type: usize,
    start_nanos: i64,
}

impl Assembly {
    /// Creates an empty profile; `keep_timeline` says whether times are kept.
    pub(crate) fn new(keep_timeline: bool, budget: &Budget) -> Self {
        Self {
            builder: ProfileBuilder::new(&[]).within(budget.clone()),
            budget: budget.clone(),
            frames: HashMap::default(),
            rows: HashMap::default(),
            keys: Vec::new(),
            columns: Vec::new(),
            column_index: HashMap::default(),
            timeline: TimelineBuilder::default(),
            thread_refs: HashMap::default(),
            keep_timeline,
            drops_times: false,
            value_type: 0,
            start_nanos: 0,
        }
    }

    /// Returns the budget for reading.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Fails if the budget has run out. [`Assembly::finish`] and the line readers check this too; code that walks
    /// trees calls it earlier.
    pub(crate) fn check_room(&self) -> Result<()> {
        self.budget.check()
    }

    /// Returns the column for values of this kind, added if it is new.
    pub(crate) fn column(&mut self, kind: &str, unit: &str) -> usize {
        let key = (self.builder.string(kind), self.builder.string(unit));
        if let Some(&found) = self.column_index.get(&key) {
            return found;
        }
        if !self.budget.has_room(COLUMN) && !self.columns.is_empty() {
            return 0;
        }
        self.columns.push(ValueColumn { kind: key.0, unit: key.1, values: Vec::new() });
        self.column_index.insert(key, self.columns.len() - 1);
        self.columns.len() - 1
    }

    pub(crate) fn find_column(&self, kind: &str) -> Option<usize> {
        let kind = self.builder.profile().strings().find(kind)?;
        self.columns.iter().position(|column| column.kind == kind)
    }

    pub(crate) fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// Returns the location of a function without an address.
    pub(crate) fn frame(&mut self, name: &str, filename: &str, line: i64) -> LocationId {
        let key = (self.builder.string(name), self.builder.string(filename), line);
        if let Some(&id) = self.frames.get(&key) {
            return id;
        }
        let function = self.builder.named_function(name, filename);
        let id = self.builder.frame(function, line);
        if self.budget.has_room(FRAME) {
            self.frames.insert(key, id);
        }
        id
    }

    /// Returns the function whose name comes from the linker or another tool.
    pub(crate) fn linked_function(&mut self, name: &str, filename: &str) -> FunctionId {
        let system_name = self.builder.string(name);
        let (name, filename) = (self.builder.string(&readable(name)), self.builder.string(filename));
        self.builder.function(Function { name, system_name, filename, ..Function::default() })
    }

    /// Returns the mapping of a file when only its name is known and its functions are named already.
    pub(crate) fn module(&mut self, filename: &str) -> MappingId {
        let filename = self.builder.string(filename);
        let symbols = MappingSymbols { functions: true, ..MappingSymbols::default() };
        self.builder.mapping(Mapping { filename, symbols, ..Mapping::default() })
    }

    /// Returns the thread with these ids and this name; its labels are `thread`, `tid` and `pid`, where known.
    pub(crate) fn thread(&mut self, pid: u64, tid: u64, name: &str, process: &str) -> ThreadRef {
        let name_id = self.builder.string(name);
        if let Some(&found) = self.thread_refs.get(&(pid, tid, name_id)) {
            return found;
        }
        let labels = self.thread_labels(pid, tid, name);
        let process = self.builder.string(process);
        if !self.budget.has_room(THREAD) {
            return ThreadRef { id: ThreadId::default(), labels };
        }
        let id = self.timeline.thread(Thread { pid, tid, name: name_id, process });
        let found = ThreadRef { id, labels };
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

    /// Returns the row for a stack (leaf first) and labels.
    pub(crate) fn row(&mut self, stack: &[LocationId], labels: LabelSetId) -> u32 {
        let stack = self.builder.stack(stack);
        self.row_of(stack, labels)
    }

    /// Returns the row for an existing stack.
    pub(crate) fn row_of(&mut self, stack: StackId, labels: LabelSetId) -> u32 {
        if let Some(&known) = self.rows.get(&(stack, labels)) {
            return known;
        }
        if !self.budget.has_ids(self.keys.len() + 1) || !self.budget.has_room(ROW) {
            return 0;
        }
        let row = self.keys.len() as u32;
        self.keys.push((stack, labels));
        self.rows.insert((stack, labels), row);
        row
    }

    pub(crate) fn row_count(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn add(&mut self, row: u32, column: usize, value: i64) {
        let (values, row) = (&mut self.columns[column].values, row as usize);
        if values.len() <= row {
            if !self.budget.has_room((row + 1 - values.len()) * size_of::<i64>()) {
                return;
            }
            values.resize(row + 1, 0);
        }
        values[row] = values[row].saturating_add(value);
    }

    pub(crate) fn drop_column(&mut self, column: usize) {
        self.columns.remove(column);
        self.column_index =
            self.columns.iter().enumerate().map(|(at, column)| ((column.kind, column.unit), at)).collect();
        self.value_type -= usize::from(self.value_type > column);
    }

    pub(crate) fn rename(&mut self, column: usize, kind: &str) {
        self.columns[column].kind = self.builder.string(kind);
    }

    /// Multiplies a column by `factor` and renames its unit.
    pub(crate) fn rescale(&mut self, column: usize, factor: i64, unit: &str) {
        let unit = self.builder.string(unit);
        let column = &mut self.columns[column];
        column.values.iter_mut().for_each(|value| *value = value.saturating_mul(factor));
        column.unit = unit;
    }

    /// Records that `row` was sampled at `time` (nanoseconds) on `thread`, with this share of its value.
    pub(crate) fn event(&mut self, time: u64, row: u32, thread: ThreadId, value: i64) {
        if self.keep_timeline {
            if !self.budget.has_room(EVENT) {
                return;
            }
            self.timeline.events([Event { time, sample: row, thread, value }]);
        } else {
            self.drops_times = true;
        }
    }

    /// Sets the column that the values of events are in.
    pub(crate) fn events_count(&mut self, column: usize) {
        self.value_type = column;
    }

    pub(crate) fn events_count_samples(&mut self, column: usize) {
        self.value_type = column;
        self.timeline.count_events();
    }

    /// Sets the wall-clock time of time 0 in nanoseconds since 1970, if the file has it.
    pub(crate) fn starts_at(&mut self, nanos: i64) {
        self.start_nanos = nanos;
    }

    /// Returns the finished profile. Events are sorted and made relative to the first one.
    pub(crate) fn finish(mut self) -> Result<Profile> {
        for column in &self.columns {
            self.builder.push_sample_type(ValueType { kind: column.kind, unit: column.unit });
        }
        self.check_room()?;
        let mut values = vec![0; self.columns.len()];
        for (row, &(stack, labels)) in self.keys.iter().enumerate() {
            for (value, column) in values.iter_mut().zip(&self.columns) {
                *value = column.values.get(row).copied().unwrap_or(0);
            }
            self.builder.sample(stack, labels, &values);
        }
        self.check_room()?;
        if self.timeline.is_empty() {
            if self.start_nanos != 0 {
                self.builder.header_mut().time_nanos = self.start_nanos;
            }
            // A timeline without events: it lets a writer report that the file had times.
            return Ok(self.builder.finish_with(self.drops_times.then(Timeline::default), None));
        }
        let timeline = from_first_event(self.timeline.finish(self.start_nanos, self.value_type));
        let header = self.builder.header_mut();
        header.time_nanos = timeline.start_nanos;
        if header.duration_nanos == 0 {
            header.duration_nanos = i64::try_from(timeline.span_nanos()).unwrap_or(i64::MAX);
        }
        Ok(self.builder.finish_with(Some(timeline), None))
    }
}

/// Returns the timeline with its first event at time 0. An unknown start (0) stays unknown.
fn from_first_event(mut timeline: Timeline) -> Timeline {
    let first = timeline.events.first().map_or(0, |event| event.time);
    timeline.events.iter_mut().for_each(|event| event.time -= first);
    if timeline.start_nanos != 0 {
        let first = i64::try_from(first).unwrap_or(i64::MAX);
        timeline.start_nanos = timeline.start_nanos.saturating_add(first);
    }
    timeline
}

/// Looks up what was stored for a piece of text, without allocating for the lookup.
pub(crate) struct ByteIndex<T> {
    budget: Budget,
    text: Vec<u8>,
    table: HashTable<Known<T>>,
    /// What all entries were charged.
    charged: usize,
}

impl<T> Drop for ByteIndex<T> {
    fn drop(&mut self) {
        self.budget.refund(self.charged);
    }
}

struct Known<T> {
    /// Kept so that the table can grow without hashing all the text again.
    hash: u64,
    start: usize,
    length: u32,
    value: T,
}

impl<T: Copy> ByteIndex<T> {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self { budget: budget.clone(), text: Vec::new(), table: HashTable::new(), charged: 0 }
    }

    /// Returns what `key` was stored with.
    pub(crate) fn get(&self, key: &[u8]) -> Option<T> {
        let is_key = |known: &Known<T>| {
            known.length as usize == key.len() && self.text[known.start..][..key.len()] == *key
        };
        self.table.find(FxBuildHasher.hash_one(key), is_key).map(|known| known.value)
    }

    /// Returns what all entries were charged.
    pub(crate) fn charged(&self) -> usize {
        self.charged
    }

    /// Stores a new `key`, if the budget has room.
    pub(crate) fn insert(&mut self, key: &[u8], value: T) {
        let size = key.len() + hash_entry(size_of::<Known<T>>());
        self.charged += size;
        if !self.budget.has_room(size) {
            return;
        }
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
