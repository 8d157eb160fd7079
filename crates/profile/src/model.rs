//! The columns of a profile, and how to read them.

use std::sync::Arc;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::rows::Rows;
use crate::{
    FunctionId, HeapSize, LabelSetId, LocationId, MappingId, Observations, Quality, StackId, StringId,
    StringTable, Timeline,
};

/// What one value of a sample counts, such as `cpu` in `nanoseconds`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ValueType {
    /// What is counted: `cpu`, `alloc_space`, `samples`, …
    pub kind: StringId,
    /// In which unit: `nanoseconds`, `bytes`, `count`, …
    pub unit: StringId,
}

/// A function in the source code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Function {
    /// The demangled name, for display.
    pub name: StringId,
    /// The mangled name, as in the binary.
    pub system_name: StringId,
    /// The source file.
    pub filename: StringId,
    /// The line where the function starts, 0 when unknown.
    pub start_line: i64,
}

/// The name of the mapping that holds the kernel, as perf writes it too.
pub const KERNEL_MAPPING: &str = "[kernel.kallsyms]";

/// The first address of the kernel, which occupies the upper half of the address space.
pub const KERNEL_START: u64 = 1 << 63;

/// A file mapped into the address space of the profiled process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// The first address.
    pub start: u64,
    /// One past the last address.
    pub limit: u64,
    /// The offset in the file of the byte at `start`.
    pub offset: u64,
    /// The file, or a name in brackets such as `[vdso]`.
    pub filename: StringId,
    /// The build id in lower-case hexadecimal.
    pub build_id: StringId,
    /// Which kinds of symbols the locations of this mapping already carry.
    pub symbols: MappingSymbols,
}

/// What is already known about the locations of a [`Mapping`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MappingSymbols {
    /// Function names are filled in. `go tool pprof` tries to symbolize again when this is unset.
    pub functions: bool,
    /// File names are filled in.
    pub filenames: bool,
    /// Line numbers are filled in.
    pub line_numbers: bool,
    /// Inlined frames are filled in.
    pub inline_frames: bool,
}

impl MappingSymbols {
    /// Everything is known.
    pub const ALL: Self = Self { functions: true, filenames: true, line_numbers: true, inline_frames: true };
}

/// One frame at a location: a function and a place in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Line {
    /// The function, when it is known.
    pub function: Option<FunctionId>,
    /// The line in the function's file, 0 when unknown.
    pub line: i64,
    /// The column, 0 when unknown.
    pub column: i64,
}

/// An address in the profiled process. Its lines are read with [`Profile::lines`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The mapping that holds the address.
    pub mapping: Option<MappingId>,
    /// The address as the process had it, 0 when only symbols are known.
    pub address: u64,
    /// Identical code folding merged several functions at this address, so the name is only one of several
    /// candidates.
    pub is_folded: bool,
    pub(crate) first_line: u32,
    pub(crate) line_count: u32,
}

/// A name and a value attached to a sample. Text labels have no number and numeric ones no text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    /// The name.
    pub key: StringId,
    /// The text, empty for a numeric label.
    pub text: StringId,
    /// The number, 0 for a text label.
    pub number: i64,
    /// The unit of the number, empty when the file does not say.
    pub unit: StringId,
}

impl Label {
    /// Returns whether the label carries text; otherwise it carries a number.
    pub const fn is_text(&self) -> bool {
        !self.text.is_empty()
    }
}

/// One row of [`Profile::samples`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// Where the sample was taken: read it with [`Profile::stack`].
    pub stack: StackId,
    /// The labels of the sample: read them with [`Profile::labels`].
    pub labels: LabelSetId,
    /// How much was counted: one value for each of [`Profile::sample_types`].
    pub values: &'a [i64],
}

/// The columns of the samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Samples {
    pub(crate) stacks: Vec<StackId>,
    pub(crate) labels: Vec<LabelSetId>,
    /// Row-major: each sample has as many values as there are sample types.
    pub(crate) values: Vec<i64>,
}

