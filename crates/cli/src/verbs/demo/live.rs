//! The demo's service as a live source for the viewer: it is busy only while it is profiled.

use std::net::SocketAddr;
use std::time::Duration;

use flamelet::Profiler;
use flamelet_profile::HeapView;
use flamelet_view::{CancelToken, Error, Take, Taken};

use super::load::Load;

pub(super) struct Demo {
    profiler: Profiler,
    address: SocketAddr,
}

impl Demo {
    pub(super) fn new(profiler: Profiler, address: SocketAddr) -> Self {
        Self { profiler, address }
    }

    /// Runs `work` while clients keep the service busy.
    fn under_load<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let load = Load::start(self.address).map_err(|error| Error::unreadable(error.to_string()))?;
        let done = work();
        load.stop();
        done.map_err(|error| Error::unreadable(error.to_string()))
    }
}

impl Take for Demo {
    fn take(&self, seconds: u32, cancel: &CancelToken) -> Result<Taken, Error> {
        let profile = self.under_load(|| {
            let capture = self.profiler.start()?;
            cancel.is_wanted_after(Duration::from_secs(seconds.into()));
            Ok(capture.finish())
        })?;
        Ok(Taken { name: format!("cpu, {seconds} s"), profile })
    }

    fn has_heap(&self) -> bool {
        true
    }

    fn take_heap(&self, view: HeapView, seconds: u32, cancel: &CancelToken) -> Result<Taken, Error> {
        let profile = self.under_load(|| {
            let now = self.profiler.heap()?;
            if view != HeapView::Growth {
                return Ok(now.view(view));
            }
            cancel.is_wanted_after(Duration::from_secs(seconds.into()));
            Ok(self.profiler.heap()?.growth(&now))
        })?;
        Ok(Taken { name: format!("heap: {}", view.endpoint()), profile })
    }
}
