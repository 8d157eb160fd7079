//! How the time of a request is divided.

use crate::tasks::Task;

/// What a request spent its time on, in nanoseconds. The last four add up to the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeParts {
    pub(crate) wall: u64,
    pub(crate) cpu: u64,
    pub(crate) blocked: u64,
    pub(crate) awaiting: u64,
    pub(crate) runnable: u64,
}

impl TimeParts {
    pub(crate) fn array(self) -> [u64; 5] {
        [self.wall, self.cpu, self.blocked, self.awaiting, self.runnable]
    }

    pub(crate) fn of([wall, cpu, blocked, awaiting, runnable]: [u64; 5]) -> Self {
        Self { wall, cpu, blocked, awaiting, runnable }
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn of_task<F>(task: &Task<F>) -> Self {
        let times = task.times();
        Self {
            wall: times.wall,
            cpu: times.cpu,
            blocked: times.blocked,
            awaiting: times.awaiting,
            runnable: times.runnable,
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn of_task<F>(_: &Task<F>) -> Self {
        Self::default()
    }
}
