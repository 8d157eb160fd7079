//! Existing processes and threads: finding them in `/proc`, and asking them to end.

pub mod listening;
pub mod signal;

use crate::{Error, ErrorKind, Result};

/// Returns the ids of the threads of `pid`; empty if it has ended.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Returns all processes below `pid`, if the kernel lists them.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    below(pid, |_| true)
}

/// Returns the processes below `pid` that `is_wanted` accepts, and nothing that is below others.
fn below(pid: u32, is_wanted: impl Fn(u32) -> bool) -> Vec<u32> {
    let mut found = Vec::new();
    let mut next = Some(pid);
    let mut looked_at = 0;
    while let Some(parent) = next {
        found.extend(children(parent).filter(|&child| is_wanted(child)));
        next = found.get(looked_at).copied();
        looked_at += 1;
    }
    found
}

/// Returns `pids` and all processes below them that this user may look into, each once. The recorder itself, which a
/// shell that is recorded may have started, and what is below it, are not among them.
pub(crate) fn families(pids: &[u32]) -> Vec<u32> {
    let is_wanted = |pid| pid != std::process::id() && is_accessible(pid);
    let mut found: Vec<u32> =
        pids.iter().flat_map(|&pid| below(pid, is_wanted)).chain(pids.iter().copied()).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Returns whether this user may look into a process, by the same rule as for its events.
fn is_accessible(pid: u32) -> bool {
    std::fs::File::open(format!("/proc/{pid}/maps")).is_ok()
}

/// Returns the processes with this name: that of their main thread, or of their program's file.
pub fn named(name: &str) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_it = |&pid: &u32| {
        let file = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
        let file = file.as_ref().and_then(|file| file.file_name()?.to_str());
        pid != std::process::id() && (thread_name(pid, pid).as_deref() == Some(name) || file == Some(name))
    };
    let mut pids: Vec<u32> = pids.filter(is_it).collect();
    pids.sort_unstable();
    pids
}

fn children(pid: u32) -> impl Iterator<Item = u32> {
    let of_thread = move |tid| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
        text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<u32>>()
    };
    threads(pid).into_iter().flat_map(of_thread)
}

/// Returns the processes that `ids` refer to, each once. The ids may be those of threads, as `top -H` shows them.
pub(crate) fn processes(ids: &[u32]) -> Result<Vec<u32>> {
    let process = |&id: &u32| {
        process_of(id).ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no process with id {id}")))
    };
    let mut pids = ids.iter().map(process).collect::<Result<Vec<u32>>>()?;
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

pub(crate) fn process_of(tid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// Returns whether a thread has ended, even if its parent has not been notified yet.
pub(crate) fn has_ended(pid: u32, tid: u32) -> bool {
    let stat = std::fs::read(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    let state = stat.iter().rposition(|&byte| byte == b')').and_then(|at| stat.get(at + 2));
    matches!(state, None | Some(b'Z' | b'X'))
}

/// Returns the kernel's name of a thread.
pub(crate) fn thread_name(pid: u32, tid: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}
