//! A model checker for lock-free code: runs threads in every order, one step at a time.
//!
//! A step is an atomic operation. Before each step the running thread decides which thread is next; [`explore`]
//! repeats the run until every decision was made in every way, except for runs with more than [`PREEMPTIONS`]
//! switches away from a thread that could continue (what goes wrong at all goes wrong with few of them).
//!
//! The steps have one order for all threads, so the effects of weaker memory do not show in the values. They show in
//! the clocks: each thread has a vector clock, which travels with release and acquire as C++ and Rust define it. When
//! two threads use non-atomic memory, one of them to write, these clocks must order them, whatever the machine would
//! do. That is how a missing `Release` or `Acquire` is found.
//!
//! Outside a model the atomics are those of the standard library.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, atomic};

/// The most switches away from a thread that could continue, in one run.
const PREEMPTIONS: usize = 3;
/// A run with more steps than this goes in a circle.
const LONGEST_RUN: usize = 2_000;
/// The most threads of a model.
const THREADS: usize = 3;

/// What each thread has done, as far as one of them knows.
type Clock = [u32; THREADS];

thread_local! {
    /// The model that this thread is part of, and its number there.
    static MODEL: RefCell<Option<(Arc<Model>, usize)>> = const { RefCell::new(None) };
}

/// One run.
struct Model {
    state: Mutex<ModelState>,
    changed: Condvar,
}

#[derive(Default)]
struct ModelState {
    /// Whose turn it is; `None` before the start and after the end.
    turn: Option<usize>,
    is_running: Vec<bool>,
    /// Those that wait for another thread to change something.
    is_waiting: [bool; THREADS],
    steps: usize,
    preemptions: usize,
    path: Path,
    clocks: [Clock; THREADS],
    /// By address: what an acquiring load learns from it.
    released: HashMap<usize, Clock>,
    /// By address, for non-atomic memory.
    used: HashMap<usize, Used>,
    failure: Option<String>,
}

/// When memory was last used, by each thread's own clock.
#[derive(Default)]
struct Used {
    written: Clock,
    read: Clock,
}

/// The decisions of a run: which option was taken, of how many.
#[derive(Default)]
struct Path {
    taken: Vec<(usize, usize)>,
    depth: usize,
}

impl Path {
    fn choose(&mut self, ways: usize) -> usize {
        if self.depth == self.taken.len() {
            self.taken.push((0, ways));
        }
        let (choice, known) = self.taken[self.depth];
        assert_eq!(ways, known, "a model must do the same in the same order");
        self.depth += 1;
        choice
    }

    /// Moves to the next path; returns whether there is one.
    fn advance(&mut self) -> bool {
        self.depth = 0;
        while let Some((choice, ways)) = self.taken.pop() {
            if choice + 1 < ways {
                self.taken.push((choice + 1, ways));
                return true;
            }
        }
        false
    }
}

impl ModelState {
    /// Decides which thread is next when `thread` has come to a step, or to its end.
    fn choose_next(&mut self, thread: usize) {
        let mut ways = self.others(thread);
        let can_go_on = self.is_running[thread];
        if can_go_on {
            if self.preemptions >= PREEMPTIONS || self.failure.is_some() {
                ways.clear();
            }
            ways.insert(0, thread);
        }
        let chosen = if ways.len() > 1 { self.path.choose(ways.len()) } else { 0 };
        self.preemptions += usize::from(can_go_on && chosen > 0);
        self.turn = ways.get(chosen).copied();
    }

    /// Returns the other threads that can go on.
    fn others(&self, thread: usize) -> Vec<usize> {
        let is_running = |&other: &usize| other != thread && self.is_running[other];
        let can_go_on = |&other: &usize| is_running(&other) && !self.is_waiting[other];
        let all = 0..self.is_running.len();
        let others: Vec<usize> = all.clone().filter(can_go_on).collect();
        // If all of them wait, what they wait for is what this one has not done, or never happens.
        if others.is_empty() && !self.is_running[thread] { all.filter(is_running).collect() } else { others }
    }

