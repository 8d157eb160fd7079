//! Which threads have nothing to do, by their stacks.

#[cfg(any(feature = "cpu", feature = "http"))]
use super::names::Names;
#[cfg(any(feature = "cpu", feature = "http"))]
use crate::Profiler;

/// Words in functions of thread pools that wait for work.
const WAITS_FOR_WORK: &[&str] =
    &["park", "pool::Inner::run", "pool::Inner::wait", "rayon_core::sleep", "wait_until_cold"];

/// Words in the names of functions below which a pool runs the work of others.
const WORKS: &[&str] = &[
    "task::harness",
    "task::raw::poll",
    "::block_on",
    "rayon_core::job",
    // Who waits for the other half of its own work.
    "rayon_core::join",
    "rayon_core::scope",
    "::in_worker",
];

/// Tells idle threads by the functions on their stacks.
#[cfg(any(feature = "cpu", feature = "http"))]
pub(super) struct Idle {
    names: Names,
}

#[cfg(any(feature = "cpu", feature = "http"))]
impl Idle {
    pub(super) fn of<'a>(profiler: &Profiler, stacks: impl Iterator<Item = &'a [u64]>) -> Self {
        Self { names: Names::of(profiler.symbols(), stacks.flatten().copied()) }
    }

    /// Returns whether the thread with this stack waits for work.
    pub(super) fn is_idle(&self, stack: &[u64]) -> bool {
        is_idle(self.names.on(stack))
    }
}

/// Returns whether a thread with these functions on its stack, leaf first, waits for work.
pub(super) fn is_idle<'a>(names: impl Iterator<Item = &'a str>) -> bool {
    let mut waits = false;
    for name in names {
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        if has(WORKS) {
            return false;
        }
        // The worker is itself a job of the pool, so further out there is one on every stack.
        if name.contains("multi_thread::worker::") && name.contains("::park") {
            return true;
        }
        waits |= (name.contains("tokio::runtime") || name.contains("rayon_core")) && has(WAITS_FOR_WORK);
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_idle_unless_it_runs_a_task() {
        let of = |names: &[&str]| is_idle(names.iter().copied());
        let park = "tokio::runtime::scheduler::multi_thread::worker::Context::park_timeout";
        assert!(of(&["epoll_wait", park, "std::thread::start"]));
        assert!(of(&["epoll_wait", park, "tokio::runtime::task::raw::poll"]), "the job that is the worker");
        assert!(!of(&["nanosleep", "tokio::runtime::task::raw::poll", park]));
        assert!(of(&["syscall", "tokio::runtime::blocking::pool::Inner::run", "std::thread::start"]));
        assert!(!of(&[
            "nanosleep",
            "app::handler",
            "tokio::runtime::task::raw::poll",
            "tokio::runtime::blocking::pool::Inner::run"
        ]));
        assert!(!of(&["std::thread::park", "app::main"]), "parked by the program itself");
        assert!(of(&[
            "syscall",
            "rayon_core::sleep::Sleep::sleep",
            "rayon_core::registry::WorkerThread::wait_until_cold"
        ]));
        assert!(!of(&["syscall", "rayon_core::sleep::Sleep::sleep", "rayon_core::join::join_context"]));
        assert!(!of(&[]));
    }
}
