//! Accepts profiles: checks them, drops those that already exist, and puts the others on disk.

pub(crate) mod claim;
pub(crate) mod delta;
pub(crate) mod gone;
pub(crate) mod hours;
pub(crate) mod maintain;
pub(crate) mod tenant;
pub(crate) mod tenants;
pub(crate) mod turns;
pub(crate) mod watch;

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use flamelet_profile::{Budget, Error, ErrorKind, Limits, Profile, Result, moment, pprof};
use flamelet_remote::push;

use crate::block;
use crate::block::blocks::Blocks;
use crate::clock::now;
use crate::collector::delta::{Deltas, Step, has_totals};
use crate::collector::gone::Gone;
use crate::collector::hours::Hours;
use crate::collector::maintain::{Upkeep, UpkeepTarget};
use crate::collector::turns::Turns;
use crate::collector::watch::Watch;
use crate::entry::AcceptedProfile;
use crate::lock::lock;
use crate::log::logs::Logs;
use crate::log::recent::{Recent, RecentProfile};
use crate::log::{LogContent, LogWriter};
use crate::names::Names;
use crate::options::Options;
use crate::outside::Outside;
use crate::reader::{Reader, is_collected};
use crate::series::{
    Labels, Series, check_ids, check_labels, check_service, check_types, cleaned, hash_texts,
    with_sample_labels,
};
use crate::store::Store;
use crate::store::folder::BlockFolder;
use crate::symbols::Symbols;

/// How far ahead a profile may be dated: clocks differ.
const MAX_AHEAD: i64 = 600_000_000_000;
/// The most values of a sample.
const MAX_VALUES: usize = 16;
/// Bytes of texts in a block that one profile may have.
const MAX_TEXTS: usize = 32 << 20;
/// How many times more often than usual blocks may be made because memory is full.
const EARLY: u32 = 5;
/// How many scraped profiles are processed at once; each may take 128 MiB.
const SCRAPED: usize = 4;

/// A profile that was sent or scraped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// The service that it belongs to.
    pub service: String,
    /// Other labels; those that Pyroscope reserves are left out.
    pub labels: Vec<(String, String)>,
    /// Pyroscope's name of the profile; `None` if its values say it.
    pub name: Option<String>,
    /// The sender's id, by which it is recognised if it is sent again.
    pub id: String,
    /// When it begins, in nanoseconds since 1970, if the profile itself does not say.
    pub from: Option<i64>,
    /// When it ends.
    pub until: Option<i64>,
    /// Whether its values are what was added since the one before, and not totals since the start of the process.
    pub is_delta: bool,
    /// The same, if the profile says how long it is: Parca has no other sign.
    pub is_delta_if_timed: bool,
    /// The file.
    pub bytes: Vec<u8>,
}

/// Why a profile was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The HTTP status.
    pub status: u16,
    /// One line for a person.
    pub message: String,
}

impl Refused {
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::TooLarge | ErrorKind::OutOfMemory | ErrorKind::OutOfWork => 413,
            ErrorKind::Busy => 429,
            ErrorKind::Io | ErrorKind::Denied | ErrorKind::NotFound | ErrorKind::Internal => 503,
            _ => 400,
        };
        Self::new(status, error.to_string())
    }
}

/// What a collector has done, for its metrics.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) accepted: AtomicU64,
    pub(crate) duplicates: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Requests of senders, of all tenants, that were refused for any reason; only a collector's main part counts them.
    pub(crate) requests_refused: AtomicU64,
}

/// The part of a collector that writes.
pub(crate) struct Writing {
    pub(crate) log: LogWriter,
    recent: Arc<Recent>,
    logs: Logs,
    names: Arc<Names>,
    hours: Mutex<Hours>,
    deltas: Deltas,
    gone: Gone,
    /// Profiles that are on their way to the disk.
    pending: Mutex<HashSet<u128>>,
    pub(crate) upkeep: Mutex<Upkeep>,
    lock: File,
    /// The process that holds the lock: a forked child has a copy of it, but must not release it.
    process: u32,
}

impl Drop for Writing {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            flamelet_store::unlock(&self.lock);
        }
    }
}

/// Accepts profiles into a folder or a store, and reads from it.
pub struct Collector {
    blocks: Blocks,
    pub(crate) options: Options,
    pub(crate) outside: Box<dyn Outside>,
    pub(crate) counters: Counters,
    /// `None` if it only reads.
    pub(crate) writing: Option<Writing>,
    /// For profiles that were scraped.
    pub(crate) turns: Turns,
    pub(crate) watch: Watch,
}

