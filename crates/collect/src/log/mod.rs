//! The log: what was accepted and is in no block yet.
//!
//! It has a header, followed by the records of `flamelet_store::record`. Writers that come while the disk is being synced
//! wait for the next sync together, so that many of them cost one sync.

pub(crate) mod logs;
pub(crate) mod recent;

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flamelet_profile::{Budget, Error, ErrorKind, Limits, Result, pprof};
use flamelet_store::private;
use flamelet_store::record::{self, Effort, Records};

use crate::block::Pool;
use crate::entry::AcceptedProfile;
use crate::lock::lock;
use crate::log::logs::Logs;
use crate::log::recent::{Recent, RecentProfile, RecentProfiles};
use crate::names::Names;
use crate::store::disk::{read_file, sync_folder};

const HEADER: &[u8; 20] = b"flamelet collect 1\r\n";
/// A log of this size is followed by the next one.
const MAX_LOG: u64 = 16 << 20;
/// The longest log that is read: one record may go over the limit.
const MAX_READ: u64 = MAX_LOG + (40 << 20);
/// In most records, everything but the profile fits into this many bytes.
const HEAD: usize = 4 << 10;

/// Appends to the logs of a collector.
pub(crate) struct LogWriter {
    logs: Logs,
    names: Arc<Names>,
    /// The content of the logs.
    recent: Arc<Recent>,
    state: Mutex<LogState>,
    synced: Condvar,
}

struct LogState {
    open: Option<Open>,
    /// Logs that ended because the disk failed.
    failed: Vec<String>,
    /// Nothing more is appended.
    is_closed: bool,
    /// Bytes that were appended since blocks were made, and when that was.
    waiting: u64,
    since: Instant,
}

struct Open {
    name: String,
    path: PathBuf,
    file: Arc<File>,
    length: u64,
    /// How many bytes are certainly on disk.
    durable: u64,
    is_syncing: bool,
    /// Whether the disk failed: what it has is then unknown, so nothing is appended.
    has_failed: bool,
}

impl LogWriter {
    pub(crate) fn new(logs: &Logs, names: &Arc<Names>, recent: &Arc<Recent>) -> Self {
        Self {
            logs: logs.clone(),
            names: names.clone(),
            recent: recent.clone(),
            state: Mutex::new(LogState {
                open: None,
                failed: Vec::new(),
                is_closed: false,
                waiting: 0,
                since: Instant::now(),
            }),
            synced: Condvar::new(),
        }
    }

    /// Appends an entry. When this returns `Ok`, the disk has it.
    pub(crate) fn append(&self, entry: &AcceptedProfile, recent: RecentProfile) -> Result<()> {
        let effort = if entry.is_packed() { Effort::None } else { Effort::Fast };
        let record = record::pack(&entry.encode(), effort)?;
        let mut state = lock(&self.state);
        while state.open.as_ref().is_some_and(|open| open.has_failed || open.length >= MAX_LOG) {
            state = self.ended(state);
        }
        if state.is_closed {
            return Err(Error::new(ErrorKind::Io, "the collector is stopping; send it again"));
        }
        if state.open.is_none() {
            self.begin(&mut state)?;
        }
        let Some(open) = &mut state.open else {
            return Err(Error::new(ErrorKind::Internal, "there is no log to write to"));
        };
        let name = open.name.clone();
        open.write(&record)?;
        // Before the log can end, so that its blocks get all that was written.
        self.recent.add(&name, recent);
        let end = open.length;
        state.waiting += record.len() as u64;
        self.wait_for_disk(state, &name, end)
    }

    /// Ends the log that is being written, if there is one.
    pub(crate) fn rotate(&self) {
        let mut state = self.ended(lock(&self.state));
        (state.waiting, state.since) = (0, Instant::now());
    }

    /// Returns how many bytes were appended since then, and how long ago that was.
    pub(crate) fn waiting(&self) -> (u64, Duration) {
        let state = lock(&self.state);
        (state.waiting, state.since.elapsed())
    }