    /// Decides which other thread is next, if there is one, while `thread` waits for what it does.
    fn choose_other(&mut self, thread: usize) {
        self.is_waiting[thread] = true;
        let ways = self.others(thread);
        let chosen = if ways.len() > 1 { self.path.choose(ways.len()) } else { 0 };
        self.turn = Some(ways.get(chosen).copied().unwrap_or(thread));
    }

    fn fail(&mut self, message: String) {
        self.failure.get_or_insert(message);
    }
}

impl Model {
    fn state(&self) -> MutexGuard<'_, ModelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_turn<'a>(
        &'a self,
        mut state: MutexGuard<'a, ModelState>,
        thread: usize,
    ) -> MutexGuard<'a, ModelState> {
        while state.turn != Some(thread) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    fn begin_step(&self) -> MutexGuard<'_, ModelState> {
        let mut state = self.state();
        state.steps += 1;
        if state.steps > LONGEST_RUN {
            state.fail("it goes in a circle".to_owned());
            drop(state);
            panic!("it goes in a circle");
        }
        state
    }

    /// Lets other threads run, as the path says; then does `step`.
    fn step<T>(&self, thread: usize, step: impl FnOnce(&mut ModelState) -> T) -> T {
        let mut state = self.begin_step();
        state.choose_next(thread);
        self.changed.notify_all();
        let mut state = self.wait_for_turn(state, thread);
        state.clocks[thread][thread] += 1;
        step(&mut state)
    }

    /// Lets another thread run, if there is one.
    fn give_way(&self, thread: usize) {
        let mut state = self.begin_step();
        state.choose_other(thread);
        self.changed.notify_all();
        drop(self.wait_for_turn(state, thread));
    }

    fn end(&self, thread: usize) {
        let mut state = self.state();
        if std::thread::panicking() {
            state.fail("a panic".to_owned());
        }
        state.is_running[thread] = false;
        state.choose_next(thread);
        self.changed.notify_all();
    }
}

/// The end of a thread, also by a panic.
struct ThreadEnding(Arc<Model>, usize);

impl Drop for ThreadEnding {
    fn drop(&mut self) {
        MODEL.set(None);
        self.0.end(self.1);
    }
}

/// Runs `step` as this thread's next step in its model; returns `None` outside a model.
fn in_model<T>(step: impl FnOnce(&mut ModelState, usize) -> T) -> Option<T> {
    let (model, thread) = MODEL.with_borrow(Clone::clone)?;
    Some(model.step(thread, |state| step(state, thread)))
}

fn join(clock: &mut Clock, other: &Clock) {
    clock.iter_mut().zip(other).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
}

fn acquires(order: Ordering) -> bool {
    matches!(order, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst)
}

fn releases(order: Ordering) -> bool {
    matches!(order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst)
}

impl ModelState {
    fn loaded(&mut self, thread: usize, place: usize, order: Ordering) {
        if acquires(order) {
            let released = self.released.get(&place).copied().unwrap_or_default();
            join(&mut self.clocks[thread], &released);
        }
    }

    /// A store replaces what is released; a read-modify-write adds to it.
    fn stored(&mut self, thread: usize, place: usize, order: Ordering, goes_on: bool) {
        self.is_waiting = [false; THREADS];
        let released = self.released.entry(place).or_default();
        if !goes_on {
            *released = Clock::default();
        }
        if releases(order) {
            join(released, &self.clocks[thread]);
        }
    }

    /// A compare-and-exchange, which is a load only if it fails.
    fn exchanged(
        &mut self,
        thread: usize,
        place: usize,
        is_done: bool,
        (success, failure): (Ordering, Ordering),
    ) {
        self.loaded(thread, place, if is_done { success } else { failure });
        if is_done {
            self.stored(thread, place, success, true);
        }
    }

    fn uses(&mut self, thread: usize, place: usize, to_write: bool) {
        let (known, used) = (self.clocks[thread], self.used.entry(place).or_default());
        let is_ordered =
            |then: &Clock| (0..THREADS).all(|other| other == thread || then[other] <= known[other]);
        let is_right = is_ordered(&used.written) && (!to_write || is_ordered(&used.read));
        let last = if to_write { &mut used.written } else { &mut used.read };
        last[thread] = known[thread];
        if !is_right {
            self.fail(format!("a race: thread {thread}, to write: {to_write}"));
        }
    }
}

