//! The builder of a profiler.

use std::sync::Arc;
#[cfg(feature = "continuous")]
use std::time::Duration;

use super::metrics::RequestCounters;
use super::{Limits, Profiler, Settings, Shared};
use crate::Result;
#[cfg(all(feature = "heap", target_os = "linux"))]
use crate::heap_sampling::HeapSettings;
use crate::symbols::Symbols;

/// Builds a [`Profiler`]. Every option has a default that is safe in production.
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `start`"]
pub struct ProfilerBuilder {
    pub(super) settings: Settings,
    #[cfg(feature = "continuous")]
    continuous: Option<Continuous>,
    #[cfg(feature = "history")]
    pub(super) history: Option<crate::history::History>,
    #[cfg(feature = "push")]
    pub(super) push: Vec<crate::push::Push>,
    #[cfg(feature = "push")]
    pub(super) push_from_environment: bool,
}

impl ProfilerBuilder {
    pub(super) fn new() -> Self {
        let settings = Settings {
            name: program_name(),
            labels: Vec::new(),
            symbolize: true,
            symbol_memory: flamelet_symbol::Limits::SERVICE.memory,
            #[cfg(feature = "view")]
            view_memory: 64 << 20,
            limits: Limits::default(),
            lock_rate: std::time::Duration::from_micros(100),
            #[cfg(feature = "history")]
            shutdown_timeout: std::time::Duration::from_secs(5),
            blocked_threshold: std::time::Duration::from_millis(10),
            #[cfg(feature = "tracing")]
            blocked_events: false,
            #[cfg(feature = "cpu")]
            cpu: flamelet_capture::cpu::Options::default(),
            #[cfg(all(feature = "heap", target_os = "linux"))]
            heap: Some(HeapSettings::default()),
        };
        Self {
            settings,
            #[cfg(feature = "continuous")]
            continuous: None,
            #[cfg(feature = "history")]
            history: None,
            #[cfg(feature = "push")]
            push: Vec::new(),
            #[cfg(feature = "push")]
            push_from_environment: false,
        }
    }

