//! From a profile to the body of a record.

use std::collections::HashMap;
use std::hash::Hash;

use flamelet_profile::protobuf::{MessageWriter, zigzag};
use flamelet_profile::{Location, Mapping, Observations, Observed, Profile, Quality, StringId};
use rustc_hash::FxBuildHasher;

use crate::segment::kind::Kind;
use crate::segment::observed;
use crate::segment::tables::{
    LabelRow, StoredFrame, StoredModule, column_field, field, kind_field, module_field, quality_field,
    window_field,
};

/// A table whose rows are numbered in the order in which they first occur.
#[derive(Debug)]
struct Numbered<K, T> {
    numbers: HashMap<K, u32, FxBuildHasher>,
    /// The number of the first new row.
    first: u32,
    /// The rows that no record has yet.
    new: Vec<T>,
}

impl<K: Eq + Hash, T> Numbered<K, T> {
    fn starting_at(first: u32) -> Self {
        Self { numbers: HashMap::default(), first, new: Vec::new() }
    }

    fn len(&self) -> u32 {
        self.first + self.new.len() as u32
    }

    fn number(&mut self, key: K, row: impl FnOnce() -> T) -> u32 {
        let next = self.len();
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.new.push(row());
        }
        number
    }

    /// Forgets which rows are new, once a record has them. The first records have most of them, so this gives the room
    /// back.
    fn settle(&mut self) {
        self.first = self.len();
        self.new = Vec::new();
    }

    /// Returns the bytes that the table takes, without what its keys point to.
    fn memory(&self) -> usize {
        // A hash table keeps an eighth free, and a byte for each entry.
        self.numbers.capacity() * 8 / 7 * (size_of::<(K, u32)>() + 1) + self.new.capacity() * size_of::<T>()
    }
}

/// Writes the records of one segment, and remembers what they hold.
#[derive(Debug)]
pub(crate) struct Encoder {
    strings: Numbered<Box<str>, Box<str>>,
    modules: Numbered<StoredModule, StoredModule>,
    frames: Numbered<FrameKey, StoredFrame>,
    /// By caller and frame. Row 0 is the empty stack, which is not written.
    nodes: Numbered<(u32, u32), NewStack>,
    label_sets: Numbered<Vec<LabelRow>, Vec<LabelRow>>,
    rows: Numbered<(u32, u32), (u32, u32)>,
    kinds: Numbered<Kind, Kind>,
    /// Bytes of the strings and label sets that the tables point to.
    pointed: usize,
}

/// What distinguishes frames: the number of the build id (or of the path without one) plus one and the offset in that file,
/// or 0 and both numbers of a frame that has only a name.
type FrameKey = (u32, u64);

/// A stack: its last frame, and how many rows back its caller is.
#[derive(Debug)]
struct NewStack {
    back: u32,
    frame: u32,
}

/// A sample: the number of its stack and labels, its values, and what they are based on.
struct NewSample {
    row: u32,
    values: Vec<i64>,
    observed: Observed,
}

/// The frames of one location, outermost first: several where inlined functions have names.
type Frames = Vec<u32>;

impl Encoder {
    pub(crate) fn new() -> Self {
        let mut strings = Numbered::starting_at(0);
        // Number 0 is the empty string everywhere.
        strings.number("".into(), || "".into());
        Self {
            strings,
            modules: Numbered::starting_at(0),
            frames: Numbered::starting_at(0),
            nodes: Numbered::starting_at(1),
            label_sets: Numbered::starting_at(0),
            rows: Numbered::starting_at(0),
            kinds: Numbered::starting_at(0),
            pointed: 0,
        }
    }

    /// Returns about how many bytes the tables take.
    pub(crate) fn memory(&self) -> usize {
        let Self { strings, modules, frames, nodes, label_sets, rows, kinds, pointed } = self;
        let tables =
            [strings.memory(), modules.memory(), frames.memory(), nodes.memory(), label_sets.memory()];
        tables.into_iter().sum::<usize>() + rows.memory() + kinds.memory() + pointed
    }

    /// Returns the body of a record with this window. If it is not written, the encoder is of no further use: the
    /// records after it would refer to rows that no record has.
    pub(crate) fn encode(&mut self, kind: &str, profile: &Profile) -> Vec<u8> {
        // The program's module first, since readers take the first mapping for the program.
        let modules: Vec<u32> =
            profile.mappings().iter().map(|mapping| self.module(profile, mapping)).collect();
        let frames: Vec<Frames> =
            profile.locations().iter().map(|location| self.frames(profile, &modules, location)).collect();
        let samples = self.samples(profile, &frames);
        let kind = self.kind(kind, profile);
        let quality = profile.quality.map(|quality| (self.text(profile, quality.engine), quality));
        let mut body = MessageWriter::default();
        let window = |message: &mut MessageWriter| {
            message.int(window_field::START, profile.header.time_nanos);
            message.int(window_field::DURATION, profile.header.duration_nanos);
            message.uint(window_field::KIND, u64::from(kind));
            write_samples(message, &samples, profile);
            if let Some((engine, quality)) = &quality {
                message.message(window_field::QUALITY, |message| write_quality(message, *engine, quality));
            }
        };
        self.write_tables(&mut body);
        body.message(field::WINDOW, window);
        self.settle();
        body.into_bytes()
    }

