//! Making a profile from samples: everything that is added is interned.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use hashbrown::{HashMap, HashTable};
use rustc_hash::FxBuildHasher;

use crate::model::Rows;
use crate::{
    Function, FunctionId, Label, LabelSetId, Line, Location, LocationId, Mapping, MappingId, Profile,
    Quality, StackId, StringId, Timeline, ValueType,
};

pub(crate) type FunctionIndex = HashMap<Function, FunctionId, FxBuildHasher>;

pub(crate) fn function_index(functions: &[Function]) -> FunctionIndex {
    functions.iter().enumerate().map(|(row, &f)| (f, FunctionId::from_index(row))).collect()
}

/// Finds equal rows of a [`Rows`], so that each is stored once.
#[derive(Default)]
pub(crate) struct RowIndex {
    rows: HashTable<u32>,
}

impl RowIndex {
    /// The number of `row`, which is stored if it is new.
    pub(crate) fn intern<T: Clone + Eq + Hash>(&mut self, table: &mut Rows<T>, row: &[T]) -> usize {
        let hash = FxBuildHasher.hash_one(row);
        if let Some(&found) = self.rows.find(hash, |&at| table.get(at as usize) == row) {
            return found as usize;
        }
        let at = table.push(row);
        self.rows.insert_unique(hash, at as u32, |&at| FxBuildHasher.hash_one(table.get(at as usize)));
        at
    }
}

/// Collects samples into a [`Profile`]. Functions, locations, stacks and label sets that are equal are
/// stored once; samples are kept as they are added, unless [`ProfileBuilder::merge_sample`] is used.
pub struct ProfileBuilder {
    profile: Profile,
    functions: FunctionIndex,
    mappings: HashMap<Mapping, MappingId, FxBuildHasher>,
    addresses: HashMap<(Option<MappingId>, u64), LocationId, FxBuildHasher>,
    /// Locations with lines by the hash of what they are, which is kept so that growing needs no look at them.
    locations: HashTable<(u64, LocationId)>,
    stacks: RowIndex,
    label_sets: RowIndex,
    samples: HashMap<(StackId, LabelSetId), usize, FxBuildHasher>,
}

impl ProfileBuilder {
    /// A profile whose samples carry these values, each given as (kind, unit).
    pub fn new(sample_types: &[(&str, &str)]) -> Self {
        let mut builder = Self {
            profile: Profile::default(),
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

    /// The profile as far as it is built; its header can be set through [`ProfileBuilder::header_mut`].
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The header, to be filled in.
    pub fn header_mut(&mut self) -> &mut crate::Header {
        &mut self.profile.header
    }

    /// Interns a string.
    pub fn string(&mut self, text: &str) -> StringId {
        self.profile.strings.intern(text)
    }

    /// Interns a value type.
    pub fn value_type(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType { kind: self.string(kind), unit: self.string(unit) }
    }

    /// Adds another kind of value. Only before the first sample.
    pub fn add_sample_type(&mut self, kind: &str, unit: &str) {
        assert!(self.profile.samples.stacks.is_empty(), "sample types come before samples");
        let value_type = self.value_type(kind, unit);
        self.profile.sample_types.push(value_type);
    }

    /// Adds a comment line.
    pub fn comment(&mut self, text: &str) {
        self.profile.add_comment(text);
    }

    /// Interns a function.
    pub fn function(&mut self, function: Function) -> FunctionId {
        let functions = &mut self.profile.functions;
        *self.functions.entry(function).or_insert_with(|| {
            functions.push(function);
            FunctionId::from_index(functions.len() - 1)
        })
    }

    /// Interns a function of which only the name (and perhaps the file) is known.
    pub fn named_function(&mut self, name: &str, filename: &str) -> FunctionId {
        let (name, filename) = (self.string(name), self.string(filename));
        self.function(Function { name, filename, ..Function::default() })
    }

    /// Interns a mapping.
    pub fn mapping(&mut self, mapping: Mapping) -> MappingId {
        let mappings = &mut self.profile.mappings;
        *self.mappings.entry(mapping).or_insert_with(|| {
            mappings.push(mapping);
            MappingId::from_index(mappings.len() - 1)
        })
    }

    /// Interns a location with its frames, innermost first.
    pub fn location(&mut self, mapping: Option<MappingId>, address: u64, lines: &[Line]) -> LocationId {
        let hash = FxBuildHasher.hash_one((mapping, address, lines));
        let profile = &mut self.profile;
        let is_same = |&(known, id): &(u64, LocationId)| {
            let location = profile.location(id);
            known == hash
                && (location.mapping, location.address) == (mapping, address)
                && profile.lines(id) == lines
        };
        if let Some(&(_, id)) = self.locations.find(hash, is_same) {
            return id;
        }
        let id = push_location(profile, mapping, address, false, lines);
        self.locations.insert_unique(hash, (hash, id), |known| known.0);
        id
    }

    /// Interns a location that is only an address, to be symbolized later.
    pub fn address(&mut self, mapping: Option<MappingId>, address: u64) -> LocationId {
        let profile = &mut self.profile;
        *self
            .addresses
            .entry((mapping, address))
            .or_insert_with(|| push_location(profile, mapping, address, false, &[]))
    }

    /// Interns a location that is only a function, as formats without addresses have it.
    pub fn frame(&mut self, function: FunctionId, line: i64) -> LocationId {
        self.location(None, 0, &[Line { function: Some(function), line, column: 0 }])
    }

    /// Interns a stack, leaf first.
    pub fn stack(&mut self, locations: &[LocationId]) -> StackId {
        StackId::from_index(self.stacks.intern(Arc::make_mut(&mut self.profile.stacks), locations))
    }

    /// Interns a set of labels.
    pub fn labels(&mut self, labels: &[Label]) -> LabelSetId {
        LabelSetId::from_index(self.label_sets.intern(&mut self.profile.label_sets, labels))
    }

    /// A text label.
    pub fn text_label(&mut self, key: &str, text: &str) -> Label {
        Label { key: self.string(key), text: self.string(text), ..Label::default() }
    }

    /// A numeric label.
    pub fn number_label(&mut self, key: &str, number: i64, unit: &str) -> Label {
        Label { key: self.string(key), number, unit: self.string(unit), ..Label::default() }
    }

    /// Adds a sample of its own and returns its row.
    pub fn sample(&mut self, stack: StackId, labels: LabelSetId, values: &[i64]) -> usize {
        push_sample(&mut self.profile, stack, labels, values)
    }

    /// Adds the values to the sample with the same stack and labels, and returns its row.
    pub fn merge_sample(&mut self, stack: StackId, labels: LabelSetId, values: &[i64]) -> usize {
        let width = self.profile.sample_types.len();
        let profile = &mut self.profile;
        if let Some(&row) = self.samples.get(&(stack, labels)) {
            let into = &mut profile.samples.values[row * width..(row + 1) * width];
            into.iter_mut().zip(values).for_each(|(a, b)| *a = a.saturating_add(*b));
            return row;
        }
        let row = push_sample(profile, stack, labels, values);
        self.samples.insert((stack, labels), row);
        row
    }

    /// Ends the work.
    pub fn finish(self) -> Profile {
        self.profile
    }

    /// Ends the work for a capture that knows when its samples were taken and how good they are.
    pub fn finish_with(mut self, timeline: Option<Timeline>, quality: Option<Quality>) -> Profile {
        self.profile.timeline = timeline;
        self.profile.quality = quality;
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