/// A profile that was sent.
struct Decoded<'a> {
    profile: Profile,
    /// Its bytes in pprof's format.
    raw: Vec<u8>,
    /// The same with gzip, if it was sent so.
    packed: Option<&'a [u8]>,
}

impl Collector {
    /// Takes over a folder, which is created if it does not exist. What a killed collector left in its log becomes
    /// blocks at once.
    pub fn open(options: Options, outside: Box<dyn Outside>) -> Result<Self> {
        if !is_collected(&options.store) && flamelet_store::is_history(&options.store) {
            let what = "this is the history of a service; give the collector a folder of its own";
            return Err(Error::invalid(format!("{}: {what}", options.store.display())));
        }
        let (logs, lock) = Logs::create(&options.store)?;
        let blocks = Blocks::create(Arc::new(BlockFolder::create(&options.store)?), options.read())?;
        Self::start(blocks, (logs, lock), options, outside)
    }

    /// Writes blocks to a store that other collectors may use, too. The log is in the folder of `options`, which this
    /// collector takes over.
    pub fn open_shared(store: Arc<dyn Store>, options: Options, outside: Box<dyn Outside>) -> Result<Self> {
        let logs = Logs::create(&options.store)?;
        Self::start(Blocks::create(store, options.read())?, logs, options, outside)
    }

    fn start(
        blocks: Blocks,
        (logs, lock): (Logs, File),
        options: Options,
        outside: Box<dyn Outside>,
    ) -> Result<Self> {
        let names = Arc::new(Names::new());
        let recent = Arc::new(Recent::new(2 * options.recent()));
        let writing = Writing {
            log: LogWriter::new(&logs, &names, &recent),
            recent,
            logs,
            names,
            hours: Mutex::new(Hours::new(options.share)),
            deltas: Deltas::new(options.share),
            gone: Gone::new(options.share),
            pending: Mutex::default(),
            upkeep: Mutex::new(Upkeep::new(&blocks, options.share)?),
            lock,
            process: std::process::id(),
        };
        blocks.symbols().elsewhere.ask(&options.debuginfod);
        let collector = Self::of(blocks, options, outside, Some(writing));
        collector.maintain();
        collector.remember_log()?;
        Ok(collector)
    }

    /// Opens a folder that another process may write to.
    pub fn open_read_only(options: Options, outside: Box<dyn Outside>) -> Result<Self> {
        let store = Arc::new(BlockFolder::new(&options.store));
        Self::open_store_read_only(store, options, outside)
    }

    /// Opens a store that other processes may write to; what is in their logs is not read.
    pub fn open_store_read_only(
        store: Arc<dyn Store>,
        options: Options,
        outside: Box<dyn Outside>,
    ) -> Result<Self> {
        let blocks = Blocks::open(store, options.read())?;
        Ok(Self::of(blocks, options, outside, None))
    }

    fn of(blocks: Blocks, options: Options, outside: Box<dyn Outside>, writing: Option<Writing>) -> Self {
        let turns = Turns::new(SCRAPED);
        Self {
            blocks,
            options,
            outside,
            counters: Counters::default(),
            writing,
            turns,
            watch: Watch::default(),
        }
    }

    /// Returns whether it only reads.
    pub fn is_read_only(&self) -> bool {
        self.writing.is_none()
    }

    /// Returns a reader of its store and log.
    pub fn reader(&self) -> Reader {
        let own = self.writing.as_ref().map(|writing| writing.logs.clone());
        // A folder has the log of whoever writes there.
        let logs = own.or_else(|| (!self.blocks.is_shared()).then(|| Logs::new(&self.options.store)));
        Reader::of(&self.blocks, logs, self.writing.as_ref().map(|writing| writing.recent.clone()))
    }

    /// Returns the symbols of its store, to which they may be uploaded unless it only reads.
    pub(crate) fn symbols(&self) -> Symbols {
        self.blocks.symbols()
    }

    /// Asks the servers of [`Options::debuginfod`] for the symbols of the next build that was seen without names. Returns
    /// whether there was one. This may take minutes; nothing else waits for it.
    pub fn fetch_symbols(&self) -> bool {
        self.symbols().fetch(&*self.outside, self.options.caps.symbols)
    }

