//! Profiles of any range of time, from the blocks of a store and the log of a collector.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use flamelet_profile::{Budget, Profile, Result};

use crate::block::Tables;
use crate::blocks::{Blocks, Found, MARK, Profiles, live};
use crate::entry::HOUR;
use crate::folder::Folder;
use crate::log::{Log, Place};
use crate::logs::Logs;
use crate::merge::Merge;
use crate::query::{Measures, Query};
use crate::series::order;
use crate::store::Store;

/// Returns whether `path` is the folder of a collector.
pub fn is_collected(path: &Path) -> bool {
    path.join(MARK).is_file()
}

/// Reads what collectors keep. Any number of readers may read while it is written.
#[derive(Clone, Debug)]
pub struct Reader {
    blocks: Blocks,
    /// What is in no block yet, where that can be read.
    logs: Option<Logs>,
}

/// The parts that have something for a query. The log was read before the blocks were listed, so what became a block
/// meanwhile is in one of them at least.
pub(crate) struct Parts {
    logged: Vec<Tables>,
    found: Vec<Found>,
    blocks: Blocks,
    /// What was left out, and why.
    pub(crate) notes: Vec<String>,
}

impl Reader {
    /// Opens the folder of a collector.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self::of(&Blocks::open(Arc::new(Folder::new(path)))?, Some(Logs::new(path))))
    }

    /// Opens a store that collectors share; what is in their logs is not read.
    pub fn open_shared(store: Arc<dyn Store>) -> Result<Self> {
        Ok(Self::of(&Blocks::open(store)?, None))
    }

    pub(crate) fn of(blocks: &Blocks, logs: Option<Logs>) -> Self {
        Self { blocks: blocks.clone(), logs }
    }

    /// Returns the names of all services.
    pub fn services(&self, budget: &Budget) -> Result<Vec<String>> {
        let mut services: BTreeSet<String> = BTreeSet::new();
        for log in self.read_logs(budget)? {
            services.extend(log.places().iter().map(|place| place.service.clone()));
        }
        services.extend(self.blocks.services()?);
        Ok(services.into_iter().collect())
    }

    fn read_logs(&self, budget: &Budget) -> Result<Vec<Log>> {
        let Some(logs) = &self.logs else { return Ok(Vec::new()) };
        let names = logs.names()?;
        names.iter().filter_map(|name| Log::read(logs, name, budget).transpose()).collect()
    }

    /// Returns one profile of the range, and notes on what had to be left out. `None` if there is nothing.
    pub fn profile(&self, query: &Query<'_>, budget: &Budget) -> Result<(Option<Profile>, Vec<String>)> {
        let mut parts = self.parts(query, budget)?;
        let measured = parts.measured();
        let Some(measures) = measured.get(query.name) else { return Ok((None, parts.notes)) };
        let mut merge = Merge::new(query, measures, budget);
        parts.each(budget, |tables| merge.add(tables))?;
        let profile = merge.finish()?;
        budget.check()?;
        Ok((profile, parts.notes))
    }

    /// Returns what was measured in the range under each name.
    pub(crate) fn measured(&self, query: &Query<'_>, budget: &Budget) -> Result<BTreeMap<String, Measures>> {
        Ok(self.parts(query, budget)?.measured())
    }

    /// Returns from when to when there is anything of the range, in nanoseconds since 1970.
    pub fn extent(&self, query: &Query<'_>, budget: &Budget) -> Result<Option<(i64, i64)>> {
        let parts = self.parts(query, budget)?;
        let blocks = parts.found.iter().map(|found| (found.manifest.from, found.manifest.to));
        let logged = parts.logged.iter().flat_map(|tables| &tables.samples).map(|row| (row.time, row.time));
        Ok(blocks.chain(logged).reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))))
    }

    /// Finds what has something for a query, by the names of folders and by manifests.
    pub(crate) fn parts(&self, query: &Query<'_>, budget: &Budget) -> Result<Parts> {
        let mut notes = Vec::new();
        let hours = query.from.div_euclid(HOUR)..=query.to.saturating_sub(1).div_euclid(HOUR);
        let is_wanted = |place: &&Place| {
            hours.contains(&place.hour) && query.service.is_none_or(|service| service == place.service)
        };
        let mut logs: Vec<(Log, Vec<Place>)> = Vec::new();
        for log in self.read_logs(budget)? {
            let places = log.places().iter().filter(is_wanted).cloned().collect();
            logs.push((log, places));
        }
        let services = match query.service {
            Some(service) => vec![service.to_owned()],
            None => self.blocks.services()?,
        };
        let (mut found, mut known) = (Vec::new(), Profiles::default());
        for service in &services {
            for hour in self.blocks.hours(service)?.into_iter().filter(|hour| hours.contains(hour)) {
                let all = self.blocks.blocks(service, hour, &mut notes)?;
                let size = |found: &Found| found.manifest.profiles.len() * 192 + 4096;
                budget.charge(all.iter().map(size).sum())?;
                known.extend(all.iter().flat_map(|found| found.manifest.profile_ids()));
                found.extend(live(&all));
            }
        }
        found.retain(|found| found.manifest.from < query.to && found.manifest.to >= query.from);
        let mut logged = Vec::new();
        for (log, mut places) in logs {
            // What is in a block already, or in another log.
            places.retain(|place| known.insert(place.id));
            let places: Vec<&Place> = places.iter().collect();
            if !places.is_empty() {
                logged.push(log.tables(&places, budget, &mut |note| notes.push(note.to_owned()))?);
            }
        }
        Ok(Parts { logged, found, blocks: self.blocks.clone(), notes })
    }
}

impl Parts {
    /// Calls `each` with the tables of every part.
    pub(crate) fn each(
        &mut self,
        budget: &Budget,
        mut each: impl FnMut(&Tables) -> Result<()>,
    ) -> Result<()> {
        self.logged.iter().try_for_each(&mut each)?;
        for found in &self.found {
            let mut loan = budget.lend(0)?;
            match self.blocks.read_block(found, &mut loan) {
                Ok(tables) => each(&tables)?,
                Err(error) => {
                    budget.check()?;
                    self.notes.push(format!("a block was left out: {error}"));
                }
            }
        }
        Ok(())
    }

    /// Returns what is measured, from the manifests and the log.
    pub(crate) fn measured(&self) -> BTreeMap<String, Measures> {
        let mut types: BTreeSet<String> = BTreeSet::new();
        for found in &self.found {
            types.extend(found.manifest.types.iter().cloned());
        }
        let series = self.logged.iter().flat_map(|tables| &tables.series);
        types.extend(series.map(|(_, series)| series.type_id()));
        let mut measured: BTreeMap<String, Measures> = BTreeMap::new();
        for id in &types {
            let [name, kind, unit, period, period_unit] = id.split(':').collect::<Vec<_>>()[..] else {
                continue;
            };
            let measures = measured.entry(name.to_owned()).or_default();
            let value = (kind.to_owned(), unit.to_owned());
            if !measures.values.contains(&value) {
                measures.values.push(value);
            }
            measures.period = (period.to_owned(), period_unit.to_owned());
        }
        for measures in measured.values_mut() {
            measures.values.sort_by(|a, b| order(&a.0).cmp(&order(&b.0)).then_with(|| a.1.cmp(&b.1)));
        }
        measured
    }
}
