//! Metrics: what the profiler has done, and what it cost.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// What the profiler has done so far, see [`Profiler::metrics`](crate::Profiler::metrics).
///
/// A process has one sampler, so the numbers of samples cover the whole process since its start. The numbers of
/// captures and symbols cover this profiler and its clones.
///
/// This is a plain snapshot: pass the numbers to the service's metrics system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// CPU samples taken.
    pub samples: u64,
    /// CPU samples lost because the buffer had no free slot. Samples that a single capture could not keep, because of
    /// its memory budget for instance, are counted only in the quality of its profile, which also includes these.
    pub lost: u64,
    /// CPU samples whose stack does not reach the start of its thread.
    pub truncated: u64,
    /// CPU time that sampling used, signals included.
    pub overhead: Duration,
    /// The current sampling frequency in hertz; 0 when CPU time is not being sampled.
    pub frequency: u32,
    /// The engine that currently samples CPU time; empty when none does.
    pub engine: &'static str,
    /// Captures that finished.
    pub captures_served: u64,
    /// Requests that were refused: bad parameters, not authorized, too many at once.
    pub captures_refused: u64,
    /// Captures that ended early because the client went away: over HTTP, by dropping the future, or by dropping a
    /// [`CpuCapture`](crate::CpuCapture) that was not finished.
    pub captures_cancelled: u64,
    /// Captures that failed.
    pub captures_failed: u64,
    /// Requests in progress.
    pub captures_running: usize,
    /// Polls of tasks that blocked the executor, in the whole process since its start.
    pub blocked_polls: u64,
    /// How long they took together.
    pub blocked_time: Duration,
    /// The same polls by how long they took. Each entry counts the polls up to one of [`Metrics::BLOCKED_BOUNDS`] that are
    /// longer than the bound before; the last entry counts those above all bounds. For a Prometheus histogram, add the entries
    /// up: its buckets are cumulative.
    pub blocked_lengths: [u64; 13],
    /// Bytes that cached symbols take.
    pub symbol_memory: usize,
    /// Bytes of finished answers that wait for slow clients, under axum and `flamelet::serve`.
    pub unread_bytes: usize,
    /// Bytes that the web viewer keeps; if a profiler has several viewers, those of the one that reported last.
    pub view_memory: usize,
    /// Windows that receivers have acknowledged, all receivers together.
    pub pushed: u64,
    /// Requests that failed and were tried again.
    pub push_retries: u64,
    /// Windows that a receiver did not get, because it refused them or they became too old; they stay in the history. Windows
    /// that the history removed before they were sent count as one each time.
    pub push_dropped: u64,
    /// The age of the oldest window that a receiver does not have yet; zero if all receivers have everything.
    pub push_lag: Duration,
}

impl Metrics {
    /// The upper bounds of the entries of [`Metrics::blocked_lengths`]: from 1 ms to 5 s.
    #[cfg(target_os = "linux")]
    pub const BLOCKED_BOUNDS: [Duration; 12] = flamelet_capture::wait::tasks::long_polls::BOUNDS;
    /// No polls are watched on this system.
    #[cfg(not(target_os = "linux"))]
    pub const BLOCKED_BOUNDS: [Duration; 12] = [Duration::MAX; 12];
}

/// Counters of how requests ended.
#[derive(Debug, Default)]
pub(crate) struct RequestCounters {
    pub(crate) served: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) running: AtomicUsize,
    pub(crate) unread: AtomicUsize,
    pub(crate) view: AtomicUsize,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl RequestCounters {
    pub(crate) fn snapshot(&self, symbol_memory: usize) -> Metrics {
        let metrics = Metrics {
            captures_served: self.served.load(Ordering::Relaxed),
            captures_refused: self.refused.load(Ordering::Relaxed),
            captures_cancelled: self.cancelled.load(Ordering::Relaxed),
            captures_failed: self.failed.load(Ordering::Relaxed),
            captures_running: self.running.load(Ordering::Relaxed),
            symbol_memory,
            unread_bytes: self.unread.load(Ordering::Relaxed),
            view_memory: self.view.load(Ordering::Relaxed),
            ..Metrics::default()
        };
        with_sampler(with_polls(metrics))
    }
}

#[cfg(target_os = "linux")]
fn with_polls(metrics: Metrics) -> Metrics {
    use flamelet_capture::wait::tasks::long_polls;

    let (blocked_time, blocked_lengths) = (Duration::from_nanos(long_polls::nanos()), long_polls::lengths());
    Metrics { blocked_polls: blocked_lengths.iter().sum(), blocked_time, blocked_lengths, ..metrics }
}

#[cfg(not(target_os = "linux"))]
fn with_polls(metrics: Metrics) -> Metrics {
    metrics
}

#[cfg(feature = "cpu")]
fn with_sampler(metrics: Metrics) -> Metrics {
    let status = flamelet_capture::cpu::status();
    Metrics {
        samples: status.samples,
        lost: status.lost,
        truncated: status.truncated,
        overhead: Duration::from_nanos(status.own_cpu_nanos),
        frequency: status.frequency,
        engine: status.engine.map_or("", flamelet_capture::cpu::Engine::name),
        ..metrics
    }
}

#[cfg(not(feature = "cpu"))]
fn with_sampler(metrics: Metrics) -> Metrics {
    metrics
}