    fn string(&mut self, text: &str) -> u32 {
        match self.strings.numbers.get(text) {
            Some(&number) => number,
            None => {
                self.pointed += text.len();
                self.strings.number(text.into(), || text.into())
            }
        }
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
        self.modules.number(module, || module)
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
                    let row = StoredFrame {
                        name: self.string(name),
                        file: self.string(file),
                        ..StoredFrame::default()
                    };
                    self.frames.number((0, u64::from(row.name) << 32 | u64::from(row.file)), || row)
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
        let frame = StoredFrame { module, offset, ..StoredFrame::default() };
        vec![self.frames.number((identity + 1, offset), || frame)]
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
            let row = self.rows.number((node, labels), || (node, labels));
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
            let back = self.nodes.len() - node;
            node = self.nodes.number((node, frame), || NewStack { back, frame });
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
        if !self.label_sets.numbers.contains_key(&rows) {
            self.pointed += size_of_val(&*rows);
        }
        self.label_sets.number(rows.clone(), || rows)
    }

    fn kind(&mut self, name: &str, profile: &Profile) -> u32 {
        let kind = Kind::of(name, profile);
        // Their strings come before them in the record.
        for text in texts(&kind) {
            self.string(text);
        }
        self.kinds.number(kind.clone(), || kind)
    }

    fn write_tables(&self, body: &mut MessageWriter) {
        let Self { strings, modules, frames, nodes, label_sets, rows, kinds, .. } = self;
        body.uint(field::FIRST_STRING, u64::from(strings.first));
        strings.new.iter().for_each(|text| body.bytes(field::STRING, text.as_bytes()));
        body.uint(field::FIRST_MODULE, u64::from(modules.first));
        modules
            .new
            .iter()
            .for_each(|module| body.message(field::MODULE, |message| write_module(message, module)));
        body.uint(field::FIRST_FRAME, u64::from(frames.first));
        write_frames(body, &frames.new);
        body.uint(field::FIRST_NODE, u64::from(nodes.first));
        body.packed(field::NODE_BACK, nodes.new.iter().map(|node| u64::from(node.back)));
        body.packed(field::NODE_FRAME, nodes.new.iter().map(|node| u64::from(node.frame)));
        body.uint(field::FIRST_LABEL_SET, u64::from(label_sets.first));
        for set in &label_sets.new {
            body.message(field::LABEL_SET, |message| write_labels(message, set));
        }
        body.uint(field::FIRST_ROW, u64::from(rows.first));
        body.packed(field::ROW_NODE, rows.new.iter().map(|row| u64::from(row.0)));
        body.packed(field::ROW_LABELS, rows.new.iter().map(|row| u64::from(row.1)));
        body.uint(field::FIRST_KIND, u64::from(kinds.first));
        for kind in &kinds.new {
            body.message(field::KIND, |message| self.write_kind(message, kind));
        }
    }

    fn write_kind(&self, message: &mut MessageWriter, kind: &Kind) {
        let number = |text: &str| self.strings.numbers.get(text).map_or(0, |&number| u64::from(number));
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

fn write_frames(body: &mut MessageWriter, frames: &[StoredFrame]) {
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

fn write_samples(message: &mut MessageWriter, samples: &[NewSample], profile: &Profile) {
    let before = std::iter::once(0).chain(samples.iter().map(|sample| sample.row));
    message.packed(
        window_field::ROWS,
        samples.iter().zip(before).map(|(sample, before)| u64::from(sample.row - before)),
    );
    let column = |column: usize| samples.iter().map(|sample| sample.values[column]).collect();
    let columns: Vec<Vec<i64>> = (0..profile.sample_types().len()).map(column).collect();
    for (at, column) in columns.iter().enumerate() {
        message.message(window_field::COLUMN, |message| {
            match ratio(&columns[0], column).filter(|_| at > 0) {
                Some(ratio) => message.uint_of_oneof(column_field::RATIO, zigzag(ratio)),
                None => message.packed(column_field::VALUES, column.iter().map(|&value| zigzag(value))),
            }
        });
    }
    if let Some(Observations { value_type, .. }) = profile.observations {
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
