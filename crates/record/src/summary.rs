//! How a recording goes, and how it went.

use std::time::Duration;

use crate::collect::SyscallStats;

/// How a recording goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Since it began.
    pub elapsed: Duration,
    /// Samples taken, of CPU time and named events.
    pub samples: u64,
    /// Samples that found a ring full.
    pub lost: u64,
    /// System calls that returned, when they are recorded.
    pub syscalls: u64,
    /// Stacks that are larger than their dumps and could not be completed.
    pub cut: u64,
    /// Whether stacks are completed from live memory.
    pub is_eager: bool,
}

/// How a recording went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// What took the samples: `perf cycles` or `perf cpu-clock`.
    pub engine: String,
    /// How long it took.
    pub elapsed: Duration,
    /// Samples taken, of CPU time and named events.
    pub samples: u64,
    /// Samples that found a ring full.
    pub lost: u64,
    /// Stacks that reach the thread's first frame.
    pub rooted: u64,
    /// Stacks that do not.
    pub truncated: u64,
    /// Of those, the ones that were larger than their dump.
    pub cut: u64,
    /// Of those, the ones that ended in code without unwind information.
    pub without_rule: u64,
    /// Distinct addresses, and of them those without a name.
    pub locations: usize,
    /// Addresses of which no function is known.
    pub unresolved: usize,
    /// CPU time of the target while it was watched; `None` when everything was.
    pub target_cpu: Option<Duration>,
    /// Samples a second of CPU time that were asked for.
    pub asked_hertz: f64,
    /// Samples a second of CPU time that were reached, where known.
    pub achieved_hertz: Option<f64>,
    /// CPU time of the recorder's own threads, without finding names.
    pub own_cpu: Duration,
    /// CPU time spent on finding names.
    pub names_cpu: Duration,
    /// Times that the kernel paused sampling because it took too much time.
    pub throttled: u64,
    /// Whether stacks were completed from live memory.
    pub was_eager: bool,
    /// Whether the kernel's side was seen.
    pub with_kernel: bool,
    /// Each system call by name, most called first.
    pub syscalls: Vec<SyscallSummary>,
    /// What the person should know, a line each: what was not permitted, what was left out.
    pub notes: Vec<String>,
}

/// One system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyscallSummary {
    /// Its name.
    pub name: String,
    /// What is known of it, all threads together.
    pub stats: SyscallStats,
}

impl Summary {
    /// The share of stacks that reach the thread's first frame; 1 when there are none.
    pub fn rooted_share(&self) -> f64 {
        let all = self.rooted + self.truncated;
        if all == 0 { 1.0 } else { self.rooted as f64 / all as f64 }
    }

    /// Whether the recording is as good as it should be: nothing lost, 99 % of the stacks rooted, 99 % of the
    /// addresses named (where names were looked for).
    pub fn is_good(&self) -> bool {
        let named = self.locations == 0 || self.unresolved as f64 <= self.locations as f64 * 0.01;
        self.lost == 0 && self.rooted_share() >= 0.99 && named
    }
}
