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
    "rayon_core::job",
    // Who waits for the other half of its own work.
    "rayon_core::join",
    "rayon_core::scope",
    "::in_worker",
];

/// A word in the names of functions that wait for a future.
const BLOCKS: &str = "::block_on";

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
    let mut names = names;
    while let Some(name) = names.next() {
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        if name.contains(BLOCKS) {
            return waits && is_outermost(names);
        }
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

/// Returns whether the thread does nothing but run a runtime, as `#[tokio::main]` lets the main thread: its first function
/// calls the runtime. Further in, a thread has work that needs the result. The names are those around the runtime's innermost.
fn is_outermost<'a>(names: impl Iterator<Item = &'a str>) -> bool {
    let runtime = |name: &&str| name.contains(BLOCKS) || name.contains("tokio::runtime");
    let around = names.skip_while(runtime).filter(|name| !name.contains("FnOnce"));
    around.take(2).any(|name| name.contains("__rust_begin_short_backtrace"))
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

    #[test]
    fn a_thread_that_only_runs_a_runtime_is_idle_while_that_waits() {
        let of = |inner: &[&str], outer: &[&str]| {
            let runtime = [
                "tokio::runtime::park::CachedParkThread::block_on",
                "tokio::runtime::runtime::Runtime::block_on",
            ];
            is_idle([inner, &runtime[..], outer].concat().into_iter())
        };
        let parked = &["syscall", "tokio::runtime::park::Inner::park"][..];
        let start =
            ["core::ops::function::FnOnce::call_once", "std::sys::backtrace::__rust_begin_short_backtrace"];
        assert!(of(parked, &[&["app::main"][..], &start].concat()));
        assert!(of(parked, &start), "main is inlined");
        assert!(of(
            &["epoll_wait", "tokio::runtime::driver::Driver::park"],
            &[&["app::main"][..], &start].concat()
        ));
        assert!(
            !of(&["nanosleep", "app::main::{{closure}}"], &[&["app::main"][..], &start].concat()),
            "runs"
        );
        assert!(
            !of(parked, &[&["app::query", "app::main"][..], &start].concat()),
            "work that needs the result"
        );
        assert!(!of(parked, &["app::query", "tokio::runtime::task::raw::poll"]));
    }
}
