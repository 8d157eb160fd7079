//! From profiles to the tables of a block.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use flamelet_profile::budget::hash_entry;
use flamelet_profile::{Budget, Label, LabelSetId, Location, Profile, Result, StackId};
use flamelet_store::ContentHash;
use rustc_hash::FxBuildHasher;

use super::tables::{BlockFrame, BlockTables, CodeLocation, SampleRow};
use crate::entry;
use crate::series::{SPAN, Series, TRACE, with_sample_labels, without_colons};

type ByHash<T> = HashMap<u128, T, FxBuildHasher>;

/// Collects profiles of one service and hour.
pub(crate) struct BlockBuilder {
    series: ByHash<Series>,
    stacks: ByHash<Vec<u128>>,
    locations: ByHash<CodeLocation>,
    samples: Vec<SampleRow>,
    /// The ids of traces and spans.
    ids: HashSet<Arc<str>, FxBuildHasher>,
    budget: Budget,
}

/// What the samples with one set of labels become.
struct LabelledSeries {
    /// For each value.
    series: Vec<u128>,
    trace: Option<Arc<str>>,
    span: Option<Arc<str>>,
}

impl BlockBuilder {
    /// Charges what it keeps to `budget`.
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            series: ByHash::default(),
            stacks: ByHash::default(),
            locations: ByHash::default(),
            samples: Vec::new(),
            ids: HashSet::default(),
            budget: budget.clone(),
        }
    }

    /// Adds an accepted profile.
    pub(crate) fn add(&mut self, entry: &entry::AcceptedProfile, profile: &Profile) -> Result<()> {
        let locations: Vec<u128> = profile
            .locations()
            .iter()
            .map(|location| self.location(profile, location))
            .collect::<Result<_>>()?;
        let mut stacks: HashMap<_, u128, FxBuildHasher> = HashMap::default();
        let mut labels: HashMap<_, LabelledSeries, FxBuildHasher> = HashMap::default();
        for sample in profile.samples() {
            let stack = match stacks.get(&sample.stack) {
                Some(&known) => known,
                None => {
                    let list = profile.stack(sample.stack).iter().map(|id| locations[id.index()]).collect();
                    *stacks.entry(sample.stack).or_insert(self.stack(list)?)
                }
            };
            let labelled = match labels.entry(sample.labels) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    new.insert(self.labelled(entry, profile, profile.labels(sample.labels))?)
                }
            };
            for (&series, &value) in
                labelled.series.iter().zip(sample.values).filter(|(_, value)| **value != 0)
            {
                let (trace, span) = (labelled.trace.clone(), labelled.span.clone());
                let (time, duration, profile) = (entry.time, entry.duration, entry.id);
                self.row(SampleRow { series, time, duration, profile, stack, value, trace, span })?;
            }
        }
        Ok(())
    }

    /// Adds another block.
    pub(crate) fn merge(&mut self, tables: BlockTables) -> Result<()> {
        for (hash, series) in tables.series {
            self.keep_series(hash, || series)?;
        }
        for (hash, location) in tables.locations {
            self.keep_location(hash, || location)?;
        }
        for (_, list) in tables.stacks {
            self.stack(list)?;
        }
        for row in tables.samples {
            let (trace, span) = (self.id(row.trace.as_deref())?, self.id(row.span.as_deref())?);
            self.row(SampleRow { trace, span, ..row })?;
        }
        Ok(())
    }

    /// Returns the tables, sorted, so that the same profiles give the same files.
    pub(crate) fn finish(self) -> BlockTables {
        let mut tables = BlockTables {
            series: self.series.into_iter().collect(),
            stacks: self.stacks.into_iter().collect(),
            locations: self.locations.into_iter().collect(),
            samples: self.samples,
        };
        tables.series.sort_unstable_by_key(|(hash, _)| *hash);
        tables.stacks.sort_unstable_by_key(|(hash, _)| *hash);
        tables.locations.sort_unstable_by_key(|(hash, _)| *hash);
        tables.samples.sort_unstable_by(|a, b| a.key().cmp(&b.key()));
        tables.samples.dedup_by(|later, first| {
            let is_same = later.key() == first.key();
            if is_same {
                first.value = first.value.saturating_add(later.value);
            }
            is_same
        });
        tables
    }

    fn row(&mut self, row: SampleRow) -> Result<()> {
        self.budget.charge(ROW)?;
        self.samples.push(row);
        Ok(())
    }

    fn labelled(
        &mut self,
        entry: &entry::AcceptedProfile,
        profile: &Profile,
        own: &[Label],
    ) -> Result<LabelledSeries> {
        let labels = with_sample_labels(&entry.labels, profile, own);
        let text = |name: &str| {
            let label = own.iter().find(|label| label.is_text() && profile.string(label.key) == name)?;
            Some(profile.string(label.text))
        };
        let (trace, span) = (self.id(text(TRACE))?, self.id(text(SPAN))?);
        let period = profile.header.period_type.unwrap_or_default();
        let mut series = Vec::new();
        for value in profile.sample_types() {
            let one = Series {
                service: entry.service.clone(),
                name: entry.name.clone(),
                kind: without_colons(profile.string(value.kind)),
                unit: without_colons(profile.string(value.unit)),
                period_kind: without_colons(profile.string(period.kind)),
                period_unit: without_colons(profile.string(period.unit)),
                period: profile.header.period,
                labels: labels.clone(),
            };
            let hash = one.hash();
            self.keep_series(hash, || one)?;
            series.push(hash);
        }
        Ok(LabelledSeries { series, trace, span })
    }

    /// Returns an id that rows share.
    fn id(&mut self, text: Option<&str>) -> Result<Option<Arc<str>>> {
        let Some(text) = text else { return Ok(None) };
        if let Some(known) = self.ids.get(text) {
            return Ok(Some(known.clone()));
        }
        self.budget.charge(id_cost(text.len()))?;
        let id: Arc<str> = text.into();
        self.ids.insert(id.clone());
        Ok(Some(id))
    }

    fn keep_series(&mut self, hash: u128, series: impl FnOnce() -> Series) -> Result<()> {
        if self.series.contains_key(&hash) {
            return Ok(());
        }
        let series = series();
        self.budget.charge(series_cost(&series))?;
        self.series.insert(hash, series);
        Ok(())
    }

    /// Keeps a stack, leaf first, and returns its hash.
    fn stack(&mut self, list: Vec<u128>) -> Result<u128> {
        self.budget.work(list.len() + 1)?;
        let callers = list.iter().rev();
        let hash = callers.fold(ContentHash::EMPTY, |stack, frame| stack.calling(ContentHash(*frame))).0;
        if !self.stacks.contains_key(&hash) {
            self.budget.charge(stack_cost(list.len()))?;
            self.stacks.insert(hash, list);
        }
        Ok(hash)
    }

    fn location(&mut self, profile: &Profile, location: &Location) -> Result<u128> {
        let location = described(profile, location);
        let hash = location.hash();
        self.keep_location(hash, || location)?;
        Ok(hash)
    }

    fn keep_location(&mut self, hash: u128, location: impl FnOnce() -> CodeLocation) -> Result<()> {
        if self.locations.contains_key(&hash) {
            return Ok(());
        }
        let location = location();
        self.budget.charge(location_cost(&location))?;
        self.locations.insert(hash, location);
        Ok(())
    }
}

