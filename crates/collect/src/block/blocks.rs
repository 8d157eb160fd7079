//! The blocks in a store: their names are the index, and each exists completely or not at all.
//!
//! ```text
//!  flamelet-collect.json                                     what this store is, and its version
//!  blocks/SERVICE/2026-11-16T17/5f0c93ab…-1794706806123/     a block: four Parquet files and manifest.json
//!  blocks/~code/2026-11-16~5e61…/5f0c93ab…-1794706806124/   stacks and locations that blocks of a program and day share
//!  claims/SERVICE/2026-11-16T17/1                            who merges this hour, in a store that is shared
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use flamelet_profile::budget::Loan;
use flamelet_profile::{Budget, Error, ErrorKind, Result};
use rustc_hash::FxBuildHasher;

use crate::block::manifest::{MAX_MANIFEST, Manifest};
use crate::block::programs;
use crate::block::read_parts::ReadParts;
use crate::block::{
    self, Block, HOUR_FILE, MINUTES_FILE, MinuteRow, NAMES, Part, Pool, SHARED_NAMES, SampleRow, SharedCode,
    Written,
};
use crate::names::{folder_name, hour_name, hour_of, service_of};
use crate::series::Series;
use crate::store::Store;
use crate::symbols::Symbols;

pub(crate) const MARK: &str = "flamelet-collect.json";
/// The longest file of that name that is read.
pub(crate) const MAX_MARK: u64 = 4096;
const MARK_TEXT: &str = "{ \"format\": \"flamelet collect\", \"version\": 1 }\n";
const MANIFEST: &str = "manifest.json";
/// Where shared code is: as deep as blocks, so that engines find it among them. No service has this folder.
const SHARED: &str = "blocks/~code";
/// The longest file of a block that is read.
const MAX_FILE: u64 = 512 << 20;

/// Rows of a block that are in memory at once.
pub(crate) const CHUNK: usize = 32_768;
/// Blocks with more rows are not kept in memory.
const MOST_PART_ROWS: u64 = 200_000;
/// How often an hour is listed again because a block is gone that was listed.
pub(crate) const TRIES: usize = 3;

/// Hashes of profiles.
pub(crate) type Profiles = HashSet<u128, FxBuildHasher>;

/// The series of a block, and their totals by minute.
pub(crate) type Minutes = (Vec<(u128, Series)>, Vec<MinuteRow>);

/// The blocks in a store.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    store: Arc<dyn Store>,
    symbols: Symbols,
    read: Arc<ReadParts>,
}

#[derive(Clone, Debug)]
pub(crate) struct StoredBlock {
    /// The path of its folder.
    pub(crate) path: String,
    pub(crate) manifest: Manifest,
    /// The profiles in it that are read from another block.
    elsewhere: Profiles,
}

/// Returns the blocks that no other replaces, and decides for each profile that is in several of them from which one
/// it is read. Several collectors may have accepted the same profile, or may have merged the same blocks.
pub(crate) fn live(found: &[StoredBlock]) -> Vec<StoredBlock> {
    let is_live = |one: &&StoredBlock| !found.iter().any(|other| one.is_replaced_by(other));
    let mut live: Vec<StoredBlock> = found.iter().filter(is_live).cloned().collect();
    // Blocks whose rows do not say which profile they belong to are read whole.
    live.sort_by(|a, b| {
        let has_profiles = |found: &StoredBlock| found.manifest.has_profiles();
        has_profiles(a).cmp(&has_profiles(b)).then_with(|| a.path.cmp(&b.path))
    });
    let mut seen = Profiles::default();
    for found in &mut live {
        found.elsewhere = found.manifest.profile_ids().filter(|id| !seen.insert(*id)).collect();
    }
    live
}

impl StoredBlock {
    /// Returns whether everything in this block begins in a range, and nothing of it is read from another block.
    pub(crate) fn is_all_in(&self, from: i64, to: i64) -> bool {
        self.elsewhere.is_empty() && self.manifest.from >= from && self.manifest.to < to
    }