/// Records that non-atomic memory is about to be read.
pub(super) fn reads<T>(place: *const T) {
    in_model(|state, thread| state.uses(thread, place.addr(), false));
}

/// Records that non-atomic memory is about to be written.
pub(super) fn writes<T>(place: *const T) {
    in_model(|state, thread| state.uses(thread, place.addr(), true));
}

/// Lets another thread run, in a model that this thread is part of; returns whether it is in one.
pub(super) fn gives_way() -> bool {
    let model = MODEL.with_borrow(Clone::clone);
    if let Some((model, thread)) = &model {
        model.give_way(*thread);
    }
    model.is_some()
}

macro_rules! modelled {
    ($name:ident, $value:ty) => {
        /// Like the standard library's.
        #[repr(transparent)]
        pub(super) struct $name(atomic::$name);

        impl $name {
            pub(super) const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            fn place(&self) -> usize {
                std::ptr::from_ref(self).addr()
            }

            pub(super) fn load(&self, order: Ordering) -> $value {
                let load = |state: &mut ModelState, thread| {
                    state.loaded(thread, self.place(), order);
                    self.0.load(order)
                };
                in_model(load).unwrap_or_else(|| self.0.load(order))
            }

            #[allow(dead_code, reason = "each width uses a part")]
            pub(super) fn store(&self, value: $value, order: Ordering) {
                let store = |state: &mut ModelState, thread| {
                    state.stored(thread, self.place(), order, false);
                    self.0.store(value, order);
                };
                in_model(store).unwrap_or_else(|| self.0.store(value, order));
            }

            #[allow(dead_code, reason = "each width uses a part")]
            pub(super) fn swap(&self, value: $value, order: Ordering) -> $value {
                let swap = |state: &mut ModelState, thread| {
                    state.loaded(thread, self.place(), order);
                    state.stored(thread, self.place(), order, true);
                    self.0.swap(value, order)
                };
                in_model(swap).unwrap_or_else(|| self.0.swap(value, order))
            }

            pub(super) fn compare_exchange_weak(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let exchange = |state: &mut ModelState, thread| {
                    let result = self.0.compare_exchange(old, new, success, failure);
                    state.exchanged(thread, self.place(), result.is_ok(), (success, failure));
                    result
                };
                in_model(exchange).unwrap_or_else(|| self.0.compare_exchange_weak(old, new, success, failure))
            }
        }
    };
}

modelled!(AtomicU32, u32);
modelled!(AtomicU64, u64);

/// Like the standard library's.
#[repr(transparent)]
pub(super) struct AtomicPtr<T>(atomic::AtomicPtr<T>);

impl<T> Default for AtomicPtr<T> {
    fn default() -> Self {
        Self(atomic::AtomicPtr::default())
    }
}

impl<T> AtomicPtr<T> {
    fn place(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(super) fn load(&self, order: Ordering) -> *mut T {
        let load = |state: &mut ModelState, thread| {
            state.loaded(thread, self.place(), order);
            self.0.load(order)
        };
        in_model(load).unwrap_or_else(|| self.0.load(order))
    }

    pub(super) fn store(&self, value: *mut T, order: Ordering) {
        let store = |state: &mut ModelState, thread| {
            state.stored(thread, self.place(), order, false);
            self.0.store(value, order);
        };
        in_model(store).unwrap_or_else(|| self.0.store(value, order));
    }

    pub(super) fn compare_exchange(
        &self,
        old: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        let exchange = |state: &mut ModelState, thread| {
            let result = self.0.compare_exchange(old, new, success, failure);
            state.exchanged(thread, self.place(), result.is_ok(), (success, failure));
            result
        };
        in_model(exchange).unwrap_or_else(|| self.0.compare_exchange(old, new, success, failure))
    }
}

/// What one thread does with the shared state.
pub(super) type Work<S> = fn(&S);

/// Runs `works`, each on its own thread, on what `make` returns, in all orders, and `check` after each run. Returns
/// the number of runs, or what went wrong in one.
pub(super) fn explore<S: Send + Sync + 'static>(
    make: impl Fn() -> S,
    works: &[Work<S>],
    check: impl Fn(&S) -> Result<(), String>,
) -> Result<usize, String> {
    let (mut path, mut runs) = (Path::default(), 0);
    loop {
        runs += 1;
        let shared = Arc::new(make());
        let failure;
        (path, failure) = run(&shared, works, path);
        let outcome = failure.map_or_else(|| alone(|| check(&shared)), Err);
        outcome.map_err(|message| format!("run {runs}: {message}"))?;
        if !path.advance() {
            return Ok(runs);
        }
    }
}