/// A profile: what was sampled, where, how much, and how well.
///
/// Everything that flamelet captures or reads becomes a `Profile`, and everything it shows or writes
/// starts from one. Build one with [`ProfileBuilder`](crate::ProfileBuilder) or read one with
/// `pprof::read`.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    pub(crate) strings: StringTable,
    pub(crate) sample_types: Vec<ValueType>,
    pub(crate) functions: Vec<Function>,
    pub(crate) mappings: Vec<Mapping>,
    pub(crate) locations: Vec<Location>,
    pub(crate) lines: Vec<Line>,
    /// By far the largest column, so clones share it until one of them changes it.
    pub(crate) stacks: Arc<Rows<LocationId>>,
    pub(crate) label_sets: Rows<Label>,
    pub(crate) samples: Samples,
    /// Facts about the whole capture.
    pub header: Header,
    /// When and on which thread each sample was taken, if the capture knows.
    pub timeline: Option<Timeline>,
    /// How many observations the samples are based on, if the capture knows.
    pub observations: Option<Observations>,
    /// How good the capture is, if it says so.
    pub quality: Option<Quality>,
    pub(crate) known_crates: Vec<KnownCrate>,
    pub(crate) heap_sizes: Vec<HeapSize>,
}

/// The most crates that a profile has notes about: far more than a program has.
pub(crate) const MOST_KNOWN_CRATES: usize = 4096;

/// What the machine that named the functions knows about a crate, and their names and files do not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownCrate {
    /// Its name in code: `serde_json`.
    pub name: StringId,
    /// Its version; empty if unknown or yours.
    pub version: StringId,
    /// Whether it is part of the program's own workspace.
    pub is_yours: bool,
}

/// What a profile says about itself besides its samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Start of the capture in nanoseconds since 1970, 0 when unknown.
    pub time_nanos: i64,
    /// Length of the capture, 0 when unknown.
    pub duration_nanos: i64,
    /// What one sampling period counts.
    pub period_type: Option<ValueType>,
    /// How many `period_type` units lie between two samples.
    pub period: i64,
    /// Free text, one line each.
    pub comments: Vec<StringId>,
    /// The kind of the sample type to show first; empty for the last one.
    pub default_sample_type: StringId,
    /// Frames that match this pattern, and all frames below them, are dropped when the profile is shown.
    pub drop_frames: StringId,
    /// Frames that match this pattern are kept even if `drop_frames` matches them.
    pub keep_frames: StringId,
    /// The address of the profile's documentation.
    pub doc_url: StringId,
}

impl Profile {
    /// Returns the interned strings.
    pub fn strings(&self) -> &StringTable {
        &self.strings
    }

    /// Returns the text of `id`.
    pub fn string(&self, id: StringId) -> &str {
        self.strings.get(id)
    }

    /// Interns `text`, for use in [`Profile::header`].
    pub fn intern(&mut self, text: &str) -> StringId {
        self.strings.intern(text)
    }

    /// Returns what the values of each sample count.
    pub fn sample_types(&self) -> &[ValueType] {
        &self.sample_types
    }

    /// All functions; a [`FunctionId`] is an index into it.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// All mappings; a [`MappingId`] is an index into it.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// All mappings, for corrections in place (a file name, a build id).
    pub fn mappings_mut(&mut self) -> &mut [Mapping] {
        &mut self.mappings
    }

    /// All locations; a [`LocationId`] is an index into it.
    pub fn locations(&self) -> &[Location] {
        &self.locations
    }

