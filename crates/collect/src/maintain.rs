//! What is done every now and then: the log becomes blocks, the blocks of an hour become one, old ones are removed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use flamelet_profile::{Budget, ErrorKind, Limits, Result};

use crate::block::Builder;
use crate::blocks::{Blocks, Found, Profiles, live};
use crate::claim::{self, Claim};
use crate::clock::now;
use crate::entry::HOUR;
use crate::log::{Log, LogWriter, Place};
use crate::logs::Logs;
use crate::manifest::Manifest;
use crate::names::Names;
use crate::options::Options;

/// The memory for making one block.
const BLOCK: Limits = Limits::of_memory(4 << 30);
/// The blocks of an hour are merged so long after its end: senders are late.
const LATE: i64 = 600_000_000_000;
/// Sizes are added up so often.
const SIZES: i64 = HOUR;
/// Hours of a shared store that a new collector looks at, because their collectors may have died before merging them.
const LOOKED_AT: i64 = 48;

/// What is to be done.
pub(crate) struct Upkeep {
    /// Hours that have several blocks, perhaps.
    unmerged: BTreeSet<(i64, String)>,
    /// Logs that could not become blocks; some of their blocks may be there.
    tried: BTreeSet<String>,
    /// Since when blocks are known that others replace, by their paths.
    replaced: BTreeMap<String, Instant>,
    /// When sizes were added up last.
    sized: i64,
}

impl Upkeep {
    /// Lists the blocks, and returns what is to be done.
    pub(crate) fn new(blocks: &Blocks) -> Result<Self> {
        let mut unmerged = BTreeSet::new();
        let first = if blocks.is_shared() { now().div_euclid(HOUR) - LOOKED_AT } else { i64::MIN };
        for service in blocks.services()? {
            for hour in blocks.hours(&service)?.into_iter().filter(|hour| *hour >= first) {
                if blocks.block_names(&service, hour)?.len() > 1 {
                    unmerged.insert((hour, service.clone()));
                }
            }
        }
        Ok(Self { unmerged, tried: BTreeSet::new(), replaced: BTreeMap::new(), sized: 0 })
    }
}

/// What is looked after.
pub(crate) struct Site<'a> {
    pub(crate) blocks: &'a Blocks,
    pub(crate) logs: &'a Logs,
    pub(crate) log: &'a LogWriter,
    pub(crate) names: &'a Names,
    pub(crate) options: &'a Options,
    /// Tells the user something.
    pub(crate) note: &'a dyn Fn(&str),
}

