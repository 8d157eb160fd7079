//! Profiles of any range of time, from the blocks of a store and the log of a collector.

pub(crate) mod querier;
pub(crate) mod replay;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use flamelet_profile::budget::Loan;
use flamelet_profile::{Budget, ErrorKind, Profile, Result};
use rustc_hash::FxBuildHasher;

use crate::block::blocks::{Blocks, CHUNK, MARK, Minutes, Profiles, StoredBlock, TRIES, live};
use crate::block::merge::Merge;
use crate::block::{Block, BlockBuilder, BlockTables, MinuteRow, Part, SampleRow};
use crate::entry::HOUR;
use crate::log::LogContent;
use crate::log::logs::Logs;
use crate::log::recent::{Recent, RecentProfile};
use crate::options::READ;
use crate::query::{Measures, Query};
use crate::series::Series;
use crate::store::Store;
use crate::store::folder::BlockFolder;
use crate::symbols::Symbols;

/// Returns whether `path` is the folder of a collector.
pub fn is_collected(path: &Path) -> bool {
    path.join(MARK).is_file()
}

/// Ranges of fewer hours are not looked up in the list of all hours of a service.
const FEW_HOURS: i64 = 4;

pub(crate) type ValuesByLabel = BTreeMap<String, BTreeSet<String>>;

/// Reads what collectors keep. Any number of readers may read while it is written.
#[derive(Clone, Debug)]
pub struct Reader {
    blocks: Blocks,
    /// What is in no block yet, where that can be read.
    logs: Option<Logs>,
    /// What is in them, as far as it is in memory.
    recent: Option<Arc<Recent>>,
    /// The logs, if they were already read.
    read: Option<Arc<Vec<LogContent>>>,
    symbols: Symbols,
}

/// The parts that have something for a query. The log was read before the blocks were listed, so what became a block
/// meanwhile is in one of them at least.
pub(crate) struct Parts {
    logged: Vec<Arc<RecentProfile>>,
    found: Vec<StoredBlock>,
    blocks: Blocks,
    /// What was left out, and why.
    pub(crate) notes: Vec<String>,
}

impl Reader {
    /// Opens the folder of a collector.
    pub fn open(path: &Path) -> Result<Self> {
        let blocks = Blocks::open(Arc::new(BlockFolder::new(path)), READ)?;
        Ok(Self::of(&blocks, Some(Logs::new(path)), None))
    }

    /// Opens a store that collectors share; what is in their logs is not read.
    pub fn open_shared(store: Arc<dyn Store>) -> Result<Self> {
        Ok(Self::of(&Blocks::open(store, READ)?, None, None))
    }

    pub(crate) fn of(blocks: &Blocks, logs: Option<Logs>, recent: Option<Arc<Recent>>) -> Self {
        let symbols = blocks.symbols();
        Self { blocks: blocks.clone(), logs, recent, read: None, symbols }
    }

    /// Returns a reader that reads the logs now, and not again for each of its answers.
    pub(crate) fn with_logs(&self, budget: &Budget) -> Result<Self> {
        Ok(Self { read: Some(self.read_logs(budget)?), ..self.clone() })
    }

    /// Returns the names of all services.
    pub fn services(&self, budget: &Budget) -> Result<Vec<String>> {
        let mut services: BTreeSet<String> = BTreeSet::new();
        for log in self.read_logs(budget)?.iter() {
            services.extend(log.keys().into_iter().map(|(service, ..)| service.to_owned()));
        }
        services.extend(self.blocks.services()?);
        Ok(services.into_iter().collect())
    }

    fn read_logs(&self, budget: &Budget) -> Result<Arc<Vec<LogContent>>> {
        if let Some(read) = &self.read {
            return Ok(read.clone());
        }
        let Some(logs) = &self.logs else { return Ok(Arc::default()) };
        let names = logs.names()?;
        let read = |name: &String| LogContent::of(logs, name, self.recent.as_deref(), budget).transpose();
        Ok(Arc::new(names.iter().filter_map(read).collect::<Result<_>>()?))
    }

