//! The live threads: what each does at this moment.
//!
//! State, system call and CPU time are what the kernel says. The stack is taken as the [`wall`](super::wall) clock takes it, by
//! a signal, and last: a thread that answers it runs.

use std::time::{Duration, Instant};

use super::calls::SystemCall;
use super::stacks;
use crate::labels::LabelSet;
use crate::threads::{Listing, Tid};
use crate::{clock, own_threads};

/// The most threads that are listed.
pub const MOST_THREADS: usize = 2000;

/// The most threads that are asked for their stacks, and the longest time that this may take: threads that block
/// signals do not answer.
const MOST_ASKED: usize = 256;
const PATIENCE: Duration = Duration::from_secs(1);

/// A thread of this process.
#[derive(Clone, Debug)]
pub struct Info {
    /// The kernel's number of the thread.
    pub id: i32,
    /// Its name, of at most 15 bytes.
    pub name: String,
    /// Whether it is running, or only waiting for a CPU.
    pub is_running: bool,
    /// The system call that it is in, if the kernel reports it.
    pub call: Option<String>,
    /// The CPU time that it has used.
    pub cpu_nanos: u64,
    /// Its stack, leaf first; empty if it did not answer.
    pub stack: Vec<u64>,
    /// What it is working on; empty if it did not answer.
    pub labels: LabelSet,
}

/// Returns the threads of this process, without those of the profiler, in the order of their numbers; none if the kernel
/// does not list them.
pub fn all() -> Vec<Info> {
    let Ok(mut listing) = Listing::open() else { return Vec::new() };
    let mut listed = Vec::new();
    listing.read(&mut listed);
    let mut threads: Vec<Info> =
        listed.iter().filter_map(|listed| look_at(listed.tid)).take(MOST_THREADS).collect();
    if stacks::prepare().is_ok() {
        let start = Instant::now();
        for thread in threads.iter_mut().take(MOST_ASKED) {
            if start.elapsed() > PATIENCE {
                break;
            }
            thread.labels = stacks::take(thread.id, &mut thread.stack).unwrap_or(LabelSet::EMPTY);
        }
    }
    threads
}

/// Returns what the kernel says about a thread; `None` if it has ended, or is the profiler's.
fn look_at(thread: Tid) -> Option<Info> {
    let name = super::wall::name_of(thread);
    let is_running = state_of(thread)? == 'R';
    let call = SystemCall::of(thread).filter(|_| !is_running).map(SystemCall::name);
    let cpu_nanos = clock::read(super::wall::thread_clock(thread));
    (!name.starts_with(own_threads::PREFIX)).then(|| Info {
        id: thread,
        name,
        is_running,
        call,
        cpu_nanos,
        stack: Vec::new(),
        labels: LabelSet::EMPTY,
    })
}

/// Returns the state of a thread as the kernel writes it, such as `R` or `S`; `None` if it has ended.
pub(super) fn state_of(thread: Tid) -> Option<char> {
    state(&std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?)
}

/// Reads the state in `7 (name) S 1 …`; the name may have anything in it, so the last bracket counts.
fn state(stat: &str) -> Option<char> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.trim_start().chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn the_state_is_behind_the_name() {
        assert_eq!(state("7 (tokio worker) S 1 7"), Some('S'));
        assert_eq!(state("7 (a) S (b) R 1 7"), Some('R'));
        assert_eq!(state("7 (cut"), None);
    }

    #[inline(never)]
    fn waits_in_a_known_place(end: &mpsc::Receiver<()>) {
        let _ = std::hint::black_box(end.recv());
    }

    #[test]
    fn a_thread_that_waits_is_listed_with_its_call_and_stack() {
        let (over, end) = mpsc::channel();
        let waiter = std::thread::Builder::new().name("waiter".into());
        let waiter = waiter.spawn(move || waits_in_a_known_place(&end)).expect("a thread");
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < Duration::from_secs(60), "it is not listed with a stack");
            let found = all().into_iter().find(|thread| thread.name == "waiter" && !thread.is_running);
            // The kernel may not say in which call it is, but a stack it has as soon as it is given a CPU. Before it waits
            // for its end, it may wait for the memory map, which other tests change.
            let is_waiting = |found: &Info| {
                found.call.as_deref().is_none_or(|call| call == "futex") && !found.stack.is_empty()
            };
            if found.is_some_and(|found| is_waiting(&found)) {
                break;
            }
        }
        assert!(all().iter().any(|thread| thread.id == crate::threads::this_thread() && thread.is_running));
        drop(over);
        waiter.join().expect("ended");
    }
}
