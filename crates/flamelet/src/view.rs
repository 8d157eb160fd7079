//! The web viewer inside the service, at `/debug/pprof/view/`.

use std::time::Duration;

use axum::Router;
#[cfg(all(feature = "heap", target_os = "linux"))]
use flamelet_view::HeapQuestion;
use flamelet_view::{Source, Take, Taken};

use crate::Profiler;

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
    fn within_caps<T>(&self, seconds: u32, capture: impl FnOnce() -> crate::Result<T>) -> Result<T, String> {
        let limits = self.profiler.limits();
        let most = limits.max_duration.as_secs();
        if seconds == 0 || u64::from(seconds) > most {
            return Err(format!("seconds must be 1 to {most} (the cap of this service), not {seconds}"));
        }
        let permit = self.profiler.permit().ok_or_else(|| {
            format!("{} captures are running already, which is the cap of this service", limits.max_captures)
        })?;
        let captured = capture();
        drop(permit);
        captured.map_err(|error| error.to_string())
    }
}

impl Take for Live {
    fn take(&self, seconds: u32) -> Result<Taken, String> {
        let length = Duration::from_secs(seconds.into());
        let profile = self.within_caps(seconds, || self.profiler.cpu(length).run())?;
        Ok(Taken { name: format!("{} · CPU, {seconds} s", self.profiler.name()), profile })
    }

    #[cfg(all(feature = "heap", target_os = "linux"))]
    fn has_heap(&self) -> bool {
        self.profiler.shared().has_heap
    }

    #[cfg(all(feature = "heap", target_os = "linux"))]
    fn take_heap(&self, question: HeapQuestion, seconds: u32) -> Result<Taken, String> {
        let profile = self.within_caps(seconds, || {
            let heap = self.profiler.heap()?;
            Ok(match question {
                HeapQuestion::InUse => heap.in_use(),
                HeapQuestion::Lifetime => heap.lifetime(),
                HeapQuestion::Freed => heap.freed(),
                HeapQuestion::Peak => heap.peak(),
                HeapQuestion::Growth => {
                    std::thread::sleep(Duration::from_secs(seconds.into()));
                    self.profiler.heap()?.growth(&heap)
                }
            })
        })?;
        Ok(Taken { name: format!("{} · {}", self.profiler.name(), question.name()), profile })
    }
}