    /// Returns one profile of the range, and notes on what had to be left out. `None` if there is nothing.
    pub fn profile(&self, query: &Query<'_>, budget: &Budget) -> Result<(Option<Profile>, Vec<String>)> {
        let mut parts = self.parts(query, budget)?;
        let Some(measures) = parts.measures(query) else { return Ok((None, parts.notes)) };
        let mut merge = Merge::new(query, &measures, budget);
        parts.merge(query, budget, &mut merge)?;
        let mut profile = merge.finish()?;
        budget.check()?;
        if let Some(profile) = &mut profile {
            self.add_names(profile);
        }
        Ok((profile, parts.notes))
    }

    /// Looks up names that a profile does not have in the symbols of the store.
    pub(crate) fn add_names(&self, profile: &mut Profile) {
        self.symbols.add_names(profile);
    }

    /// Returns what was measured in the range under each name, apart for each kind of period.
    pub(crate) fn measured(
        &self,
        query: &Query<'_>,
        budget: &Budget,
    ) -> Result<impl Iterator<Item = (String, Measures)> + use<>> {
        let measured = self.parts(query, budget)?.measured();
        Ok(measured.into_iter().map(|([name, ..], measures)| (name, measures)))
    }

    /// Returns the labels of the range with their values, as far as manifests list them.
    pub(crate) fn labels(&self, query: &Query<'_>, budget: &Budget) -> Result<ValuesByLabel> {
        let parts = self.parts(query, budget)?;
        let mut labels = ValuesByLabel::new();
        let mut add = |name: &String, value: &String| -> Result<()> {
            if labels.get(name).is_some_and(|values| values.contains(value)) {
                return Ok(());
            }
            budget.charge(name.len() + value.len() + 128)?;
            labels.entry(name.clone()).or_default().insert(value.clone());
            Ok(())
        };
        for (name, values) in parts.found.iter().flat_map(|found| &found.manifest.labels) {
            values.iter().try_for_each(|value| add(name, value))?;
        }
        for series in parts.logged_series().values() {
            series.labels.iter().try_for_each(|(name, value)| add(name, value))?;
        }
        Ok(labels)
    }

    /// Returns the first and the last moment of the range for which there is anything, in nanoseconds since 1970.
    pub fn extent(&self, query: &Query<'_>, budget: &Budget) -> Result<Option<(i64, i64)>> {
        let mut parts = self.parts(query, budget)?;
        let has_name = |series: &Series| query.name.is_empty() || series.name == query.name;
        parts.found.retain(|found| is_wanted(found, query));
        parts.logged.retain(|profile| profile.part.series.iter().any(|(_, series)| has_name(series)));
        Ok(parts.extent())
    }

    /// Returns the names of the profiles in a range, such as `process_cpu`; that of the query does not matter.
    pub fn profile_names(&self, query: &Query<'_>, budget: &Budget) -> Result<Vec<String>> {
        let mut names: Vec<String> = self.measured(query, budget)?.map(|(name, _)| name).collect();
        names.dedup();
        Ok(names)
    }

    /// Returns the hours in which a service has anything.
    pub(crate) fn hours(&self, service: &str, budget: &Budget) -> Result<BTreeSet<i64>> {
        // The log first: what becomes a block meanwhile is in one of them at least.
        let logs = self.read_logs(budget)?;
        let keys = logs.iter().flat_map(LogContent::keys).filter(|(of, ..)| *of == service);
        let logged: BTreeSet<i64> = keys.map(|(_, hour, _)| hour).collect();
        Ok(self.blocks.hours(service)?.into_iter().chain(logged).collect())
    }

