//! The progress and the summary of a recording.

use std::time::Duration;

use crate::collect::SyscallStats;

/// The progress of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The time since it began.
    pub elapsed: Duration,
    /// Samples taken, of CPU time and named events.
    pub samples: u64,
    /// Samples lost because a ring was full.
    pub lost: u64,
    /// System calls that returned, if they are recorded.
    pub syscalls: u64,
    /// Stacks larger than their dumps that could not be completed.
    pub cut: u64,
    /// Whether stacks are completed from live memory.
    pub is_eager: bool,
}

/// The summary of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// What took the samples: `perf cycles` or `perf cpu-clock`.
    pub engine: String,
    /// How long it took.
    pub elapsed: Duration,
    /// Samples taken, of CPU time and named events.
    pub samples: u64,
    /// Samples lost because a ring was full.
    pub lost: u64,
    /// Stacks that reach the thread's first frame.
    pub rooted: u64,
    /// Stacks that do not reach it.
    pub truncated: u64,
    /// Truncated stacks that were larger than their dump.
    pub cut: u64,
    /// Truncated stacks that end in code without unwind information.
    pub without_rule: u64,
    /// Distinct addresses.
    pub locations: usize,
    /// Addresses without a known function.
    pub unresolved: usize,
    /// CPU time of the target while it was watched; `None` if everything was watched.
    pub target_cpu: Option<Duration>,
    /// The requested samples per second of CPU time.
    pub asked_hertz: f64,
    /// The achieved samples per second of CPU time, if known.
    pub achieved_hertz: Option<f64>,
    /// CPU time of the recorder's own threads, without finding names.
    pub own_cpu: Duration,
    /// CPU time spent on finding names.
    pub names_cpu: Duration,
    /// How often the kernel throttled sampling because it took too much time.
    pub throttled: u64,
    /// Whether stacks were completed from live memory because many were larger than their dumps.
    pub was_eager: bool,
    /// Whether the kernel's side was sampled.
    pub with_kernel: bool,
    /// Each system call by name, most called first.
    pub syscalls: Vec<SyscallSummary>,
    /// System calls by their arguments, if they are recorded, the slowest in total first.
    pub calls_by_arguments: Vec<ArgumentsSummary>,
    /// Notes for the user, a line each: what was not permitted, what was left out.
    pub notes: Vec<String>,
}

/// One system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyscallSummary {
    /// Its name.
    pub name: String,
    /// Its statistics, all threads together.
    pub stats: SyscallStats,
}

/// The calls of one system call with the same arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentsSummary {
    /// The name of the call.
    pub name: String,
    /// Its arguments as text, with everything but printable characters escaped.
    pub arguments: String,
    /// How many calls returned.
    pub calls: u64,
    /// How many of them failed.
    pub errors: u64,
    /// How long they took together, in nanoseconds.
    pub nanos: u64,
}

impl Summary {
    /// Returns the share of stacks that reach the thread's first frame; 1 if there are none.
    pub fn rooted_share(&self) -> f64 {
        let all = self.rooted + self.truncated;
        if all == 0 { 1.0 } else { self.rooted as f64 / all as f64 }
    }

    /// Returns whether the recording is as good as it should be: nothing lost, 99 % of the stacks rooted, 99 % of the
    /// addresses named (if names were requested).
    pub fn is_good(&self) -> bool {
        let named = self.locations == 0 || self.unresolved as f64 <= self.locations as f64 * 0.01;
        self.lost == 0 && self.rooted_share() >= 0.99 && named
    }
}
