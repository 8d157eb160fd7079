//! Combines profiles: merge, subtract, scale, normalize.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;

use crate::builder::{push_location, push_sample};
use crate::model::{FunctionIndex, MappingSymbols};
use crate::rows::RowIndex;
use crate::{
    Budget, Error, ErrorKind, Event, Function, FunctionId, KnownCrate, Label, LabelSetId, Limits, Line,
    LocationId, Mapping, MappingId, Observations, Observed, Profile, Quality, Result, StackId, StringId,
    Thread, ThreadId, Timeline, ValueType, unit,
};

/// Merges profiles into one: values of equal stacks with equal labels are added up, and samples whose values are all
/// 0 are dropped.
///
/// Sample types are matched by name, in any order; those that are not in all profiles are dropped, and units are
/// converted to the finest. Mappings are matched by build id (or file) and size, so that the same binary at two
/// addresses counts once.
pub fn merge(profiles: &[&Profile]) -> Result<Profile> {
    merge_within(profiles, &Budget::new(Limits::NONE))
}

/// Like [`merge`], but charges its memory to `budget`: about as much as the profiles take, and as much again for the
/// indexes that find equal rows. The caller accounts for the profiles themselves.
pub fn merge_within(profiles: &[&Profile], budget: &Budget) -> Result<Profile> {
    let _indexes = budget.lend(profiles.iter().map(|profile| profile.byte_size()).sum())?;
    budget.charge(profiles.iter().map(|profile| profile.byte_size()).sum())?;
    let Some(first) = profiles.first() else {
        return Err(Error::new(ErrorKind::Incompatible, "no profile to merge"));
    };
    let columns = common_sample_types(profiles)?;
    let mut merger = Merger::default();
    merger.label_sets.intern(&mut merger.into.label_sets, &[]);
    merger.into.sample_types = columns.iter().map(|column| column.intern_in(&mut merger.into)).collect();
    merge_headers(&mut merger.into, first, profiles);
    merger.into.observations =
        observed_column(profiles, &columns).map(|value_type| Observations { value_type, rows: Vec::new() });
    for (at, profile) in profiles.iter().enumerate() {
        let values: Vec<(usize, f64)> = columns.iter().map(|column| column.sources[at]).collect();
        merger.add(profile, &values);
    }
    let mut merged = merger.into;
    merged.drop_zero_samples();
    // Several heaps, or several moments of one, have no common size over time.
    if let [only] = profiles {
        merged.heap_sizes = only.heap_sizes.clone();
    }
    Ok(merged)
}

/// A sample type that all profiles have.
struct SharedColumn {
    kind: String,
    unit: String,
    /// For each profile, the column of its value and the factor to multiply it by.
    sources: Vec<(usize, f64)>,
}

impl SharedColumn {
    fn intern_in(&self, profile: &mut Profile) -> ValueType {
        ValueType { kind: profile.intern(&self.kind), unit: profile.intern(&self.unit) }
    }
}

fn common_sample_types(profiles: &[&Profile]) -> Result<Vec<SharedColumn>> {
    let first = profiles[0];
    let mut columns = Vec::new();
    let kinds: Vec<KindIndex<'_>> = profiles.iter().map(|profile| kind_index(profile)).collect();
    for value_type in &first.sample_types {
        let kind = first.string(value_type.kind);
        let places: Option<Vec<usize>> = kinds.iter().map(|kinds| kinds.get(kind).copied()).collect();
        let Some(places) = places else { continue };
        let units: Vec<&str> = std::iter::zip(profiles, &places)
            .map(|(profile, &at)| profile.string(profile.sample_types[at].unit))
            .collect();
        let finest = finest_unit(&units).ok_or_else(|| {
            let message = format!("the profiles measure {kind} in units that do not convert: {units:?}");
            Error::new(ErrorKind::Incompatible, message)
        })?;
        let sources = std::iter::zip(places, &units).map(|(at, from)| (at, unit::ratio(from, finest)));
        columns.push(SharedColumn { kind: kind.into(), unit: finest.into(), sources: sources.collect() });
    }
    if columns.is_empty() {
        let kinds = |profile: &Profile| {
            let kinds = profile.sample_types.iter().map(|value_type| profile.string(value_type.kind));
            kinds.collect::<Vec<_>>().join(", ")
        };
        let other = profiles.iter().map(|profile| kinds(profile)).find(|other| *other != kinds(first));
        return Err(Error::new(
            ErrorKind::Incompatible,
            format!(
                "the profiles have no sample type in common: {} and {}",
                kinds(first),
                other.unwrap_or_default()
            ),
        ));
    }
    Ok(columns)
}