    /// Makes blocks of what was accepted so far, merges blocks of hours that are over, and removes old ones.
    pub fn maintain(&self) {
        let Some(writing) = &self.writing else { return };
        let note = |message: &str| self.outside.note(message);
        let site = UpkeepTarget {
            blocks: &self.blocks,
            logs: &writing.logs,
            log: &writing.log,
            recent: &writing.recent,
            names: &writing.names,
            options: &self.options,
            note: &note,
        };
        site.maintain(&mut lock(&writing.upkeep));
    }

    /// Returns whether enough was accepted that [`Collector::maintain`] should be called at once.
    ///
    /// Memory alone is a reason only so often: the stacks of a few programs fill it again at once, and it may be full because
    /// blocks cannot be written. What has no room in memory is read from the log.
    pub fn is_due(&self) -> bool {
        self.writing.as_ref().is_some_and(|writing| {
            let (bytes, since) = writing.log.waiting();
            let may_be_early = since >= self.options.flush / EARLY;
            bytes >= self.options.max_log || may_be_early && writing.recent.bytes() >= self.options.recent()
        })
    }

    /// Compares the versions of all services in the day before `now`, in nanoseconds since 1970, and tells the user what got
    /// slower. Metrics and `/api/watch` have the last answer.
    pub fn watch(&self, now: i64) {
        self.watch.run(&self.reader(), now).iter().for_each(|line| self.outside.note(line));
    }

    /// Refuses everything from now on, and makes blocks of what was accepted.
    pub fn close(&self) {
        if let Some(writing) = &self.writing {
            writing.log.close();
        }
        self.maintain();
    }

