//! Builds a profile from samples; everything that is added is interned.

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::{HashMap, HashTable};
use rustc_hash::FxBuildHasher;

use crate::budget::hash_entry;
use crate::model::FunctionIndex;
use crate::rows::RowIndex;
use crate::{
    Budget, Function, FunctionId, KERNEL_MAPPING, KERNEL_START, Label, LabelSetId, Line, Location,
    LocationId, Mapping, MappingId, MappingSymbols, Observations, Observed, Profile, Quality, StackId,
    StringId, Timeline, ValueType,
};

/// What a row of each table costs: its own bytes and its entry in the index used to look it up.
const FUNCTION: usize = size_of::<Function>() + hash_entry(size_of::<(Function, FunctionId)>());
const MAPPING: usize = size_of::<Mapping>() + hash_entry(size_of::<(Mapping, MappingId)>());
const LOCATION: usize = size_of::<Location>() + hash_entry(size_of::<(u64, LocationId)>());
const ADDRESS: usize = size_of::<Location>() + hash_entry(size_of::<(Option<MappingId>, u64, LocationId)>());
const ROW: usize = size_of::<u32>() + hash_entry(size_of::<u32>());
const SAMPLE: usize =
    size_of::<(StackId, LabelSetId)>() + hash_entry(size_of::<(StackId, LabelSetId, usize)>());

/// Collects samples into a [`Profile`]. Equal functions, locations, stacks and label sets are stored once; samples
/// are kept as they are added, unless [`ProfileBuilder::merge_sample`] is used.
///
/// With a [`Budget`], anything that does not fit is not stored, and its id means nothing: the profile is valid only
/// if [`Budget::check`] succeeds in the end.
pub struct ProfileBuilder {
    profile: Profile,
    budget: Option<Budget>,
    functions: FunctionIndex,
    mappings: HashMap<Mapping, MappingId, FxBuildHasher>,
    addresses: HashMap<(Option<MappingId>, u64), LocationId, FxBuildHasher>,
    /// Locations with lines by their hash, which is kept so that the table can grow without hashing them again.
    locations: HashTable<(u64, LocationId)>,
    stacks: RowIndex,
    label_sets: RowIndex,
    samples: HashMap<(StackId, LabelSetId), usize, FxBuildHasher>,
}

impl ProfileBuilder {
    /// Creates a builder for samples that carry these values, each given as (kind, unit).
    pub fn new(sample_types: &[(&str, &str)]) -> Self {
        let mut builder = Self {
            profile: Profile::default(),
            budget: None,
            functions: HashMap::default(),
            mappings: HashMap::default(),
            addresses: HashMap::default(),
            locations: HashTable::new(),
            stacks: RowIndex::default(),
            label_sets: RowIndex::default(),
            samples: HashMap::default(),
        };
        builder.label_sets.intern(&mut builder.profile.label_sets, &[]);
        for (kind, unit) in sample_types {
            let value_type = builder.value_type(kind, unit);
            builder.profile.sample_types.push(value_type);
        }
        builder
    }

    /// Charges everything that is added from now on to `budget`.
    pub fn within(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.budget.as_ref().is_none_or(|budget| budget.has_room(bytes))
    }

    fn has_ids(&self, rows: usize) -> bool {
        self.budget.as_ref().is_none_or(|budget| budget.has_ids(rows))
    }

    fn can_work(&self, steps: usize) -> bool {
        self.budget.as_ref().is_none_or(|budget| budget.can_work(steps))
    }

    /// Returns the profile as built so far; its header can be set through [`ProfileBuilder::header_mut`].
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Returns the header, to be filled in.
    pub fn header_mut(&mut self) -> &mut crate::Header {
        &mut self.profile.header
    }

    /// Interns a string.
    pub fn string(&mut self, text: &str) -> StringId {
        let Some(budget) = &self.budget else { return self.profile.strings.intern(text) };
        if !budget.can_look_through(text.len()) {
            return StringId::EMPTY;
        }
        self.profile.strings.intern_within(text, budget).unwrap_or(StringId::EMPTY)
    }

    /// Interns a value type.
    pub fn value_type(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType { kind: self.string(kind), unit: self.string(unit) }
    }

    /// Records that a sample was taken every `period` of this kind.
    pub fn set_period(&mut self, kind: &str, unit: &str, period: i64) {
        self.profile.header.period_type = Some(self.value_type(kind, unit));
        self.profile.header.period = period;
    }

    /// Sets which kind of value to show first.
    pub fn set_default_sample_type(&mut self, kind: &str) {
        self.profile.header.default_sample_type = self.string(kind);
    }

    /// Sets which frames to drop when the profile is shown, as a regular expression.
    pub fn set_drop_frames(&mut self, expression: &str) {
        self.profile.header.drop_frames = self.string(expression);
    }