/// Returns the column in which the first profile that counts its observations gives their weights.
fn observed_column(profiles: &[&Profile], columns: &[SharedColumn]) -> Option<usize> {
    profiles.iter().enumerate().find_map(|(at, profile)| {
        let value_type = profile.observations.as_ref()?.value_type;
        columns.iter().position(|column| column.sources[at].0 == value_type)
    })
}

/// The first column of each kind of value.
type KindIndex<'a> = HashMap<&'a str, usize, FxBuildHasher>;

fn kind_index(profile: &Profile) -> KindIndex<'_> {
    let kinds = profile.sample_types.iter().map(|value_type| profile.string(value_type.kind));
    kinds.enumerate().rev().map(|(at, kind)| (kind, at)).collect()
}

fn finest_unit<'a>(units: &[&'a str]) -> Option<&'a str> {
    let mut finest = units[0];
    for &other in &units[1..] {
        if !unit::are_compatible(finest, other) {
            return None;
        }
        if unit::ratio(other, finest) < 1.0 {
            finest = other;
        }
    }
    Some(finest)
}

fn merge_headers(into: &mut Profile, first: &Profile, profiles: &[&Profile]) {
    let mut comments: HashSet<StringId, FxBuildHasher> = HashSet::default();
    let text = |from: &Profile, id: StringId, into: &mut Profile| into.strings.intern(from.string(id));
    into.header.drop_frames = text(first, first.header.drop_frames, into);
    into.header.keep_frames = text(first, first.header.keep_frames, into);
    into.header.period_type = first.header.period_type.map(|period| ValueType {
        kind: text(first, period.kind, into),
        unit: text(first, period.unit, into),
    });
    for profile in profiles {
        let from = &profile.header;
        if into.header.time_nanos == 0 || (from.time_nanos != 0 && from.time_nanos < into.header.time_nanos) {
            into.header.time_nanos = from.time_nanos;
        }
        into.header.duration_nanos = into.header.duration_nanos.saturating_add(from.duration_nanos);
        into.header.period = into.header.period.max(from.period);
        if into.header.default_sample_type.is_empty() {
            into.header.default_sample_type = text(profile, from.default_sample_type, into);
        }
        if into.header.doc_url.is_empty() {
            into.header.doc_url = text(profile, from.doc_url, into);
        }
        for &comment in &from.comments {
            let comment = text(profile, comment, into);
            if comments.insert(comment) {
                into.header.comments.push(comment);
            }
        }
        into.quality = merge_quality(into, profile);
    }
}

fn merge_quality(into: &mut Profile, from: &Profile) -> Option<Quality> {
    let Some(other) = from.quality else { return into.quality };
    let engine = into.strings.intern(from.string(other.engine));
    let other = Quality { engine, ..other };
    Some(into.quality.map_or(other, |mine| mine.and(other)))
}

/// What identifies a mapped file, wherever it was loaded.
#[derive(PartialEq, Eq, Hash)]
struct MappingKey {
    size: u64,
    offset: u64,
    build_id_or_file: StringId,
}

/// What identifies a location, wherever its mapping was loaded.
#[derive(PartialEq, Eq, Hash)]
struct LocationKey {
    mapping: Option<MappingId>,
    offset: u64,
    is_folded: bool,
    lines: Vec<Line>,
}

