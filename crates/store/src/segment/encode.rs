//! From a profile to records.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};

use flamelet_profile::protobuf::{MessageWriter, zigzag};
use flamelet_profile::{Location, Mapping, Observations, Profile, Quality, Result, StringId};
use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use crate::segment::decode::Window;
use crate::segment::kind::{HEAP, Kind};
use crate::segment::new_window::{KindSum, NewSample, NewWindow};
use crate::segment::observed;
use crate::segment::record::{self, Effort};
use crate::segment::tables::{
    LabelRow, StoredModule, column_field, field, kind_field, module_field, quality_field, window_field,
};

/// A segment gets a sum if each of its rows is in at least this many windows, on average.
const SAMPLES_A_ROW: usize = 4;

/// A table whose rows are numbered in the order in which they first occur.
#[derive(Debug)]
struct Numbered<T> {
    rows: Vec<T>,
    /// Finds a row by what it holds.
    places: HashTable<u32>,
    /// The number of the first row.
    base: u32,
    /// How many rows records have.
    written: usize,
}

impl<T: Eq + Hash> Numbered<T> {
    fn starting_at(base: u32) -> Self {
        Self { rows: Vec::new(), places: HashTable::new(), base, written: 0 }
    }

    /// Returns the number of the next new row.
    fn next(&self) -> u32 {
        self.base + self.rows.len() as u32
    }

    /// Returns the number of the row that equals `key`, if there is one.
    fn find<Q: Hash + ?Sized>(&self, key: &Q, is_same: impl Fn(&T) -> bool) -> Option<u32> {
        let place =
            self.places.find(FxBuildHasher.hash_one(key), |&place| is_same(&self.rows[place as usize]));
        place.map(|place| self.base + place)
    }

    fn number(&mut self, row: T) -> u32 {
        let known = self.find(&row, |known| *known == row);
        known.unwrap_or_else(|| {
            let (hash, place) = (FxBuildHasher.hash_one(&row), self.rows.len() as u32);
            self.rows.push(row);
            let hash_of = |&place: &u32| FxBuildHasher.hash_one(&self.rows[place as usize]);
            self.places.insert_unique(hash, place, hash_of);
            self.base + place
        })
    }

    /// Returns the rows that no record has yet, and the number of the first.
    fn unwritten(&self) -> (u64, &[T]) {
        (u64::from(self.base) + self.written as u64, &self.rows[self.written..])
    }

    fn has_new(&self) -> bool {
        self.written < self.rows.len()
    }

    /// Says that records have all rows.
    fn settle(&mut self) {
        self.written = self.rows.len();
    }

    /// Returns the bytes that the table takes, without what its rows point to.
    fn memory(&self) -> usize {
        // A hash table keeps an eighth free, and a byte for each entry.
        self.places.capacity() * 8 / 7 * (size_of::<u32>() + 1) + self.rows.capacity() * size_of::<T>()
    }
}

/// Writes the records of one segment, and remembers what they hold.
#[derive(Debug)]
pub(crate) struct Encoder {
    strings: Numbered<Box<str>>,
    modules: Numbered<StoredModule>,
    frames: Numbered<NewFrame>,
    /// Row 0 is the empty stack, which is not written.
    nodes: Numbered<NewStack>,
    label_sets: Numbered<Vec<LabelRow>>,
    /// A stack and a label set.
    rows: Numbered<(u32, u32)>,
    kinds: Numbered<Kind>,
    sums: Vec<KindSum>,
    /// How many samples all windows had.
    samples: usize,
    /// Bytes of the strings and label sets that the tables point to.
    pointed: usize,
}

/// A frame of the segment: what [`StoredFrame`](crate::segment::tables::StoredFrame) has, and what distinguishes it.
#[derive(Debug, Default)]
struct NewFrame {
    offset: u64,
    /// What it is code of: the number of the build id (or of the path without one) plus one; 0 if it has only a name.
    identity: u32,
    module: u32,
    name: u32,
    file: u32,
}

impl NewFrame {
    /// The same code may be in several modules.
    fn key(&self) -> (u32, u64, u32, u32) {
        (self.identity, self.offset, self.name, self.file)
    }
}