    /// Adds another kind of value, whose strings are interned already. Call it only before the first sample.
    pub fn push_sample_type(&mut self, value_type: ValueType) {
        assert!(self.profile.samples.stacks.is_empty(), "sample types come before samples");
        self.profile.sample_types.push(value_type);
    }

    /// Adds a comment line.
    pub fn comment(&mut self, text: &str) {
        let id = self.string(text);
        if self.has_room(size_of::<StringId>()) {
            self.profile.header.comments.push(id);
        }
    }

    /// Interns a function.
    pub fn function(&mut self, function: Function) -> FunctionId {
        if let Some(&known) = self.functions.get(&function) {
            return known;
        }
        if !self.has_room(FUNCTION) {
            return FunctionId::default();
        }
        self.profile.functions.push(function);
        let id = FunctionId::from_index(self.profile.functions.len() - 1);
        self.functions.insert(function, id);
        id
    }

    /// Interns a function when only its name (and perhaps its file) is known.
    pub fn named_function(&mut self, name: &str, filename: &str) -> FunctionId {
        let (name, filename) = (self.string(name), self.string(filename));
        self.function(Function { name, filename, ..Function::default() })
    }

    /// Interns a mapping.
    pub fn mapping(&mut self, mapping: Mapping) -> MappingId {
        if let Some(&known) = self.mappings.get(&mapping) {
            return known;
        }
        if !self.has_room(MAPPING) {
            return MappingId::default();
        }
        self.profile.mappings.push(mapping);
        let id = MappingId::from_index(self.profile.mappings.len() - 1);
        self.mappings.insert(mapping, id);
        id
    }

    /// Interns the mapping of a file whose functions have no names yet; the build id is hexadecimal.
    pub fn file_mapping(
        &mut self,
        addresses: Range<u64>,
        offset: u64,
        filename: &str,
        build_id: &str,
    ) -> MappingId {
        let (filename, build_id) = (self.string(filename), self.string(build_id));
        let Range { start, end: limit } = addresses;
        self.mapping(Mapping { start, limit, offset, filename, build_id, ..Mapping::default() })
    }

    /// Interns the mapping of the kernel, which occupies the upper half of the address space.
    pub fn kernel_mapping(&mut self, has_names: bool) -> MappingId {
        let symbols = MappingSymbols { functions: has_names, ..MappingSymbols::default() };
        let filename = self.string(KERNEL_MAPPING);
        let (start, limit) = (KERNEL_START, u64::MAX);
        self.mapping(Mapping { start, limit, filename, symbols, ..Mapping::default() })
    }

    /// Interns a location with its frames, innermost first.
    pub fn location(&mut self, mapping: Option<MappingId>, address: u64, lines: &[Line]) -> LocationId {
        if !self.can_work(lines.len() + 1) {
            return LocationId::default();
        }
        let hash = FxBuildHasher.hash_one((mapping, address, lines));
        let profile = &self.profile;
        let is_same = |&(known, id): &(u64, LocationId)| {
            let location = profile.location(id);
            known == hash
                && (location.mapping, location.address) == (mapping, address)
                && profile.lines(id) == lines
        };
        if let Some(&(_, id)) = self.locations.find(hash, is_same) {
            return id;
        }
        if !self.has_ids(profile.lines.len() + lines.len()) || !self.has_room(LOCATION + size_of_val(lines)) {
            return LocationId::default();
        }
        let id = push_location(&mut self.profile, mapping, address, false, lines);
        self.locations.insert_unique(hash, (hash, id), |known| known.0);
        id
    }

    /// Interns a location that is only an address, to be symbolized later.
    pub fn address(&mut self, mapping: Option<MappingId>, address: u64) -> LocationId {
        if let Some(&known) = self.addresses.get(&(mapping, address)) {
            return known;
        }
        if !self.has_room(ADDRESS) {
            return LocationId::default();
        }
        let id = push_location(&mut self.profile, mapping, address, false, &[]);
        self.addresses.insert((mapping, address), id);
        id
    }

    /// Interns an address whose function is known by name; the file may be empty and the line 0.
    pub fn named_address(
        &mut self,
        mapping: Option<MappingId>,
        address: u64,
        name: &str,
        filename: &str,
        line: i64,
    ) -> LocationId {
        let function = Some(self.named_function(name, filename));
        self.location(mapping, address, &[Line { function, line, column: 0 }])
    }

    /// Interns a location that is only a function, for formats without addresses.
    pub fn frame(&mut self, function: FunctionId, line: i64) -> LocationId {
        self.location(None, 0, &[Line { function: Some(function), line, column: 0 }])
    }

    /// Interns a location that is only a name, such as a mark between the frames of a stack.
    pub fn named_frame(&mut self, name: &str) -> LocationId {
        let function = self.named_function(name, "");
        self.frame(function, 0)
    }

