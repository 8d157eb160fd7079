//! The profiler of a service: its options, and all state that is shared.

mod builder;
#[cfg(feature = "cpu")]
mod cpu;
#[cfg(any(feature = "cpu", feature = "http"))]
mod ending;
mod limits;
mod metrics;
#[cfg(feature = "http")]
mod permit;
#[cfg(feature = "push")]
mod push;
#[cfg(feature = "history")]
mod range;
#[cfg(feature = "http")]
mod unread;

#[cfg(feature = "continuous")]
pub use builder::Continuous;
pub use builder::ProfilerBuilder;
#[cfg(feature = "cpu")]
pub use cpu::{CpuCapture, CpuRequest, CpuTask};
pub use limits::Limits;
pub use metrics::Metrics;

#[cfg(any(feature = "heap", feature = "http"))]
pub(crate) use metrics::count;
#[cfg(feature = "view")]
pub(crate) use permit::Permit;
#[cfg(feature = "http")]
pub(crate) use unread::Unread;

use std::fmt;
use std::sync::Arc;

use flamelet_capture::profile::Profile;

use crate::symbols::Symbols;
use metrics::RequestCounters;

/// The profiler of a service. Cheap to clone: clones share everything.
///
/// ```no_run
/// use std::time::Duration;
///
/// let profiler = flamelet::Profiler::builder().name("checkout").start()?;
/// let profile = profiler.cpu(Duration::from_secs(10)).run()?;
/// flamelet::write_pprof(&profile, std::fs::File::create("profile.pb.gz")?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Nothing runs in the process until a profile is requested, unless continuous sampling was chosen.
#[derive(Clone)]
pub struct Profiler {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) counters: RequestCounters,
    symbols: Arc<Symbols>,
    #[cfg(any(feature = "cpu", feature = "http"))]
    ending: ending::Ending,
    #[cfg(feature = "http")]
    pub(crate) requests: crate::anatomy::Requests,
    /// Whether allocations are sampled.
    #[cfg(all(feature = "heap", target_os = "linux"))]
    pub(crate) has_heap: bool,
    #[cfg(feature = "continuous")]
    recent: Option<(flamelet_capture::cpu::Recent, std::time::Duration)>,
    #[cfg(feature = "history")]
    history: Option<crate::history::HistoryThread>,
    /// After the history, so that its last window is sent when the profiler ends.
    #[cfg(feature = "push")]
    push: crate::push::Receivers,
}

/// The options that the profiler was built with.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) symbolize: bool,
    pub(crate) symbol_memory: u64,
    #[cfg(feature = "view")]
    pub(crate) view_memory: usize,
    pub(crate) limits: Limits,
    /// The time that a thread waits for locks between two samples; zero for no samples.
    pub(crate) lock_rate: std::time::Duration,
    /// A poll that takes longer blocks the executor.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "nothing is watched there"))]
    pub(crate) blocked_threshold: std::time::Duration,
    /// Whether each poll that does is a `tracing` event.
    #[cfg(feature = "tracing")]
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "nothing is watched there"))]
    pub(crate) blocked_events: bool,
    /// How long the end of the profiler waits for the history's last window, and then for its receivers.
    #[cfg(feature = "history")]
    pub(crate) shutdown_timeout: std::time::Duration,
    #[cfg(feature = "cpu")]
    pub(crate) cpu: flamelet_capture::cpu::Options,
    #[cfg(all(feature = "heap", target_os = "linux"))]
    pub(crate) heap: Option<crate::heap_sampling::HeapSettings>,
}

impl Profiler {
    /// Returns a builder for a profiler.
    pub fn builder() -> ProfilerBuilder {
        ProfilerBuilder::new()
    }

    /// Returns the service's name.
    pub fn name(&self) -> &str {
        &self.shared.settings.name
    }

    /// Returns the limits on HTTP requests.
    pub fn limits(&self) -> &Limits {
        &self.shared.settings.limits
    }

    /// Returns what the profiler has done so far, and what it cost.
    pub fn metrics(&self) -> Metrics {
        let metrics = self.shared.counters.snapshot(self.shared.symbols.memory());
        #[cfg(feature = "push")]
        let metrics = self.with_push(metrics);
        metrics
    }

    /// Fills in the names of functions, files and lines in a profile of this process, and caches them for the next
    /// one.
    pub fn symbolize(&self, profile: &mut Profile) {
        self.shared.symbols.symbolize(profile);
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Adds the service's name and labels to a captured profile, and names if `symbolize` is set.
    #[cfg(any(feature = "cpu", feature = "heap", target_os = "linux"))]
    pub(crate) fn complete(&self, mut profile: Profile, symbolize: bool) -> Profile {
        let settings = &self.shared.settings;
        profile.add_comment(&format!("service {}", settings.name));
        for (key, text) in &settings.labels {
            profile.label_all(key, text);
        }
        if symbolize {
            self.symbolize(&mut profile);
        }
        profile
    }

    #[cfg(any(feature = "http", target_os = "linux"))]
    pub(crate) fn symbols(&self) -> &Symbols {
        &self.shared.symbols
    }
}

impl fmt::Debug for Profiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profiler").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}