impl PartialEq for NewFrame {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for NewFrame {}

impl Hash for NewFrame {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// A stack: its caller, and its last frame.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NewStack {
    caller: u32,
    frame: u32,
}

/// The frames of one location, outermost first: several where inlined functions have names.
type Frames = Vec<u32>;

impl Encoder {
    pub(crate) fn new() -> Self {
        let mut strings = Numbered::starting_at(0);
        // Number 0 is the empty string everywhere.
        strings.number("".into());
        Self {
            strings,
            modules: Numbered::starting_at(0),
            frames: Numbered::starting_at(0),
            nodes: Numbered::starting_at(1),
            label_sets: Numbered::starting_at(0),
            rows: Numbered::starting_at(0),
            kinds: Numbered::starting_at(0),
            sums: Vec::new(),
            samples: 0,
            pointed: 0,
        }
    }

    /// Returns about how many bytes the tables take.
    pub(crate) fn memory(&self) -> usize {
        let Self { strings, modules, frames, nodes, label_sets, rows, kinds, sums, pointed, .. } = self;
        let tables =
            [strings.memory(), modules.memory(), frames.memory(), nodes.memory(), label_sets.memory()];
        let sums: usize = sums.iter().map(KindSum::memory).sum();
        tables.into_iter().sum::<usize>() + rows.memory() + kinds.memory() + sums + pointed
    }

    /// Returns the records of this window: the rows that are new, if there are any, and the window. If they are not written,
    /// the encoder is of no further use: the records after them would refer to rows that no record has, and the sum
    /// would be wrong.
    pub(crate) fn encode(&mut self, kind: &str, profile: &Profile) -> Result<Vec<u8>> {
        // The program's module first, since readers take the first mapping for the program.
        let modules: Vec<u32> =
            profile.mappings().iter().map(|mapping| self.module(profile, mapping)).collect();
        let frames: Vec<Frames> =
            profile.locations().iter().map(|location| self.frames(profile, &modules, location)).collect();
        let samples = self.samples(profile, &frames);
        let kind = self.kind(kind, profile);
        let window = NewWindow {
            start: profile.header.time_nanos,
            duration: profile.header.duration_nanos,
            kind,
            windows: 1,
            samples,
            observed: profile.observations.as_ref().map(|observed| observed.value_type),
            quality: profile.quality.map(|quality| (self.text(profile, quality.engine), quality)),
        };
        let mut records = if self.has_new_rows() { self.pack_new_rows()? } else { Vec::new() };
        self.settle();
        records.extend(self.pack_window(&window)?);
        self.samples += window.samples.len();
        self.add_to_sum(&window);
        Ok(records)
    }

    /// Returns whether a sum would be much smaller than the windows: most rows are in several of them.
    pub(crate) fn is_worth_a_sum(&self) -> bool {
        self.samples / SAMPLES_A_ROW >= self.rows.rows.len() && !self.sums.is_empty()
    }

    /// Returns the records of a sum of all windows so far, and how many there are: the rows, and a window for each kind.
    /// Ends what can be encoded.
    pub(crate) fn into_sum(mut self) -> Result<(u32, Vec<u8>)> {
        let sums = std::mem::take(&mut self.sums);
        self.unsettle();
        let mut records = self.pack_new_rows()?;
        for sum in &sums {
            records.extend(self.pack_window(&sum.window())?);
        }
        Ok((1 + sums.len() as u32, records))
    }

    fn add_to_sum(&mut self, window: &NewWindow) {
        let Some(kind) = self.kinds.rows.get(window.kind as usize).filter(|kind| kind.name != HEAP) else {
            // What the heap holds at several moments has no sum.
            return;
        };
        let is_same = |sum: &&mut KindSum| {
            let other = &self.kinds.rows[sum.kind() as usize];
            (&other.name, &other.values) == (&kind.name, &kind.values)
        };
        match self.sums.iter_mut().find(is_same) {
            Some(sum) => sum.add(window),
            None => self.sums.push(KindSum::new(window, kind.values.len())),
        }
    }

    fn pack_new_rows(&self) -> Result<Vec<u8>> {
        let mut body = MessageWriter::default();
        self.write_tables(&mut body);
        record::pack(&body.into_bytes(), Effort::Small)
    }

