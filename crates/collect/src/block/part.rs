//! Rows that are kept in memory: of profiles that are in no block yet, and of recently read blocks.
//!
//! They refer to their series, stacks and times by number. What several of them have in common, which is most of it, is in
//! memory once: a [`Pool`] has it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use flamelet_profile::{Label, Location, Profile, StackId};
use flamelet_store::ContentHash;
use rustc_hash::FxBuildHasher;

use super::tables::{BlockFrame, BlockTables, CodeLocation, SampleRow, location_hash};
use crate::entry::AcceptedProfile;
use crate::lock::lock;
use crate::series::{Labels, SPAN, Series, TRACE, with_sample_labels, without_colons};

type ByHash<T> = HashMap<u128, T, FxBuildHasher>;

/// A stack, by its hash, and its locations by theirs, leaf first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CodeStack {
    pub(crate) hash: u128,
    pub(crate) locations: Box<[(u128, Arc<CodeLocation>)]>,
}

/// The trace and the span of a row.
pub(crate) type RowIds = (Option<Arc<str>>, Option<Arc<str>>);

/// A row; all but the value are numbers in the tables of its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartRow {
    pub(crate) series: u32,
    pub(crate) stack: u32,
    pub(crate) time: u32,
    /// 0 for a row without a trace and a span.
    pub(crate) ids: u32,
    pub(crate) value: i64,
}

/// Rows of profiles.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) series: Vec<(u128, Arc<Series>)>,
    pub(crate) stacks: Vec<Arc<CodeStack>>,
    /// When each profile begins, and how long it is, in nanoseconds.
    pub(crate) times: Vec<(i64, i64)>,
    pub(crate) ids: Vec<RowIds>,
    pub(crate) rows: Vec<PartRow>,
}

impl Part {
    /// Makes the rows of an accepted profile. Also returns how many bytes it has added to what parts share.
    pub(crate) fn of_profile(entry: &AcceptedProfile, profile: &Profile, pool: &Pool) -> (Self, usize) {
        let mut buffer = Vec::new();
        let hashes: Vec<u128> =
            profile.locations().iter().map(|location| hash_of(profile, location, &mut buffer)).collect();
        let mut pooled = lock(&pool.0);
        let before = pooled.bytes;
        let mut part = Numbering::new((entry.time, entry.duration));
        let (mut stacks, mut labels) = (ByNumber::default(), ByNumber::default());
        for sample in profile.samples() {
            let stack = *stacks.entry(sample.stack.index()).or_insert_with(|| {
                let stack = pooled.stack_of(profile, sample.stack, &hashes);
                part.stack(stack.hash, || stack)
            });
            let (series, ids) = labels.entry(sample.labels.index()).or_insert_with(|| {
                let own = profile.labels(sample.labels);
                let labels = with_sample_labels(&entry.labels, profile, own);
                (part.all_series(entry, profile, &labels, &mut pooled), part.ids_of(profile, own))
            });
            let rows = series.iter().zip(sample.values).filter(|(_, value)| **value != 0);
            part.rows.extend(rows.map(|(&series, &value)| PartRow {
                series,
                stack,
                time: 0,
                ids: *ids,
                value,
            }));
        }
        let mut series: Vec<u32> = labels.into_values().flat_map(|(series, _)| series).collect();
        for labels in &entry.gone {
            series.extend(part.all_series(entry, profile, labels, &mut pooled));
        }
        part.add_nothing(&series, &mut pooled);
        let added = pooled.bytes - before;
        pooled.sweep_if_large();
        (part.part, added)
    }

    pub(crate) fn of_block(tables: &BlockTables, samples: &[SampleRow], pool: &Pool) -> Self {
        let mut pooled = lock(&pool.0);
        let mut part = Numbering::default();
        part.part.rows.reserve_exact(samples.len());
        let mut last: Option<(&SampleRow, u32, u32)> = None;
        for row in samples {
            // Rows are sorted: those of a series and of a moment come together.
            let series = match last {
                Some((before, series, _)) if before.series == row.series => series,
                _ => part.series(row.series, || match tables.series(row.series) {
                    Some(series) => pooled.series(row.series, || series.clone()),
                    None => Arc::default(),
                }),
            };
            let time = match last {
                Some((before, _, time)) if (before.time, before.duration) == (row.time, row.duration) => time,
                _ => part.time((row.time, row.duration)),
            };
            let stack = part.stack(row.stack, || pooled.stack_in(tables, row.stack));
            let ids = part.ids((row.trace.clone(), row.span.clone()));
            part.rows.push(PartRow { series, stack, time, ids, value: row.value });
            last = Some((row, series, time));
        }
        pooled.sweep_if_large();
        part.part
    }

