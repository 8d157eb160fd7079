//! Heap growth over a period of time.

use std::time::Duration;

use flamelet_capture::heap::Windows;
use flamelet_capture::profile::Profile;

use super::not_enabled;
use crate::Profiler;
use crate::profiler;
use crate::{Error, ErrorKind, Result};

/// The default number of windows in which growth is watched.
pub const DEFAULT_WINDOWS: usize = 8;

impl Profiler {
    /// Watches the heap for `time`, in `windows` parts, and returns what grew, the largest first. With three or more
    /// windows, the label `steady` separates what grew window after window, as a leak does (`yes`), from what did not
    /// (`no`); the label `trend` says how clearly, in percent.
    ///
    /// Blocks the calling thread for that time. For growth over days, keep a [`Windows`](super::Windows) and call
    /// [`observe`](super::Windows::observe) now and then.
    pub fn heap_growth(&self, time: Duration, windows: usize) -> Result<Profile> {
        let moments = self.watch_moments(time, windows, |time| {
            std::thread::sleep(time);
            Ok(())
        })?;
        self.growth_of(&moments)
    }

    /// Watches the heap; `wait` may return early with an error.
    pub(crate) fn watch_moments(
        &self,
        time: Duration,
        windows: usize,
        wait: impl Fn(Duration) -> Result<()>,
    ) -> Result<Windows> {
        if !self.shared().has_heap {
            return Err(Error::new(ErrorKind::NotEnabled, not_enabled()));
        }
        let windows = windows.clamp(1, 1000);
        let mut moments = Windows::new(windows + 1);
        moments.observe()?;
        for _ in 0..windows {
            wait(time / windows as u32)?;
            moments.observe()?;
        }
        Ok(moments)
    }

    /// Returns what grew over these snapshots.
    pub(crate) fn growth_of(&self, moments: &Windows) -> Result<Profile> {
        let shared = self.shared();
        let grown = moments.growth().ok_or_else(|| Error::new(ErrorKind::NotEnabled, not_enabled()))?;
        profiler::count(&shared.counters.served);
        Ok(self.complete(grown, shared.settings.symbolize))
    }
}
