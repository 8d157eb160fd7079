//! The captures behind the endpoints: each waits on its own thread, and leaves making its profile to the workshop.

use std::sync::Arc;

use flamelet_capture::profile::{HeapView, Profile};
#[cfg(target_os = "linux")]
use flamelet_capture::wait::Rows;

use super::answer::Refusal;
use super::plan::Capture;
use crate::Profiler;
#[cfg(target_os = "linux")]
use crate::profiler::count;
#[cfg(all(feature = "tracing", target_os = "linux"))]
use crate::spans;
use crate::task::Cancel;

/// Work for the workshop, which uses the CPU and does not wait.
pub(super) type Make<T> = Box<dyn FnOnce() -> Result<T, Refusal> + Send>;

/// Runs a capture. Returns a function that makes its profile.
pub(super) fn take(
    profiler: &Profiler,
    capture: Capture,
    cancel: &Arc<Cancel>,
) -> Result<Make<Profile>, Refusal> {
    match capture {
        Capture::Cpu { seconds, frequency } => cpu::take(profiler, seconds, frequency, cancel),
        Capture::Recent { seconds } => recent::take(profiler, seconds),
        Capture::Range { kind, from, to } => range::take(profiler, kind, from, to),
        Capture::Heap { view, seconds } => heap::take(profiler, view, seconds, cancel),
        Capture::Growth { seconds, windows } => heap::watch(profiler, seconds, windows, cancel),
        #[cfg(target_os = "linux")]
        Capture::Waits { view, seconds } => {
            let make = move |profiler: &Profiler, rows: &_| view.profile(profiler, rows);
            counts((profiler, cancel), seconds, move || view.rows(), Rows::since, make)
        }
        #[cfg(target_os = "linux")]
        Capture::Wall { seconds, frequency } => wall::take(profiler, seconds, frequency, cancel),
        #[cfg(target_os = "linux")]
        Capture::Tasks => {
            let profiler = profiler.clone();
            Ok(Box::new(move || {
                let profile = crate::waits::task_and_thread_profile(&profiler);
                count(&profiler.shared().counters.served);
                Ok(profile)
            }))
        }
        #[cfg(all(feature = "tracing", target_os = "linux"))]
        Capture::Spans { seconds } => {
            counts((profiler, cancel), seconds, spans::rows, spans::SpanCounts::since, spans::profile)
        }
        Capture::Empty(kind) => Ok(Box::new(move || Ok(super::empty::profile(kind)))),
    }
}

#[cfg(feature = "cpu")]
mod cpu {
    use std::time::Duration;

    use super::*;

    pub(super) fn take(
        profiler: &Profiler,
        seconds: u64,
        frequency: u32,
        cancel: &Arc<Cancel>,
    ) -> Result<Make<Profile>, Refusal> {
        let request = profiler.cpu(Duration::from_secs(seconds)).frequency(frequency);
        let capture = request.sharing_memory().start()?;
        cancel.sleep(Duration::from_secs(seconds))?;
        let cancel = cancel.clone();
        Ok(Box::new(move || Ok(capture.finish_while(|| !cancel.is_cancelled())?)))
    }
}

#[cfg(feature = "continuous")]
mod recent {
    use super::*;

    pub(super) fn take(profiler: &Profiler, seconds: u64) -> Result<Make<Profile>, Refusal> {
        let profiler = profiler.clone();
        Ok(Box::new(move || Ok(profiler.last(std::time::Duration::from_secs(seconds))?)))
    }
}

#[cfg(feature = "history")]
mod range {
    use super::*;

    pub(super) fn take(
        profiler: &Profiler,
        kind: &'static str,
        from: i64,
        to: i64,
    ) -> Result<Make<Profile>, Refusal> {
        let profiler = profiler.clone();
        Ok(Box::new(move || Ok(profiler.windows_between(kind, from, to)?)))
    }
}

#[cfg(all(feature = "heap", target_os = "linux"))]
mod heap {
    use std::time::Duration;

    use super::*;
    use crate::heap::DEFAULT_WINDOWS;
    use crate::workshop;

    pub(super) fn take(
        profiler: &Profiler,
        view: HeapView,
        seconds: Option<u64>,
        cancel: &Arc<Cancel>,
    ) -> Result<Make<Profile>, Refusal> {
        let profiler = profiler.clone();
        let Some(seconds) = seconds else {
            return Ok(Box::new(move || Ok(profiler.heap()?.view(view))));
        };
        let theirs = profiler.clone();
        let first = workshop::run(move || theirs.heap())?;
        wait(&profiler, cancel, Duration::from_secs(seconds))?;
        Ok(Box::new(move || {
            let second = profiler.heap()?;
            Ok(match view {
                HeapView::Allocated => second.allocated_since(&first),
                _ => second.since(&first),
            })
        }))
    }

