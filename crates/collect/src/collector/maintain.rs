//! Periodic work: the log becomes blocks, the blocks of an hour become one, old ones are removed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use flamelet_profile::{Budget, Error, ErrorKind, Limits, Result};

use crate::block::blocks::{Blocks, Profiles, StoredBlock, live};
use crate::block::manifest::Manifest;
use crate::block::programs::{self, NewStacks, Program, Programs, References, SharedFile};
use crate::block::{self, Block, BlockBuilder, Keeps, join};
use crate::clock::now;
use crate::collector::claim::{self, Claim};
use crate::entry::HOUR;
use crate::keep::Keep;
use crate::log::logs::Logs;
use crate::log::recent::Recent;
use crate::log::{LogContent, LogWriter};
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
/// How far apart the clocks of two collectors can be at most if both agree with the bucket's.
const CLOCKS_APART: i64 = 2 * HOUR;
/// Hours of a shared store that a new collector looks at, because their collectors may have died before merging them.
const LOOKED_AT: i64 = 48;

/// What is to be done.
pub(crate) struct Upkeep {
    /// Hours that have several blocks, perhaps.
    unmerged: BTreeSet<(i64, String)>,
    /// Logs that could not become blocks; some of their blocks may be there.
    tried: BTreeSet<String>,
    /// When each block that another one replaces was first seen, by its path.
    replaced: BTreeMap<String, Instant>,
    /// The code that is kept outside of blocks.
    programs: Programs,
    /// When sizes were added up last.
    sized: i64,
    /// When the clock of a folder was first distrusted, and whether that was reported.
    doubted: Option<Instant>,
    is_doubt_told: bool,
}

impl Upkeep {
    /// Lists the blocks, and returns what is to be done. It is one of `share` that have the memory between them.
    pub(crate) fn new(blocks: &Blocks, share: usize) -> Result<Self> {
        let mut unmerged = BTreeSet::new();
        let first = if blocks.is_shared() { now().div_euclid(HOUR) - LOOKED_AT } else { i64::MIN };
        for service in blocks.services()? {
            for hour in blocks.hours(&service)?.into_iter().filter(|hour| *hour >= first) {
                if blocks.block_names(&service, hour)?.len() > 1 {
                    unmerged.insert((hour, service.clone()));
                }
            }
        }
        Ok(Self {
            unmerged,
            tried: BTreeSet::new(),
            replaced: BTreeMap::new(),
            programs: Programs::new(share),
            sized: 0,
            doubted: None,
            is_doubt_told: false,
        })
    }
}