    /// Accepts a profile: when this returns `Ok`, it is on disk, even if it was already there.
    pub fn accept(&self, offered: &Offered) -> std::result::Result<(), Refused> {
        let outcome = self.try_accept(offered);
        if outcome.is_err() {
            self.counters.refused.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    fn try_accept(&self, offered: &Offered) -> std::result::Result<(), Refused> {
        let Some(writing) = &self.writing else {
            return Err(Refused::new(405, "this collector only reads (--read-only)"));
        };
        check_service(&offered.service)?;
        let labels = cleaned(offered.labels.iter().cloned());
        check_labels(&labels, &self.options.caps)?;
        let Decoded { profile, raw, packed } = self.decode(&offered.bytes)?;
        self.check_profile(&profile)?;
        let mut entry = self.entry(offered, labels, &profile, raw)?;
        if let Some(packed) = packed {
            entry.raw = packed.to_vec();
        }
        let key = (entry.service.clone(), entry.hour());
        if self.is_known(writing, &key, entry.id)? {
            self.counters.duplicates.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let (profile, mut entry, step) = self.without_totals(writing, offered, profile, entry)?;
        let sets = gone::label_sets(&entry.labels, &profile);
        if let Some(sets) = &sets {
            entry.gone = writing.gone.since_last(&process_of(&entry), sets, entry.time);
        }
        if profile.sample_count() > 0 || !entry.gone.is_empty() {
            self.check_series(writing, &key, &entry, &profile)?;
            self.put(writing, &key, &entry, &profile)?;
            self.symbols().want(&profile);
        }
        // Not earlier: if the profile was refused and is sent again, its differences must be the same.
        if let Some(step) = step {
            step.commit();
        }
        if let Some(sets) = sets {
            writing.gone.remember(process_of(&entry), sets, entry.time, now());
        }
        Ok(())
    }

    /// Refuses profiles that no block has room for.
    fn check_profile(&self, profile: &Profile) -> std::result::Result<(), Refused> {
        if !(1..=MAX_VALUES).contains(&profile.sample_types().len()) {
            return Err(Refused::new(400, format!("a profile has 1 to {MAX_VALUES} values for each sample")));
        }
        let (count, most) = (profile.sample_count(), self.options.caps.samples);
        if count > most {
            let message = format!("the profile has {count} samples; the limit is {most} (limits.samples)");
            return Err(Refused::new(413, message));
        }
        Ok(check_types(profile)?)
    }

    fn decode<'o>(&self, sent: &'o [u8]) -> std::result::Result<Decoded<'o>, Refused> {
        let raw = unpacked(sent, self.options.caps.profile)?;
        if pprof::looks_like_pprof(&raw) {
            let profile = pprof::decode(&raw, &Limits::SERVICE)?;
            let is_packed = pprof::packing(sent) == pprof::Packing::Gzip && sent.len() < raw.len();
            return Ok(Decoded { profile, raw, packed: is_packed.then_some(sent) });
        }
        let profile = self.outside.read(&raw, Limits::SERVICE)?;
        let raw = pprof::encode(&profile);
        Ok(Decoded { profile, raw, packed: None })
    }

    fn entry(
        &self,
        offered: &Offered,
        labels: Labels,
        profile: &Profile,
        raw: Vec<u8>,
    ) -> std::result::Result<AcceptedProfile, Refused> {
        let now = now();
        let (time, duration) = times(offered, profile, now);
        self.check_time(&offered.service, time, now)?;
        let name = offered.name.clone().unwrap_or_else(|| push::name_of(profile).to_owned());
        if name.is_empty() || name.len() > 100 || name.contains(':') {
            return Err(Refused::new(
                400,
                "the name of the profile (__name__) is empty, too long or has a colon",
            ));
        }
        // Without a time and a name of its own, two equal profiles may both be right.
        let is_unique = !offered.id.is_empty() || offered.from.is_some() || profile.header.time_nanos != 0;
        let stamp = if is_unique {
            String::new()
        } else {
            format!("{now}-{}", self.counters.accepted.load(Ordering::Relaxed))
        };
        let from = offered.from.unwrap_or(0).to_string();
        let own = [&offered.service, &name, &offered.id, &stamp, &from].map(|text| text.as_bytes());
        let labels_of = labels.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
        let id = hash_texts(own.into_iter().chain(labels_of).chain([&*raw]));
        let (service, gone) = (offered.service.clone(), Vec::new());
        Ok(AcceptedProfile { service, labels, name, time, duration, id, gone, raw })
    }

    fn check_time(&self, service: &str, time: i64, now: i64) -> std::result::Result<(), Refused> {
        let kept_for = self.options.kept_for(service);
        let keep = i64::try_from(kept_for.as_nanos()).unwrap_or(i64::MAX);
        let when = moment::format(time);
        if time > now.saturating_add(MAX_AHEAD) {
            return Err(Refused::new(
                400,
                format!("the profile is from {when}, which is more than 10 minutes ahead"),
            ));
        }
        if time < now.saturating_sub(keep) {
            let days = kept_for.as_secs() as f64 / 86_400.0;
            return Err(Refused::new(
                400,
                format!("the profile is from {when}; profiles are kept for {days} days"),
            ));
        }
        Ok(())
    }

    /// Returns whether a profile exists already, and waits for none that is still on its way to the disk.
    fn is_known(
        &self,
        writing: &Writing,
        key: &(String, i64),
        id: u128,
    ) -> std::result::Result<bool, Refused> {
        if lock(&writing.pending).contains(&id) {
            return Err(Refused::new(503, "the same profile is being written; send it again"));
        }
        let mut hours = lock(&writing.hours);
        let most = self.options.caps.services;
        if !hours.knows(key) && hours.services_in(key.1) >= most {
            let message =
                format!("more than {most} services in an hour (limits.services); {:?} is refused", key.0);
            return Err(Refused::new(429, message));
        }
        Ok(hours.has(self.known_blocks(), key, id)?)
    }

    /// Returns the blocks that say which profiles already exist. Those of a shared store are far away and not all
    /// written by this collector; who reads them counts a profile once.
    fn known_blocks(&self) -> Option<&Blocks> {
        (!self.blocks.is_shared()).then_some(&self.blocks)
    }

    /// Turns totals into differences; commit the returned step when they are on disk.
    fn without_totals<'w>(
        &self,
        writing: &'w Writing,
        offered: &Offered,
        profile: Profile,
        entry: AcceptedProfile,
    ) -> std::result::Result<(Profile, AcceptedProfile, Option<Step<'w>>), Refused> {
        let is_timed = profile.header.duration_nanos > 0;
        let is_delta = offered.is_delta || (offered.is_delta_if_timed && is_timed);
        if is_delta || !has_totals(&profile) {
            return Ok((profile, entry, None));
        }
        let (profile, step) = writing.deltas.apply(&process_of(&entry), &profile, entry.time, now())?;
        let raw = pprof::encode(&profile);
        Ok((profile, AcceptedProfile { raw, ..entry }, Some(step)))
    }

