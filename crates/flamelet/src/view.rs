//! The web viewer inside the service, at `/debug/pprof/view/`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
#[cfg(all(feature = "heap", target_os = "linux"))]
use flamelet_capture::profile::HeapView;
use flamelet_capture::profile::Profile;
#[cfg(feature = "history")]
use flamelet_capture::profile::{Budget, Limits};
#[cfg(feature = "history")]
use flamelet_store::{Query, Reader};
#[cfg(target_os = "linux")]
use flamelet_view::WaitKind;
use flamelet_view::{CancelToken, Error, ErrorKind, Memory, Source, Take, Taken};
#[cfg(feature = "history")]
use flamelet_view::{Course, Past, range_name};

use crate::Profiler;
#[cfg(feature = "history")]
use crate::history::CPU;
use crate::profiler::{Permit, count};
use crate::work::workshop;

#[cfg(feature = "history")]
const MILLISECOND: i64 = 1_000_000;

/// How often to check whether the viewer is still in use.
const LOOK: Duration = Duration::from_secs(15);

/// Returns the viewer of a live service, whose page takes profiles on request. It keeps the last few of them, and
/// what was computed from them, within the service's budget.
pub(crate) fn router(profiler: Profiler) -> (Router, Rest) {
    let memory = profiler.shared().settings.view_memory;
    let source = Source::live(Vec::new(), Live { profiler: profiler.clone() }).within(memory);
    #[cfg(feature = "history")]
    let source = match profiler.history_folder() {
        Some(_) => source.with_past(Box::new(OwnPast(Live { profiler: profiler.clone() }))),
        None => source,
    };
    let (router, memory) = flamelet_view::router_within(source);
    (router, Rest { memory, profiler, watching: Arc::default() })
}

/// Frees what the viewer keeps once it is no longer used.
#[derive(Clone)]
pub(crate) struct Rest {
    memory: Memory,
    profiler: Profiler,
    /// The process that has a thread for this; 0 for none. The child of a fork has none.
    watching: Arc<AtomicU32>,
}

impl Rest {
    /// Called after each answer: as soon as something is kept, a thread watches until nothing is.
    pub(crate) fn watch(&self) {
        if !self.has_work() {
            return;
        }
        let theirs = self.clone();
        if flamelet_capture::own_threads::spawn("flamelet-rest", move || theirs.wait()).is_err() {
            // The next answer tries again; the budget holds meanwhile.
            self.watching.store(0, Ordering::SeqCst);
        }
    }

    /// Returns whether something is kept that no thread watches yet; the caller's thread does from then on.
    fn has_work(&self) -> bool {
        let process = std::process::id();
        self.count() != 0 && self.watching.swap(process, Ordering::SeqCst) != process
    }

    fn wait(&self) {
        loop {
            std::thread::sleep(LOOK);
            self.memory.rest(Instant::now());
            if self.count() != 0 {
                continue;
            }
            self.watching.store(0, Ordering::SeqCst);
            // An answer that kept something just before the store has started no thread.
            if !self.has_work() {
                return;
            }
        }
    }

    /// Returns how many bytes the viewer keeps, and records it in the metrics.
    fn count(&self) -> usize {
        let bytes = self.memory.bytes();
        self.profiler.shared().counters.view.store(bytes, Ordering::Relaxed);
        bytes
    }
}

struct Live {
    profiler: Profiler,
}

impl Live {
    /// Runs a capture of this many seconds within the service's caps.
    fn within_caps<T>(&self, seconds: u32, capture: impl FnOnce() -> Result<T, String>) -> Result<T, Error> {
        let permit = self.permit(seconds).inspect_err(|_| count(&self.profiler.shared().counters.refused))?;
        let captured = capture();
        drop(permit);
        captured.map_err(Error::unreadable)
    }

    fn permit(&self, seconds: u32) -> Result<Permit, Error> {
        let limits = self.profiler.limits();
        let most = limits.max_duration.as_secs();
        if seconds == 0 || u64::from(seconds) > most {
            let message = format!("seconds must be 1 to {most} (the limit of this service), not {seconds}");
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        self.profiler.permit().ok_or_else(|| {
            let most = limits.max_captures;
            let message =
                format!("{most} captures are already running, the limit of this service; try again later");
            Error::new(ErrorKind::Busy, message)
        })
    }

    fn cpu(&self, seconds: u32, cancel: &CancelToken) -> Result<Profile, String> {
        let length = Duration::from_secs(seconds.into());
        let request = self.profiler.cpu(length).sharing_memory();
        let capture = request.start().map_err(|error| error.to_string())?;
        wait(length, cancel)?;
        Ok(workshop::run(move || capture.finish()))
    }

    #[cfg(target_os = "linux")]
    fn wall(&self, seconds: u32, cancel: &CancelToken) -> Result<Profile, String> {
        use crate::waits::{WALL_FREQUENCY, wall_profile};

        let (start, length) = (Instant::now(), Duration::from_secs(seconds.into()));
        let clock = flamelet_capture::wait::wall::WallClock::start();
        let mut clock = clock.map_err(|error| error.to_string())?;
        while start.elapsed() < length {
            clock.look();
            wait(Duration::from_secs(1) / WALL_FREQUENCY, cancel)?;
        }
        let profiler = self.profiler.clone();
        Ok(workshop::run(move || wall_profile(&profiler, clock)))
    }

    #[cfg(all(feature = "heap", target_os = "linux"))]
    fn heap(&self, view: HeapView, seconds: u32, cancel: &CancelToken) -> Result<Profile, String> {
        let profiler = self.profiler.clone();
        let now = in_workshop(move || profiler.heap())?;
        if view == HeapView::Growth {
            let cancelled = &self.profiler.shared().counters.cancelled;
            wait(Duration::from_secs(seconds.into()), cancel).inspect_err(|_| count(cancelled))?;
        }
        let profiler = self.profiler.clone();
        in_workshop(move || match view {
            HeapView::Growth => Ok(profiler.heap()?.growth(&now)),
            view => Ok(now.view(view)),
        })
    }
}

#[cfg(all(feature = "heap", target_os = "linux"))]
fn in_workshop<T: Send + 'static>(
    work: impl FnOnce() -> crate::Result<T> + Send + 'static,
) -> Result<T, String> {
    workshop::run(work).map_err(|error| error.to_string())
}