    /// Ends the log, and refuses everything from now on.
    pub(crate) fn close(&self) {
        self.ended(lock(&self.state)).is_closed = true;
    }

    /// Ends the log once the disk has all of it, or has failed.
    fn ended<'s>(&'s self, mut state: MutexGuard<'s, LogState>) -> MutexGuard<'s, LogState> {
        while state.open.as_ref().is_some_and(|open| !open.has_failed && open.durable < open.length) {
            state = self.synced.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.end();
        state
    }

    /// Returns the name of the log that is being written.
    pub(crate) fn current(&self) -> Option<String> {
        lock(&self.state).open.as_ref().map(|open| open.name.clone())
    }

    /// Begins the next log.
    fn begin(&self, state: &mut LogState) -> Result<()> {
        let name = self.names.next();
        let path = self.logs.path(&name);
        let file = private::create(&path).map_err(|error| Error::of_file(&path, &error))?;
        let mut open = Open {
            name,
            path,
            file: Arc::new(file),
            length: 0,
            durable: 0,
            is_syncing: false,
            has_failed: false,
        };
        open.write(HEADER)?;
        open.durable = open.length;
        sync_folder(self.logs.folder())?;
        self.recent.begin(&open.name);
        state.open = Some(open);
        Ok(())
    }

    /// Waits until the disk has the first `end` bytes of a log. One of those who wait syncs for all.
    fn wait_for_disk<'s>(&'s self, mut state: MutexGuard<'s, LogState>, name: &str, end: u64) -> Result<()> {
        loop {
            let open = state.open.as_mut().filter(|open| open.name == name);
            let Some(open) = open else {
                // A log is ended only when the disk has all of it, or when the disk has failed.
                return if state.failed.iter().any(|failed| failed == name) { Err(lost()) } else { Ok(()) };
            };
            if open.durable >= end {
                return Ok(());
            }
            if open.has_failed {
                return Err(lost());
            }
            if open.is_syncing {
                state = self.synced.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            open.is_syncing = true;
            let (file, length) = (open.file.clone(), open.length);
            drop(state);
            let outcome = file.sync_data();
            state = lock(&self.state);
            if let Some(open) = state.open.as_mut().filter(|open| open.name == name) {
                open.is_syncing = false;
                match outcome {
                    Ok(()) => open.durable = open.durable.max(length),
                    Err(_) => open.has_failed = true,
                }
            }
            self.synced.notify_all();
        }
    }
}

impl LogState {
    fn end(&mut self) {
        self.failed.extend(self.open.take().filter(|open| open.has_failed).map(|open| open.name));
    }
}

impl Open {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match (&*self.file).write_all(bytes) {
            Ok(()) => {
                self.length += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                // A torn record would hide none of those after it, but the disk may be full of it.
                self.has_failed = self.file.set_len(self.length).is_err();
                Err(Error::of_file(&self.path, &error))
            }
        }
    }
}

fn lost() -> Error {
    Error::from(io::Error::other("the disk has failed; send it again"))
}

#[derive(Debug)]
pub(crate) struct Log {
    name: String,
    bytes: Vec<u8>,
    /// What is in it, and where.
    entries: Vec<LogPlace>,
    /// Places where something was skipped.
    damaged: usize,
}

/// Where an entry is in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LogPlace {
    service: String,
    hour: i64,
    id: u128,
    offset: usize,
}