    /// Sets the service's name in titles, comments and file names; by default the program's name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// Adds a label to every sample, such as a region or a version.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.labels.push((name.into(), value.into()));
        self
    }

    /// Sets whether the service looks up function names for its profiles (the default). Without names, profiles carry
    /// addresses and build ids, and `flamelet symbolize` or `go tool pprof` adds the names elsewhere.
    pub fn symbolize(mut self, symbolize: bool) -> Self {
        self.settings.symbolize = symbolize;
        self
    }

    /// Sets how many bytes of looked-up names to keep between profiles; 64 MiB by default. A lookup may briefly take
    /// 64 MiB, even if less is set here.
    pub fn symbol_memory(mut self, bytes: u64) -> Self {
        self.settings.symbol_memory = bytes;
        self
    }

    /// Sets how many bytes the web viewer inside the service may keep: the profiles taken with it, and what it
    /// computed from them; 64 MiB by default. Beyond that, the least recently used data is dropped. A single profile
    /// may take a quarter; a larger one is refused. What can be computed again is freed after a minute without
    /// requests, and the profiles after half an hour.
    #[cfg(feature = "view")]
    pub fn view_memory(mut self, bytes: usize) -> Self {
        self.settings.view_memory = bytes;
        self
    }

    /// Sets the longest capture for HTTP requests; ten minutes by default.
    pub fn max_duration(mut self, duration: std::time::Duration) -> Self {
        self.settings.limits.max_duration = duration;
        self
    }

    /// Sets the highest frequency for HTTP requests; 1000 Hz by default.
    pub fn max_frequency(mut self, hertz: u32) -> Self {
        self.settings.limits.max_frequency = hertz;
        self
    }

    /// Sets how many HTTP requests are processed at the same time; 16 by default. Further requests are refused.
    pub fn max_captures(mut self, count: usize) -> Self {
        self.settings.limits.max_captures = count;
        self
    }

    /// Sets the widest picture for HTTP requests; 20,000 pixels by default.
    pub fn max_image_width(mut self, pixels: u32) -> Self {
        self.settings.limits.max_image_width = pixels;
        self
    }

    /// Sets how many bytes of finished HTTP answers may wait for clients that read slowly; 32 MiB by default. While
    /// that much is waiting, requests are refused. A single answer may have any size.
    pub fn max_unread(mut self, bytes: usize) -> Self {
        self.settings.limits.max_unread = bytes;
        self
    }

    /// Takes one sample of waiting for locks for each `rate` that a thread is blocked, if the program has
    /// [`lock_profiling!`](crate::lock_profiling); 100 µs by default, zero for none. A process has one such rate: the
    /// profiler that starts last sets it, and [`locks::set_rate`](crate::locks::set_rate) changes it.
    pub fn lock_rate(mut self, rate: std::time::Duration) -> Self {
        self.settings.lock_rate = rate;
        self
    }

    /// Sets how long a poll of a task may take before it counts as blocking the executor; 10 ms by default, at
    /// least 1 ms. A process has one such time: the profiler that starts last sets it. With [`Duration::MAX`](std::time::Duration)
    /// no poll is ever counted, and no thread gets a signal for its stack.
    pub fn blocked_threshold(mut self, time: std::time::Duration) -> Self {
        self.settings.blocked_threshold = time;
        self
    }

    /// Emits a `tracing` event for each poll that blocks the executor, right after it: level `WARN`, target
    /// `flamelet::blocked`, with the fields `task`, `cause` and `duration_ms`. Off by default. A process has one such
    /// setting: the profiler that starts last sets it.
    #[cfg(feature = "tracing")]
    pub fn blocked_events(mut self, is_on: bool) -> Self {
        self.settings.blocked_events = is_on;
        self
    }

    /// Checks the options, and starts continuous sampling and the history if they were chosen.
    pub fn start(self) -> Result<Profiler> {
        // A service should learn of an invalid option when it starts, not when a profile is first requested.
        self.settings.limits.check()?;
        #[cfg(feature = "cpu")]
        check(&self.settings.cpu)?;
        check_lock_rate(self.settings.lock_rate)?;
        let symbols = Arc::new(Symbols::new(self.settings.symbol_memory));
        #[cfg(all(feature = "heap", target_os = "linux"))]
        let has_heap = self.settings.heap.as_ref().map_or(Ok(false), crate::heap_sampling::start)?;
        // After the heap's sampling has begun, which it writes, too.
        #[cfg(feature = "history")]
        let history =
            self.history.map(|chosen| start_history(chosen, &self.settings, &symbols)).transpose()?;
        #[cfg(feature = "push")]
        let push = super::push::start(
            self.push,
            self.push_from_environment,
            history.as_ref(),
            &self.settings,
            &symbols,
        )?;
        let shared = Shared {
            counters: RequestCounters::default(),
            #[cfg(any(feature = "cpu", feature = "http"))]
            ending: Default::default(),
            #[cfg(feature = "http")]
            requests: Default::default(),
            #[cfg(all(feature = "heap", target_os = "linux"))]
            has_heap,
            #[cfg(feature = "history")]
            history,
            #[cfg(feature = "push")]
            push,
            symbols,
            #[cfg(feature = "continuous")]
            recent: self.continuous.map(|chosen| chosen.start(&self.settings.cpu)).transpose()?,
            settings: self.settings,
        };
        if crate::locks::is_installed() {
            crate::locks::set_rate(shared.settings.lock_rate)?;
        }
        #[cfg(target_os = "linux")]
        flamelet_capture::wait::tasks::long_polls::set_threshold(
            u64::try_from(shared.settings.blocked_threshold.as_nanos()).unwrap_or(u64::MAX),
        );
        #[cfg(all(feature = "tracing", target_os = "linux"))]
        crate::blocked_events::switch(shared.settings.blocked_events);
        Ok(Profiler { shared: Arc::new(shared) })
    }
}

#[cfg(feature = "cpu")]
impl ProfilerBuilder {
    /// Sets the samples per second of CPU time, for captures that do not set their own; 99 by default.
    pub fn frequency(mut self, hertz: u32) -> Self {
        self.settings.cpu.frequency = hertz;
        self
    }

    /// Sets how samples are taken; by default, with the best engine that works on this system without privileges.
    /// That is a timer on each thread, which on Linux 5.10 and later interrupts no sleep; on older kernels, a sample
    /// taken on the way into a sleep may end the sleep with `EINTR`.
    /// [`Engine::Setitimer`](flamelet_capture::cpu::Engine::Setitimer), the fallback where those timers do not work,
    /// may do the same: when a busy thread blocks all signals, its signals go to a thread that sleeps. So may
    /// [`Engine::Perf`](flamelet_capture::cpu::Engine::Perf), which sees more, as root or with `CAP_PERFMON`.
    ///
    /// A process has one sampler: as long as it runs, it keeps the engine of the capture that started it. With
    /// continuous sampling the profiler itself starts it, so choose the engine here, not for one capture. Each
    /// profile says which engine took it.
    pub fn engine(mut self, engine: flamelet_capture::cpu::Engine) -> Self {
        self.settings.cpu.engine = engine;
        self
    }

