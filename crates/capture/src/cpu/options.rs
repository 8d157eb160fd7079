//! What a reader of the sampler can choose.

use crate::{Error, ErrorKind, Result};
use std::time::Duration;

/// The highest frequency, in hertz.
pub const MAX_FREQUENCY: u32 = 10_000;

/// What takes the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Engine {
    /// The first of these that works: [`Engine::Timer`], [`Engine::Setitimer`].
    #[default]
    Auto,
    /// A POSIX timer on each thread's CPU clock. Needs no privileges.
    ///
    /// It interrupts no sleep: the kernel checks such a timer while its thread runs, and sends the signal before the
    /// thread goes on. (Kernels before about 5.10 do so from the tick itself: there a tick on the way into a sleep
    /// may end it with `EINTR`.)
    ///
    /// The kernel checks such timers at its tick, every 1 to 10 ms, and a sample stands for all the CPU time since
    /// the thread's last one. Where more threads want to run than there are CPUs, ticks may land on other threads for
    /// long: the sum stays right, but the shares of functions get less certain, and a profile with many such samples
    /// says so.
    Timer,
    /// A `perf_event_open` counter on each thread. More distinct samples a second than the kernel's tick
    /// allows; needs `perf_event_paranoid` ≤ 2 and no seccomp filter against it. Falls back as `Auto` does.
    ///
    /// With `perf_event_paranoid` ≤ 1 or `CAP_PERFMON`, samples in system calls have their kernel frames; but a
    /// sample that falls on the way into a sleep then ends the sleep with `EINTR`, as any signal does. Without that
    /// right it does not. Threads that start during a capture are counted from when they are found (some ten
    /// milliseconds later), not from their birth.
    Perf,
    /// One interval timer for the process. Works everywhere, and is the least fair between threads. Its signal goes
    /// to the process: where the running thread blocks SIGPROF, the kernel gives it to another thread, and may end
    /// that thread's sleep with `EINTR`. If the program uses the same timer (`ITIMER_PROF`), its signals stop
    /// meanwhile. Finish captures before an `exec` of the process itself: the kernel keeps this timer, which would
    /// kill the new program.
    Setitimer,
}

impl Engine {
    /// Returns the name, as profiles carry it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Timer => "timer",
            Self::Perf => "perf",
            Self::Setitimer => "setitimer",
        }
    }
}

/// What interrupts a thread to sample it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Signal {
    /// `SIGPROF`, which is made for this. It kills a program that has no handler for it.
    #[default]
    Profiling,
    /// `SIGURG`, which kills no program: without a handler it is ignored. For programs that do not know that they are
    /// sampled, and may reset signals or start other programs at any moment. Always used with [`Engine::Timer`],
    /// since no other engine is sure to stop with the program image that started it.
    Urgent,
}

impl Signal {
    /// Returns the signal's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Profiling => "SIGPROF",
            Self::Urgent => "SIGURG",
        }
    }

    #[cfg(target_os = "linux")]
    pub(super) const fn number(self) -> libc::c_int {
        match self {
            Self::Profiling => libc::SIGPROF,
            Self::Urgent => libc::SIGURG,
        }
    }
}

/// How to sample. The defaults are safe in production.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// Samples per second of CPU time, 1 to [`MAX_FREQUENCY`].
    pub frequency: u32,
    /// What takes the samples. With several readers at a time the first one's choice counts, and the others' profiles
    /// say so.
    pub engine: Engine,
    /// What interrupts a thread. With several readers at a time the first one's choice counts.
    pub signal: Signal,
    /// The deepest stack that is kept; deeper ones keep their leaf side and count as truncated. While there are other
    /// readers it cannot exceed what they requested; the profile says so.
    pub max_depth: usize,
    /// How many samples can wait to be collected (every 5 to 250 ms). Beyond that they are counted as lost. While
    /// there are other readers it cannot exceed what they requested.
    pub buffered_samples: usize,
    /// The memory that the samples of one reader may take, in bytes. Once half of it is used there is no timeline.
    /// When it is full, known stacks are still counted, and others count as lost. The profile says so.
    pub memory_budget: usize,
    /// Whether to keep when, and on which thread, each sample was taken.
    pub timeline: bool,
    /// The share of the process' CPU time (or of one core, where the process uses less) that the profiler may use, in
    /// percent. When it needs more, it looks for new threads less often or lowers the frequency, and the profile says
    /// so. `None` for no limit.
    pub overhead_budget: Option<f64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            frequency: 99,
            engine: Engine::Auto,
            signal: Signal::default(),
            max_depth: flamelet_unwind::MAX_DEPTH,
            buffered_samples: 2048,
            memory_budget: 64 << 20,
            timeline: true,
            overhead_budget: Some(2.0),
        }
    }
}