    /// Interns a stack, leaf first.
    pub fn stack(&mut self, locations: &[LocationId]) -> StackId {
        if !self.can_work(locations.len() + 1) {
            return StackId::default();
        }
        let budget = self.budget.as_ref();
        let frames = self.profile.stacks.items.len() + locations.len();
        let has_room = || {
            budget
                .is_none_or(|budget| budget.has_ids(frames) && budget.has_room(ROW + size_of_val(locations)))
        };
        let stacks = Arc::make_mut(&mut self.profile.stacks);
        StackId::from_index(self.stacks.intern_if(stacks, locations, has_room).unwrap_or(0))
    }

    /// Interns a set of labels.
    pub fn labels(&mut self, labels: &[Label]) -> LabelSetId {
        if !self.can_work(labels.len() + 1) {
            return LabelSetId::EMPTY;
        }
        let budget = self.budget.as_ref();
        let count = self.profile.label_sets.items.len() + labels.len();
        let has_room = || {
            budget.is_none_or(|budget| budget.has_ids(count) && budget.has_room(ROW + size_of_val(labels)))
        };
        let sets = &mut self.profile.label_sets;
        LabelSetId::from_index(self.label_sets.intern_if(sets, labels, has_room).unwrap_or(0))
    }

    /// Returns a text label.
    pub fn text_label(&mut self, key: &str, text: &str) -> Label {
        Label { key: self.string(key), text: self.string(text), ..Label::default() }
    }

    /// Returns a numeric label.
    pub fn number_label(&mut self, key: &str, number: i64, unit: &str) -> Label {
        Label { key: self.string(key), number, unit: self.string(unit), ..Label::default() }
    }

    /// Adds a separate sample and returns its row.
    pub fn sample(&mut self, stack: StackId, labels: LabelSetId, values: &[i64]) -> usize {
        if !self.has_room(size_of::<(StackId, LabelSetId)>() + size_of_val(values)) {
            return 0;
        }
        push_sample(&mut self.profile, stack, labels, values)
    }

    /// Adds the values to the sample with the same stack and labels, and returns its row.
    pub fn merge_sample(&mut self, stack: StackId, labels: LabelSetId, values: &[i64]) -> usize {
        let width = self.profile.sample_types.len();
        if let Some(&row) = self.samples.get(&(stack, labels)) {
            let into = &mut self.profile.samples.values[row * width..(row + 1) * width];
            into.iter_mut().zip(values).for_each(|(a, b)| *a = a.saturating_add(*b));
            return row;
        }
        if !self.has_room(SAMPLE + size_of_val(values)) {
            return 0;
        }
        let row = push_sample(&mut self.profile, stack, labels, values);
        self.samples.insert((stack, labels), row);
        row
    }

    /// Notes what the value of `value_type` of the sample at `row` is based on, in addition to what was noted before.
    /// Call it for every sample, or for none.
    pub fn observe(&mut self, row: usize, value_type: usize, observed: Observed) {
        if !self.has_room(size_of::<Observed>()) {
            return;
        }
        let samples = self.profile.sample_count();
        let into =
            self.profile.observations.get_or_insert_with(|| Observations { value_type, rows: Vec::new() });
        into.rows.resize(samples, Observed::default());
        if let Some(known) = into.rows.get_mut(row) {
            *known += observed;
        }
    }

    /// Returns the finished profile.
    pub fn finish(self) -> Profile {
        self.finish_with(None, None)
    }

    /// Returns the finished profile of a capture that knows when its samples were taken and how good they are.
    pub fn finish_with(mut self, timeline: Option<Timeline>, quality: Option<Quality>) -> Profile {
        self.profile.timeline = timeline;
        self.profile.quality = quality;
        let samples = self.profile.sample_count();
        if let Some(observations) = &mut self.profile.observations {
            observations.rows.resize(samples, Observed::default());
        }
        self.profile
    }
}

pub(crate) fn push_location(
    profile: &mut Profile,
    mapping: Option<MappingId>,
    address: u64,
    is_folded: bool,
    lines: &[Line],
) -> LocationId {
    let first_line = u32::try_from(profile.lines.len()).expect("fewer than 2^32 lines");
    profile.lines.extend_from_slice(lines);
    let line_count = lines.len() as u32;
    profile.locations.push(Location { mapping, address, is_folded, first_line, line_count });
    LocationId::from_index(profile.locations.len() - 1)
}

pub(crate) fn push_sample(
    profile: &mut Profile,
    stack: StackId,
    labels: LabelSetId,
    values: &[i64],
) -> usize {
    assert_eq!(values.len(), profile.sample_types.len(), "one value for each sample type");
    profile.samples.stacks.push(stack);
    profile.samples.labels.push(labels);
    profile.samples.values.extend_from_slice(values);
    profile.samples.stacks.len() - 1
}
