//! All live tasks.
//!
//! A task that lives has a place in the list. Threads keep some free places of their own, so that making and ending a task
//! takes no lock: it stores to its place. Readers take a reference to the task in a place while they hold the place's lowest
//! bit, for which a task that ends at this moment waits. A model checks it, see the tests.

#![allow(unsafe_code, reason = "places point to tasks without a reference, which a task would have to count")]

use std::cell::RefCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flamelet_unwind::fork::{self, PerProcess};

use super::state::{Info, State};
use crate::atomics::{AtomicPtr, gives_way, reads, writes};
use crate::clock;
use crate::own_threads::unseen;

/// How many tasks are listed at a time; further ones are polled as usual, but not listed.
pub const MOST_TASKS: usize = 100_000;

/// How many places are made, and passed to and from a thread, at a time.
const BLOCK: usize = 32;

/// A place in the list: the task in it, or null. The lowest bit is set while somebody reads it. In a cache line of its own: most
/// tasks are made and ended by the thread that has the place, and its neighbours may belong to other threads.
#[derive(Default)]
#[repr(align(64))]
struct Slot(AtomicPtr<State>);

const IS_READ: usize = 1;
const _: () = assert!(align_of::<State>() > IS_READ);

/// The places of this process. The child of a fork has its own: the tasks of its parent run in the parent.
#[derive(Default)]
struct List(Mutex<Places>);

#[derive(Default)]
struct Places {
    blocks: Vec<&'static [Slot; BLOCK]>,
    /// The places that belong to no task and no thread.
    free: Vec<&'static Slot>,
}

static LIST: PerProcess<List> = PerProcess::new();
static WERE_MADE: AtomicBool = AtomicBool::new(false);
static UNTRACKED: AtomicU64 = AtomicU64::new(0);

/// The free places of a thread, and the process that they belong to, as the number of its forks.
struct Free {
    forks: u32,
    places: Vec<&'static Slot>,
}

thread_local! {
    static FREE: RefCell<Free> = const { RefCell::new(Free { forks: 0, places: Vec::new() }) };
}

/// Where a task is listed, in the process with this number of forks.
#[derive(Clone, Copy)]
pub(super) struct Place {
    slot: &'static Slot,
    forks: u32,
}

/// Returns whether there was ever a task.
pub fn were_made() -> bool {
    WERE_MADE.load(Ordering::Relaxed)
}

/// Lists a task, unless there are too many. It must leave before it is freed.
pub(super) fn enter(state: &Arc<State>) -> Option<Place> {
    if !were_made() {
        WERE_MADE.store(true, Ordering::Relaxed);
    }
    let forks = fork::forks();
    // A thread that is ending has no places of its own.
    let slot = FREE.try_with(|free| free.borrow_mut().take(forks)).unwrap_or_else(|_| list().lock().take());
    let Some(slot) = slot else {
        UNTRACKED.fetch_add(1, Ordering::Relaxed);
        return None;
    };
    slot.put(state);
    Some(Place { slot, forks })
}

/// Takes a task off the list.
pub(super) fn leave(place: Place, state: &Arc<State>) {
    // In the child of a fork nobody reads the places of its parent, and threads of the parent may have left them half read.
    if place.forks != fork::forks() {
        return;
    }
    place.slot.clear(state);
    let kept = FREE.try_with(|free| free.borrow_mut().keep(place));
    if kept.is_err() {
        list().lock().free.push(place.slot);
    }
}

impl Slot {
    fn put(&self, state: &Arc<State>) {
        writes(Arc::as_ptr(state));
        self.0.store(Arc::as_ptr(state).cast_mut(), Ordering::Release);
    }

    /// Takes the task out, as soon as nobody reads it.
    fn clear(&self, state: &Arc<State>) {
        let own = Arc::as_ptr(state).cast_mut();
        let mut patience = Patience::default();
        while self.0.compare_exchange(own, ptr::null_mut(), Ordering::Acquire, Ordering::Relaxed).is_err() {
            patience.wait();
        }
        // It may be freed from now on.
        writes(own);
    }

