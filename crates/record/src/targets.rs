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

/// All processes below `pid`, where the kernel tells.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    add_descendants(pid, &FxHashSet::default(), &mut found);
    found
}

/// Adds all processes below `pid` to `found`, without `bystanders` and what is below those.
fn add_descendants(pid: u32, bystanders: &FxHashSet<u32>, found: &mut Vec<u32>) {
    let mut at = found.len();
    found.extend(children(pid).filter(|child| !bystanders.contains(child)));
    while let Some(&next) = found.get(at) {
        found.extend(children(next).filter(|child| !bystanders.contains(child)));
        at += 1;
    }
}

fn children(pid: u32) -> impl Iterator<Item = u32> {
    let of_thread = move |tid| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
        text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<u32>>()
    };
    threads(pid).into_iter().flat_map(of_thread)
}

/// The processes that are meant by `ids`, which may be those of threads, as `top -H` shows them; each once.
pub(crate) fn processes(ids: &[u32]) -> Result<Vec<u32>> {
    let process = |&id: &u32| {
        process_of(id)
            .ok_or_else(|| Error::new(ErrorKind::NoTarget, format!("there is no process with the id {id}")))
    };
    let mut pids = ids.iter().map(process).collect::<Result<Vec<u32>>>()?;
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

/// Opens `events` on every thread of `pids`. A thread that starts meanwhile is found by looking again: it
/// may have been started by one that was not watched yet. (One that is both opened and inherited is
/// recognised by its records, see `collect::owner`.) Returns how many threads are watched.
pub(crate) fn watch_all(session: &mut Session, pids: &[u32], events: &[PlannedEvent]) -> Result<usize> {
    watch_found(session, || pids.to_vec(), events)
}

/// The same for `pids` and all processes below them, but for `bystanders` and what is below those.
pub(crate) fn watch_families(
    session: &mut Session,
    pids: &[u32],
    bystanders: &FxHashSet<u32>,
    events: &[PlannedEvent],
) -> Result<usize> {
    let families = || {
        let mut found = pids.to_vec();
        pids.iter().for_each(|&pid| add_descendants(pid, bystanders, &mut found));
        found
    };
    watch_found(session, families, events)
}

fn watch_found(session: &mut Session, find: impl Fn() -> Vec<u32>, events: &[PlannedEvent]) -> Result<usize> {
    const MOST_LOOKS: usize = 8;
    let mut seen = FxHashSet::default();
    let mut watched = 0;
    // A program that starts threads all the time shows new ones at every look; those come from watched ones.
    for _ in 0..MOST_LOOKS {
        let mut found_more = false;
        for pid in find() {
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

/// Whether a thread has ended, though nobody may have heard of it yet.
pub(crate) fn has_ended(pid: u32, tid: u32) -> bool {
    let stat = std::fs::read(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    let state = stat.iter().rposition(|&byte| byte == b')').and_then(|at| stat.get(at + 2));
    matches!(state, None | Some(b'Z' | b'X'))
}

/// The name of a thread, as the kernel has it.
pub(crate) fn thread_name(pid: u32, tid: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}