impl Take for Live {
    fn take(&self, seconds: u32, cancel: &CancelToken) -> Result<Taken, Error> {
        let profile = self.within_caps(seconds, || self.cpu(seconds, cancel))?;
        Ok(Taken { name: format!("{} · CPU, {seconds} s", self.profiler.name()), profile })
    }

    #[cfg(all(feature = "heap", target_os = "linux"))]
    fn has_heap(&self) -> bool {
        self.profiler.shared().has_heap
    }

    #[cfg(all(feature = "heap", target_os = "linux"))]
    fn take_heap(&self, view: HeapView, seconds: u32, cancel: &CancelToken) -> Result<Taken, Error> {
        let profile = self.within_caps(seconds, || self.heap(view, seconds, cancel))?;
        Ok(Taken { name: format!("{} · {}", self.profiler.name(), view.endpoint()), profile })
    }

    #[cfg(target_os = "linux")]
    fn has_requests(&self) -> bool {
        true
    }

    fn requests(&self) -> Result<String, Error> {
        Ok(self.profiler.requests_json())
    }

    #[cfg(target_os = "linux")]
    fn take_wait(&self, kind: WaitKind, seconds: u32, cancel: &CancelToken) -> Result<Taken, Error> {
        if kind == WaitKind::Wall {
            let profile = self.within_caps(seconds, || self.wall(seconds, cancel))?;
            return Ok(Taken { name: format!("{} · wall, {seconds} s", self.profiler.name()), profile });
        }
        let profile = self.within_caps(1, || {
            let profiler = self.profiler.clone();
            workshop::run(move || waiting(&profiler, kind)).map_err(|error| error.to_string())
        })?;
        Ok(Taken { name: format!("{} · {}", self.profiler.name(), kind.endpoint()), profile })
    }
}

/// The service's own history, for the page's time picker.
#[cfg(feature = "history")]
struct OwnPast(Live);

#[cfg(feature = "history")]
impl OwnPast {
    /// Reads something of the history within the service's caps.
    fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Profiler) -> crate::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let profiler = self.0.profiler.clone();
        self.0.within_caps(1, || workshop::run(move || read(&profiler)).map_err(|error| error.to_string()))
    }
}

#[cfg(feature = "history")]
impl Past for OwnPast {
    fn course(&self, parts: usize) -> Result<Course, Error> {
        self.read(move |profiler| course(profiler, parts))
    }

    fn range(&self, from: i64, to: i64) -> Result<Taken, Error> {
        let nanos = |milliseconds: i64| milliseconds.saturating_mul(MILLISECOND);
        let profile = self.read(move |profiler| profiler.windows_between(CPU, nanos(from), nanos(to)))?;
        Ok(Taken { name: range_name(from, to), profile })
    }
}

/// Returns the CPU time over all of the history.
#[cfg(feature = "history")]
fn course(profiler: &Profiler, parts: usize) -> crate::Result<Course> {
    let Some(folder) = profiler.history_folder() else { return Ok(Course::default()) };
    let (reader, budget) = (Reader::open(folder)?, Budget::new(Limits::SERVICE));
    let Some((from, to)) = reader.span(&budget)? else { return Ok(Course::default()) };
    let query = Query::new(CPU, i64::MIN, i64::MAX);
    let mut course = Course::new((from / MILLISECOND, to / MILLISECOND), parts, []);
    // Windows of CPU samples count samples and time.
    let mut each = |time: i64, _: &[(&str, &str)], values: &[i64]| {
        course.add(time / MILLISECOND, values.last().copied().unwrap_or(0));
    };
    reader.totals(&query, &budget, &mut each)?;
    Ok(course)
}

#[cfg(target_os = "linux")]
fn waiting(profiler: &Profiler, kind: WaitKind) -> crate::Result<Profile> {
    match kind {
        WaitKind::Block => profiler.block(),
        WaitKind::Mutex => profiler.mutex(),
        WaitKind::Await => Ok(profiler.awaits()),
        WaitKind::Blocked => Ok(profiler.blocked_polls()),
        // Not here, where all others would wait for it.
        WaitKind::Wall => profiler.wall(Duration::ZERO),
    }
}

/// Waits, and fails if the capture is cancelled meanwhile.
fn wait(time: Duration, cancel: &CancelToken) -> Result<(), String> {
    if cancel.is_wanted_after(time) { Ok(()) } else { Err("the client is gone".to_owned()) }
}