    /// Finds what has something for a query, by the names of folders and by manifests.
    pub(crate) fn parts(&self, query: &Query<'_>, budget: &Budget) -> Result<Parts> {
        let mut notes = Vec::new();
        let hours = query.from.div_euclid(HOUR)..=query.to.saturating_sub(1).div_euclid(HOUR);
        let is_wanted = |service: &str, hour: i64| {
            hours.contains(&hour) && query.service.is_none_or(|wanted| wanted == service)
        };
        let logs = self.read_logs(budget)?;
        let services = match query.service {
            Some(service) => vec![service.to_owned()],
            None => self.blocks.services()?,
        };
        let (mut found, mut known) = (Vec::new(), Profiles::default());
        for service in &services {
            // A few hours are found by their names, however many the service has.
            let listed = match hours.end().saturating_sub(*hours.start()) < FEW_HOURS {
                true => hours.clone().collect(),
                false => self.blocks.hours(service)?,
            };
            for hour in listed.into_iter().filter(|hour| hours.contains(hour)) {
                let all = self.blocks.blocks(service, hour, &mut notes)?;
                let size = |found: &StoredBlock| found.manifest.memory();
                budget.charge(all.iter().map(size).sum())?;
                known.extend(all.iter().flat_map(|found| found.manifest.profile_ids()));
                found.extend(live(&all));
            }
        }
        found.retain(|found| found.manifest.from < query.to && found.manifest.to >= query.from);
        let mut logged = Vec::new();
        for log in logs.iter() {
            for (number, (service, hour, id)) in log.keys().into_iter().enumerate() {
                // What is in a block already, or in another log, is left out.
                if !is_wanted(service, hour) || !known.insert(id) {
                    continue;
                }
                match log.profile(number, self.blocks.pool(), budget) {
                    Ok(profile) => logged.push(profile),
                    Err(error) => {
                        budget.check()?;
                        notes.push(error.to_string());
                    }
                }
            }
        }
        Ok(Parts { logged, found, blocks: self.blocks.clone(), notes })
    }
}

impl Parts {
    /// Calls `each` with the tables of every part. A block comes in several pieces, each of which has all other tables and
    /// the next rows that are wanted; rows of one series and moment come together.
    pub(crate) fn each(
        &mut self,
        query: &Query<'_>,
        budget: &Budget,
        mut each: impl FnMut(&BlockTables) -> Result<()>,
    ) -> Result<()> {
        self.each_piece(query, budget, CHUNK, &|blocks, found| blocks.open_block(found, budget), &mut each)
    }

