//! What makes a thread interrupt itself while it uses CPU time. One file an engine.

mod perf;
mod setitimer;
mod timer;

use super::options::{Engine as Choice, Signal};
use crate::threads::Tid;
use crate::{Error, ErrorKind, Result};

/// An engine that runs.
pub(super) trait Engine: Send {
    /// Which one it is.
    fn choice(&self) -> Choice;

    /// Follows the threads that started and ended, and changes to another period. Called as often as the
    /// [pace](super::pace) of looks says. Says how many threads are new.
    fn update(&mut self, period_nanos: u64) -> usize;

    /// Sends no signals until the next update, where it can: nobody of ours would take them.
    fn rest(&mut self) {}

    /// How many threads are known.
    fn threads(&self) -> usize;

    /// CPU time that is to be added to the next sample of a thread.
    fn take_owed(&mut self, _tid: Tid) -> u64 {
        0
    }

    /// Threads that cannot be reached, such as for a limit of the kernel.
    fn unreached(&self) -> usize {
        0
    }
}

/// Starts the engine of choice, or the first that works instead; with remarks about those that did not.
/// It stops when it is dropped.
pub(super) fn start(
    choice: Choice,
    signal: Signal,
    period_nanos: u64,
) -> Result<(Box<dyn Engine>, Vec<String>)> {
    let order: &[Choice] = match choice {
        // Only a timer ends with the program image that made it, and never sends another signal.
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