    fn check_series(
        &self,
        writing: &Writing,
        key: &(String, i64),
        entry: &AcceptedProfile,
        profile: &Profile,
    ) -> std::result::Result<(), Refused> {
        let cost = block::cost(entry, profile);
        let too_large = |most: usize, what: &str| {
            let message = format!("the profile takes more than {} MiB {what} in a block", most >> 20);
            Err(Refused::new(413, message))
        };
        let most = usize::try_from(block::MEMORY.memory).unwrap_or(usize::MAX);
        if cost.texts > MAX_TEXTS {
            return too_large(MAX_TEXTS, "for the texts of its locations and labels");
        }
        if cost.memory > most {
            return too_large(most, "of memory");
        }
        let mut series: Vec<u128> = Vec::new();
        for set in 0..profile.label_set_count() {
            let own = profile.labels(flamelet_profile::LabelSetId::from_index(set));
            check_ids(profile, own)?;
            let labels = with_sample_labels(&entry.labels, profile, own);
            check_labels(&labels, &self.options.caps)?;
            series.push(Series { name: entry.name.clone(), labels, ..Series::default() }.hash());
        }
        let most = self.options.caps.series;
        match lock(&writing.hours).add_series(self.known_blocks(), key, &series, most)? {
            Ok(_) => Ok(()),
            Err(count) => Err(Refused::new(
                429,
                format!(
                    "{:?} would have {count} series this hour; the cap is {most} (limits.series): use labels with fewer \
                     values",
                    entry.service
                ),
            )),
        }
    }

    fn put(
        &self,
        writing: &Writing,
        key: &(String, i64),
        entry: &AcceptedProfile,
        profile: &Profile,
    ) -> std::result::Result<(), Refused> {
        if !lock(&writing.pending).insert(entry.id) {
            return Err(Refused::new(503, "the same profile is being written; send it again"));
        }
        let recent = RecentProfile::new(entry, profile, writing.recent.pool());
        let outcome = writing.log.append(entry, recent);
        if outcome.is_ok() {
            // If its manifests cannot be read now, it may be taken again if it is sent again.
            let _ = lock(&writing.hours).add(self.known_blocks(), key, entry.id);
            self.counters.accepted.fetch_add(1, Ordering::Relaxed);
            self.counters.bytes.fetch_add(entry.raw.len() as u64, Ordering::Relaxed);
        }
        lock(&writing.pending).remove(&entry.id);
        Ok(outcome?)
    }

    /// Remembers the profiles of logs that could not become blocks.
    fn remember_log(&self) -> Result<()> {
        let Some(writing) = &self.writing else { return Ok(()) };
        for name in writing.logs.names()? {
            let budget = Budget::new(Limits::PERSON);
            let Some(log) = LogContent::of(&writing.logs, &name, None, &budget)? else { continue };
            for (service, hour, id) in log.keys() {
                lock(&writing.hours).add(self.known_blocks(), &(service.to_owned(), hour), id)?;
            }
        }
        Ok(())
    }
}

/// Returns what identifies the process that sends a profile, and which of its profiles it is.
fn process_of(entry: &AcceptedProfile) -> String {
    format!("{} {} {:?}", entry.service, entry.name, entry.labels)
}

/// Returns when a profile begins, and how long it is.
fn times(offered: &Offered, profile: &Profile, now: i64) -> (i64, i64) {
    let own = profile.header.duration_nanos.max(0);
    let given = offered.from.zip(offered.until).map(|(from, until)| until.saturating_sub(from));
    let duration = given.filter(|&duration| duration > 0).unwrap_or(own);
    let time = match profile.header.time_nanos {
        0 => offered.from.unwrap_or_else(|| now.saturating_sub(duration)),
        time => time,
    };
    // As exact as blocks are.
    (time.div_euclid(1000).saturating_mul(1000), duration)
}

/// Unpacks gzip, up to a cap.
fn unpacked(bytes: &[u8], most: usize) -> std::result::Result<Vec<u8>, Refused> {
    let too_large = || {
        let mib = most >> 20;
        Refused::new(413, format!("the profile is larger than {mib} MiB after unpacking (limits.profile)"))
    };
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return if bytes.len() > most { Err(too_large()) } else { Ok(bytes.to_vec()) };
    }
    let mut raw = Vec::new();
    let reader = flate2::read::MultiGzDecoder::new(bytes);
    let read = reader.take(most as u64 + 1).read_to_end(&mut raw);
    read.map_err(|error| Refused::new(400, format!("the profile is not complete gzip data: {error}")))?;
    if raw.len() > most { Err(too_large()) } else { Ok(raw) }
}