/// Runs `check` as a model of one thread, so that an endless loop fails.
fn alone(check: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let state = ModelState { turn: Some(0), is_running: vec![true], ..ModelState::default() };
    MODEL.set(Some((Arc::new(Model { state: Mutex::new(state), changed: Condvar::new() }), 0)));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
    MODEL.set(None);
    outcome.unwrap_or_else(|_| Err("what is left is no list, or is not what was put there".to_owned()))
}

fn run<S: Send + Sync + 'static>(shared: &Arc<S>, works: &[Work<S>], path: Path) -> (Path, Option<String>) {
    let state = ModelState { path, is_running: vec![true; works.len()], ..ModelState::default() };
    let model = Arc::new(Model { state: Mutex::new(state), changed: Condvar::new() });
    let threads: Vec<_> = (works.iter().copied().enumerate())
        .map(|(thread, work)| {
            let (model, shared) = (model.clone(), shared.clone());
            std::thread::spawn(move || {
                let _ending = ThreadEnding(model.clone(), thread);
                drop(model.wait_for_turn(model.state(), thread));
                MODEL.set(Some((model, thread)));
                work(&shared);
            })
        })
        .collect();
    model.state().turn = Some(0);
    model.changed.notify_all();
    // A panic is noted by `ThreadEnding`.
    threads.into_iter().for_each(|thread| drop(thread.join()));
    let mut state = model.state();
    (std::mem::take(&mut state.path), state.failure.take())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;

    /// Two words, one of them not atomic.
    struct Message {
        is_there: AtomicU32,
        content: UnsafeCell<u64>,
    }

    // SAFETY: in the model one thread runs at a time.
    unsafe impl Sync for Message {}

    fn message() -> Message {
        Message { is_there: AtomicU32::new(0), content: UnsafeCell::new(0) }
    }

    fn send(message: &Message, order: Ordering) {
        writes(message.content.get());
        message.is_there.store(1, order);
    }

    fn receive(message: &Message, order: Ordering) {
        if message.is_there.load(order) == 1 {
            reads(message.content.get());
        }
    }

    #[test]
    fn orders_that_are_too_weak_are_found() {
        let strong: [Work<Message>; 2] =
            [|message| send(message, Ordering::Release), |message| receive(message, Ordering::Acquire)];
        assert!(explore(message, &strong, |_| Ok(())).is_ok_and(|runs| runs > 3));
        let weak: [[Work<Message>; 2]; 2] = [
            [|message| send(message, Ordering::Relaxed), |message| receive(message, Ordering::Acquire)],
            [|message| send(message, Ordering::Release), |message| receive(message, Ordering::Relaxed)],
        ];
        for works in weak {
            let found = explore(message, &works, |_| Ok(()));
            assert!(found.as_ref().is_err_and(|message| message.contains("a race")), "{found:?}");
        }
    }

    #[test]
    fn an_update_that_is_lost_is_found() {
        let add: Work<AtomicU32> = |sum| {
            let now = sum.load(Ordering::SeqCst);
            sum.store(now + 1, Ordering::SeqCst);
        };
        let is_two = |sum: &AtomicU32| match sum.load(Ordering::SeqCst) {
            2 => Ok(()),
            other => Err(format!("{other}")),
        };
        let found = explore(|| AtomicU32::new(0), &[add, add], is_two);
        assert!(found.as_ref().is_err_and(|message| message.ends_with(": 1")), "{found:?}");
    }
}