    fn pack_window(&self, window: &NewWindow) -> Result<Vec<u8>> {
        let width = self.kinds.rows.get(window.kind as usize).map_or(0, |kind| kind.values.len());
        let mut body = MessageWriter::default();
        write_samples(&mut body, window, width);
        if let Some((engine, quality)) = &window.quality {
            body.message(window_field::QUALITY, |message| write_quality(message, *engine, quality));
        }
        if window.windows != 1 {
            body.uint(window_field::WINDOWS, window.windows);
        }
        let tag = Window::tag(window.start, window.duration, window.kind);
        record::pack_tagged(&tag, &body.into_bytes(), Effort::Small)
    }

    fn string(&mut self, text: &str) -> u32 {
        self.known_string(text).unwrap_or_else(|| {
            self.pointed += text.len();
            self.strings.number(text.into())
        })
    }

    fn known_string(&self, text: &str) -> Option<u32> {
        self.strings.find(text, |known| **known == *text)
    }

    fn text(&mut self, profile: &Profile, id: StringId) -> u32 {
        self.string(profile.string(id))
    }

    fn module(&mut self, profile: &Profile, mapping: &Mapping) -> u32 {
        let module = StoredModule {
            build_id: self.text(profile, mapping.build_id),
            file: self.text(profile, mapping.filename),
            offset: mapping.offset,
            size: mapping.limit.saturating_sub(mapping.start),
            start: mapping.start,
        };
        self.modules.number(module)
    }

    /// Returns the frames of a location. Names are kept only where they cannot be looked up later.
    fn frames(&mut self, profile: &Profile, modules: &[u32], location: &Location) -> Frames {
        let mapping = location.mapping.map(|id| (profile.mapping(id), modules[id.index()]));
        let lines = profile.lines_of(location);
        let can_be_found = mapping.is_some_and(|(mapping, _)| !mapping.build_id.is_empty());
        if !lines.is_empty() && !can_be_found {
            let functions = lines.iter().rev().filter_map(|line| line.function);
            return functions
                .map(|id| {
                    let function = profile.function(id);
                    let (name, file) = (profile.string(function.name), profile.string(function.filename));
                    let (name, file) = (self.string(name), self.string(file));
                    self.frames.number(NewFrame { name, file, ..NewFrame::default() })
                })
                .collect();
        }
        let inside =
            mapping.filter(|(mapping, _)| (mapping.start..mapping.limit).contains(&location.address));
        let (identity, module, offset) = match inside {
            Some((mapping, module)) => {
                let has_id = !mapping.build_id.is_empty();
                let identity = if has_id { mapping.build_id } else { mapping.filename };
                let offset = (location.address - mapping.start).wrapping_add(mapping.offset);
                (self.text(profile, identity), module + 1, offset)
            }
            None => (0, 0, location.address),
        };
        let identity = identity + 1;
        vec![self.frames.number(NewFrame { offset, identity, module, ..NewFrame::default() })]
    }

    /// Returns the samples, sorted by row, each row once.
    fn samples(&mut self, profile: &Profile, frames: &[Frames]) -> Vec<NewSample> {
        let mut stacks: HashMap<_, u32, FxBuildHasher> = HashMap::default();
        let mut label_sets: HashMap<_, u32, FxBuildHasher> = HashMap::default();
        let mut samples: Vec<NewSample> = Vec::with_capacity(profile.sample_count());
        let observed = profile.observations.as_ref().map_or(&[][..], |observed| &observed.rows);
        for (at, sample) in profile.samples().enumerate() {
            let node = *stacks.entry(sample.stack).or_insert_with(|| {
                let locations = profile.stack(sample.stack).iter().rev();
                self.node(locations.flat_map(|location| &frames[location.index()]).copied())
            });
            let labels = *label_sets
                .entry(sample.labels)
                .or_insert_with(|| self.label_set(profile, profile.labels(sample.labels)));
            let row = self.rows.number((node, labels));
            let observed = observed.get(at).copied().unwrap_or_default();
            samples.push(NewSample { row, values: sample.values.to_vec(), observed });
        }
        samples.sort_by_key(|sample| sample.row);
        samples.dedup_by(|later, first| {
            let is_same = later.row == first.row;
            if is_same {
                let values = first.values.iter_mut().zip(&later.values);
                values.for_each(|(sum, value)| *sum = sum.saturating_add(*value));
                first.observed += later.observed;
            }
            is_same
        });
        samples
    }