    /// Sets how many frames of a stack are kept, 1024 by default; deeper stacks keep their leaf end and count as
    /// truncated.
    pub fn max_depth(mut self, frames: usize) -> Self {
        self.settings.cpu.max_depth = frames;
        self
    }

    /// Sets how many samples can wait to be collected before further ones are lost; 2048 by default.
    pub fn buffered_samples(mut self, samples: usize) -> Self {
        self.settings.cpu.buffered_samples = samples;
        self
    }

    /// Sets how many bytes the samples of one capture may take, 64 MiB by default. Beyond half of that, no timeline
    /// is kept; beyond all of it, known stacks are still counted and new ones count as lost; the profile says so.
    /// Captures over HTTP share it: the more of them run, the less each one gets, but at least 4 MiB.
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.settings.cpu.memory_budget = bytes;
        self
    }

    /// Sets the share of the process' CPU time, in percent, that sampling may use; 2 by default, `None` for no limit.
    /// Above it, flamelet looks for new threads less often or lowers the frequency, whichever saves more, and
    /// profiles say so.
    pub fn overhead_budget(mut self, percent: impl Into<Option<f64>>) -> Self {
        self.settings.cpu.overhead_budget = percent.into();
        self
    }

    /// Sets whether profiles record when and on which thread each sample was taken (the default).
    pub fn timeline(mut self, keep: bool) -> Self {
        self.settings.cpu.timeline = keep;
        self
    }
}

#[cfg(all(feature = "heap", target_os = "linux"))]
impl ProfilerBuilder {
    /// Samples on average one allocation for every `bytes` of allocated memory; 512 KiB by default.
    pub fn heap_interval(self, bytes: u64) -> Self {
        self.heap(|heap| HeapSettings { options: heap.options.mean(bytes), ..heap })
    }

    /// Keeps an up-to-date copy of the heap's counts in this file, which `flamelet recover` reads after the process
    /// has ended, however it ended. Put it on a disk, not on a file system in memory.
    pub fn heap_recovery_file(self, path: impl Into<std::path::PathBuf>) -> Self {
        self.heap(|mut heap| {
            heap.options = heap.options.file(path);
            heap.has_files = true;
            heap
        })
    }

    /// Prepares this file, and writes the heap to it when a memory limit is near or an allocation fails.
    pub fn heap_emergency_file(self, path: impl Into<std::path::PathBuf>) -> Self {
        self.heap(|mut heap| {
            heap.options = heap.options.emergency_file(path);
            heap.has_files = true;
            heap
        })
    }

    /// Adds a limit for this process' memory, in bytes, to watch in addition to those of its control groups and `RLIMIT_AS`.
    pub fn memory_limit(self, bytes: u64) -> Self {
        self.heap(|heap| HeapSettings { options: heap.options.limit(bytes), ..heap })
    }

    /// Lets jemalloc sample by itself: into the same tables if the linked version has hooks for that, otherwise by
    /// reading its dumps, which hold what is in use and little else. This costs somewhat less than sampling around
    /// jemalloc, and keeps jemalloc's own profiles available next to flamelet's.
    ///
    /// jemalloc must be the program's allocator and have been started with `prof:true`, as
    /// `global_allocator!(jemalloc, profiling)` does.
    #[cfg(feature = "jemalloc")]
    pub fn heap_by_jemalloc(self) -> Self {
        self.heap_by(flamelet_capture::heap::jemalloc::Jemalloc::linked())
    }

    /// Like [`ProfilerBuilder::heap_by_jemalloc`], for a jemalloc that you link yourself, or one without hooks.
    #[cfg(feature = "jemalloc")]
    pub fn heap_by(self, jemalloc: flamelet_capture::heap::jemalloc::Jemalloc) -> Self {
        self.heap(|heap| HeapSettings { jemalloc: Some(jemalloc), ..heap })
    }

    /// Switches heap profiling off, even if flamelet's allocator is installed.
    pub fn without_heap(mut self) -> Self {
        self.settings.heap = None;
        self
    }

    fn heap(mut self, change: impl FnOnce(HeapSettings) -> HeapSettings) -> Self {
        self.settings.heap = Some(change(self.settings.heap.take().unwrap_or_default()));
        self
    }
}