#[derive(Default)]
struct Merger {
    into: Profile,
    functions: FunctionIndex,
    mappings: HashMap<MappingKey, MappingId, FxBuildHasher>,
    locations: HashMap<LocationKey, LocationId, FxBuildHasher>,
    stacks: RowIndex,
    label_sets: RowIndex,
    samples: HashMap<(StackId, LabelSetId), usize, FxBuildHasher>,
    threads: HashMap<Thread, ThreadId, FxBuildHasher>,
}

impl Merger {
    /// Adds the samples of `from`; `values` gives the column and the factor of each value.
    fn add(&mut self, from: &Profile, values: &[(usize, f64)]) {
        let strings: Vec<StringId> = from.strings.iter().map(|text| self.into.strings.intern(text)).collect();
        let functions: Vec<FunctionId> =
            from.functions.iter().map(|function| self.function(function, &strings)).collect();
        let mappings: Vec<(MappingId, u64)> =
            from.mappings.iter().map(|mapping| self.mapping(mapping, &strings)).collect();
        let locations: Vec<LocationId> = (0..from.locations.len())
            .map(|row| self.location(from, LocationId::from_index(row), &functions, &mappings))
            .collect();
        let label_sets: Vec<LabelSetId> =
            (0..from.label_sets.len()).map(|row| self.labels(from.label_sets.get(row), &strings)).collect();
        let mut stack = Vec::new();
        let mut scaled = Vec::new();
        let rows: Vec<usize> = from
            .samples()
            .map(|sample| {
                stack.clear();
                stack.extend(from.stack(sample.stack).iter().map(|location| locations[location.index()]));
                scaled.clear();
                scaled.extend(values.iter().map(|&(at, factor)| scale_value(sample.values[at], factor)));
                self.sample(&stack, label_sets[sample.labels.index()], &scaled)
            })
            .collect();
        for known in &from.known_crates {
            self.into.know_crate(KnownCrate {
                name: strings[known.name.index()],
                version: strings[known.version.index()],
                ..*known
            });
        }
        if let Some(timeline) = &from.timeline {
            self.timeline(timeline, &rows, &strings, values);
        }
        self.observations(from, &rows, values);
    }

    /// Adds the observations of `from`. Those of a profile that does not state them are derived.
    fn observations(&mut self, from: &Profile, rows: &[usize], values: &[(usize, f64)]) {
        let samples = self.into.sample_count();
        let Some(into) = &mut self.into.observations else { return };
        into.rows.resize(samples, Observed::default());
        let (column, factor) = values[into.value_type];
        for (observed, &row) in from.observed(column).into_iter().zip(rows) {
            into.rows[row] += Observed { squares: observed.squares * factor * factor, ..observed };
        }
    }

    fn function(&mut self, from: &Function, strings: &[StringId]) -> FunctionId {
        let function = Function {
            name: strings[from.name.index()],
            system_name: strings[from.system_name.index()],
            filename: strings[from.filename.index()],
            start_line: from.start_line,
        };
        let functions = &mut self.into.functions;
        *self.functions.entry(function).or_insert_with(|| {
            functions.push(function);
            FunctionId::from_index(functions.len() - 1)
        })
    }

    /// Returns the mapping's new id, and what to add to the addresses inside it.
    fn mapping(&mut self, from: &Mapping, strings: &[StringId]) -> (MappingId, u64) {
        let mapping = Mapping {
            filename: strings[from.filename.index()],
            build_id: strings[from.build_id.index()],
            ..*from
        };
        // Sizes differ by less than a page between kernels and tools.
        let size = mapping.limit.wrapping_sub(mapping.start).wrapping_add(0xfff) & !0xfff;
        let identity = if mapping.build_id.is_empty() { mapping.filename } else { mapping.build_id };
        let key = MappingKey { size, offset: mapping.offset, build_id_or_file: identity };
        let mappings = &mut self.into.mappings;
        let id = *self.mappings.entry(key).or_insert_with(|| {
            mappings.push(mapping);
            MappingId::from_index(mappings.len() - 1)
        });
        let into = &mut mappings[id.index()];
        into.symbols = common_symbols(into.symbols, mapping.symbols);
        (id, into.start.wrapping_sub(mapping.start))
    }

