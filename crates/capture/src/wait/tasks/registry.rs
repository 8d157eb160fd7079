//! All tasks that live.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::state::{Info, State};
use crate::clock;
use crate::own_threads::unseen;

/// How many tasks are listed at a time; more than these are polled as ever, but not listed.
pub const MOST_TASKS: usize = 100_000;

/// Tasks are spread over so many maps, so that threads that make tasks do not wait for each other.
const SHARDS: usize = 16;

type Shard = Mutex<FxHashMap<u64, Arc<State>>>;

static SHARD: [Shard; SHARDS] =
    [const { Mutex::new(FxHashMap::with_hasher(rustc_hash::FxBuildHasher)) }; SHARDS];
static NEXT: AtomicU64 = AtomicU64::new(1);
static LISTED: AtomicUsize = AtomicUsize::new(0);
static UNTRACKED: AtomicU64 = AtomicU64::new(0);

/// Returns the number of a new task.
pub(super) fn next_id() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Returns whether there was ever a task.
pub fn were_made() -> bool {
    NEXT.load(Ordering::Relaxed) > 1
}

/// Lists a task, unless there are too many.
pub(super) fn enter(state: &Arc<State>) {
    if LISTED.fetch_add(1, Ordering::Relaxed) >= MOST_TASKS {
        LISTED.fetch_sub(1, Ordering::Relaxed);
        UNTRACKED.fetch_add(1, Ordering::Relaxed);
        return;
    }
    shard(state.id).insert(state.id, state.clone());
}

/// Takes a task off the list.
pub(super) fn leave(id: u64) {
    let removed = shard(id).remove(&id);
    if removed.is_some() {
        LISTED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns all tasks that live now.
pub fn all() -> Vec<Info> {
    let now = clock::monotonic_nanos();
    let shards = (0..SHARDS as u64).map(|at| shard(at).values().cloned().collect::<Vec<_>>());
    let mut tasks: Vec<Info> = shards.flatten().map(|state| state.info(now)).collect();
    tasks.sort_by_key(|task| task.id);
    tasks
}

/// Returns how many tasks were not listed because there were too many.
pub fn untracked() -> u64 {
    UNTRACKED.load(Ordering::Relaxed)
}

fn shard(id: u64) -> MutexGuard<'static, FxHashMap<u64, Arc<State>>> {
    let shard = &SHARD[id as usize % SHARDS];
    unseen(|| shard.lock()).unwrap_or_else(PoisonError::into_inner)
}