#[cfg(feature = "cpu")]
fn check(cpu: &flamelet_capture::cpu::Options) -> Result<()> {
    use crate::Error;

    let highest = flamelet_capture::cpu::MAX_FREQUENCY;
    if cpu.frequency == 0 || cpu.frequency > highest {
        return Err(Error::invalid(format!("frequency must be 1 to {highest} Hz, not {}", cpu.frequency)));
    }
    if cpu.max_depth == 0 || cpu.buffered_samples == 0 || cpu.memory_budget == 0 {
        return Err(Error::invalid("the depth, the buffer and the memory budget must be above 0"));
    }
    if cpu.overhead_budget.is_some_and(|percent| percent.is_nan() || percent <= 0.0) {
        return Err(Error::invalid("the overhead budget must be above 0 percent"));
    }
    Ok(())
}

fn check_lock_rate(rate: std::time::Duration) -> Result<()> {
    match rate.as_secs() > 3600 {
        true => Err(crate::Error::invalid("the rate of lock profiling is an hour at most")),
        false => Ok(()),
    }
}

/// Always-on sampling at a low rate, stored in windows, see [`ProfilerBuilder::continuous`].
#[cfg(feature = "continuous")]
#[derive(Clone, Debug)]
pub struct Continuous {
    frequency: u32,
    window: Duration,
    keep: Duration,
}

#[cfg(feature = "continuous")]
impl Default for Continuous {
    /// 19 Hz, and the last five minutes in windows of ten seconds.
    fn default() -> Self {
        Self { frequency: 19, window: Duration::from_secs(10), keep: Duration::from_secs(300) }
    }
}

#[cfg(feature = "continuous")]
impl Continuous {
    /// Sets the samples per second of CPU time.
    pub fn frequency(mut self, hertz: u32) -> Self {
        self.frequency = hertz;
        self
    }

    /// Sets the length of one window, 100 ms or more. Profiles of the past consist of whole windows.
    pub fn window(mut self, length: Duration) -> Self {
        self.window = length;
        self
    }

    /// Sets how far back samples are kept. All windows together may take the memory budget, but at most 32 MiB, and
    /// each needs 32 KiB: to keep more than a thousand windows, make them longer.
    pub fn keep(mut self, span: Duration) -> Self {
        self.keep = span;
        self
    }

    fn start(
        self,
        cpu: &flamelet_capture::cpu::Options,
    ) -> Result<(flamelet_capture::cpu::Recent, Duration)> {
        let mut options = flamelet_capture::cpu::RecentOptions::default();
        let windows = self.keep.as_nanos().div_ceil(self.window.as_nanos().max(1));
        options.window = self.window;
        options.keep = usize::try_from(windows).unwrap_or(usize::MAX);
        options.sampling = cpu.clone();
        options.sampling.frequency = self.frequency;
        options.sampling.timeline = false;
        // All windows share this budget.
        options.sampling.memory_budget = cpu.memory_budget.min(32 << 20);
        Ok((flamelet_capture::cpu::start_recent(&options)?, self.keep))
    }
}

#[cfg(feature = "continuous")]
impl ProfilerBuilder {
    /// Samples all the time at a low rate, so that [`Profiler::last`] and `?last=60` return immediately.
    pub fn continuous(mut self, continuous: Continuous) -> Self {
        self.continuous = Some(continuous);
        self
    }
}

/// Starts to write the history, with the profiler's labels and names.
#[cfg(feature = "history")]
fn start_history(
    history: crate::history::History,
    settings: &Settings,
    symbols: &Arc<Symbols>,
) -> Result<crate::history::HistoryThread> {
    let symbols = settings.symbolize.then(|| symbols.clone());
    let needs = crate::history::RecorderNeeds { labels: settings.labels.clone(), symbols };
    crate::history::HistoryThread::start(history, needs, &settings.cpu, settings.shutdown_timeout)
}

fn program_name() -> String {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(|path| path.file_name());
    name.map_or_else(|| "service".into(), |name| name.to_string_lossy().into_owned())
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use std::time::Duration;

    #[test]
    fn options_that_make_no_sense_are_refused_at_the_start() {
        for builder in [
            Profiler::builder().frequency(0),
            Profiler::builder().frequency(1_000_000),
            Profiler::builder().overhead_budget(f64::NAN),
            Profiler::builder().max_duration(Duration::ZERO),
            Profiler::builder().max_frequency(0),
            Profiler::builder().max_captures(0),
            Profiler::builder().max_image_width(0),
            Profiler::builder().max_depth(0),
            Profiler::builder().lock_rate(Duration::MAX),
        ] {
            let error = builder.start().expect_err("makes no sense");
            assert_eq!(error.kind(), ErrorKind::InvalidOption);
            assert!(!error.to_string().contains('\n'));
        }
        let profiler = Profiler::builder().name("checkout").start().expect("the defaults are good");
        assert_eq!(profiler.name(), "checkout");
    }
}