impl Options {
    /// Returns the defaults at another frequency.
    pub fn with_frequency(frequency: u32) -> Self {
        Self { frequency, ..Self::default() }
    }

    pub(crate) fn period_nanos(&self) -> u64 {
        1_000_000_000 / u64::from(self.frequency.max(1))
    }

    pub(crate) fn check(&self) -> Result<()> {
        let invalid = |message: String| Err(Error::new(ErrorKind::InvalidOption, message));
        if self.frequency == 0 || self.frequency > MAX_FREQUENCY {
            return invalid(format!("frequency must be 1 to {MAX_FREQUENCY} Hz, not {}", self.frequency));
        }
        if self.max_depth == 0 || self.max_depth > 1 << 16 {
            return invalid(format!("max_depth must be 1 to 65536, not {}", self.max_depth));
        }
        if self.buffered_samples < 16 || self.buffered_samples > 1 << 20 {
            return invalid(format!("buffered_samples must be 16 to 1048576, not {}", self.buffered_samples));
        }
        match self.overhead_budget {
            Some(percent) if percent.is_nan() || percent <= 0.0 => {
                invalid(format!("overhead_budget must be above 0 percent, not {percent}"))
            }
            _ => Ok(()),
        }
    }
}

/// How to keep the recent past, see [`start_recent`](super::start_recent).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RecentOptions {
    /// How to sample; the default is 19 Hz without a timeline.
    pub sampling: Options,
    /// The length of one window, 100 ms or more: answers are cut at windows.
    pub window: Duration,
    /// How many whole windows to keep.
    pub keep: usize,
}

impl Default for RecentOptions {
    fn default() -> Self {
        let sampling =
            Options { frequency: 19, timeline: false, memory_budget: 4 << 20, ..Options::default() };
        Self { sampling, window: Duration::from_secs(10), keep: 6 }
    }
}

/// A collector with little to do does not run more often than this.
const SHORTEST_WINDOW: Duration = Duration::from_millis(100);
/// With less memory than this a window holds next to nothing.
const LEAST_OF_A_WINDOW: usize = 32 << 10;

impl RecentOptions {
    pub(crate) fn check(&self) -> Result<()> {
        self.sampling.check()?;
        if self.window < SHORTEST_WINDOW || self.keep == 0 {
            let message = "windows must be 100 ms or longer, and at least one must be kept";
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        let most = self.sampling.memory_budget / LEAST_OF_A_WINDOW;
        if self.keep >= most {
            let message = format!(
                "{} windows do not fit into the memory budget of {} bytes: keep fewer than {most}, make them longer, or \
                 raise the budget",
                self.keep, self.sampling.memory_budget
            );
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_make_no_sense_are_refused() {
        assert!(Options::default().check().is_ok());
        for options in [
            Options::with_frequency(0),
            Options::with_frequency(MAX_FREQUENCY + 1),
            Options { max_depth: 0, ..Options::default() },
            Options { buffered_samples: 0, ..Options::default() },
            Options { overhead_budget: Some(f64::NAN), ..Options::default() },
            Options { overhead_budget: Some(0.0), ..Options::default() },
        ] {
            let error = options.check().expect_err("makes no sense");
            assert_eq!(error.kind(), ErrorKind::InvalidOption);
            assert!(!error.to_string().contains('\n'));
        }
    }
    #[test]
    fn windows_that_have_no_room_are_refused() {
        let options = RecentOptions { keep: usize::MAX, ..RecentOptions::default() };
        let error = options.check().expect_err("too many");
        assert!(error.to_string().contains("keep fewer than 128"), "{error}");
        assert!(RecentOptions { keep: 100, ..RecentOptions::default() }.check().is_ok());
        assert!(RecentOptions { window: Duration::ZERO, ..RecentOptions::default() }.check().is_err());
    }
}