    /// Returns the function `id`.
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.index()]
    }

    /// Returns the mapping `id`.
    pub fn mapping(&self, id: MappingId) -> &Mapping {
        &self.mappings[id.index()]
    }

    /// Returns the location `id`.
    pub fn location(&self, id: LocationId) -> &Location {
        &self.locations[id.index()]
    }

    /// Returns how many locations have no function.
    pub fn unnamed_locations(&self) -> usize {
        self.locations.iter().filter(|location| location.line_count == 0).count()
    }

    /// Returns the frames at `id`, innermost inlined function first, the real function last.
    pub fn lines(&self, id: LocationId) -> &[Line] {
        self.lines_of(&self.locations[id.index()])
    }

    /// Returns the frames of `location`, which must be one of [`Profile::locations`].
    pub fn lines_of(&self, location: &Location) -> &[Line] {
        let first = location.first_line as usize;
        &self.lines[first..first + location.line_count as usize]
    }

    /// Returns the locations of `id`, leaf first.
    pub fn stack(&self, id: StackId) -> &[LocationId] {
        self.stacks.get(id.index())
    }

    /// Returns how many of the outermost frames two stacks share, or fewer. It takes no time for neighbours in a file, if
    /// `before` is the first of them.
    pub fn shared_outer_frames(&self, stack: StackId, before: StackId) -> usize {
        self.stacks.shared_end(stack.index(), before.index())
    }

    /// Returns how many stacks are stored.
    pub fn stack_count(&self) -> usize {
        self.stacks.len()
    }

    /// Returns about how much memory the profile takes, in bytes. (Clones share their stacks, but each counts them.)
    pub fn byte_size(&self) -> usize {
        let Self { functions, mappings, locations, lines, stacks, label_sets, samples, .. } = self;
        let timeline = self
            .timeline
            .as_ref()
            .map_or(0, |timeline| size_of_val(&*timeline.events) + size_of_val(&*timeline.threads));
        let observations = self.observations.as_ref().map_or(0, |observed| size_of_val(&*observed.rows));
        self.strings.byte_size()
            + observations
            + size_of_val(&**functions)
            + size_of_val(&**mappings)
            + size_of_val(&**locations)
            + size_of_val(&**lines)
            + stacks.byte_size()
            + label_sets.byte_size()
            + size_of_val(&*samples.stacks)
            + size_of_val(&*samples.labels)
            + size_of_val(&*samples.values)
            + timeline
    }

    /// Returns the labels of `id`, in the order of the file.
    pub fn labels(&self, id: LabelSetId) -> &[Label] {
        self.label_sets.get(id.index())
    }

    /// Returns how many label sets are stored, including the empty one.
    pub fn label_set_count(&self) -> usize {
        self.label_sets.len()
    }

    /// Returns how many samples there are.
    pub fn sample_count(&self) -> usize {
        self.samples.stacks.len()
    }

    /// Returns the sample at `index`.
    pub fn sample(&self, index: usize) -> Sample<'_> {
        let width = self.sample_types.len();
        Sample {
            stack: self.samples.stacks[index],
            labels: self.samples.labels[index],
            values: &self.samples.values[index * width..(index + 1) * width],
        }
    }

    /// Every sample in order.
    pub fn samples(&self) -> impl ExactSizeIterator<Item = Sample<'_>> {
        (0..self.sample_count()).map(|index| self.sample(index))
    }

    /// Returns the sum of the values of one sample type.
    pub fn total(&self, sample_type: usize) -> i64 {
        self.samples().fold(0i64, |sum, sample| sum.saturating_add(sample.values[sample_type]))
    }

    /// Returns what is noted about crates.
    pub fn known_crates(&self) -> &[KnownCrate] {
        &self.known_crates
    }

    /// Notes something about a crate, unless there is a note already.
    pub fn know_crate(&mut self, known: KnownCrate) {
        let has_room = self.known_crates.len() < MOST_KNOWN_CRATES;
        if has_room && !self.known_crates.iter().any(|other| other.name == known.name) {
            self.known_crates.push(known);
        }
    }

    /// Returns the comments as text.
    pub fn comments(&self) -> impl Iterator<Item = &str> {
        self.header.comments.iter().map(|&id| self.string(id))
    }

    /// Appends a comment line.
    pub fn add_comment(&mut self, text: &str) {
        let id = self.strings.intern(text);
        self.header.comments.push(id);
    }

    /// Returns the sample type to show when none is chosen: the default named by the file, or else the last one.
    pub fn default_sample_index(&self) -> usize {
        let wanted = self.header.default_sample_type;
        let named = self.sample_types.iter().position(|value| value.kind == wanted);
        named.filter(|_| !wanted.is_empty()).unwrap_or(self.sample_types.len().saturating_sub(1))
    }

    /// Renames functions: `rename` is called once for every function (with its name and file) and returns what to
    /// change.
    pub fn rename_functions(&mut self, mut rename: impl FnMut(&str, &str) -> Renamed) {
        for function in &mut self.functions {
            let renamed = rename(self.strings.get(function.name), self.strings.get(function.filename));
            if let Some(name) = renamed.name {
                function.name = self.strings.intern(&name);
            }
            if let Some(filename) = renamed.filename {
                function.filename = self.strings.intern(&filename);
            }
        }
    }

    /// Gives each location new lines: `lines_for` is called for every location and returns its frames (innermost
    /// first), or `None` to keep what it has. Symbolizers use this.
    ///
    /// The frames name their functions by text, which is interned.
    pub fn relabel_locations(
        &mut self,
        mut lines_for: impl FnMut(&Profile, LocationId) -> Option<Vec<NamedLine>>,
    ) {
        let mut names = self.relabel();
        for index in 0..names.profile.locations.len() {
            let location = LocationId::from_index(index);
            let Some(named) = lines_for(names.profile, location) else { continue };
            let lines: Vec<Line> = named
                .iter()
                .map(|line| {
                    let [name, system_name, filename] =
                        [&line.name, &line.system_name, &line.filename].map(|text| names.string(text));
                    let function = Function { name, system_name, filename, start_line: line.start_line };
                    Line { function: Some(names.function(function)), line: line.line, column: line.column }
                })
                .collect();
            names.set_lines(location, &lines);
        }
    }

    /// Begins to give locations new lines; for names that are not there as text, see [`Profile::relabel_locations`].
    pub fn relabel(&mut self) -> Relabel<'_> {
        let functions = function_index(&self.functions);
        Relabel { profile: self, functions }
    }
}