    /// Returns whether a row of this block is not read from another one.
    pub(crate) fn keeps(&self, row: &SampleRow) -> bool {
        self.elsewhere.is_empty() || !self.elsewhere.contains(&row.profile)
    }

    /// Leaves out profiles that were already read.
    pub(crate) fn leave_out(&mut self, read: &Profiles) {
        self.elsewhere.extend(self.manifest.profile_ids().filter(|id| read.contains(id)));
    }

    /// Returns whether every profile of this block is in another one. Of two blocks with the same profiles, the one
    /// whose path is first stays.
    pub(crate) fn is_replaced_by(&self, other: &Self) -> bool {
        let (own, others) = (&self.manifest.profiles, &other.manifest.profiles);
        let is_smaller = own.len() < others.len() || (own.len() == others.len() && self.path > other.path);
        is_smaller && own.is_subset(others)
    }
}

impl Blocks {
    /// Opens a store to read from; `memory` is for blocks that were read recently.
    pub(crate) fn open(store: Arc<dyn Store>, memory: usize) -> Result<Self> {
        let mark = store.get(MARK, MAX_MARK).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                let message = format!("this is not the store of a collector ({MARK} is missing)");
                Error::new(ErrorKind::NotFound, format!("{}: {message}", store.shown("")))
            }
            _ => error,
        })?;
        if mark != MARK_TEXT.as_bytes() {
            let message = format!("{}: was written by another version of flamelet collect", store.shown(""));
            return Err(Error::new(ErrorKind::WrongFormat, message));
        }
        let symbols = Symbols::new(store.clone());
        Ok(Self { store, symbols, read: Arc::new(ReadParts::new(memory)) })
    }

    /// Opens a store to write to, and marks it as one if it is new.
    pub(crate) fn create(store: Arc<dyn Store>, memory: usize) -> Result<Self> {
        store.create(MARK, MARK_TEXT.as_bytes())?;
        Self::open(store, memory)
    }

    /// Returns what the blocks that were read share.
    pub(crate) fn pool(&self) -> &Pool {
        self.read.pool()
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Returns the symbols of builds that the store has.
    pub(crate) fn symbols(&self) -> Symbols {
        self.symbols.clone()
    }

    /// Returns whether other collectors write here, too.
    pub(crate) fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    pub(crate) fn services(&self) -> Result<Vec<String>> {
        let names = self.store.list("blocks")?.folders;
        let mut services: Vec<String> = names.iter().filter_map(|name| service_of(name)).collect();
        services.sort();
        Ok(services)
    }

    pub(crate) fn hours(&self, service: &str) -> Result<Vec<i64>> {
        let names = self.store.list(&format!("blocks/{}", folder_name(service)))?.folders;
        let mut hours: Vec<i64> = names.iter().filter_map(|name| hour_of(name)).collect();
        hours.sort_unstable();
        Ok(hours)
    }

    /// Returns the names of the blocks of a service and hour, including incomplete ones.
    pub(crate) fn block_names(&self, service: &str, hour: i64) -> Result<Vec<String>> {
        let mut names = self.store.list(&hour_path(service, hour))?.folders;
        names.sort();
        Ok(names)
    }

    /// Returns the blocks of a service and hour, with a line for each that cannot be used. If one was removed after it was
    /// listed, which happens when another one has replaced it, the hour is listed again.
    pub(crate) fn blocks(
        &self,
        service: &str,
        hour: i64,
        notes: &mut Vec<String>,
    ) -> Result<Vec<StoredBlock>> {
        let mut names = self.block_names(service, hour)?;
        for _ in 1..TRIES {
            let mut own = Vec::new();
            let (found, missing) = self.found(service, hour, &names, &mut own);
            // Those that are listed still were never whole.
            let again = if missing.is_empty() { Vec::new() } else { self.block_names(service, hour)? };
            if missing.iter().all(|name| again.contains(name)) {
                notes.append(&mut own);
                return Ok(found);
            }
            names = again;
        }
        Ok(self.found(service, hour, &names, notes).0)
    }

    /// Returns the blocks with these names, and the names of those that have no manifest.
    fn found(
        &self,
        service: &str,
        hour: i64,
        names: &[String],
        notes: &mut Vec<String>,
    ) -> (Vec<StoredBlock>, Vec<String>) {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for name in names {
            let path = format!("{}/{name}", hour_path(service, hour));
            let read = self.store.get(&format!("{path}/{MANIFEST}"), MAX_MANIFEST);
            match read.and_then(|bytes| Manifest::read(&bytes)) {
                Ok(manifest) if manifest.service == service && manifest.hour == hour => {
                    found.push(StoredBlock { path, manifest, elsewhere: Profiles::default() });
                }
                Ok(_) => {
                    let shown = self.store.shown(&path);
                    notes.push(format!("{shown}: belongs to another service or hour, and was left out"));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => missing.push(name.clone()),
                Err(error) => notes.push(format!("{}: {error}", self.store.shown(&path))),
            }
        }
        (found, missing)
    }

    /// Opens a block. The rows of profiles that are read from another are among its rows, see [`StoredBlock::keeps`].
    pub(crate) fn open_block(&self, found: &StoredBlock, budget: &Budget) -> Result<Block> {
        self.open_files(found, NAMES, budget)
    }

    /// Opens a block for sums over all of its profiles: rows of several profiles may be one. Without a rollup, or with one
    /// that is damaged, the samples are read.
    pub(crate) fn open_summed(&self, found: &StoredBlock, budget: &Budget) -> Result<Block> {
        if !found.manifest.files.contains_key(HOUR_FILE) {
            return self.open_block(found, budget);
        }
        let [_, stacks, locations, series] = NAMES;
        match self.open_files(found, [HOUR_FILE, stacks, locations, series], budget) {
            Err(error) if error.kind() == ErrorKind::Corrupt => self.open_block(found, budget),
            outcome => outcome,
        }
    }

    /// Returns the rows of a block, summed if `is_summed` and it has them so; `None` if it is too large to be kept in
    /// memory, or some of its profiles are read from elsewhere.
    pub(crate) fn part(
        &self,
        found: &StoredBlock,
        is_summed: bool,
        budget: &Budget,
    ) -> Result<Option<Arc<Part>>> {
        let is_summed = is_summed && found.manifest.files.contains_key(HOUR_FILE);
        let name = if is_summed { HOUR_FILE } else { NAMES[0] };
        let rows = found.manifest.files.get(name).map_or(u64::MAX, |file| file.rows);
        if rows > MOST_PART_ROWS || !found.elsewhere.is_empty() {
            return Ok(None);
        }
        let path = format!("{}/{name}", found.path);
        if let Some(known) = self.read.get(&path) {
            return Ok(Some(known));
        }
        let mut block =
            if is_summed { self.open_summed(found, budget)? } else { self.open_block(found, budget)? };
        let (mut samples, mut loan) = (Vec::new(), budget.lend(0)?);
        loop {
            let rows = block.next(CHUNK, &|_, _| true, budget, &mut loan);
            let rows = rows.map_err(|error| self.about(found, &error))?;
            // The manifest may lie about their number.
            if rows.is_empty() || samples.len() as u64 > MOST_PART_ROWS {
                break;
            }
            samples.extend(rows);
        }
        if samples.len() as u64 > MOST_PART_ROWS {
            return Ok(None);
        }
        Ok(Some(self.read.keep(path, Part::of_block(&block.tables, &samples, self.pool()))))
    }

    fn open_files(&self, found: &StoredBlock, names: [&str; 4], budget: &Budget) -> Result<Block> {
        let mut files: [Vec<u8>; 4] = Default::default();
        // Until the block itself is charged for them.
        let mut loan = budget.lend(0)?;
        for (name, bytes) in names.iter().zip(&mut files) {
            *bytes = self.file(found, name, &mut loan)?;
        }
        drop(loan);
        let mut unkept = budget.lend(0)?;
        let shared = found.manifest.code.iter().map(|path| self.shared_code(path, budget, &mut unkept));
        let shared = shared.collect::<Result<Vec<_>>>()?;
        let block = Block::open(files, found.manifest.has_profiles(), shared, budget);
        let block = block.map_err(|error| self.about(found, &error))?;
        Ok(block.with_loan(unkept))
    }

    /// Reads code that blocks refer to. What it takes is added to the loan unless it is kept for others.
    fn shared_code(&self, path: &str, budget: &Budget, unkept: &mut Loan) -> Result<Arc<SharedCode>> {
        if let Some(known) = self.read.code(path) {
            return Ok(known);
        }
        let mut files: [Vec<u8>; 2] = Default::default();
        let mut loan = budget.lend(0)?;
        for (name, bytes) in SHARED_NAMES.iter().zip(&mut files) {
            *bytes = self.store.get(&format!("{SHARED}/{path}/{name}"), MAX_FILE)?;
            loan.add(bytes.len())?;
        }
        drop(loan);
        let about = |error: Error| {
            Error::new(error.kind(), format!("{}: {error}", self.store.shown(&format!("{SHARED}/{path}"))))
        };
        let code = Arc::new(block::read_shared(files, budget).map_err(about)?);
        if let Some(kept) = self.read.keep_code(path, &code) {
            return Ok(kept);
        }
        unkept.add(code.memory())?;
        Ok(code)
    }

    /// Writes code that blocks will refer to. When this returns, it is durable.
    pub(crate) fn put_shared_code(&self, path: &str, files: &[Vec<u8>; 2]) -> Result<()> {
        let files: Vec<(&str, &[u8])> =
            SHARED_NAMES.iter().zip(files).map(|(name, bytes)| (*name, &**bytes)).collect();
        self.store.create_together(&format!("{SHARED}/{path}"), &files)
    }

    /// Returns the names of the shared code in a folder.
    pub(crate) fn shared_names(&self, folder: &str) -> Result<Vec<String>> {
        Ok(self.store.list(&format!("{SHARED}/{folder}"))?.folders)
    }

    /// Returns the shared code with these names in a folder, as far as it can be read and referred to, with the paths.
    pub(crate) fn shared_in(
        &self,
        folder: &str,
        names: Vec<String>,
        budget: &Budget,
    ) -> Result<Vec<(String, Arc<SharedCode>)>> {
        // No manifest can name what somebody has renamed or copied to a name of another kind.
        let paths =
            names.into_iter().map(|name| format!("{folder}/{name}")).filter(|path| programs::is_path(path));
        let mut unkept = budget.lend(0)?;
        let read = |path: String| {
            let code = self.shared_code(&path, budget, &mut unkept).ok()?;
            Some((path, code))
        };
        Ok(paths.filter_map(read).collect())
    }

    /// Returns the folders of shared code, one for each program and day.
    pub(crate) fn shared_folders(&self) -> Result<Vec<String>> {
        Ok(self.store.list(SHARED)?.folders)
    }

    /// Returns the bytes of the shared code in a folder.
    pub(crate) fn shared_bytes(&self, folder: &str) -> Result<u64> {
        let mut bytes = 0u64;
        for name in self.shared_names(folder)? {
            bytes = bytes.saturating_add(self.store.list(&format!("{SHARED}/{folder}/{name}"))?.bytes);
        }
        Ok(bytes)
    }

    /// Removes a folder of shared code.
    pub(crate) fn remove_shared(&self, folder: &str) -> Result<()> {
        let folder = format!("{SHARED}/{folder}");
        for name in self.store.list(&folder)?.folders {
            self.store.delete_together(&format!("{folder}/{name}"), &SHARED_NAMES)?;
        }
        Ok(())
    }

    /// Reads the series of a block and their totals by minute; `None` if it has no such rollup, or a damaged one.
    pub(crate) fn read_minutes(&self, found: &StoredBlock, budget: &Budget) -> Result<Option<Minutes>> {
        if !found.manifest.files.contains_key(MINUTES_FILE) {
            return Ok(None);
        }
        let series = self.read_series(found, budget)?;
        let mut loan = budget.lend(0)?;
        let rows = self.file(found, MINUTES_FILE, &mut loan);
        match rows.and_then(|file| block::read_minutes(file, budget, &mut loan)) {
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
            outcome => outcome.map(|rows| Some((series, rows))),
        }
    }

    /// Reads only the series of a block.
    pub(crate) fn read_series(&self, found: &StoredBlock, budget: &Budget) -> Result<Vec<(u128, Series)>> {
        let mut loan = budget.lend(0)?;
        let file = self.file(found, NAMES[3], &mut loan)?;
        block::read_series(file, budget, &mut loan).map_err(|error| self.about(found, &error))
    }

    /// Fails if a block cannot be read, as far as its last row.
    pub(crate) fn check_block(&self, found: &StoredBlock, budget: &Budget) -> Result<()> {
        let mut block = self.open_block(found, budget)?;
        loop {
            let rows = block.next(CHUNK, &|_, _| true, budget, &mut budget.lend(0)?);
            if rows.map_err(|error| self.about(found, &error))?.is_empty() {
                return Ok(());
            }
        }
    }

    pub(crate) fn about(&self, found: &StoredBlock, error: &Error) -> Error {
        Error::new(error.kind(), format!("{}: {error}", self.store.shown(&found.path)))
    }

    /// Reads a file of a block, whose length is added to the loan.
    fn file(&self, found: &StoredBlock, name: &str, loan: &mut Loan) -> Result<Vec<u8>> {
        let path = format!("{}/{name}", found.path);
        let wrong =
            |what: &str| Error::new(ErrorKind::Corrupt, format!("{}: {what}", self.store.shown(&path)));
        let entry = found.manifest.files.get(name);
        let entry = entry.ok_or_else(|| wrong("is not in the manifest of its block"))?;
        let length = entry.bytes.min(MAX_FILE);
        loan.add(usize::try_from(length).unwrap_or(usize::MAX))?;
        let bytes = self.store.get(&path, length)?;
        if entry.is_of(&bytes) {
            Ok(bytes)
        } else {
            Err(wrong("does not match the checksum in its manifest"))
        }
    }

    /// Writes a block under a name that nothing else uses. When this returns, the block is durable. A block that readers
    /// would refuse because of its size is not put; the kind of the error is `TooLarge`.
    pub(crate) fn put_block(&self, name: &str, written: &Written, manifest: &Manifest) -> Result<()> {
        let path = format!("{}/{name}", hour_path(&manifest.service, manifest.hour));
        let manifest = manifest.write()?;
        let lengths = written.files.iter().map(|bytes| (bytes.len() as u64, MAX_FILE));
        let mut lengths = lengths.chain([(manifest.len() as u64, MAX_MANIFEST)]);
        if lengths.any(|(length, most)| length > most) {
            return Err(Error::new(ErrorKind::TooLarge, "a file of the block would be too large"));
        }
        let rollups = written.rollups.iter().map(|(name, bytes, _)| (*name, &**bytes));
        let tables = NAMES.iter().zip(&written.files).map(|(name, bytes)| (*name, &**bytes)).chain(rollups);
        let files: Vec<(&str, &[u8])> = tables.chain([(MANIFEST, &*manifest)]).collect();
        self.store.create_together(&path, &files)
    }

    /// Removes a block; no reader finds half of it.
    pub(crate) fn remove_block(&self, found: &StoredBlock) -> Result<()> {
        let has = |name: &&str| found.manifest.files.contains_key(*name);
        let rollups = [HOUR_FILE, MINUTES_FILE].into_iter().filter(has);
        let files: Vec<&str> = NAMES.into_iter().chain(rollups).chain([MANIFEST]).collect();
        self.store.delete_together(&found.path, &files)
    }

    /// Removes all blocks of a service and hour, also those that were never whole.
    pub(crate) fn remove_hour(&self, service: &str, hour: i64) -> Result<()> {
        for name in self.block_names(service, hour)? {
            let path = format!("{}/{name}", hour_path(service, hour));
            let mut files = self.store.list(&path)?.files;
            files.sort_by_key(|name| name == MANIFEST);
            let files: Vec<&str> = files.iter().map(String::as_str).collect();
            self.store.delete_together(&path, &files)?;
        }
        Ok(())
    }
}

fn hour_path(service: &str, hour: i64) -> String {
    format!("blocks/{}/{}", folder_name(service), hour_name(hour))
}
