//! The rules for requests, as plain data: reading a request needs no running profiler.

use std::time::Duration;

use flamelet_capture::profile::moment;

use crate::{Limits, Profiler};

/// What a service offers, and what clients may request.
pub(super) struct Rules<'a> {
    /// The prefix of all endpoints.
    pub(super) prefix: &'a str,
    /// The service's name.
    pub(super) name: &'a str,
    pub(super) limits: &'a Limits,
    /// After which time something in front of the service ends requests, if that is known.
    pub(super) timeout: Option<Duration>,
    /// Whether there is a web viewer next to the endpoints.
    pub(super) has_viewer: bool,
    /// Samples per second, if a request to Go's endpoint does not say.
    pub(super) frequency: u32,
    /// Why there are no CPU profiles, if there are none.
    pub(super) cpu: Result<(), &'static str>,
    /// How far back samples are kept, or why they are not.
    pub(super) past: Result<Duration, &'static str>,
    /// Why there is no history, if there is none.
    pub(super) history: Result<(), &'static str>,
    /// The present moment, in nanoseconds since 1970.
    pub(super) now: i64,
    /// Why there are no heap profiles, if there are none.
    pub(super) heap: Result<(), &'static str>,
    /// Why there are no lock profiles, if there are none.
    pub(super) locks: Result<(), &'static str>,
    /// Whether there ever was a task.
    pub(super) has_tasks: bool,
    /// Whether there ever was a span.
    #[cfg_attr(not(all(feature = "tracing", target_os = "linux")), allow(dead_code, reason = "never, then"))]
    pub(super) has_spans: bool,
}

impl<'a> Rules<'a> {
    pub(super) fn of(profiler: &'a Profiler, prefix: &'a str, has_viewer: bool) -> Self {
        Self {
            prefix,
            name: profiler.name(),
            limits: profiler.limits(),
            timeout: None,
            has_viewer,
            frequency: frequency(profiler),
            cpu: cpu(),
            past: past(profiler),
            history: history(profiler),
            now: moment::now(),
            heap: heap(profiler),
            has_tasks: has_tasks(),
            has_spans: has_spans(),
            locks: if crate::locks::is_installed() {
                Ok(())
            } else {
                Err("no `flamelet::lock_profiling!()`")
            },
        }
    }
}

#[cfg(target_os = "linux")]
fn has_tasks() -> bool {
    flamelet_capture::wait::tasks::were_made()
}

#[cfg(not(target_os = "linux"))]
fn has_tasks() -> bool {
    false
}

#[cfg(feature = "tracing")]
fn has_spans() -> bool {
    crate::spans::were_made()
}

#[cfg(not(feature = "tracing"))]
fn has_spans() -> bool {
    false
}

#[cfg(feature = "cpu")]
fn frequency(profiler: &Profiler) -> u32 {
    profiler.shared().settings.cpu.frequency
}

#[cfg(not(feature = "cpu"))]
fn frequency(_: &Profiler) -> u32 {
    0
}

fn cpu() -> Result<(), &'static str> {
    match cfg!(feature = "cpu") {
        true => Ok(()),
        false => Err("CPU profiling is not compiled into this service (feature `cpu` of flamelet)"),
    }
}

#[cfg(feature = "continuous")]
fn past(profiler: &Profiler) -> Result<Duration, &'static str> {
    profiler.remembered().ok_or(
        "continuous sampling is not enabled in this service, so there is no `last`; ask with `seconds` instead",
    )
}

#[cfg(not(feature = "continuous"))]
fn past(_: &Profiler) -> Result<Duration, &'static str> {
    Err("continuous sampling is not compiled into this service (feature `continuous` of flamelet), \
         so there is no `last`; ask with `seconds` instead")
}

#[cfg(feature = "history")]
fn history(profiler: &Profiler) -> Result<(), &'static str> {
    let folder = profiler.history_folder();
    folder.map(drop).ok_or("this service keeps no history, so there is no `from`; ask with `seconds` instead")
}

#[cfg(not(feature = "history"))]
fn history(_: &Profiler) -> Result<(), &'static str> {
    Err(
        "a history is not compiled into this service (feature `history` of flamelet), so there is no `from`; \
         ask with `seconds` instead",
    )
}

#[cfg(all(feature = "heap", target_os = "linux"))]
fn heap(profiler: &Profiler) -> Result<(), &'static str> {
    use crate::heap_sampling::{STOPPED, not_enabled};

    match (profiler.shared().has_heap, flamelet_capture::heap::is_running()) {
        (true, true) => Ok(()),
        (true, false) => Err(STOPPED),
        (false, _) => Err(not_enabled()),
    }
}

#[cfg(not(all(feature = "heap", target_os = "linux")))]
fn heap(_: &Profiler) -> Result<(), &'static str> {
    Err("heap profiling is not compiled into this service (feature `heap` of flamelet, on Linux)")
}