/// Gives locations new lines; made by [`Profile::relabel`].
#[derive(Debug)]
pub struct Relabel<'p> {
    profile: &'p mut Profile,
    functions: FunctionIndex,
}

impl Relabel<'_> {
    /// Returns the number of a text, which is added if it is new.
    pub fn string(&mut self, text: &str) -> StringId {
        self.profile.strings.intern(text)
    }

    /// Returns the number of a function, which is added if it is new.
    pub fn function(&mut self, function: Function) -> FunctionId {
        *self.functions.entry(function).or_insert_with(|| {
            self.profile.functions.push(function);
            FunctionId::from_index(self.profile.functions.len() - 1)
        })
    }

    /// Gives a location these lines, innermost first, in place of those it has.
    pub fn set_lines(&mut self, location: LocationId, lines: &[Line]) {
        let first_line = u32::try_from(self.profile.lines.len()).expect("fewer than 2^32 lines");
        self.profile.lines.extend_from_slice(lines);
        let location = &mut self.profile.locations[location.index()];
        (location.first_line, location.line_count) = (first_line, lines.len() as u32);
    }
}

/// What [`Profile::rename_functions`] changes; `None` keeps the present value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renamed {
    /// The new name.
    pub name: Option<String>,
    /// The new file.
    pub filename: Option<String>,
}

/// A frame whose function is given by its names; see [`Profile::relabel_locations`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NamedLine {
    /// The demangled name, for display.
    pub name: String,
    /// The mangled name, as in the binary.
    pub system_name: String,
    /// The source file, empty when unknown.
    pub filename: String,
    /// The line where the function starts, 0 when unknown.
    pub start_line: i64,
    /// The line, 0 when unknown.
    pub line: i64,
    /// The column, 0 when unknown.
    pub column: i64,
}

/// Finds functions by their contents.
pub(crate) type FunctionIndex = HashMap<Function, FunctionId, FxBuildHasher>;

pub(crate) fn function_index(functions: &[Function]) -> FunctionIndex {
    functions.iter().enumerate().map(|(row, &f)| (f, FunctionId::from_index(row))).collect()
}

#[cfg(test)]
mod tests {
    use crate::{Event, LabelSetId, Profile, ProfileBuilder, ThreadId, Timeline};

    /// Builds a thousand stacks of fifty frames each.
    fn profile() -> Profile {
        let mut builder = ProfileBuilder::new(&[("samples", "count")]);
        for leaf in 0..1000 {
            let frames: Vec<_> = (0..50).map(|depth| builder.address(None, leaf * depth)).collect();
            let stack = builder.stack(&frames);
            builder.sample(stack, LabelSetId::EMPTY, &[1]);
        }
        builder.finish()
    }

    #[test]
    fn the_size_is_that_of_the_columns() {
        let mut profile = profile();
        let without_time = profile.byte_size();
        let frames = 1000 * 50 * 4;
        assert!((frames..frames * 8).contains(&without_time), "{without_time}");
        let event = Event { time: 0, sample: 0, thread: ThreadId::from_index(0), value: 1 };
        profile.timeline = Some(Timeline { events: vec![event; 10_000], ..Timeline::default() });
        assert_eq!(profile.byte_size() - without_time, 10_000 * size_of::<Event>());
    }
}
