//! The log: what was accepted and is in no block yet.
//!
//! It has a header, followed by the records of `flamelet_store::record`. Writers that come while the disk is being synced
//! wait for the next sync together, so many of them cost one.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use flamelet_profile::{Budget, Error, ErrorKind, Limits, Result};
use flamelet_store::private;
use flamelet_store::record::{self, Effort, Records};

use crate::block::{BlockBuilder, BlockTables};
use crate::disk::{read_file, sync_folder};
use crate::entry::AcceptedProfile;
use crate::logs::Logs;
use crate::names::Names;

const HEADER: &[u8; 20] = b"flamelet collect 1\r\n";
/// A log of this size is followed by the next one.
const MAX_LOG: u64 = 16 << 20;
/// The longest log that is read: one record may go over the limit.
const MAX_READ: u64 = MAX_LOG + (40 << 20);
/// In most records everything but the profile is in so many bytes.
const HEAD: usize = 4 << 10;

/// Appends to the logs of a collector.
pub(crate) struct LogWriter {
    logs: Logs,
    names: Arc<Names>,
    state: Mutex<LogState>,
    synced: Condvar,
}

struct LogState {
    open: Option<Open>,
    /// Logs that ended because the disk failed.
    failed: Vec<String>,
    /// Nothing is appended any more.
    is_closed: bool,
    /// Bytes that were appended since blocks were made.
    waiting: u64,
}

struct Open {
    name: String,
    path: PathBuf,
    file: Arc<File>,
    length: u64,
    /// Bytes that the disk has for certain.
    durable: u64,
    is_syncing: bool,
    /// The disk failed: what it has is not known any more, so nothing is appended.
    has_failed: bool,
}

impl LogWriter {
    pub(crate) fn new(logs: &Logs, names: &Arc<Names>) -> Self {
        Self {
            logs: logs.clone(),
            names: names.clone(),
            state: Mutex::new(LogState { open: None, failed: Vec::new(), is_closed: false, waiting: 0 }),
            synced: Condvar::new(),
        }
    }

    /// Appends an entry. When this returns `Ok`, the disk has it.
    pub(crate) fn append(&self, entry: &AcceptedProfile) -> Result<()> {
        let record = record::pack(&entry.encode(), Effort::Fast)?;
        let mut state = self.lock();
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
        let end = open.length;
        state.waiting += record.len() as u64;
        self.wait_for_disk(state, &name, end)
    }

    /// Ends the log that is being written, if there is one.
    pub(crate) fn rotate(&self) {
        self.ended(self.lock()).waiting = 0;
    }

    /// Returns how many bytes were appended since then.
    pub(crate) fn waiting(&self) -> u64 {
        self.lock().waiting
    }

    /// Ends the log, and refuses everything from now on.
    pub(crate) fn close(&self) {
        self.ended(self.lock()).is_closed = true;
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
        self.lock().open.as_ref().map(|open| open.name.clone())
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
            state = self.lock();
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

/// A log that was read.
#[derive(Debug)]
pub(crate) struct Log {
    name: String,
    bytes: Vec<u8>,
    /// What is in it, and where.
    entries: Vec<LogPlace>,
    /// Places where something was skipped.
    pub(crate) damaged: usize,
}

/// Where an entry is in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogPlace {
    pub(crate) service: String,
    pub(crate) hour: i64,
    pub(crate) id: u128,
    offset: usize,
}

impl Log {
    /// Reads a log; `None` if it does not exist any more.
    pub(crate) fn read(logs: &Logs, name: &str, budget: &Budget) -> Result<Option<Self>> {
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

    pub(crate) fn places(&self) -> &[LogPlace] {
        &self.entries
    }

    /// Returns the entry at a place.
    pub(crate) fn entry(&self, place: &LogPlace) -> Result<AcceptedProfile> {
        entry_at(&self.bytes[place.offset..], &Budget::new(Limits::SERVICE))
    }

    /// Returns the tables of the profiles at these places. One that cannot be read is reported to the user and left out.
    pub(crate) fn tables(
        &self,
        places: &[&LogPlace],
        budget: &Budget,
        note: &mut dyn FnMut(&str),
    ) -> Result<BlockTables> {
        let mut builder = BlockBuilder::new(budget);
        for place in places {
            let read = self.entry(place).and_then(|entry| {
                budget.work(entry.raw.len() / 16)?;
                let profile = entry.profile(&Budget::new(Limits::SERVICE))?;
                Ok((entry, profile))
            });
            match read {
                Ok((entry, profile)) => builder.add(&entry, &profile)?,
                Err(error) => {
                    note(&format!(
                        "a profile of {} in the log {} is left out: {error}",
                        place.service, self.name
                    ));
                }
            }
        }
        Ok(builder.finish())
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