/// What the upkeep works on.
pub(crate) struct UpkeepTarget<'a> {
    pub(crate) blocks: &'a Blocks,
    pub(crate) logs: &'a Logs,
    pub(crate) log: &'a LogWriter,
    pub(crate) recent: &'a Recent,
    pub(crate) names: &'a Names,
    pub(crate) options: &'a Options,
    /// Prints a message for the user.
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
            // A log that was begun in the meantime is left to the next call.
            if self.log.current().is_some_and(|current| current == name) {
                continue;
            }
            if let Err(error) = self.flush(&name, upkeep) {
                (self.note)(&format!(
                    "the log {name} is kept, because it cannot be turned into blocks: {error}"
                ));
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
        let Some(log) = LogContent::of(self.logs, name, Some(self.recent), &budget)? else { return Ok(()) };
        if log.damaged() > 0 {
            (self.note)(&format!("the log {name} has {} damaged records, which are left out", log.damaged()));
        }
        let mut blocks: BTreeMap<(&str, i64), Vec<(usize, u128)>> = BTreeMap::new();
        for (number, (service, hour, id)) in log.keys().into_iter().enumerate() {
            blocks.entry((service, hour)).or_default().push((number, id));
        }
        let folders = self.share_code(&log, &blocks, &mut upkeep.programs)?;
        // A log that was never made into blocks has none.
        let is_new = self.names.has_made(name) && !upkeep.tried.contains(name);
        for ((service, hour), mut profiles) in blocks {
            let mut known = Profiles::default();
            if !is_new {
                let found = self.blocks.blocks(service, hour, &mut Vec::new())?;
                known.extend(found.iter().flat_map(|found| found.manifest.profile_ids()));
            }
            profiles.retain(|(_, id)| known.insert(*id));
            if !profiles.is_empty() {
                let program = folders.get(&(service, hour)).and_then(|folder| upkeep.programs.get(folder));
                self.make_blocks((service, hour), &log, &profiles, program)?;
            }
            upkeep.unmerged.insert((hour, service.to_owned()));
        }
        upkeep.tried.remove(name);
        self.logs.remove(name)?;
        self.recent.forget(name);
        Ok(())
    }

    /// Writes the stacks that many profiles of the log have, if they are worth it, and returns the folders of the programs.
    fn share_code<'l>(
        &self,
        log: &'l LogContent,
        blocks: &BTreeMap<(&'l str, i64), Vec<(usize, u128)>>,
        programs: &mut Programs,
    ) -> Result<BTreeMap<(&'l str, i64), String>> {
        let (mut folders, mut new) = (BTreeMap::new(), NewStacks::default());
        let mut looked_at = BTreeSet::new();
        for (&key, profiles) in blocks {
            for &(number, _) in profiles {
                // One that cannot be read is reported when its block is made.
                let budget = Budget::new(Limits::SERVICE);
                let Ok(profile) = log.profile(number, self.recent.pool(), &budget) else { continue };
                let folder =
                    folders.entry(key).or_insert_with(|| programs::folder_of(key.0, key.1, &profile.part));
                if looked_at.insert(folder.clone()) {
                    self.look_for_code(folder, programs)?;
                }
                new.add(folder, &profile.part, programs);
            }
        }
        for (folder, new) in programs.worth_a_file(new) {
            let path = format!("{folder}/{}", self.names.next());
            self.blocks.put_shared_code(&path, &block::write_shared(new.stacks())?)?;
            programs.add_files(&folder, vec![SharedFile::of(path, &new)]);
        }
        Ok(folders)
    }

    /// Finds out which code a folder has: also what was written before the last start, or by other collectors. A
    /// person, or another collector whose profiles are too old, may have removed what was known: no block must refer to
    /// it any more.
    fn look_for_code(&self, folder: &str, programs: &mut Programs) -> Result<()> {
        let names = self.blocks.shared_names(folder)?;
        if !programs.knows(folder, &names) {
            programs.forget(folder);
            if !programs.has_room(folder) {
                return Ok(());
            }
            let found = self.blocks.shared_in(folder, names, &Budget::new(Limits::SERVICE))?.into_iter();
            let found = found.map(|(path, code)| SharedFile::read(path, &code));
            programs.add_files(folder, found.collect());
        }
        Ok(())
    }

    /// Makes a block of these profiles, or several if one would be too large.
    fn make_blocks(
        &self,
        key: (&str, i64),
        log: &LogContent,
        profiles: &[(usize, u128)],
        program: Option<&Program>,
    ) -> Result<()> {
        let outcome = self.make_block(key, log, profiles, program);
        let Some(error) = outcome.as_ref().err().filter(|error| is_too_large(error)) else { return outcome };
        if profiles.len() > 1 {
            let (first, second) = profiles.split_at(profiles.len() / 2);
            self.make_blocks(key, log, first, program)?;
            return self.make_blocks(key, log, second, program);
        }
        if program.is_some() {
            // Its code may be in more files than a block can refer to.
            return self.make_blocks(key, log, profiles, None);
        }
        // Only an earlier version has accepted it.
        (self.note)(&format!("a profile of {} is left out, because it is too large: {error}", key.0));
        Ok(())
    }

    fn make_block(
        &self,
        key: (&str, i64),
        log: &LogContent,
        profiles: &[(usize, u128)],
        program: Option<&Program>,
    ) -> Result<()> {
        let budget = Budget::new(block::MEMORY);
        let mut builder = BlockBuilder::new(&budget).without(program.map(|program| &program.stacks));
        for &(number, id) in profiles {
            // What is read is freed again.
            match log.profile(number, self.recent.pool(), &Budget::new(Limits::SERVICE)) {
                Ok(profile) => builder.add(&profile.part, id)?,
                Err(error) => (self.note)(&error.to_string()),
            }
        }
        let references = program.map(|program| program.references(builder.used())).unwrap_or_default();
        let tables = builder.finish();
        let profiles = profiles.iter().map(|(_, id)| format!("{id:032x}")).collect();
        let written = block::write(&tables)?;
        let manifest = Manifest::of(key, profiles, &tables, &written, references);
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
        // The blocks that the new one replaces, and those that a killed collector left behind in an earlier merge.
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
        let mut references = References::default();
        for found in &found {
            references.code.extend(found.manifest.code.iter().cloned());
            references.build_ids.extend(found.manifest.build_ids.iter().cloned());
        }
        let manifest = Manifest::of(key, profiles, &tables, &written, references);
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
            old.drain(..).try_for_each(|(service, hour)| self.remove_hour(&service, hour))?;
        }
        let hours: BTreeSet<i64> = old.iter().chain(&kept).map(|(_, hour)| *hour).collect();
        self.remove_code(&hours, &kept, upkeep)?;
        if is_due {
            upkeep.sized = now();
            // Does not wait for replaced blocks that are already gone.
            upkeep.replaced.retain(|_, since| since.elapsed() < self.options.grace * 2);
            self.remove_largest(&kept)?;
        }
        Ok(())
    }

    /// Removes shared code of days of which no block is left; in a store that others write to, only when profiles of
    /// that day are too old for all of them. In a folder, blocks that come late write it again.
    fn remove_code(&self, hours: &BTreeSet<i64>, kept: &[(String, i64)], upkeep: &mut Upkeep) -> Result<()> {
        let keeps = self.options.keep_of.iter().map(Keep::age).chain([self.options.keep]);
        let longest = i64::try_from(keeps.max().unwrap_or_default().as_nanos()).unwrap_or(i64::MAX);
        let age = if self.blocks.is_shared() { longest.saturating_add(CLOCKS_APART) } else { 0 };
        let first_kept = now().saturating_sub(age).div_euclid(HOUR);
        let is_used = |folder: &str| hours.iter().any(|hour| programs::is_of_day(folder, *hour));
        let mut unused = self.blocks.shared_folders()?;
        unused.retain(|folder| programs::is_before(folder, first_kept) && !is_used(folder));
        // Another collector may be about to write the first blocks that refer to it.
        if unused.is_empty() || self.blocks.is_shared() && !self.trusts_clock(kept, upkeep)? {
            return Ok(());
        }
        for folder in unused {
            upkeep.programs.forget(&folder);
            self.blocks.remove_shared(&folder)?;
        }
        Ok(())
    }

    /// Returns whether to trust the clock by which profiles are too old. A wrong clock must not remove everything.
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
        let (code, mut days) = (self.blocks.shared_folders()?, BTreeSet::new());
        let mut bytes = 0u64;
        for (hour, services) in by_hour.into_iter().rev() {
            // The code of a day goes with its blocks; what is left of days without any takes nothing away from others.
            for folder in code.iter().filter(|folder| programs::is_of_day(folder, hour)) {
                if days.insert(folder) {
                    bytes = bytes.saturating_add(self.blocks.shared_bytes(folder)?);
                }
            }
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

/// Divides the blocks of an hour into groups that become one block each: readers hold the files of a block in memory,
/// so a busy hour stays in several.
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

/// Returns whether the work may succeed in smaller parts.
fn is_too_large(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::OutOfMemory | ErrorKind::OutOfWork | ErrorKind::TooLarge)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::block::{CodeLocation, CodeStack, Part, PartRow};
    use crate::log::recent::RecentProfile;
    use crate::store::folder::BlockFolder;

    #[test]
    fn a_profile_whose_code_is_in_too_many_files_has_it_in_its_block() {
        const FILES: u32 = 501;
        let folder = tempfile::tempdir().expect("a folder");
        let (logs, _lock) = Logs::create(folder.path()).expect("made");
        let blocks = BlockFolder::create(folder.path()).expect("made");
        let blocks = Blocks::create(Arc::new(blocks), 1 << 20).expect("made");
        let (names, recent) = (Arc::new(Names::new()), Arc::new(Recent::new(1 << 20)));
        let site = UpkeepTarget {
            blocks: &blocks,
            logs: &logs,
            log: &LogWriter::new(&logs, &names, &recent),
            recent: &recent,
            names: &names,
            options: &Options::new(folder.path()),
            note: &|message| panic!("unexpected: {message}"),
        };
        let stack = |number: u32| {
            let location = CodeLocation { offset: number.into(), ..CodeLocation::default() };
            let locations = Box::new([(location.hash(), Arc::new(location))]);
            Arc::new(CodeStack { hash: number.into(), locations })
        };
        let part = Part {
            series: vec![(7, Arc::default())],
            stacks: (0..FILES).map(stack).collect(),
            times: vec![(0, 0)],
            ids: vec![(None, None)],
            rows: (0..FILES).map(|stack| PartRow { series: 0, stack, time: 0, ids: 0, value: 1 }).collect(),
        };
        let program = Program::of_files((0..FILES).map(|number| (number.into(), format!("day~a/{number}"))));
        let profile = RecentProfile { service: "shop".to_owned(), hour: 0, id: 1, part, added: 0 };
        let log = LogContent::Recent(vec![Arc::new(profile)]);
        site.make_blocks(("shop", 0), &log, &[(0, 1)], Some(&program)).expect("made");
        let found = blocks.blocks("shop", 0, &mut Vec::new()).expect("listed");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].manifest.profiles.len(), found[0].manifest.code.len()), (1, 0));
    }
}
