//! The threads that exist already when a recording starts.

use rustc_hash::FxHashSet;

use crate::plan::PlannedEvent;
use crate::session::Session;
use crate::sys::event::Watch;
use crate::{Error, ErrorKind, Result};

/// The ids of the threads of `pid`; empty when it has ended.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Whether there is such a process, and what to say if not.
pub(crate) fn check(pid: u32) -> Result<()> {
    if threads(pid).is_empty() {
        return Err(Error::new(ErrorKind::NoTarget, format!("there is no process with the id {pid}")));
    }
    Ok(())
}

/// Opens `events` on every thread of `pids`. A thread that starts meanwhile is found by looking again: it
/// may have been started by one that was not watched yet. (One that is both opened and inherited is
/// recognised by its records, see `collect::owner`.) Returns how many threads are watched.
pub(crate) fn watch_all(session: &mut Session, pids: &[u32], events: &[PlannedEvent]) -> Result<usize> {
    const MOST_LOOKS: usize = 8;
    let mut seen = FxHashSet::default();
    let mut watched = 0;
    // A program that starts threads all the time shows new ones at every look; those come from watched ones.
    for _ in 0..MOST_LOOKS {
        let mut found_more = false;
        for &pid in pids {
            for tid in threads(pid) {
                if seen.insert(tid) {
                    found_more = true;
                    watched += usize::from(session.watch(Watch::Thread(tid), events)?);
                }
            }
        }
        if !found_more {
            break;
        }
    }
    Ok(watched)
}

/// The process of a thread.
pub(crate) fn process_of(tid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// The name of a thread, as the kernel has it.
pub(crate) fn thread_name(pid: u32, tid: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}
