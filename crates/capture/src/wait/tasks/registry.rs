//! All live tasks.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flamelet_unwind::fork::PerProcess;
use rustc_hash::FxHashMap;

use super::state::{Info, State};
use crate::clock;
use crate::own_threads::unseen;

/// How many tasks are listed at a time; more than these are polled as ever, but not listed.
pub const MOST_TASKS: usize = 100_000;

/// Tasks are spread over this many maps, so that threads that make tasks do not wait for each other.
const SHARDS: usize = 16;

type Shard = Mutex<FxHashMap<u64, Arc<State>>>;

/// The tasks of this process. The child of a fork has none: its parent's run in the parent.
#[derive(Default)]
struct List {
    shards: [Shard; SHARDS],
    listed: AtomicUsize,
}

static LIST: PerProcess<List> = PerProcess::new();
static NEXT: AtomicU64 = AtomicU64::new(1);
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
    let list = list();
    if list.listed.fetch_add(1, Ordering::Relaxed) >= MOST_TASKS {
        list.listed.fetch_sub(1, Ordering::Relaxed);
        UNTRACKED.fetch_add(1, Ordering::Relaxed);
        return;
    }
    list.shard(state.id).insert(state.id, state.clone());
}

/// Takes a task off the list.
pub(super) fn leave(id: u64) {
    let list = list();
    let removed = list.shard(id).remove(&id);
    if removed.is_some() {
        list.listed.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns all tasks that live now.
pub fn all() -> Vec<Info> {
    let now = clock::monotonic_nanos();
    let list = list();
    let shards = (0..SHARDS as u64).map(|at| list.shard(at).values().cloned().collect::<Vec<_>>());
    let mut tasks: Vec<Info> = shards.flatten().map(|state| state.info(now)).collect();
    tasks.sort_by_key(|task| task.id);
    tasks
}

/// Returns how many tasks were not listed because there were too many.
pub fn untracked() -> u64 {
    UNTRACKED.load(Ordering::Relaxed)
}

fn list() -> &'static List {
    LIST.get_quick(|_| List::default())
}

impl List {
    fn shard(&self, id: u64) -> MutexGuard<'_, FxHashMap<u64, Arc<State>>> {
        let shard = &self.shards[id as usize % SHARDS];
        unseen(|| shard.lock()).unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Task;
    use super::*;
    use crate::labels::LabelSet;
    use flamelet_test_support::holds_in_child;

    #[test]
    fn a_child_lists_its_own_tasks_even_if_the_list_was_locked_at_the_fork() {
        let task = Task::new("of the parent", LabelSet::EMPTY, std::future::pending::<()>());
        let has = |name: &str| all().iter().any(|task| task.name == name);
        assert!(has("of the parent"));
        // As another thread would hold them.
        let held: Vec<_> = (0..SHARDS as u64).map(|at| list().shard(at)).collect();
        let is_free = holds_in_child(|| {
            let own = Task::new("of the child", LabelSet::EMPTY, std::future::pending::<()>());
            let lists_own = has("of the child") && !has("of the parent");
            drop(own);
            lists_own && !has("of the child")
        });
        drop(held);
        assert!(is_free);
        assert!(has("of the parent"));
        drop(task);
        assert!(!has("of the parent"));
    }
}