    /// Returns the node of a stack, outermost frame first.
    fn node(&mut self, frames: impl Iterator<Item = u32>) -> u32 {
        let mut node = 0;
        for frame in frames {
            node = self.nodes.number(NewStack { caller: node, frame });
        }
        node
    }

    fn label_set(&mut self, profile: &Profile, labels: &[flamelet_profile::Label]) -> u32 {
        let rows: Vec<LabelRow> = labels
            .iter()
            .map(|label| LabelRow {
                key: self.text(profile, label.key),
                text: self.text(profile, label.text),
                number: label.number,
                unit: self.text(profile, label.unit),
            })
            .collect();
        let (next, bytes) = (self.label_sets.next(), size_of_val(&*rows));
        let number = self.label_sets.number(rows);
        self.pointed += if number == next { bytes } else { 0 };
        number
    }

    fn kind(&mut self, name: &str, profile: &Profile) -> u32 {
        let kind = Kind::of(name, profile);
        // Their strings come before them in the record.
        for text in texts(&kind) {
            self.string(text);
        }
        self.kinds.number(kind)
    }

    fn write_tables(&self, body: &mut MessageWriter) {
        let Self { strings, modules, frames, nodes, label_sets, rows, kinds, .. } = self;
        let (first, new) = strings.unwritten();
        body.uint(field::FIRST_STRING, first);
        new.iter().for_each(|text| body.bytes(field::STRING, text.as_bytes()));
        let (first, new) = modules.unwritten();
        body.uint(field::FIRST_MODULE, first);
        new.iter().for_each(|module| body.message(field::MODULE, |message| write_module(message, module)));
        let (first, new) = frames.unwritten();
        body.uint(field::FIRST_FRAME, first);
        write_frames(body, new);
        let (first, new) = nodes.unwritten();
        body.uint(field::FIRST_NODE, first);
        body.packed(field::NODE_BACK, new.iter().zip(first..).map(|(node, at)| at - u64::from(node.caller)));
        body.packed(field::NODE_FRAME, new.iter().map(|node| u64::from(node.frame)));
        let (first, new) = label_sets.unwritten();
        body.uint(field::FIRST_LABEL_SET, first);
        new.iter().for_each(|set| body.message(field::LABEL_SET, |message| write_labels(message, set)));
        let (first, new) = rows.unwritten();
        body.uint(field::FIRST_ROW, first);
        body.packed(field::ROW_NODE, new.iter().map(|row| u64::from(row.0)));
        body.packed(field::ROW_LABELS, new.iter().map(|row| u64::from(row.1)));
        let (first, new) = kinds.unwritten();
        body.uint(field::FIRST_KIND, first);
        new.iter().for_each(|kind| body.message(field::KIND, |message| self.write_kind(message, kind)));
    }

    fn write_kind(&self, message: &mut MessageWriter, kind: &Kind) {
        let number = |text: &str| self.known_string(text).map_or(0, u64::from);
        let pair = |(kind, unit): &(String, String)| [number(kind), number(unit)];
        let values: Vec<u64> = kind.values.iter().flat_map(pair).collect();
        message.uint(kind_field::NAME, number(&kind.name));
        message.packed(kind_field::VALUES, values.into_iter());
        if let Some(period) = &kind.period_type {
            message.packed(kind_field::PERIOD_TYPE, pair(period).into_iter());
        }
        message.int(kind_field::PERIOD, kind.period);
        message.uint(kind_field::SHOWN_FIRST, number(&kind.shown_first));
        message.uint(kind_field::DROP_FRAMES, number(&kind.drop_frames));
    }

    fn has_new_rows(&self) -> bool {
        let Self { strings, modules, frames, nodes, label_sets, rows, kinds, .. } = self;
        let tables = [strings.has_new(), modules.has_new(), frames.has_new(), nodes.has_new()];
        tables.contains(&true) || label_sets.has_new() || rows.has_new() || kinds.has_new()
    }

    fn settle(&mut self) {
        let Self { strings, modules, frames, nodes, label_sets, rows, kinds, .. } = self;
        strings.settle();
        modules.settle();
        frames.settle();
        nodes.settle();
        label_sets.settle();
        rows.settle();
        kinds.settle();
    }

