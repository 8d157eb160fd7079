//! Periodic work: the log becomes blocks, the blocks of an hour become one, old ones are removed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use flamelet_profile::{Budget, Error, ErrorKind, Result};

use crate::block::{self, Block, Keeps, join};
use crate::blocks::{Blocks, Profiles, StoredBlock, live};
use crate::claim::{self, Claim};
use crate::clock::now;
use crate::entry::HOUR;
use crate::log::{Log, LogPlace, LogWriter};
use crate::logs::Logs;
use crate::manifest::Manifest;
use crate::names::Names;
use crate::options::Options;

/// How long after its end the blocks of an hour are merged: senders are late.
const LATE: i64 = 600_000_000_000;
/// Blocks are merged up to these sizes of all their files, and up to this number of profiles, which the manifest lists.
const BIN_BYTES: u64 = 48 << 20;
const BIN_PROFILES: usize = 200_000;
/// The most bytes of the samples of a merged block. It has fewer than the blocks that it is made of.
const MOST_SAMPLES: usize = 2 * BIN_BYTES as usize;
/// How often sizes are added up.
const SIZES: i64 = HOUR;
/// Hours of a shared store that a new collector looks at, because their collectors may have died before merging them.
const LOOKED_AT: i64 = 48;

/// What is to be done.
#[derive(Default)]
pub(crate) struct Upkeep {
    /// Hours that have several blocks, perhaps.
    unmerged: BTreeSet<(i64, String)>,
    /// Logs that could not become blocks; some of their blocks may be there.
    tried: BTreeSet<String>,
    /// Since when blocks are known that others replace, by their paths.
    replaced: BTreeMap<String, Instant>,
    /// When sizes were added up last.
    sized: i64,
    /// Since when the clock of a folder is not believed, and whether the user knows.
    doubted: Option<Instant>,
    is_doubt_told: bool,
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
        Ok(Self { unmerged, ..Self::default() })
    }
}

/// What is looked after.
pub(crate) struct UpkeepTarget<'a> {
    pub(crate) blocks: &'a Blocks,
    pub(crate) logs: &'a Logs,
    pub(crate) log: &'a LogWriter,
    pub(crate) names: &'a Names,
    pub(crate) options: &'a Options,
    /// Tells the user something.
    pub(crate) note: &'a dyn Fn(&str),
}