impl Site<'_> {
    /// Makes blocks of what was accepted so far, merges blocks of hours that are over, and removes old ones. Problems
    /// are told to the user, and the next call tries again.
    pub(crate) fn maintain(&self, upkeep: &mut Upkeep) {
        self.log.rotate();
        let logs = match self.logs.names() {
            Ok(logs) => logs,
            Err(error) => return (self.note)(&error.to_string()),
        };
        for name in logs {
            // A log that was begun meanwhile is the next call's.
            if self.log.current().is_some_and(|current| current == name) {
                continue;
            }
            if let Err(error) = self.flush(&name, upkeep) {
                (self.note)(&format!("the log {name} stays, because it cannot become blocks: {error}"));
                upkeep.tried.insert(name);
                if error.kind() == ErrorKind::Io {
                    // The others would wait for the same disk or bucket.
                    break;
                }
            }
        }
        self.merge_hours(upkeep);
        if let Err(error) = self.remove_old(upkeep) {
            (self.note)(&error.to_string());
        }
    }

    /// Makes blocks of a log, and removes it when all of them are in the store.
    fn flush(&self, name: &str, upkeep: &mut Upkeep) -> Result<()> {
        let budget = Budget::new(BLOCK);
        let Some(log) = Log::read(self.logs, name, &budget)? else { return Ok(()) };
        if log.damaged > 0 {
            (self.note)(&format!("the log {name} has {} damaged records, which are left out", log.damaged));
        }
        let mut blocks: BTreeMap<(&str, i64), Vec<&Place>> = BTreeMap::new();
        for place in log.places() {
            blocks.entry((&*place.service, place.hour)).or_default().push(place);
        }
        // Of a log that nobody tried to make blocks of, there are none.
        let is_new = self.names.has_made(name) && !upkeep.tried.contains(name);
        for ((service, hour), mut places) in blocks {
            let mut known = Profiles::default();
            if !is_new {
                let found = self.blocks.blocks(service, hour, &mut Vec::new())?;
                known.extend(found.iter().flat_map(|found| found.manifest.profile_ids()));
            }
            places.retain(|place| known.insert(place.id));
            if !places.is_empty() {
                self.make_block((service, hour), &log, &places)?;
            }
            upkeep.unmerged.insert((hour, service.to_owned()));
        }
        upkeep.tried.remove(name);
        self.logs.remove(name)
    }

    fn make_block(&self, key: (&str, i64), log: &Log, places: &[&Place]) -> Result<()> {
        let tables = log.tables(places, &Budget::new(BLOCK), &mut |message| (self.note)(message))?;
        let profiles = places.iter().map(|place| format!("{:032x}", place.id)).collect();
        let manifest = |files: &[Vec<u8>; 4]| Manifest::of(key, profiles, &tables, files);
        self.blocks.put_block(&self.names.next(), &tables, manifest)
    }

    /// Merges the blocks of each hour that is over.
    fn merge_hours(&self, upkeep: &mut Upkeep) {
        let over = (now() - LATE).div_euclid(HOUR);
        let due: Vec<(i64, String)> =
            upkeep.unmerged.iter().filter(|(hour, _)| *hour < over).cloned().collect();
        for (hour, service) in due {
            match self.merge_hour((&service, hour), upkeep) {
                Ok(true) => drop(upkeep.unmerged.remove(&(hour, service))),
                Ok(false) => {}
                Err(error) => {
                    (self.note)(&format!("the blocks of {service} cannot be merged yet: {error}"));
                    if error.kind() == ErrorKind::Io {
                        return;
                    }
                }
            }
        }
    }

    /// Merges the blocks of an hour, and returns whether one is left.
    fn merge_hour(&self, key: (&str, i64), upkeep: &mut Upkeep) -> Result<bool> {
        let mut notes = Vec::new();
        let found = live(&self.blocks.blocks(key.0, key.1, &mut notes)?);
        if !notes.is_empty() {
            return Ok(false);
        }
        if found.len() > 1 {
            if !self.blocks.is_shared() {
                self.merge(key, &found)?;
            } else {
                let claim = Claim::make(self.blocks.store(), key, self.names.id(), now())?;
                let Some(claim) = claim else { return Ok(false) };
                self.merge(key, &found)?;
                claim.release()?;
            }
        }
        // Those that the new block replaces, and what a killed collector left of an earlier merge.
        self.remove_replaced(&self.blocks.blocks(key.0, key.1, &mut notes)?, upkeep)
    }

    fn merge(&self, key: (&str, i64), found: &[Found]) -> Result<()> {
        let profiles = found.iter().flat_map(|found| found.manifest.profiles.iter().cloned()).collect();
        let mut builder = Builder::new(&Budget::new(BLOCK));
        for found in found {
            let budget = Budget::new(BLOCK);
            builder.merge(self.blocks.read_block(found, &mut budget.lend(0)?)?)?;
        }
        let tables = builder.finish();
        self.blocks
            .put_block(&self.names.next(), &tables, |files| Manifest::of(key, profiles, &tables, files))
    }

    /// Removes blocks that others have replaced for long enough, and returns whether none is left.
    fn remove_replaced(&self, found: &[Found], upkeep: &mut Upkeep) -> Result<bool> {
        let (live, mut is_done) = (live(found), true);
        for one in found {
            let Some(by) = live.iter().find(|other| one.is_replaced_by(other)) else { continue };
            let since = upkeep.replaced.entry(one.path.clone()).or_insert_with(Instant::now);
            if since.elapsed() < self.options.grace {
                is_done = false;
                continue;
            }
            // Its manifest says that it has everything; make sure that it does.
            self.blocks.read_block(by, &mut Budget::new(BLOCK).lend(0)?)?;
            self.blocks.remove_block(one)?;
            upkeep.replaced.remove(&one.path);
        }
        Ok(is_done)
    }

    fn remove_old(&self, upkeep: &mut Upkeep) -> Result<()> {
        let keep = i64::try_from(self.options.keep.as_nanos()).unwrap_or(i64::MAX);
        let first_kept = now().saturating_sub(keep).div_euclid(HOUR);
        let is_due = now() - upkeep.sized >= SIZES;
        if self.blocks.is_shared() && !is_due {
            return Ok(());
        }
        let is_limited = is_due && self.options.max_bytes < u64::MAX;
        let mut sizes: BTreeMap<i64, Vec<(String, u64)>> = BTreeMap::new();
        for service in self.blocks.services()? {
            for hour in self.blocks.hours(&service)? {
                if hour < first_kept {
                    self.remove_hour(&service, hour)?;
                } else if is_limited {
                    let found = self.blocks.blocks(&service, hour, &mut Vec::new())?;
                    let bytes =
                        found.iter().fold(0u64, |sum, found| sum.saturating_add(found.manifest.bytes()));
                    sizes.entry(hour).or_default().push((service.clone(), bytes));
                }
            }
        }
        if is_due {
            upkeep.sized = now();
            // What was replaced and is gone is not waited for.
            upkeep.replaced.retain(|_, since| since.elapsed() < self.options.grace * 2);
        }
        self.remove_largest(sizes)
    }

    fn remove_hour(&self, service: &str, hour: i64) -> Result<()> {
        if self.blocks.is_shared() {
            claim::clear(self.blocks.store(), (service, hour))?;
        }
        self.blocks.remove_hour(service, hour)
    }

    /// Removes the oldest hours until all others together are small enough.
    fn remove_largest(&self, hours: BTreeMap<i64, Vec<(String, u64)>>) -> Result<()> {
        let mut bytes = 0u64;
        for (hour, services) in hours.into_iter().rev() {
            bytes = services.iter().fold(bytes, |sum, (_, size)| sum.saturating_add(*size));
            if bytes > self.options.max_bytes {
                services.iter().try_for_each(|(service, _)| self.remove_hour(service, hour))?;
            }
        }
        Ok(())
    }
}
