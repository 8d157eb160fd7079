//! From profiles to the tables of a block.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use flamelet_profile::budget::hash_entry;
use flamelet_profile::{Budget, LabelSetId, Profile, Result, StackId};
use rustc_hash::FxBuildHasher;

use super::part::{CodeStack, Part, RowIds, stack_hash};
use super::tables::{BlockFrame, BlockTables, CodeLocation, SampleRow};
use crate::entry;
use crate::series::Series;

type ByHash<T> = HashMap<u128, T, FxBuildHasher>;

/// Stacks that are kept outside of blocks, each with the number of where it is.
pub(crate) type SharedStacks = ByHash<u32>;

/// Collects profiles of one service and hour.
pub(crate) struct BlockBuilder<'s> {
    shared: Option<&'s SharedStacks>,
    /// The numbers of those that it refers to.
    used: BTreeSet<u32>,
    series: ByHash<Series>,
    stacks: ByHash<Vec<u128>>,
    locations: ByHash<Arc<CodeLocation>>,
    samples: Vec<SampleRow>,
    /// The ids of traces and spans.
    ids: HashSet<Arc<str>, FxBuildHasher>,
    budget: Budget,
}

impl<'s> BlockBuilder<'s> {
    /// Charges what it keeps to `budget`.
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            shared: None,
            used: BTreeSet::new(),
            series: ByHash::default(),
            stacks: ByHash::default(),
            locations: ByHash::default(),
            samples: Vec::new(),
            ids: HashSet::default(),
            budget: budget.clone(),
        }
    }

    /// Leaves out stacks that are kept elsewhere.
    pub(crate) fn without(self, shared: Option<&'s SharedStacks>) -> Self {
        Self { shared, ..self }
    }

    /// Returns the numbers of where the stacks are that were left out.
    pub(crate) fn used(&self) -> impl Iterator<Item = usize> {
        self.used.iter().map(|number| *number as usize)
    }

    /// Adds the rows of the profile with this hash.
    pub(crate) fn add(&mut self, part: &Part, profile: u128) -> Result<()> {
        for (hash, series) in &part.series {
            self.keep_series(*hash, || Series::clone(series))?;
        }
        for stack in &part.stacks {
            self.keep_code(stack)?;
        }
        let mut ids: Vec<RowIds> = Vec::new();
        for (trace, span) in &part.ids {
            ids.push((self.id(trace.as_deref())?, self.id(span.as_deref())?));
        }
        for row in &part.rows {
            let (time, duration) = part.times[row.time as usize];
            let (trace, span) = ids[row.ids as usize].clone();
            let (series, stack) = (part.series[row.series as usize].0, part.stacks[row.stack as usize].hash);
            self.row(SampleRow { series, time, duration, profile, stack, value: row.value, trace, span })?;
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
            shared: Vec::new(),
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

    /// Keeps a stack, leaf first.
    fn stack(&mut self, list: Vec<u128>) -> Result<()> {
        self.budget.work(list.len() + 1)?;
        let hash = stack_hash(list.iter().rev().copied());
        if !self.stacks.contains_key(&hash) {
            self.budget.charge(stack_cost(list.len()))?;
            self.stacks.insert(hash, list);
        }
        Ok(())
    }

    fn keep_code(&mut self, stack: &CodeStack) -> Result<()> {
        if self.stacks.contains_key(&stack.hash) {
            return Ok(());
        }
        if let Some(&number) = self.shared.and_then(|shared| shared.get(&stack.hash)) {
            self.used.insert(number);
            return Ok(());
        }
        self.budget.charge(stack_cost(stack.locations.len()))?;
        for (hash, location) in &stack.locations {
            self.keep_location(*hash, || location.clone())?;
        }
        self.stacks.insert(stack.hash, stack.locations.iter().map(|(hash, _)| *hash).collect());
        Ok(())
    }

    fn keep_location(&mut self, hash: u128, location: impl FnOnce() -> Arc<CodeLocation>) -> Result<()> {
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
    hash_entry(size_of::<(u128, Series)>()) + series.memory()
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
    let (own, values) = (labels_cost(&entry.labels), profile.sample_types().len());
    cost.memory += (profile.label_set_count() + entry.gone.len()) * values * ROW;
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
    for labels in &entry.gone {
        let texts = labels_cost(labels) + types + entry.service.len() + entry.name.len();
        cost.memory += values * (hash_entry(size_of::<(u128, Series)>()) + 256);
        cost.texts += values * texts;
    }
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