    /// Returns how many bytes it takes without what it shares.
    pub(crate) fn bytes(&self) -> usize {
        let of_ids = |id: &Option<Arc<str>>| id.as_ref().map_or(0, |id| id.len() + 32);
        size_of_val(&*self.rows)
            + size_of_val(&*self.series)
            + size_of_val(&*self.stacks)
            + size_of_val(&*self.times)
            + self
                .ids
                .iter()
                .map(|(trace, span)| size_of::<RowIds>() + of_ids(trace) + of_ids(span))
                .sum::<usize>()
    }
}

type ByNumber<T> = HashMap<usize, T, FxBuildHasher>;

/// A part that is being made, with the numbers of what it has.
#[derive(Default)]
struct Numbering {
    part: Part,
    series: ByHash<u32>,
    stacks: ByHash<u32>,
    times: HashMap<(i64, i64), u32, FxBuildHasher>,
    ids: HashMap<RowIds, u32, FxBuildHasher>,
}

impl std::ops::Deref for Numbering {
    type Target = Part;

    fn deref(&self) -> &Part {
        &self.part
    }
}

impl std::ops::DerefMut for Numbering {
    fn deref_mut(&mut self) -> &mut Part {
        &mut self.part
    }
}

impl Numbering {
    fn new(time: (i64, i64)) -> Self {
        let mut new = Self::default();
        new.time(time);
        new
    }

    fn series(&mut self, hash: u128, make: impl FnOnce() -> Arc<Series>) -> u32 {
        let list = &mut self.part.series;
        *self.series.entry(hash).or_insert_with(|| numbered(list, (hash, make())))
    }

    fn stack(&mut self, hash: u128, make: impl FnOnce() -> Arc<CodeStack>) -> u32 {
        let list = &mut self.part.stacks;
        *self.stacks.entry(hash).or_insert_with(|| numbered(list, make()))
    }

    fn time(&mut self, time: (i64, i64)) -> u32 {
        let list = &mut self.part.times;
        *self.times.entry(time).or_insert_with(|| numbered(list, time))
    }

    fn ids(&mut self, ids: RowIds) -> u32 {
        if self.part.ids.is_empty() {
            self.part.ids.push((None, None));
        }
        if ids.0.is_none() && ids.1.is_none() {
            return 0;
        }
        let list = &mut self.part.ids;
        *self.ids.entry(ids).or_insert_with_key(|ids| numbered(list, ids.clone()))
    }

    fn ids_of(&mut self, profile: &Profile, own: &[Label]) -> u32 {
        let text = |name: &str| {
            let label = own.iter().find(|label| label.is_text() && profile.string(label.key) == name)?;
            Some(profile.string(label.text).into())
        };
        self.ids((text(TRACE), text(SPAN)))
    }

    /// Adds a row of 0 for each of these series that says how much there is at a moment and has no row: otherwise its
    /// last moment would be the one before.
    fn add_nothing(&mut self, series: &[u32], pooled: &mut Pooled) {
        let is_gauge = |series: &u32| self.part.series[*series as usize].1.is_gauge();
        let mut nothing: BTreeSet<u32> = series.iter().copied().filter(is_gauge).collect();
        for row in &self.part.rows {
            nothing.remove(&row.series);
        }
        if nothing.is_empty() {
            return;
        }
        let (ids, hash) = (self.ids((None, None)), stack_hash(std::iter::empty()));
        let stack = self.stack(hash, || pooled.empty_stack());
        let row = |series| PartRow { series, stack, time: 0, ids, value: 0 };
        self.part.rows.extend(nothing.into_iter().map(row));
    }

    /// Returns the series of each value of the samples that have these labels, also those of the profile.
    fn all_series(
        &mut self,
        entry: &AcceptedProfile,
        profile: &Profile,
        labels: &Labels,
        pooled: &mut Pooled,
    ) -> Vec<u32> {
        let period = profile.header.period_type.unwrap_or_default();
        let text = |id| without_colons(profile.string(id));
        let of_value = |value: &flamelet_profile::ValueType| Series {
            service: entry.service.clone(),
            name: entry.name.clone(),
            kind: text(value.kind),
            unit: text(value.unit),
            period_kind: text(period.kind),
            period_unit: text(period.unit),
            period: profile.header.period,
            labels: labels.clone(),
        };
        let all = profile.sample_types().iter().map(of_value);
        all.map(|series| {
            let hash = series.hash();
            self.series(hash, || pooled.series(hash, || series))
        })
        .collect()
    }
}

