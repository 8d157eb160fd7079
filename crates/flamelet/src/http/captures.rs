//! The captures behind the endpoints: each waits on its own thread, and leaves making its profile to the workshop.

use std::sync::Arc;
#[cfg(any(feature = "cpu", target_os = "linux"))]
use std::time::Duration;
#[cfg(target_os = "linux")]
use std::time::Instant;

#[cfg(all(feature = "heap", target_os = "linux"))]
use flamelet_capture::profile::HeapView;
use flamelet_capture::profile::Profile;
#[cfg(target_os = "linux")]
use flamelet_capture::wait::Rows;

use super::answer::Refusal;
use super::plan::Capture;
use crate::Profiler;
#[cfg(target_os = "linux")]
use crate::profiler::count;
#[cfg(all(feature = "tracing", target_os = "linux"))]
use crate::spans;
#[cfg(target_os = "linux")]
use crate::waits::{look_around, task_and_thread_profile, wall_profile};
use crate::work::background::Cancel;

/// Work for the workshop, which uses the CPU and does not wait.
pub(super) type Make<T> = Box<dyn FnOnce() -> Result<T, Refusal> + Send>;

/// What is left to do after a capture, or why there is none.
type Taken = Result<Make<Profile>, Refusal>;

/// Runs a capture. Returns a function that makes its profile.
pub(super) fn take(profiler: &Profiler, capture: Capture, cancel: &Arc<Cancel>) -> Taken {
    match capture {
        #[cfg(feature = "cpu")]
        Capture::Cpu { seconds, frequency } => cpu(profiler, seconds, frequency, cancel),
        #[cfg(feature = "continuous")]
        Capture::Recent { seconds } => {
            let profiler = profiler.clone();
            Ok(Box::new(move || Ok(profiler.last(Duration::from_secs(seconds))?)))
        }
        #[cfg(feature = "history")]
        Capture::Range { kind, from, to } => {
            let profiler = profiler.clone();
            Ok(Box::new(move || Ok(profiler.windows_between(kind, from, to)?)))
        }
        #[cfg(all(feature = "heap", target_os = "linux"))]
        Capture::Heap { view, seconds } => heap(profiler, view, seconds, cancel),
        #[cfg(all(feature = "heap", target_os = "linux"))]
        Capture::Growth { seconds, windows } => growth(profiler, seconds, windows, cancel),
        #[cfg(target_os = "linux")]
        Capture::Waits { view, seconds } => {
            let make = move |profiler: &Profiler, rows: &_| view.profile(profiler, rows);
            counts((profiler, cancel), seconds, move || view.rows(), Rows::since, make)
        }
        #[cfg(target_os = "linux")]
        Capture::Wall { seconds, frequency } => {
            let looked = look_around(cancel, Duration::from_secs(seconds), frequency);
            let clock = looked.inspect_err(|_| count(&profiler.shared().counters.cancelled))?;
            served(profiler, |profiler| wall_profile(profiler, clock))
        }
        #[cfg(target_os = "linux")]
        Capture::Tasks => served(profiler, task_and_thread_profile),
        #[cfg(all(feature = "tracing", target_os = "linux"))]
        Capture::Spans { seconds } => {
            counts((profiler, cancel), seconds, spans::rows, spans::SpanCounts::since, spans::profile)
        }
        Capture::Empty(kind) => Ok(Box::new(move || Ok(super::empty::profile(kind)))),
        // Such a request is refused when it is read, and never gets this far.
        #[allow(unreachable_patterns, reason = "with every feature on Linux, nothing is missing")]
        _ => {
            let _ = (profiler, cancel);
            Err(Refusal::forbidden("this profile is not compiled into this service"))
        }
    }
}

#[cfg(feature = "cpu")]
fn cpu(profiler: &Profiler, seconds: u64, frequency: u32, cancel: &Arc<Cancel>) -> Taken {
    let request = profiler.cpu(Duration::from_secs(seconds)).frequency(frequency);
    let capture = request.sharing_memory().start()?;
    cancel.sleep(Duration::from_secs(seconds))?;
    let cancel = cancel.clone();
    Ok(Box::new(move || Ok(capture.finish_while(|| !cancel.is_cancelled())?)))
}

#[cfg(all(feature = "heap", target_os = "linux"))]
fn heap(profiler: &Profiler, view: HeapView, seconds: Option<u64>, cancel: &Cancel) -> Taken {
    let profiler = profiler.clone();
    let Some(seconds) = seconds else {
        return Ok(Box::new(move || Ok(profiler.heap()?.view(view))));
    };
    let theirs = profiler.clone();
    let first = crate::work::workshop::run(move || theirs.heap())?;
    wait(&profiler, cancel, Duration::from_secs(seconds))?;
    Ok(Box::new(move || {
        let second = profiler.heap()?;
        Ok(match view {
            HeapView::Allocated => second.allocated_since(&first),
            _ => second.since(&first),
        })
    }))
}

#[cfg(all(feature = "heap", target_os = "linux"))]
fn growth(profiler: &Profiler, seconds: u64, windows: Option<usize>, cancel: &Cancel) -> Taken {
    let (time, windows) = (Duration::from_secs(seconds), windows.unwrap_or(crate::heap::DEFAULT_WINDOWS));
    let moments = profiler.watch_moments(time, windows, |time| wait(profiler, cancel, time))?;
    let profiler = profiler.clone();
    Ok(Box::new(move || Ok(profiler.growth_of(&moments)?)))
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
) -> Taken {
    let before = match seconds.map(Duration::from_secs) {
        None => None,
        Some(time) => {
            let (before, start) = (read(), Instant::now());
            wait(profiler, cancel, time)?;
            // Less if the service has ended meanwhile.
            Some((before, start.elapsed().min(time)))
        }
    };
    served(profiler, move |profiler| {
        let counts = before.iter().fold(read(), |counts, (before, _)| since(counts, before));
        let mut profile = make(profiler, &counts);
        let time = before.map_or(Duration::ZERO, |(_, time)| time);
        profile.header.duration_nanos = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        profile
    })
}

/// Lets the workshop make a profile, which counts as served then.
#[cfg(target_os = "linux")]
fn served(profiler: &Profiler, make: impl FnOnce(&Profiler) -> Profile + Send + 'static) -> Taken {
    let profiler = profiler.clone();
    Ok(Box::new(move || {
        let profile = make(&profiler);
        count(&profiler.shared().counters.served);
        Ok(profile)
    }))
}

/// Waits, and counts the capture as cancelled when its client is gone.
#[cfg(target_os = "linux")]
fn wait(profiler: &Profiler, cancel: &Cancel, time: Duration) -> crate::Result<()> {
    cancel.sleep(time).inspect_err(|_| count(&profiler.shared().counters.cancelled))
}
