//! Existing processes and threads: finding them in `/proc`, and asking them to end.

pub mod signal;

use rustc_hash::FxHashSet;

use crate::{Error, ErrorKind, Result};

/// Returns the ids of the threads of `pid`; empty if it has ended.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Returns all processes below `pid`, if the kernel lists them.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    add_descendants(pid, &FxHashSet::default(), &mut found);
    found
}

/// Adds all processes below `pid` to `found`, except for `bystanders` and what is below those.
pub(crate) fn add_descendants(pid: u32, bystanders: &FxHashSet<u32>, found: &mut Vec<u32>) {
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

/// Returns the processes that `ids` refer to, each once. The ids may be those of threads, as `top -H` shows them.
pub(crate) fn processes(ids: &[u32]) -> Result<Vec<u32>> {
    let process = |&id: &u32| {
        process_of(id)
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no process with the id {id}")))
    };
    let mut pids = ids.iter().map(process).collect::<Result<Vec<u32>>>()?;
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

/// Returns the process of a thread.
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