    /// Returns the task, if there is one.
    fn get(&self) -> Option<Arc<State>> {
        let mut patience = Patience::default();
        loop {
            let state = self.0.load(Ordering::Relaxed);
            if state.is_null() {
                return None;
            }
            let reading = state.map_addr(|address| address | IS_READ);
            let is_free = state != reading;
            // The pointer that was there at this moment: an earlier one to the same address may have been another task's.
            if is_free
                && let Ok(state) =
                    self.0.compare_exchange(state, reading, Ordering::Acquire, Ordering::Relaxed)
            {
                reads(state);
                // SAFETY: from an `Arc` whose task has not left yet, and does not while the bit is set.
                let task = unsafe {
                    Arc::increment_strong_count(state);
                    Arc::from_raw(state)
                };
                self.0.store(state, Ordering::Release);
                return Some(task);
            }
            patience.wait();
        }
    }
}

/// Waits for a thread that is reading a place, which takes only a moment if it has a CPU.
#[derive(Default)]
struct Patience(u32);

impl Patience {
    #[cold]
    fn wait(&mut self) {
        const YIELDS: u32 = 16;
        if gives_way() {
            return;
        }
        self.0 = self.0.saturating_add(1);
        match self.0 {
            ..YIELDS => std::thread::yield_now(),
            // This thread may have a priority that keeps the other one from its CPU.
            _ => std::thread::sleep(Duration::from_micros(50)),
        }
    }
}

impl Free {
    fn take(&mut self, forks: u32) -> Option<&'static Slot> {
        let places = self.of_process(forks);
        places.pop().or_else(|| {
            let mut list = list().lock();
            places.extend((0..BLOCK).map_while(|_| list.take()));
            places.pop()
        })
    }

    /// Keeps a place for the next task of this thread.
    fn keep(&mut self, place: Place) {
        let places = self.of_process(place.forks);
        places.push(place.slot);
        if places.len() >= 2 * BLOCK {
            list().lock().free.extend(places.drain(BLOCK..));
        }
    }

    /// Returns the places, without those of the parent in the child of a fork.
    fn of_process(&mut self, forks: u32) -> &mut Vec<&'static Slot> {
        if self.forks != forks {
            self.forks = forks;
            self.places.clear();
        }
        &mut self.places
    }
}

impl Drop for Free {
    fn drop(&mut self) {
        if self.forks == fork::forks() && !self.places.is_empty() {
            list().lock().free.append(&mut self.places);
        }
    }
}

impl List {
    fn lock(&self) -> MutexGuard<'_, Places> {
        unseen(|| self.0.lock()).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn take(&mut self) -> Option<&'static Slot> {
        if self.free.is_empty() && (self.blocks.len() + 1) * BLOCK <= MOST_TASKS {
            let block: &'static [Slot; BLOCK] = Box::leak(Box::default());
            self.blocks.push(block);
            self.free.extend(block);
        }
        self.free.pop()
    }
}

fn list() -> &'static List {
    LIST.get_quick(|_| List::default())
}

/// Returns all tasks that live now, the oldest first.
pub fn all() -> Vec<Info> {
    let now = clock::monotonic_nanos();
    let blocks = list().lock().blocks.clone();
    let mut tasks: Vec<Arc<State>> = blocks.into_iter().flatten().filter_map(Slot::get).collect();
    flamelet_profile::sort_rows_by_key(&mut tasks, |state| state.born());
    let mut tasks: Vec<Info> = tasks.iter().map(|state| state.info(now)).collect();
    flamelet_profile::sort_rows_by_key(&mut tasks, |task| task.id);
    tasks
}