    fn location(
        &mut self,
        from: &Profile,
        id: LocationId,
        functions: &[FunctionId],
        mappings: &[(MappingId, u64)],
    ) -> LocationId {
        let location = from.location(id);
        let mapped = location.mapping.map(|mapping| mappings[mapping.index()]);
        let (mapping, moved) = mapped.map_or((None, 0), |(mapping, moved)| (Some(mapping), moved));
        let address = location.address.wrapping_add(moved);
        let start = mapping.map_or(0, |mapping| self.into.mappings[mapping.index()].start);
        let lines: Vec<Line> = from
            .lines(id)
            .iter()
            .map(|line| Line { function: line.function.map(|function| functions[function.index()]), ..*line })
            .collect();
        let key = LocationKey {
            mapping,
            offset: address.wrapping_sub(start),
            is_folded: location.is_folded,
            lines,
        };
        if let Some(&known) = self.locations.get(&key) {
            return known;
        }
        let new = push_location(&mut self.into, mapping, address, location.is_folded, &key.lines);
        self.locations.insert(key, new);
        new
    }

    fn labels(&mut self, from: &[Label], strings: &[StringId]) -> LabelSetId {
        let mut labels: Vec<Label> = from
            .iter()
            .map(|label| Label {
                key: strings[label.key.index()],
                text: strings[label.text.index()],
                number: label.number,
                unit: strings[label.unit.index()],
            })
            .collect();
        let texts = &self.into.strings;
        labels.sort_by(|a, b| texts.get(a.key).cmp(texts.get(b.key)));
        LabelSetId::from_index(self.label_sets.intern(&mut self.into.label_sets, &labels))
    }

    fn sample(&mut self, stack: &[LocationId], labels: LabelSetId, values: &[i64]) -> usize {
        let into = &mut self.into;
        let stack = StackId::from_index(self.stacks.intern(Arc::make_mut(&mut into.stacks), stack));
        if let Some(&row) = self.samples.get(&(stack, labels)) {
            let sums = &mut into.samples.values[row * values.len()..(row + 1) * values.len()];
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.saturating_add(*value));
            return row;
        }
        let row = push_sample(into, stack, labels, values);
        self.samples.insert((stack, labels), row);
        row
    }

    /// Adds the events of a profile whose columns are `values`. Events that count a kind of value that is not kept,
    /// or a different kind from the events already added, are left out.
    fn timeline(&mut self, from: &Timeline, rows: &[usize], strings: &[StringId], values: &[(usize, f64)]) {
        let Some(value_type) = values.iter().position(|&(at, _)| at == from.value_type) else { return };
        let is_other = |known: &Timeline| !known.events.is_empty() && known.value_type != value_type;
        if self.into.timeline.as_ref().is_some_and(is_other) {
            return;
        }
        let factor = values[value_type].1;
        let threads: Vec<ThreadId> = from
            .threads
            .iter()
            .map(|thread| {
                let thread = Thread {
                    name: strings[thread.name.index()],
                    process: strings[thread.process.index()],
                    ..*thread
                };
                let into = self.into.timeline.get_or_insert_default();
                *self.threads.entry(thread).or_insert_with(|| {
                    into.threads.push(thread);
                    ThreadId::from_index(into.threads.len() - 1)
                })
            })
            .collect();
        let into = self.into.timeline.get_or_insert_default();
        if into.events.is_empty() {
            (into.start_nanos, into.value_type) = (from.start_nanos, value_type);
        }
        // Times count from the earliest start. A timeline without a date starts with the others.
        let start = if from.start_nanos == 0 { into.start_nanos } else { from.start_nanos };
        if into.start_nanos == 0 {
            into.start_nanos = start;
        }
        let earlier = into.start_nanos.saturating_sub(start).max(0) as u64;
        into.events.iter_mut().for_each(|event| event.time = event.time.saturating_add(earlier));
        into.start_nanos = into.start_nanos.min(start);
        let later = start.saturating_sub(into.start_nanos) as u64;
        into.events.extend(from.events.iter().map(|event| Event {
            time: event.time.saturating_add(later),
            sample: rows[event.sample as usize] as u32,
            thread: threads[event.thread.index()],
            value: scale_value(event.value, factor),
        }));
        into.events.sort_by_key(|event| event.time);
    }
}