fn numbered<T>(list: &mut Vec<T>, new: T) -> u32 {
    list.push(new);
    (list.len() - 1) as u32
}

/// What parts have in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool(Arc<Mutex<Pooled>>);

/// The content of a pool. Each hash in it is the one of what it stands for, so that a block that lies about one cannot
/// change what another block shows.
#[derive(Debug, Default)]
pub(crate) struct Pooled {
    series: ByHash<Arc<Series>>,
    stacks: ByHash<Arc<CodeStack>>,
    locations: ByHash<Arc<CodeLocation>>,
    bytes: usize,
    /// How many there were after the unused ones were last removed.
    used: usize,
}

/// A pool of fewer bytes is not searched for unused entries.
const SMALL_POOL: usize = 8 << 20;

impl Pool {
    /// Returns how many bytes are in it. Up to half of them may be unused.
    pub(crate) fn bytes(&self) -> usize {
        lock(&self.0).bytes
    }

    /// Removes unused entries.
    pub(crate) fn sweep(&self) {
        lock(&self.0).sweep();
    }
}

impl Pooled {
    fn series(&mut self, hash: u128, make: impl FnOnce() -> Series) -> Arc<Series> {
        if let Some(known) = self.series.get(&hash) {
            return known.clone();
        }
        let new = Arc::new(make());
        if new.hash() == hash {
            self.bytes += new.memory();
            self.series.insert(hash, new.clone());
        }
        new
    }

    /// Returns a stack of a profile, whose locations have these hashes.
    fn stack_of(&mut self, profile: &Profile, stack: StackId, hashes: &[u128]) -> Arc<CodeStack> {
        let list = profile.stack(stack);
        let hash = stack_hash(list.iter().rev().map(|id| hashes[id.index()]));
        if let Some(known) = self.stacks.get(&hash) {
            return known.clone();
        }
        let locations = list.iter().map(|&id| {
            let hash = hashes[id.index()];
            let known = self.locations.get(&hash).cloned();
            (
                hash,
                known.unwrap_or_else(|| self.keep_location(hash, described(profile, profile.location(id)))),
            )
        });
        let locations = locations.collect();
        self.keep_stack(CodeStack { hash, locations })
    }

    fn empty_stack(&mut self) -> Arc<CodeStack> {
        let hash = stack_hash(std::iter::empty());
        match self.stacks.get(&hash) {
            Some(known) => known.clone(),
            None => self.keep_stack(CodeStack { hash, locations: Box::default() }),
        }
    }

    fn stack_in(&mut self, tables: &BlockTables, hash: u128) -> Arc<CodeStack> {
        if let Some(known) = self.stacks.get(&hash) {
            return known.clone();
        }
        let list = tables.stack(hash).into_iter().flatten();
        let mut is_true = true;
        let locations = list.filter_map(|&location| {
            if let Some(known) = self.locations.get(&location) {
                return Some((location, known.clone()));
            }
            let found = tables.location(location)?;
            let is_its_own = found.hash() == location;
            is_true &= is_its_own;
            Some((
                location,
                if is_its_own { self.keep_location(location, found.clone()) } else { found.clone() },
            ))
        });
        let stack = CodeStack { hash, locations: locations.collect() };
        is_true &= stack_hash(stack.locations.iter().rev().map(|(hash, _)| *hash)) == hash;
        if is_true { self.keep_stack(stack) } else { Arc::new(stack) }
    }

    fn keep_stack(&mut self, stack: CodeStack) -> Arc<CodeStack> {
        let stack = Arc::new(stack);
        self.bytes += stack.memory();
        self.stacks.insert(stack.hash, stack.clone());
        stack
    }

    fn keep_location(&mut self, hash: u128, location: impl Into<Arc<CodeLocation>>) -> Arc<CodeLocation> {
        let location = location.into();
        self.bytes += location.memory();
        self.locations.insert(hash, location.clone());
        location
    }