    pub(super) fn watch(
        profiler: &Profiler,
        seconds: u64,
        windows: Option<usize>,
        cancel: &Arc<Cancel>,
    ) -> Result<Make<Profile>, Refusal> {
        let (time, windows) = (Duration::from_secs(seconds), windows.unwrap_or(DEFAULT_WINDOWS));
        let moments = profiler.watch_moments(time, windows, |time| wait(profiler, cancel, time))?;
        let profiler = profiler.clone();
        Ok(Box::new(move || Ok(profiler.growth_of(&moments)?)))
    }
}

#[cfg(target_os = "linux")]
mod wall {
    use super::*;
    use crate::waits::{look_around, wall_profile};

    pub(super) fn take(
        profiler: &Profiler,
        seconds: u64,
        frequency: u32,
        cancel: &Arc<Cancel>,
    ) -> Result<Make<Profile>, Refusal> {
        let counters = &profiler.shared().counters;
        let looked = look_around(cancel, std::time::Duration::from_secs(seconds), frequency);
        let clock = looked.inspect_err(|_| count(&counters.cancelled))?;
        let profiler = profiler.clone();
        Ok(Box::new(move || {
            let profile = wall_profile(&profiler, clock);
            count(&profiler.shared().counters.served);
            Ok(profile)
        }))
    }
}

/// Makes a profile of the counts since the start of the service, or of those of the next `seconds`: reads them, waits, and
/// lets the workshop read them again and subtract.
#[cfg(target_os = "linux")]
fn counts<C: Send + 'static>(
    (profiler, cancel): (&Profiler, &Cancel),
    seconds: Option<u64>,
    read: impl Fn() -> C + Send + 'static,
    since: fn(C, &C) -> C,
    make: impl FnOnce(&Profiler, &C) -> Profile + Send + 'static,
) -> Result<Make<Profile>, Refusal> {
    let before = match seconds {
        None => None,
        Some(seconds) => {
            let before = read();
            wait(profiler, cancel, std::time::Duration::from_secs(seconds))?;
            Some(before)
        }
    };
    let profiler = profiler.clone();
    Ok(Box::new(move || {
        let counts = before.iter().fold(read(), since);
        let mut profile = make(&profiler, &counts);
        profile.header.duration_nanos =
            seconds.map_or(0, |seconds| (seconds as i64).saturating_mul(1_000_000_000));
        count(&profiler.shared().counters.served);
        Ok(profile)
    }))
}

/// Waits, and counts the capture as cancelled when its client is gone.
#[cfg(target_os = "linux")]
fn wait(profiler: &Profiler, cancel: &Cancel, time: std::time::Duration) -> crate::Result<()> {
    cancel.sleep(time).inspect_err(|_| count(&profiler.shared().counters.cancelled))
}

// Captures that are not compiled in are refused when the request is read, and never get this far.

#[cfg(not(feature = "cpu"))]
mod cpu {
    use super::*;

    pub(super) fn take(_: &Profiler, _: u64, _: u32, _: &Arc<Cancel>) -> Result<Make<Profile>, Refusal> {
        Err(Refusal::forbidden("CPU profiling is not compiled into this service"))
    }
}

#[cfg(not(feature = "continuous"))]
mod recent {
    use super::*;

    pub(super) fn take(_: &Profiler, _: u64) -> Result<Make<Profile>, Refusal> {
        Err(Refusal::forbidden("continuous sampling is not compiled into this service"))
    }
}

#[cfg(not(feature = "history"))]
mod range {
    use super::*;

    pub(super) fn take(_: &Profiler, _: &'static str, _: i64, _: i64) -> Result<Make<Profile>, Refusal> {
        Err(Refusal::forbidden("a history is not compiled into this service"))
    }
}

#[cfg(not(all(feature = "heap", target_os = "linux")))]
mod heap {
    use super::*;

    pub(super) fn take(
        _: &Profiler,
        _: HeapView,
        _: Option<u64>,
        _: &Arc<Cancel>,
    ) -> Result<Make<Profile>, Refusal> {
        Err(Refusal::forbidden("heap profiling is not compiled into this service"))
    }

    pub(super) fn watch(
        profiler: &Profiler,
        _: u64,
        _: Option<usize>,
        cancel: &Arc<Cancel>,
    ) -> Result<Make<Profile>, Refusal> {
        take(profiler, HeapView::Growth, None, cancel)
    }
}
