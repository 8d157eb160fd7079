//! What the profiler has done, and what it cost.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// What the profiler has done so far, see [`Profiler::metrics`](crate::Profiler::metrics).
///
/// A process has one sampler, so what is said of samples is of the whole process since its start. What is said of
/// captures and symbols is of this profiler and its clones.
///
/// A plain snapshot: hand the numbers to whatever metrics system the service has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// CPU samples taken.
    pub samples: u64,
    /// CPU samples that found no free slot in the buffer. What one capture could not keep, because of its memory
    /// budget for instance, only that profile's own quality tells, which counts these too.
    pub lost: u64,
    /// CPU samples whose stack does not reach its thread's start.
    pub truncated: u64,
    /// CPU time that sampling used, signals included.
    pub overhead: Duration,
    /// The frequency at which CPU time is sampled right now in hertz; 0 when it is not.
    pub frequency: u32,
    /// What samples CPU time right now; empty when nothing does.
    pub engine: &'static str,
    /// Captures that were finished.
    pub captures_served: u64,
    /// Requests that were refused: bad parameters, no right, too many at once.
    pub captures_refused: u64,
    /// Captures that ended early because whoever asked went away: over HTTP, by dropping the future, or by dropping
    /// a [`CpuCapture`](crate::CpuCapture) that was not finished.
    pub captures_cancelled: u64,
    /// Captures that failed.
    pub captures_failed: u64,
    /// Requests that are being worked on right now.
    pub captures_running: usize,
    /// Bytes that remembered symbols take.
    pub symbol_memory: usize,
    /// Bytes of finished answers that wait for slow clients, under axum.
    pub unread_bytes: usize,
    /// Bytes that the web viewer keeps; of the last one, should a profiler have several.
    pub view_memory: usize,
}

/// Counts what requests came to.
#[derive(Debug, Default)]
pub(crate) struct Counters {
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

impl Counters {
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
        with_sampler(metrics)
    }
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