    /// Removes unused entries, if they may be half of it.
    fn sweep_if_large(&mut self) {
        if self.bytes >= SMALL_POOL.max(2 * self.used) {
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        self.stacks.retain(|_, stack| Arc::strong_count(stack) > 1);
        self.locations.retain(|_, location| Arc::strong_count(location) > 1);
        self.series.retain(|_, series| Arc::strong_count(series) > 1);
        let stacks: usize = self.stacks.values().map(|stack| stack.memory()).sum();
        let locations: usize = self.locations.values().map(|location| location.memory()).sum();
        let series: usize = self.series.values().map(|series| series.memory()).sum();
        self.used = stacks + locations + series;
        self.bytes = self.used;
    }
}

impl CodeStack {
    fn memory(&self) -> usize {
        size_of_val(&*self.locations) + 112
    }
}

/// Returns the hash of a stack, given those of its locations, outermost first.
pub(super) fn stack_hash(callers: impl Iterator<Item = u128>) -> u128 {
    callers.fold(ContentHash::EMPTY, |stack, frame| stack.calling(ContentHash(frame))).0
}

/// Where a location is: build id, file and offset. An address outside any file means something in one process only, so it
/// is left out where there is a name.
fn place_of<'p>(profile: &'p Profile, location: &Location) -> (&'p str, &'p str, u64) {
    let mapping = location.mapping.map(|id| profile.mapping(id));
    let has_names = profile.lines_of(location).iter().any(|line| line.function.is_some());
    let Some(mapping) = mapping else { return ("", "", if has_names { 0 } else { location.address }) };
    let names = (profile.string(mapping.build_id), profile.string(mapping.filename));
    match (mapping.start..mapping.limit).contains(&location.address) {
        true => (names.0, names.1, (location.address - mapping.start).wrapping_add(mapping.offset)),
        false if has_names => (names.0, names.1, 0),
        false => ("", "", location.address),
    }
}

/// Returns the functions at a location, innermost first: name, name in the binary, file and line.
fn frames_of<'p>(
    profile: &'p Profile,
    location: &Location,
) -> impl Iterator<Item = (&'p str, &'p str, &'p str, i64)> {
    profile.lines_of(location).iter().filter_map(|line| {
        let function = profile.function(line.function?);
        let [name, system_name, file] =
            [function.name, function.system_name, function.filename].map(|id| profile.string(id));
        Some((name, system_name, file, line.line))
    })
}

fn hash_of(profile: &Profile, location: &Location, buffer: &mut Vec<u8>) -> u128 {
    location_hash(place_of(profile, location), frames_of(profile, location), buffer)
}

/// Returns what is known about a location.
fn described(profile: &Profile, location: &Location) -> CodeLocation {
    let (build_id, mapping, offset) = place_of(profile, location);
    let frame = |(function, system_name, file, line): (&str, &str, &str, i64)| BlockFrame {
        function: function.to_owned(),
        system_name: system_name.to_owned(),
        file: file.to_owned(),
        line,
    };
    let frames = frames_of(profile, location).map(frame).collect();
    CodeLocation { build_id: build_id.to_owned(), mapping: mapping.to_owned(), offset, frames }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(name: &str, hash_of: &str) -> BlockTables {
        let location = |name: &str| CodeLocation { mapping: name.to_owned(), ..CodeLocation::default() };
        let hash = location(hash_of).hash();
        let stack = stack_hash([hash].into_iter());
        let series = Series::default();
        BlockTables {
            samples: vec![SampleRow { series: series.hash(), stack, value: 1, ..SampleRow::default() }; 2],
            stacks: vec![(stack, vec![hash])],
            locations: vec![(hash, Arc::new(location(name)))],
            series: vec![(series.hash(), series)],
            shared: Vec::new(),
        }
    }

    fn files(tables: &BlockTables, pool: &Pool) -> Vec<String> {
        let part = Part::of_block(tables, &tables.samples, pool);
        let of_row = |row: &PartRow| part.stacks[row.stack as usize].locations[0].1.mapping.clone();
        part.rows.iter().map(of_row).collect()
    }

    #[test]
    fn a_block_that_lies_about_a_hash_changes_no_other_block() {
        let (honest, lying) = (tables("shop", "shop"), tables("evil", "shop"));
        let pool = Pool::default();
        assert_eq!(files(&lying, &pool), ["evil", "evil"], "nobody else has it");
        assert_eq!(files(&honest, &pool), ["shop", "shop"]);
        assert_eq!(files(&lying, &pool), ["shop", "shop"], "what is known is true");
    }

    #[test]
    fn what_nobody_uses_leaves_the_pool() {
        let (tables, pool) = (tables("shop", "shop"), Pool::default());
        let part = Part::of_block(&tables, &tables.samples, &pool);
        let again = Part::of_block(&tables, &tables.samples, &pool);
        assert!(Arc::ptr_eq(&part.stacks[0], &again.stacks[0]), "in memory once");
        let bytes = pool.bytes();
        drop(again);
        pool.sweep();
        assert_eq!(pool.bytes(), bytes);
        drop((part, tables));
        pool.sweep();
        assert_eq!(pool.bytes(), 0);
    }
}
