//! The web viewer inside the service, at `/debug/pprof/view/`.

use std::time::Duration;

use axum::Router;
use flamelet_capture::profile::Profile;
#[cfg(all(feature = "heap", target_os = "linux"))]
use flamelet_view::HeapQuestion;
use flamelet_view::{Asker, Error, ErrorKind, Source, Take, Taken};

use crate::Profiler;
use crate::profiler::{Permit, count};

/// The viewer of a live service: the page takes profiles when its reader asks for one. The viewer keeps the
/// last few of them in memory.
pub(crate) fn router(profiler: Profiler) -> Router {
    flamelet_view::router(Source::live(Vec::new(), Live { profiler }))
}

struct Live {
    profiler: Profiler,
}

impl Live {
    /// Runs a capture of so many seconds within the service's caps.
    fn within_caps<T>(&self, seconds: u32, capture: impl FnOnce() -> Result<T, String>) -> Result<T, Error> {
        let permit = self.permit(seconds).inspect_err(|_| count(&self.profiler.shared().counters.refused))?;
        let captured = capture();
        drop(permit);
        Ok(captured?)
    }

    fn permit(&self, seconds: u32) -> Result<Permit, Error> {
        let limits = self.profiler.limits();
        let most = limits.max_duration.as_secs();
        if seconds == 0 || u64::from(seconds) > most {
            let message = format!("seconds must be 1 to {most} (the cap of this service), not {seconds}");
            return Err(Error::new(ErrorKind::BadRequest, message));
        }
        self.profiler.permit().ok_or_else(|| {
            let most = limits.max_captures;
            let message = format!("{most} captures are running already, which is the cap of this service");
            Error::new(ErrorKind::Busy, message)
        })
    }

    fn cpu(&self, seconds: u32, asker: &Asker) -> Result<Profile, String> {
        let length = Duration::from_secs(seconds.into());
        let request = self.profiler.cpu(length).sharing_memory();
        let capture = request.start().map_err(|error| error.to_string())?;
        wait(length, asker)?;
        let is_there = || asker.is_there_after(Duration::ZERO);
        capture.finish_while(is_there).map_err(|error| error.to_string())
    }

    #[cfg(all(feature = "heap", target_os = "linux"))]
    fn heap(&self, question: HeapQuestion, seconds: u32, asker: &Asker) -> Result<Profile, String> {
        let heap = || self.profiler.heap().map_err(|error| error.to_string());
        let now = heap()?;
        Ok(match question {
            HeapQuestion::InUse => now.in_use(),
            HeapQuestion::Lifetime => now.lifetime(),
            HeapQuestion::Freed => now.freed(),
            HeapQuestion::Peak => now.peak(),
            HeapQuestion::Growth => {
                let cancelled = &self.profiler.shared().counters.cancelled;
                wait(Duration::from_secs(seconds.into()), asker).inspect_err(|_| count(cancelled))?;
                heap()?.growth(&now)
            }
        })
    }
}

impl Take for Live {
    fn take(&self, seconds: u32, asker: &Asker) -> Result<Taken, Error> {
        let profile = self.within_caps(seconds, || self.cpu(seconds, asker))?;
        Ok(Taken { name: format!("{} · CPU, {seconds} s", self.profiler.name()), profile })
    }

    #[cfg(all(feature = "heap", target_os = "linux"))]
    fn has_heap(&self) -> bool {
        self.profiler.shared().has_heap
    }

    #[cfg(all(feature = "heap", target_os = "linux"))]
    fn take_heap(&self, question: HeapQuestion, seconds: u32, asker: &Asker) -> Result<Taken, Error> {
        let profile = self.within_caps(seconds, || self.heap(question, seconds, asker))?;
        Ok(Taken { name: format!("{} · {}", self.profiler.name(), question.name()), profile })
    }
}

/// Nobody looks at the profile of an asker that is gone.
fn wait(time: Duration, asker: &Asker) -> Result<(), String> {
    if asker.is_there_after(time) { Ok(()) } else { Err("nobody waits for the profile any more".to_owned()) }
}