fn common_symbols(one: MappingSymbols, other: MappingSymbols) -> MappingSymbols {
    MappingSymbols {
        functions: one.functions && other.functions,
        filenames: one.filenames && other.filenames,
        line_numbers: one.line_numbers && other.line_numbers,
        inline_frames: one.inline_frames && other.inline_frames,
    }
}

fn scale_value(value: i64, factor: f64) -> i64 {
    if factor == 1.0 { value } else { (value as f64 * factor).round() as i64 }
}

impl Profile {
    /// Multiplies every value by `factor`.
    pub fn scale(&mut self, factor: f64) {
        self.scale_each(&vec![factor; self.sample_types.len()]);
    }

    /// Multiplies the values of each sample type by its own factor, and drops samples whose values all become 0. A
    /// profile to be subtracted loses its events: they belong to a different time from the profile it is subtracted
    /// from.
    pub fn scale_each(&mut self, factors: &[f64]) {
        assert_eq!(factors.len(), self.sample_types.len(), "one factor for each sample type");
        if factors.iter().all(|&factor| factor == 1.0) {
            return;
        }
        for values in self.samples.values.chunks_exact_mut(factors.len()) {
            values.iter_mut().zip(factors).for_each(|(value, &factor)| *value = scale_value(*value, factor));
        }
        if let Some(timeline) = &mut self.timeline {
            let factor = factors.get(timeline.value_type).copied().unwrap_or(1.0);
            timeline.events.iter_mut().for_each(|event| event.value = scale_value(event.value, factor));
        }
        if let Some(observations) = &mut self.observations {
            let factor = factors.get(observations.value_type).copied().unwrap_or(1.0);
            observations.rows.iter_mut().for_each(|row| row.squares *= factor * factor);
        }
        if factors.iter().any(|&factor| factor < 0.0) {
            self.timeline = None;
        }
        self.heap_sizes.clear();
        self.drop_zero_samples();
    }

    /// Scales this profile so that each of its totals equals the one in `base`.
    pub fn normalize_to(&mut self, base: &Profile) -> Result<()> {
        let kinds = kind_index(base);
        let factors: Result<Vec<f64>> = (0..self.sample_types.len())
            .map(|at| {
                let kind = self.string(self.sample_types[at].kind);
                let other = kinds.get(kind).copied().ok_or_else(|| {
                    Error::new(ErrorKind::Incompatible, format!("the base has no sample type {kind}"))
                })?;
                let units = (base.sample_types[other].unit, self.sample_types[at].unit);
                let ratio = unit::ratio(base.string(units.0), self.string(units.1));
                let (mine, theirs) = (self.total(at), base.total(other));
                Ok(if mine == 0 { 0.0 } else { theirs as f64 * ratio / mine as f64 })
            })
            .collect();
        self.scale_each(&factors?);
        Ok(())
    }

    /// Adds a text label to every sample, replacing one with the same key.
    pub fn label_all(&mut self, key: &str, text: &str) {
        let label = Label { key: self.intern(key), text: self.intern(text), ..Label::default() };
        self.map_label_sets(|labels| {
            labels.retain(|other| other.key != label.key);
            labels.push(label);
        });
    }