/// What a row takes: the table is copied while it grows.
const ROW: usize = 2 * size_of::<SampleRow>();
/// What the texts of a location take without their bytes, and those of a frame.
const LOCATION_TEXTS: usize = 64;
const FRAME: usize = size_of::<BlockFrame>() + 96;

fn id_cost(length: usize) -> usize {
    hash_entry(size_of::<Arc<str>>()) + length + 48
}

fn series_cost(series: &Series) -> usize {
    let Series { service, name, kind, unit, period_kind, period_unit, period: _, labels } = series;
    let own: usize = [service, name, kind, unit, period_kind, period_unit].map(String::len).iter().sum();
    hash_entry(size_of::<(u128, Series)>()) + own + labels_cost(labels) + 256
}

fn labels_cost(labels: &[(String, String)]) -> usize {
    labels.iter().map(|(name, value)| name.len() + value.len() + 80).sum()
}

fn stack_cost(depth: usize) -> usize {
    hash_entry(size_of::<(u128, Vec<u128>)>()) + depth * size_of::<u128>()
}

fn location_cost(location: &CodeLocation) -> usize {
    let of_frame =
        |frame: &BlockFrame| FRAME + frame.function.len() + frame.system_name.len() + frame.file.len();
    let frames: usize = location.frames.iter().map(of_frame).sum();
    let texts = location.build_id.len() + location.mapping.len() + LOCATION_TEXTS;
    hash_entry(size_of::<(u128, CodeLocation)>()) + frames + texts
}