/// Returns how many tasks were not listed because there were too many.
pub fn untracked() -> u64 {
    UNTRACKED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::super::super::delays::StackNumber;
    use super::super::Task;
    use super::*;
    use crate::labels::LabelSet;
    use crate::model::{Work, explore};
    use flamelet_test_support::holds_in_child;
    use std::future::pending;

    fn task(name: &str) -> Task<std::future::Pending<()>> {
        Task::new(name, LabelSet::EMPTY, pending())
    }

    fn count(name: &str) -> usize {
        all().iter().filter(|task| task.name == name).count()
    }

    #[test]
    fn a_child_lists_its_own_tasks_even_if_the_list_was_locked_at_the_fork() {
        let task_of_parent = task("of the parent");
        assert_eq!(count("of the parent"), 1);
        // As another thread would hold it, and a task in it.
        let held = list().lock();
        let place = held
            .blocks
            .iter()
            .copied()
            .flatten()
            .find(|slot| slot.get().is_some_and(|task| task.name.text() == "of the parent"));
        let slot = place.expect("it is listed");
        // Another test may be reading it at this moment.
        let known = slot.0.load(Ordering::Relaxed).map_addr(|address| address & !IS_READ);
        slot.0.store(known.map_addr(|address| address | IS_READ), Ordering::Relaxed);
        let mut task_of_parent = Some(task_of_parent);
        let is_free = holds_in_child(|| {
            let own = task("of the child");
            let lists_own = (count("of the child"), count("of the parent")) == (1, 0);
            drop((own, task_of_parent.take()));
            lists_own && count("of the child") == 0
        });
        slot.0.store(known, Ordering::Relaxed);
        drop(held);
        assert!(is_free);
        assert_eq!(count("of the parent"), 1);
        drop(task_of_parent);
        assert_eq!(count("of the parent"), 0);
    }

    /// A place, and two tasks that come and go there.
    struct SharedPlace {
        slot: Slot,
        tasks: [Arc<State>; 2],
    }

    fn shared_place() -> SharedPlace {
        let task = || Arc::new(State::new(1, "model", LabelSet::EMPTY, StackNumber::NONE));
        SharedPlace { slot: Slot::default(), tasks: [task(), task()] }
    }

    fn come_and_go(shared: &SharedPlace, tasks: &[usize]) {
        for task in tasks.iter().map(|&task| &shared.tasks[task]) {
            shared.slot.put(task);
            shared.slot.clear(task);
        }
    }

    fn look(shared: &SharedPlace) {
        let found = shared.slot.get();
        assert!(found.is_none_or(|found| shared.tasks.iter().any(|task| Arc::ptr_eq(task, &found))));
    }

    #[test]
    fn in_no_order_is_a_task_read_that_is_gone() {
        let models: [&[Work<SharedPlace>]; 3] = [
            &[|shared| come_and_go(shared, &[0, 1]), look],
            // The same address again, as the allocator may give it.
            &[|shared| come_and_go(shared, &[0, 0]), |shared| (0..2).for_each(|_| look(shared))],
            &[|shared| come_and_go(shared, &[0]), look, look],
        ];
        let is_whole = |shared: &SharedPlace| {
            let counts = shared.tasks.each_ref().map(Arc::strong_count);
            let is_empty = shared.slot.0.load(Ordering::Acquire).is_null();
            if is_empty && counts == [1, 1] { Ok(()) } else { Err(format!("{is_empty}, {counts:?}")) }
        };
        for (number, works) in models.into_iter().enumerate() {
            let runs = explore(shared_place, works, is_whole);
            assert!(runs.as_ref().is_ok_and(|&runs| runs > 20), "model {number}: {runs:?}");
        }
    }

    #[test]
    fn places_are_used_again_whichever_thread_ends_the_task() {
        const ROUNDS: usize = 200;
        let places = || list().lock().blocks.len() * BLOCK;
        let made = |_| (0..BLOCK).map(|_| task("passed on")).collect::<Vec<_>>();
        drop(made(0));
        let before = places();
        for tasks in (0..ROUNDS).map(made) {
            std::thread::spawn(|| drop(tasks)).join().expect("no panic");
        }
        assert_eq!(count("passed on"), 0);
        // Other tests make tasks meanwhile, but not so many.
        assert!(places() < before + ROUNDS * BLOCK / 4, "{before} and now {}", places());
    }

    #[test]
    fn tasks_are_listed_while_others_come_and_go() {
        let lasting: Vec<_> = (0..100).map(|_| task("lasting")).collect();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        drop((task("short"), task("short")));
                    }
                });
            }
            let counts: Vec<usize> = (0..200).map(|_| count("lasting")).collect();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(counts, [lasting.len(); 200]);
        });
    }
}