impl UpkeepTarget<'_> {
    /// Makes blocks of what was accepted so far, merges blocks of hours that are over, and removes old ones. Problems
    /// are reported to the user, and the next call tries again.
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
        let budget = Budget::new(block::MEMORY);
        let Some(log) = Log::read(self.logs, name, &budget)? else { return Ok(()) };
        if log.damaged > 0 {
            (self.note)(&format!("the log {name} has {} damaged records, which are left out", log.damaged));
        }
        let mut blocks: BTreeMap<(&str, i64), Vec<&LogPlace>> = BTreeMap::new();
        for place in log.places() {
            blocks.entry((&*place.service, place.hour)).or_default().push(place);
        }
        // A log that was never made into blocks has none.
        let is_new = self.names.has_made(name) && !upkeep.tried.contains(name);
        for ((service, hour), mut places) in blocks {
            let mut known = Profiles::default();
            if !is_new {
                let found = self.blocks.blocks(service, hour, &mut Vec::new())?;
                known.extend(found.iter().flat_map(|found| found.manifest.profile_ids()));
            }
            places.retain(|place| known.insert(place.id));
            if !places.is_empty() {
                self.make_blocks((service, hour), &log, &places)?;
            }
            upkeep.unmerged.insert((hour, service.to_owned()));
        }
        upkeep.tried.remove(name);
        self.logs.remove(name)
    }

    /// Makes a block of these profiles, or several if one would be too large.
    fn make_blocks(&self, key: (&str, i64), log: &Log, places: &[&LogPlace]) -> Result<()> {
        let outcome = self.make_block(key, log, places);
        let Some(error) = outcome.as_ref().err().filter(|error| is_too_large(error)) else { return outcome };
        if places.len() > 1 {
            let (first, second) = places.split_at(places.len() / 2);
            self.make_blocks(key, log, first)?;
            return self.make_blocks(key, log, second);
        }
        // Only an earlier version has accepted it.
        (self.note)(&format!("a profile of {} is left out, because it is too large: {error}", key.0));
        Ok(())
    }

    fn make_block(&self, key: (&str, i64), log: &Log, places: &[&LogPlace]) -> Result<()> {
        let tables = log.tables(places, &Budget::new(block::MEMORY), &mut |message| (self.note)(message))?;
        let profiles = places.iter().map(|place| format!("{:032x}", place.id)).collect();
        let written = block::write(&tables)?;
        let manifest = Manifest::of(key, profiles, &tables, &written);
        self.blocks.put_block(&self.names.next(), &written, &manifest)
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
        let bins = bins(&found);
        if bins.iter().any(|bin| bin.len() > 1) {
            if !self.blocks.is_shared() {
                bins.iter().try_for_each(|bin| self.merge_bin(key, bin))?;
            } else {
                let claim = Claim::make(self.blocks.store(), key, self.names.id(), now())?;
                let Some(claim) = claim else { return Ok(false) };
                bins.iter().try_for_each(|bin| self.merge_bin(key, bin))?;
                claim.release()?;
            }
        }
        // Those that the new block replaces, and what a killed collector left of an earlier merge.
        self.remove_replaced(&self.blocks.blocks(key.0, key.1, &mut notes)?, upkeep)
    }

    /// Merges these blocks, or a part of them if that takes too much memory.
    fn merge_bin(&self, key: (&str, i64), found: &[StoredBlock]) -> Result<()> {
        if found.len() < 2 {
            return Ok(());
        }
        match self.merge(key, found) {
            Err(error) if is_too_large(&error) => {
                let (first, second) = found.split_at(found.len() / 2);
                self.merge_bin(key, first)?;
                self.merge_bin(key, second)
            }
            outcome => outcome,
        }
    }

    fn merge(&self, key: (&str, i64), found: &[StoredBlock]) -> Result<()> {
        // A profile that is also in a block outside of these stays in both: the manifest says that it is here.
        let found = live(found);
        let profiles = found.iter().flat_map(|found| found.manifest.profiles.iter().cloned()).collect();
        let budget = Budget::new(block::JOINING);
        let open = |found| -> Result<(Block, Keeps<'_>)> {
            let block = self.blocks.open_block(found, &budget)?;
            Ok((block, Box::new(|row| found.keeps(row))))
        };
        let (written, tables) = join(found.iter().map(open), MOST_SAMPLES, &budget)?;
        let manifest = Manifest::of(key, profiles, &tables, &written);
        self.blocks.put_block(&self.names.next(), &written, &manifest)
    }

    /// Removes blocks that others have replaced for long enough, and returns whether none is left.
    fn remove_replaced(&self, found: &[StoredBlock], upkeep: &mut Upkeep) -> Result<bool> {
        let (live, mut is_done) = (live(found), true);
        for one in found {
            let Some(by) = live.iter().find(|other| one.is_replaced_by(other)) else { continue };
            let since = upkeep.replaced.entry(one.path.clone()).or_insert_with(Instant::now);
            if since.elapsed() < self.options.grace {
                is_done = false;
                continue;
            }
            // Its manifest says that it has everything; make sure that it does.
            self.blocks.check_block(by, &Budget::new(block::JOINING))?;
            self.blocks.remove_block(one)?;
            upkeep.replaced.remove(&one.path);
        }
        Ok(is_done)
    }

    fn remove_old(&self, upkeep: &mut Upkeep) -> Result<()> {
        let is_due = now() - upkeep.sized >= SIZES;
        if self.blocks.is_shared() && !is_due {
            return Ok(());
        }
        let (mut old, mut kept) = (Vec::new(), Vec::new());
        for service in self.blocks.services()? {
            let keep = i64::try_from(self.options.kept_for(&service).as_nanos()).unwrap_or(i64::MAX);
            let first_kept = now().saturating_sub(keep).div_euclid(HOUR);
            for hour in self.blocks.hours(&service)? {
                let list = if hour < first_kept { &mut old } else { &mut kept };
                list.push((service.clone(), hour));
            }
        }
        if !old.is_empty() && self.trusts_clock(&kept, upkeep)? {
            old.iter().try_for_each(|(service, hour)| self.remove_hour(service, *hour))?;
        }
        if is_due {
            upkeep.sized = now();
            // What was replaced and is gone is not waited for.
            upkeep.replaced.retain(|_, since| since.elapsed() < self.options.grace * 2);
            self.remove_largest(&kept)?;
        }
        Ok(())
    }

    /// Returns whether the time is believed, by which profiles are too old. A wrong clock must not remove everything.
    ///
    /// A bucket has a clock of its own. Those who have a folder have no other clock; if less than two hours of profiles would
    /// be left in it, they get a day to set it right.
    fn trusts_clock(&self, kept: &[(String, i64)], upkeep: &mut Upkeep) -> Result<bool> {
        let doubt = if self.blocks.is_shared() {
            let Some(time) = self.blocks.store().time()? else { return Ok(true) };
            let apart = now().saturating_sub(time).saturating_abs();
            (apart > HOUR).then(|| {
                let minutes = apart / 60_000_000_000;
                format!("this machine's clock and the bucket's are {minutes} minutes apart")
            })
        } else {
            let hours: BTreeSet<i64> = kept.iter().map(|(_, hour)| *hour).collect();
            let since = upkeep.doubted.get_or_insert_with(Instant::now);
            let is_plausible = hours.len() > 1 || since.elapsed() >= self.options.doubt;
            (!is_plausible).then(|| {
                let wait = self.options.doubt.as_secs() / 3600;
                format!("nearly all are too old; if the clock is right, they are removed after {wait} hours")
            })
        };
        let Some(doubt) = doubt else {
            (upkeep.doubted, upkeep.is_doubt_told) = (None, false);
            return Ok(true);
        };
        if !std::mem::replace(&mut upkeep.is_doubt_told, true) {
            (self.note)(&format!("no profiles are removed by age: {doubt}"));
        }
        Ok(false)
    }

    fn remove_hour(&self, service: &str, hour: i64) -> Result<()> {
        if self.blocks.is_shared() {
            claim::clear(self.blocks.store(), (service, hour))?;
        }
        self.blocks.remove_hour(service, hour)
    }

    /// Removes the oldest hours until all others together are small enough.
    fn remove_largest(&self, hours: &[(String, i64)]) -> Result<()> {
        if self.options.max_bytes == u64::MAX {
            return Ok(());
        }
        let mut by_hour: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
        for (service, hour) in hours {
            by_hour.entry(*hour).or_default().push(service);
        }
        let mut bytes = 0u64;
        for (hour, services) in by_hour.into_iter().rev() {
            for service in &services {
                let found = self.blocks.blocks(service, hour, &mut Vec::new())?;
                bytes = found.iter().fold(bytes, |sum, found| sum.saturating_add(found.manifest.bytes()));
            }
            if bytes > self.options.max_bytes {
                services.iter().try_for_each(|service| self.remove_hour(service, hour))?;
            }
        }
        Ok(())
    }
}

/// Divides the blocks of an hour into those that become one: readers hold the files of a block in memory, so a busy hour
/// stays in several.
fn bins(found: &[StoredBlock]) -> Vec<Vec<StoredBlock>> {
    let mut bins: Vec<Vec<StoredBlock>> = Vec::new();
    let (mut bytes, mut profiles) = (0u64, 0);
    for one in found {
        bytes = bytes.saturating_add(one.manifest.bytes());
        profiles += one.manifest.profiles.len();
        match bins.last_mut().filter(|_| bytes <= BIN_BYTES && profiles <= BIN_PROFILES) {
            Some(bin) => bin.push(one.clone()),
            None => {
                bins.push(vec![one.clone()]);
                (bytes, profiles) = (one.manifest.bytes(), one.manifest.profiles.len());
            }
        }
    }
    bins
}

/// Returns whether the same could work with less at once.
fn is_too_large(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::OutOfMemory | ErrorKind::OutOfWork | ErrorKind::TooLarge)
}
