//! The state of the sampler, for callers.

use super::options::Engine;
use std::time::Duration;

/// What the sampler of this process has done so far, see [`status`](fn@super::status).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// What takes the samples, while it runs.
    pub engine: Option<Engine>,
    /// The frequency at which it runs now; 0 when it does not. Lower than the requested one when the overhead budget
    /// lowered it.
    pub frequency: u32,
    /// How often it looks for threads that started or ended; zero when it does not run. More than 100 ms when the
    /// overhead budget made it rarer.
    pub look_interval: Duration,
    /// How many captures and recorders read.
    pub readers: usize,
    /// Samples taken since the process started.
    pub samples: u64,
    /// Samples that found no free slot.
    pub lost: u64,
    /// Samples that do not reach their thread's start.
    pub truncated: u64,
    /// Time spent in the signal handler, without what the kernel needs to call it.
    pub handler_nanos: u64,
    /// All CPU time that the profiler itself has used.
    pub own_cpu_nanos: u64,
}
