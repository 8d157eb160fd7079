//! What makes a thread interrupt itself while it uses CPU time. Each engine has its own file.

mod perf;
mod posix_timer;
mod setitimer;
mod starts;
mod timer;

pub(super) use starts::forget_parent;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use starts::{pthread_create, resolve_create};

use super::options::{Engine as Choice, Signal};
use crate::threads::Tid;
use crate::{Error, ErrorKind, Result};

/// A running engine.
pub(super) trait Engine: Send {
    /// Returns which engine this is.
    fn choice(&self) -> Choice;

    /// Follows threads that started or ended, and switches to another period. Called as often as the
    /// [pace](super::pace) of looks says. Returns how many threads are new.
    fn update(&mut self, period_nanos: u64) -> usize;

    /// Samples the thread `tid`, which calls this before anything else, from now on. Without this, it is found by the
    /// next update.
    fn thread_began(&mut self, _tid: Tid) {}

    /// Returns whether threads make their timers themselves as they start, so that there is little to look for.
    fn threads_arm_themselves(&self) -> bool {
        false
    }

    /// Sends no signals until the next update, if the engine can: no handler of ours would take them.
    fn rest(&mut self) {}

    /// Returns how many threads are known.
    fn threads(&self) -> usize;

    /// Takes the CPU time that is to be added to the next sample of a thread.
    fn take_owed(&mut self, _tid: Tid) -> u64 {
        0
    }

    /// Returns how many threads cannot be reached, for example because of a kernel limit.
    fn unreached(&self) -> usize {
        0
    }
}

/// Starts the chosen engine, or else the first that works; also returns remarks about those that did not. The engine
/// stops when it is dropped.
pub(super) fn start(
    choice: Choice,
    signal: Signal,
    period_nanos: u64,
) -> Result<(Box<dyn Engine>, Vec<String>)> {
    let order: &[Choice] = match choice {
        // Only timers end with the program image that made them and never send another signal.
        _ if signal == Signal::Urgent => &[Choice::Timer],
        Choice::Auto | Choice::Timer => &[Choice::Timer, Choice::Setitimer],
        Choice::Perf => &[Choice::Perf, Choice::Timer, Choice::Setitimer],
        Choice::Setitimer => &[Choice::Setitimer],
    };
    let mut remarks = Vec::new();
    for &candidate in order {
        match start_one(candidate, period_nanos) {
            Ok(engine) => return Ok((engine, remarks)),
            Err(error) => remarks.push(format!("engine {} is not available: {error}", candidate.name())),
        }
    }
    Err(Error::new(ErrorKind::Denied, remarks.join("; ")))
}

fn start_one(choice: Choice, period_nanos: u64) -> std::io::Result<Box<dyn Engine>> {
    Ok(match choice {
        Choice::Perf => Box::new(perf::Perf::start(period_nanos)?),
        Choice::Setitimer => Box::new(setitimer::Setitimer::start(period_nanos)?),
        Choice::Timer | Choice::Auto => Box::new(timer::Timers::start(period_nanos)?),
    })
}