    /// Adds a text label to every sample that has a label `with`, replacing one with the same key.
    pub fn label_with(&mut self, with: &str, key: &str, text: &str) {
        let with = self.intern(with);
        let label = Label { key: self.intern(key), text: self.intern(text), ..Label::default() };
        self.map_label_sets(|labels| {
            if labels.iter().any(|other| other.key == with) {
                labels.retain(|other| other.key != label.key);
                labels.push(label);
            }
        });
    }

    /// Changes every label set, including the empty one, for the samples that have it.
    pub(crate) fn map_label_sets(&mut self, mut change: impl FnMut(&mut Vec<Label>)) {
        let mut index = RowIndex::default();
        let old = std::mem::take(&mut self.label_sets);
        index.intern(&mut self.label_sets, &[]);
        let mut labels = Vec::new();
        let ids: Vec<LabelSetId> = (0..old.len())
            .map(|row| {
                labels.clear();
                labels.extend_from_slice(old.get(row));
                change(&mut labels);
                LabelSetId::from_index(index.intern(&mut self.label_sets, &labels))
            })
            .collect();
        self.samples.labels.iter_mut().for_each(|id| *id = ids[id.index()]);
    }

    pub(crate) fn drop_zero_samples(&mut self) {
        let width = self.sample_types.len().max(1);
        let keep: Vec<bool> =
            self.samples.values.chunks_exact(width).map(|values| values.iter().any(|&v| v != 0)).collect();
        self.retain_samples(&keep);
    }

    /// Keeps the samples in the rows for which `keep` returns true.
    pub fn keep_rows(&mut self, keep: impl FnMut(usize) -> bool) {
        let keep: Vec<bool> = (0..self.sample_count()).map(keep).collect();
        self.retain_samples(&keep);
    }

    /// Keeps the samples that have this text label or, if `has` is false, those that do not.
    pub fn keep_labelled(&mut self, key: &str, text: &str, has: bool) {
        let wanted = self.strings.find(key).zip(self.strings.find(text));
        let is_labelled = |set: usize| {
            let labels = self.labels(LabelSetId::from_index(set));
            wanted.is_some_and(|wanted| labels.iter().any(|label| (label.key, label.text) == wanted))
        };
        let sets: Vec<bool> = (0..self.label_set_count()).map(is_labelled).collect();
        let of_set = |set: &LabelSetId| sets.get(set.index()).copied().unwrap_or(false) == has;
        let keep: Vec<bool> = self.samples.labels.iter().map(of_set).collect();
        if keep.contains(&false) {
            self.heap_sizes.clear();
        }
        self.retain_samples(&keep);
    }

    /// Keeps the samples for which `keep` is set, and their events.
    pub(crate) fn retain_samples(&mut self, keep: &[bool]) {
        if keep.iter().all(|&keep| keep) {
            return;
        }
        let width = self.sample_types.len();
        let mut new_rows = Vec::with_capacity(keep.len());
        let mut kept = 0;
        for (row, &keep) in keep.iter().enumerate() {
            new_rows.push(keep.then_some(kept as u32));
            if keep {
                self.samples.stacks[kept] = self.samples.stacks[row];
                self.samples.labels[kept] = self.samples.labels[row];
                self.samples.values.copy_within(row * width..(row + 1) * width, kept * width);
                if let Some(observations) = &mut self.observations {
                    observations.rows[kept] = observations.rows[row];
                }
                kept += 1;
            }
        }
        self.samples.stacks.truncate(kept);
        self.samples.labels.truncate(kept);
        self.samples.values.truncate(kept * width);
        if let Some(observations) = &mut self.observations {
            observations.rows.truncate(kept);
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.events.retain_mut(|event| match new_rows[event.sample as usize] {
                Some(row) => {
                    event.sample = row;
                    true
                }
                None => false,
            });
        }
    }
}