    /// Adds everything up. Where a block is in the range as a whole, rows of several profiles come as one.
    fn merge(&mut self, query: &Query<'_>, budget: &Budget, merge: &mut Merge<'_>) -> Result<()> {
        self.logged.iter().try_for_each(|profile| merge.add_part(&profile.part))?;
        let mut queue = Queue::new(std::mem::take(&mut self.found), query);
        let open = |blocks: &Blocks, found: &StoredBlock| {
            let is_summed = found.is_all_in(query.from, query.to);
            Ok(match blocks.part(found, is_summed, budget)? {
                Some(part) => Opened::Part(part),
                None if is_summed => Opened::Block(Box::new(blocks.open_summed(found, budget)?)),
                None => Opened::Block(Box::new(blocks.open_block(found, budget)?)),
            })
        };
        while let Some((at, opened)) = self.next(&mut queue, query, budget, &open)? {
            match opened {
                Opened::Part(part) => merge.add_part(&part)?,
                Opened::Block(block) => {
                    let mut each = |tables: &BlockTables| merge.add(tables);
                    self.read_pieces(*block, &queue.read[at], query, budget, CHUNK, &mut each)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the series of what is in no block yet, by their hashes.
    fn logged_series(&self) -> HashMap<u128, &Series, FxBuildHasher> {
        let series = self.logged.iter().flat_map(|profile| &profile.part.series);
        series.map(|(hash, series)| (*hash, &**series)).collect()
    }

    /// Returns the tables of what is in no block yet.
    fn logged_tables(&self, budget: &Budget) -> Result<Option<BlockTables>> {
        let mut builder = BlockBuilder::new(budget);
        self.logged.iter().try_for_each(|profile| builder.add(&profile.part, profile.id))?;
        Ok((!self.logged.is_empty()).then(|| builder.finish()))
    }

    /// Like [`Parts::each`], with all wanted rows of a block at once.
    pub(crate) fn each_whole(
        &mut self,
        query: &Query<'_>,
        budget: &Budget,
        mut each: impl FnMut(&BlockTables) -> Result<()>,
    ) -> Result<()> {
        self.each_piece(
            query,
            budget,
            usize::MAX,
            &|blocks, found| blocks.open_block(found, budget),
            &mut each,
        )
    }

    fn each_piece(
        &mut self,
        query: &Query<'_>,
        budget: &Budget,
        rows: usize,
        open: &Open<'_, Block>,
        each: &mut dyn FnMut(&BlockTables) -> Result<()>,
    ) -> Result<()> {
        self.logged_tables(budget)?.iter().try_for_each(&mut *each)?;
        let mut queue = Queue::new(std::mem::take(&mut self.found), query);
        while let Some((at, block)) = self.next(&mut queue, query, budget, open)? {
            self.read_pieces(block, &queue.read[at], query, budget, rows, each)?;
        }
        Ok(())
    }

    /// Calls `each` with the pieces of a block.
    fn read_pieces(
        &mut self,
        block: Block,
        found: &StoredBlock,
        query: &Query<'_>,
        budget: &Budget,
        rows: usize,
        each: &mut dyn FnMut(&BlockTables) -> Result<()>,
    ) -> Result<()> {
        let mut pieces = Pieces::new(block, found, query);
        loop {
            let mut loan = budget.lend(0)?;
            match pieces.next(rows, budget, &mut loan) {
                Ok(true) => each(&pieces.block.tables)?,
                Ok(false) => return Ok(()),
                Err(error) => {
                    budget.check()?;
                    let about = self.blocks.about(found, &error);
                    self.notes.push(format!("a block was read in part: {about}"));
                    return Ok(());
                }
            }
        }
    }

    /// Calls `each` with series and their totals by time: of each minute where `is_by_minute` and a block is in the range as a
    /// whole, else of each sample.
    pub(crate) fn each_total(
        &mut self,
        query: &Query<'_>,
        budget: &Budget,
        is_by_minute: bool,
        mut each: impl FnMut(&[(u128, Series)], &[MinuteRow]) -> Result<()>,
    ) -> Result<()> {
        let rows_of = |tables: &BlockTables| tables.samples.iter().map(MinuteRow::of).collect::<Vec<_>>();
        if let Some(tables) = self.logged_tables(budget)? {
            let _loan = budget.lend(tables.samples.len() * size_of::<MinuteRow>())?;
            each(&tables.series, &rows_of(&tables))?;
        }
        let mut queue = Queue::new(std::mem::take(&mut self.found), query);
        let open = |blocks: &Blocks, found: &StoredBlock| -> Result<Totals> {
            if is_by_minute
                && found.is_all_in(query.from, query.to)
                && let Some(minutes) = blocks.read_minutes(found, budget)?
            {
                return Ok(Totals::OfMinutes(minutes));
            }
            blocks.open_block(found, budget).map(|block| Totals::OfSamples(Box::new(block)))
        };
        while let Some((at, totals)) = self.next(&mut queue, query, budget, &open)? {
            match totals {
                Totals::OfMinutes((series, rows)) => each(&series, &rows)?,
                Totals::OfSamples(block) => {
                    let mut each_table = |tables: &BlockTables| {
                        let _loan = budget.lend(tables.samples.len() * size_of::<MinuteRow>())?;
                        each(&tables.series, &rows_of(tables))
                    };
                    self.read_pieces(*block, &queue.read[at], query, budget, CHUNK, &mut each_table)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the first and the last moment for which there may be something.
    pub(crate) fn extent(&self) -> Option<(i64, i64)> {
        let blocks = self.found.iter().map(|found| (found.manifest.from, found.manifest.to));
        let logged =
            self.logged.iter().flat_map(|profile| &profile.part.times).map(|(time, _)| (*time, *time));
        blocks.chain(logged).reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    }

    /// Calls `each` with the series of every part.
    pub(crate) fn each_series(
        &mut self,
        query: &Query<'_>,
        budget: &Budget,
        mut each: impl FnMut(&[(u128, Series)]) -> Result<()>,
    ) -> Result<()> {
        let logged = self.logged_series();
        let logged = logged.into_iter().map(|(hash, series)| (hash, Series::clone(series)));
        each(&logged.collect::<Vec<_>>())?;
        let mut queue = Queue::new(std::mem::take(&mut self.found), query);
        let open = |blocks: &Blocks, found: &StoredBlock| blocks.read_series(found, budget);
        while let Some((_, series)) = self.next(&mut queue, query, budget, &open)? {
            each(&series)?;
        }
        Ok(())
    }

    /// Opens the next block of a queue, which is then the returned one of those that were read. If a block is gone, another
    /// one has replaced it: then its hour is listed again, and what was not read yet is read from there.
    fn next<T>(
        &mut self,
        queue: &mut Queue,
        query: &Query<'_>,
        budget: &Budget,
        open: &Open<'_, T>,
    ) -> Result<Option<(usize, T)>> {
        while let Some(found) = queue.waiting.pop_front() {
            match open(&self.blocks, &found) {
                Ok(opened) => {
                    queue.read.push(found);
                    return Ok(Some((queue.read.len() - 1, opened)));
                }
                Err(error) if error.kind() == ErrorKind::NotFound && queue.may_try_again(&found) => {
                    let (service, hour) = (&*found.manifest.service, found.manifest.hour);
                    let all = self.blocks.blocks(service, hour, &mut self.notes)?;
                    let logged = self.logged.iter().map(|profile| profile.id).collect();
                    queue.replace((service, hour), live(&all), &logged, query);
                }
                Err(error) => {
                    budget.check()?;
                    self.notes.push(format!("a block was left out: {error}"));
                }
            }
        }
        Ok(None)
    }

    /// Returns what is measured, from the manifests and the log: by the name of the profile, and the kind and unit of its
    /// period, which some senders leave out.
    fn measured(&self) -> BTreeMap<[String; 3], Measures> {
        let mut types: BTreeSet<String> = BTreeSet::new();
        for found in &self.found {
            types.extend(found.manifest.types.iter().cloned());
        }
        types.extend(self.logged_series().values().map(|series| series.type_id()));
        let mut measured: BTreeMap<[String; 3], Measures> = BTreeMap::new();
        for id in &types {
            let [name, kind, unit, period, period_unit] = id.split(':').collect::<Vec<_>>()[..] else {
                continue;
            };
            let key = [name, period, period_unit].map(str::to_owned);
            measured.entry(key).or_default().add((kind, unit), (period, period_unit));
        }
        measured
    }

    /// Returns what is measured under the name of a query, in periods that it wants.
    pub(crate) fn measures(&self, query: &Query<'_>) -> Option<Measures> {
        let mut all: Option<Measures> = None;
        for ([name, period, unit], measures) in self.measured() {
            if name == query.name && query.wants_period((&period, &unit)) {
                let all = all.get_or_insert_default();
                measures.values.iter().for_each(|(kind, of)| all.add((kind, of), (&period, &unit)));
            }
        }
        all
    }
}

/// Opens a block, or a part of it.
type Open<'a, T> = dyn Fn(&Blocks, &StoredBlock) -> Result<T> + 'a;

/// A block whose rows are added up.
enum Opened {
    Part(Arc<Part>),
    Block(Box<Block>),
}

/// Where the totals of a block come from.
enum Totals {
    OfMinutes(Minutes),
    OfSamples(Box<Block>),
}

/// The blocks that a query reads.
struct Queue {
    waiting: VecDeque<StoredBlock>,
    read: Vec<StoredBlock>,
    /// How often each hour was listed again.
    tries: BTreeMap<(String, i64), usize>,
}

impl Queue {
    fn new(found: Vec<StoredBlock>, query: &Query<'_>) -> Self {
        let waiting = found.into_iter().filter(|found| is_wanted(found, query)).collect();
        Self { waiting, read: Vec::new(), tries: BTreeMap::new() }
    }

    /// Returns whether to list the hour of a block again. Of a block of the first format, rows do not say which profile
    /// they are of, so it is not known what is left of an hour after one.
    fn may_try_again(&mut self, found: &StoredBlock) -> bool {
        let key = (found.manifest.service.clone(), found.manifest.hour);
        let is_known = self
            .read
            .iter()
            .filter(|read| is_of(read, (&key.0, key.1)))
            .all(|read| read.manifest.has_profiles());
        let tries = self.tries.entry(key).or_default();
        *tries += 1;
        *tries <= TRIES && is_known
    }

    /// Replaces the waiting blocks of an hour by these, without what was read already.
    fn replace(&mut self, hour: (&str, i64), found: Vec<StoredBlock>, logged: &Profiles, query: &Query<'_>) {
        self.waiting.retain(|waiting| !is_of(waiting, hour));
        let read = self.read.iter().filter(|read| is_of(read, hour));
        let mut known: Profiles = read.flat_map(|read| read.manifest.profile_ids()).collect();
        known.extend(logged);
        for mut found in found.into_iter().filter(|found| is_wanted(found, query)) {
            found.leave_out(&known);
            self.waiting.push_front(found);
        }
    }
}

fn is_of(found: &StoredBlock, (service, hour): (&str, i64)) -> bool {
    found.manifest.service == service && found.manifest.hour == hour
}

/// Returns whether a block may have something for a query, by its manifest.
fn is_wanted(found: &StoredBlock, query: &Query<'_>) -> bool {
    let StoredBlock { manifest, .. } = found;
    let has_name = |id: &String| query.name.is_empty() || id.split(':').next() == Some(query.name);
    let is_in_range = manifest.from < query.to && manifest.to >= query.from;
    let has_series = || query.select.is_none_or(|select| manifest.may_have(select));
    is_in_range && manifest.types.iter().any(has_name) && has_series()
}

/// The wanted rows of a block, in pieces.
struct Pieces<'a> {
    /// Its samples are the rows of the piece.
    block: Block,
    found: &'a StoredBlock,
    query: &'a Query<'a>,
    /// The series that are wanted, sorted.
    series: Vec<u128>,
}

impl<'a> Pieces<'a> {
    fn new(block: Block, found: &'a StoredBlock, query: &'a Query<'a>) -> Self {
        let series = block.tables.series.iter();
        let series = series.filter(|(_, series)| query.name.is_empty() || series.name == query.name);
        let series = series.map(|(hash, _)| *hash).collect();
        Self { block, found, query, series }
    }

    /// Takes the next piece, of about `most` rows, and returns whether there is one.
    fn next(&mut self, most: usize, budget: &Budget, loan: &mut Loan) -> Result<bool> {
        let Self { block, found, query, series } = self;
        let wants_group = |(first, last): (u128, u128), (from, to): (i64, i64)| {
            let at = series.partition_point(|hash| *hash < first);
            from < query.to && to >= query.from && series.get(at).is_some_and(|hash| *hash <= last)
        };
        let wants = |row: &SampleRow| {
            query.wants_time(row.time) && found.keeps(row) && series.binary_search(&row.series).is_ok()
        };
        block.tables.samples = Vec::new();
        let mut piece = Vec::new();
        loop {
            if piece.is_empty() {
                // Rows that are not wanted are freed.
                *loan = budget.lend(0)?;
            }
            let mut rows = block.next(most.min(CHUNK), &wants_group, budget, loan)?;
            if rows.is_empty() {
                break;
            }
            rows.retain(wants);
            match piece.is_empty() {
                true => piece = rows,
                false => piece.append(&mut rows),
            }
            if !piece.is_empty() && most != usize::MAX {
                break;
            }
        }
        block.tables.samples = piece;
        Ok(!block.tables.samples.is_empty())
    }
}