/// What a profile takes in a block.
pub(crate) struct Cost {
    /// How much [`BlockBuilder::add`] charges for it, at most.
    pub(crate) memory: usize,
    /// The bytes of texts in it. A small file may have very many: its locations may share a long name, and its sets of
    /// labels a long text.
    pub(crate) texts: usize,
}

/// Returns what a profile takes in a block.
pub(crate) fn cost(entry: &entry::AcceptedProfile, profile: &Profile) -> Cost {
    let mut cost = Cost { memory: 0, texts: 0 };
    for sample in profile.samples() {
        cost.memory += sample.values.iter().filter(|value| **value != 0).count() * ROW;
    }
    for at in 0..profile.stack_count() {
        cost.memory += stack_cost(profile.stack(StackId::from_index(at)).len());
    }
    let length = |id| profile.string(id).len();
    for location in profile.locations() {
        cost.memory += hash_entry(size_of::<(u128, CodeLocation)>()) + LOCATION_TEXTS;
        for function in profile.lines_of(location).iter().filter_map(|line| line.function) {
            let function = profile.function(function);
            cost.memory += FRAME;
            cost.texts += length(function.name) + length(function.system_name) + length(function.filename);
        }
        if let Some(mapping) = location.mapping.map(|id| profile.mapping(id)) {
            cost.texts += length(mapping.build_id) + length(mapping.filename);
        }
    }
    let period = profile.header.period_type.into_iter();
    let types = profile.sample_types().iter().copied().chain(period);
    let types: usize = types.map(|value| length(value.kind) + length(value.unit)).sum();
    let (own, values) = (labels_cost(&entry.labels), profile.sample_types().len());
    for at in 0..profile.label_set_count() {
        let labels = profile.labels(LabelSetId::from_index(at)).iter();
        let texts: usize = labels.clone().map(|label| length(label.key) + length(label.text)).sum();
        let texts = texts + types + own + entry.service.len() + entry.name.len();
        cost.memory += values * (hash_entry(size_of::<(u128, Series)>()) + 256 * (labels.len() + 1));
        cost.texts += values * texts;
    }
    cost.memory += cost.texts;
    cost
}

/// Returns what is known about a location. An address outside any file means something in one process only, so it is
/// left out where there is a name.
fn described(profile: &Profile, location: &Location) -> CodeLocation {
    let text = |id| profile.string(id).to_owned();
    let lines = profile
        .lines_of(location)
        .iter()
        .filter_map(|line| Some((profile.function(line.function?), line.line)));
    let frames: Vec<BlockFrame> = lines
        .map(|(function, line)| BlockFrame {
            function: text(function.name),
            system_name: text(function.system_name),
            file: text(function.filename),
            line,
        })
        .collect();
    let mapping = location.mapping.map(|id| profile.mapping(id));
    let inside = mapping.filter(|mapping| (mapping.start..mapping.limit).contains(&location.address));
    match inside {
        Some(mapping) => CodeLocation {
            build_id: text(mapping.build_id),
            mapping: text(mapping.filename),
            offset: (location.address - mapping.start).wrapping_add(mapping.offset),
            frames,
        },
        None => {
            let offset = if frames.is_empty() { location.address } else { 0 };
            let named = mapping.filter(|_| !frames.is_empty());
            let (build_id, file) =
                named.map_or_else(Default::default, |of| (text(of.build_id), text(of.filename)));
            CodeLocation { build_id, mapping: file, offset, frames }
        }
    }
}