    /// Makes all rows new again.
    fn unsettle(&mut self) {
        let Self { strings, modules, frames, nodes, label_sets, rows, kinds, .. } = self;
        strings.written = 0;
        modules.written = 0;
        frames.written = 0;
        nodes.written = 0;
        label_sets.written = 0;
        rows.written = 0;
        kinds.written = 0;
    }
}

fn texts(kind: &Kind) -> impl Iterator<Item = &str> {
    let pairs = kind.values.iter().chain(&kind.period_type);
    [&*kind.name, &*kind.shown_first, &*kind.drop_frames]
        .into_iter()
        .chain(pairs.flat_map(|(kind, unit)| [&**kind, &**unit]))
}

fn write_module(message: &mut MessageWriter, module: &StoredModule) {
    message.uint(module_field::BUILD_ID, u64::from(module.build_id));
    message.uint(module_field::FILE, u64::from(module.file));
    message.uint(module_field::OFFSET, module.offset);
    message.uint(module_field::SIZE, module.size);
    message.uint(module_field::START, module.start);
}

fn write_frames(body: &mut MessageWriter, frames: &[NewFrame]) {
    body.packed(field::FRAME_MODULE, frames.iter().map(|frame| u64::from(frame.module)));
    let before = std::iter::once(0).chain(frames.iter().map(|frame| frame.offset));
    let steps = frames.iter().zip(before).map(|(frame, before)| frame.offset.wrapping_sub(before) as i64);
    body.packed(field::FRAME_OFFSET, steps.map(zigzag));
    if frames.iter().any(|frame| frame.name != 0 || frame.file != 0) {
        body.packed(field::FRAME_NAME, frames.iter().map(|frame| u64::from(frame.name)));
        body.packed(field::FRAME_FILE, frames.iter().map(|frame| u64::from(frame.file)));
    }
}

fn write_labels(message: &mut MessageWriter, labels: &[LabelRow]) {
    let numbers = labels.iter().flat_map(|label| {
        [u64::from(label.key), u64::from(label.text), zigzag(label.number), u64::from(label.unit)]
    });
    message.packed(1, numbers);
}

fn write_samples(message: &mut MessageWriter, window: &NewWindow, width: usize) {
    let samples = &window.samples;
    let before = std::iter::once(0).chain(samples.iter().map(|sample| sample.row));
    message.packed(
        window_field::ROWS,
        samples.iter().zip(before).map(|(sample, before)| u64::from(sample.row - before)),
    );
    let column = |column: usize| samples.iter().map(|sample| sample.values[column]).collect();
    let columns: Vec<Vec<i64>> = (0..width).map(column).collect();
    for (at, column) in columns.iter().enumerate() {
        message.message(window_field::COLUMN, |message| {
            match ratio(&columns[0], column).filter(|_| at > 0) {
                Some(ratio) => message.uint_of_oneof(column_field::RATIO, zigzag(ratio)),
                None => message.packed(column_field::VALUES, column.iter().map(|&value| zigzag(value))),
            }
        });
    }
    if let Some(value_type) = window.observed {
        let rows = samples.iter().map(|sample| sample.observed).collect();
        let observed = Observations { value_type, rows };
        message.message(window_field::OBSERVED, |message| observed::write(message, &observed, &columns));
    }
}

/// Returns how many times the first value a value is, if that is the same in all samples.
fn ratio(firsts: &[i64], column: &[i64]) -> Option<i64> {
    let at = firsts.iter().position(|&first| first != 0)?;
    let ratio = column[at].checked_div(firsts[at])?;
    let holds = |(first, value): (&i64, &i64)| first.checked_mul(ratio) == Some(*value);
    firsts.iter().zip(column).all(holds).then_some(ratio)
}

fn write_quality(message: &mut MessageWriter, engine: u32, quality: &Quality) {
    message.uint(quality_field::ENGINE, u64::from(engine));
    message.uint(quality_field::ASKED, quality.asked_millihertz);
    message.uint(quality_field::ACHIEVED, quality.achieved_millihertz);
    message.uint(quality_field::SAMPLES, quality.samples);
    message.uint(quality_field::LOST, quality.lost);
    message.uint(quality_field::TRUNCATED, quality.truncated);
    message.uint(quality_field::OWN_CPU, quality.own_cpu_nanos);
}