impl Log {
    /// Reads a log; `None` if it does not exist any more.
    fn read(logs: &Logs, name: &str, budget: &Budget) -> Result<Option<Self>> {
        let bytes = match read_file(&logs.path(name), MAX_READ) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        budget.charge(bytes.len())?;
        let mut log = Self { name: name.to_owned(), bytes, entries: Vec::new(), damaged: 0 };
        if !log.bytes.starts_with(HEADER) {
            // Its writer ended before the first record, or something else has the name.
            log.damaged += usize::from(log.bytes.len() >= HEADER.len());
            return Ok(Some(log));
        }
        let mut records = Records::new(&log.bytes[HEADER.len()..], budget);
        loop {
            let offset = log.bytes.len() - records.rest();
            let Some(beginning) = records.next_beginning(HEAD)? else { break };
            let head = match AcceptedProfile::decode_head(beginning) {
                Some(head) => head,
                None => entry_at(&log.bytes[offset..], budget),
            };
            match head {
                Ok(entry) => {
                    let hour = entry.hour();
                    budget.charge(size_of::<LogPlace>() + entry.service.len() + 32)?;
                    log.entries.push(LogPlace { service: entry.service, hour, id: entry.id, offset });
                }
                Err(_) => log.damaged += 1,
            }
        }
        log.damaged += records.damaged();
        Ok(Some(log))
    }

    fn profile(&self, place: &LogPlace, pool: &Pool, budget: &Budget) -> Result<RecentProfile> {
        let entry = entry_at(&self.bytes[place.offset..], &Budget::new(Limits::SERVICE))?;
        let raw = entry.unpacked()?;
        budget.work(raw.len() / 16)?;
        let profile = pprof::decode(&raw, &Limits::SERVICE)?;
        Ok(RecentProfile::new(&entry, &profile, pool))
    }
}

/// The profiles of a log, as they are in memory or as they are read.
#[derive(Clone, Debug)]
pub(crate) enum LogContent {
    Recent(RecentProfiles),
    Read(Arc<Log>),
}

impl LogContent {
    /// Returns what is in a log; `None` if it does not exist any more.
    pub(crate) fn of(
        logs: &Logs,
        name: &str,
        recent: Option<&Recent>,
        budget: &Budget,
    ) -> Result<Option<Self>> {
        if let Some(profiles) = recent.and_then(|recent| recent.of(name)) {
            return Ok(Some(Self::Recent(profiles)));
        }
        Ok(Log::read(logs, name, budget)?.map(|log| Self::Read(Arc::new(log))))
    }

    /// Returns how many records are damaged.
    pub(crate) fn damaged(&self) -> usize {
        match self {
            Self::Recent(_) => 0,
            Self::Read(log) => log.damaged,
        }
    }

    /// Returns the service, the hour and the id of each profile.
    pub(crate) fn keys(&self) -> Vec<(&str, i64, u128)> {
        match self {
            Self::Recent(all) => all.iter().map(|one| (&*one.service, one.hour, one.id)).collect(),
            Self::Read(log) => log.entries.iter().map(|one| (&*one.service, one.hour, one.id)).collect(),
        }
    }

    /// Returns the profile that has a number in the list of keys. One that is read is charged to the budget.
    pub(crate) fn profile(&self, number: usize, pool: &Pool, budget: &Budget) -> Result<Arc<RecentProfile>> {
        match self {
            Self::Recent(profiles) => Ok(profiles[number].clone()),
            Self::Read(log) => {
                let place = &log.entries[number];
                let profile = log.profile(place, pool, budget).map_err(|error| {
                    let (service, name) = (&place.service, &log.name);
                    let message = format!("a profile of {service} in the log {name} is left out: {error}");
                    Error::new(error.kind(), message)
                })?;
                // Its code may be much larger in memory: a text that is in the file once is in memory for each place
                // that uses it.
                budget.charge(profile.part.bytes() + profile.added)?;
                Ok(Arc::new(profile))
            }
        }
    }
}

/// Reads the first entry.
fn entry_at(bytes: &[u8], budget: &Budget) -> Result<AcceptedProfile> {
    let mut records = Records::new(bytes, budget);
    let body = records.next()?;
    AcceptedProfile::decode(
        body.ok_or_else(|| Error::new(ErrorKind::Corrupt, "a record of the log is gone"))?,
    )
}
