//! The web viewer inside the service, at `/debug/pprof/view/`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use flamelet_view::{Source, Take, Taken};

use crate::Profiler;

/// The viewer keeps what it has taken in memory, so that is bounded.
const MOST_TAKEN: usize = 32;

/// The viewer of a live service: the page takes profiles when its reader asks for one.
pub(crate) fn router(profiler: Profiler) -> Router {
    flamelet_view::router(Source::live(Vec::new(), Live { profiler, taken: AtomicUsize::new(0) }))
}

struct Live {
    profiler: Profiler,
    taken: AtomicUsize,
}

impl Take for Live {
    fn take(&self, seconds: u32) -> Result<Taken, String> {
        let limits = self.profiler.limits();
        let most = limits.max_duration.as_secs();
        if seconds == 0 || u64::from(seconds) > most {
            return Err(format!("seconds must be 1 to {most} (the cap of this service), not {seconds}"));
        }
        let permit = self.profiler.permit().ok_or_else(|| {
            format!("{} captures are running already, which is the cap of this service", limits.max_captures)
        })?;
        if self.taken.fetch_add(1, Ordering::Relaxed) >= MOST_TAKEN {
            return Err(format!("the viewer has taken {MOST_TAKEN} profiles, and keeps no more in memory"));
        }
        let profile = self.profiler.cpu(Duration::from_secs(seconds.into())).run();
        drop(permit);
        let profile = profile.map_err(|error| error.to_string())?;
        Ok(Taken { name: format!("{} · CPU, {seconds} s", self.profiler.name()), profile })
    }
}
