//! What grows, watched for a while.

use std::time::Duration;

use flamelet_capture::heap::Windows;
use flamelet_capture::profile::Profile;

use super::not_enabled;
use crate::Profiler;
use crate::profiler;
use crate::{Error, ErrorKind, Result};

/// In how many windows growth is watched where nobody says.
pub const DEFAULT_WINDOWS: usize = 8;

impl Profiler {
    /// Watches the heap for `time`, in `windows` parts, and tells what grew, the largest first. With three
    /// windows and more the label `steady` says what rose window after window, as a leak does (`yes`), and
    /// what did not (`no`); the label `trend` says how clearly, in percent.
    ///
    /// Blocks the calling thread meanwhile. For growth over days, keep a [`Windows`](super::Windows) and
    /// [observe](super::Windows::observe) now and then.
    pub fn heap_growth(&self, time: Duration, windows: usize) -> Result<Profile> {
        let moments = self.watch_moments(time, windows, |time| {
            std::thread::sleep(time);
            Ok(())
        })?;
        self.growth_of(&moments)
    }

    /// Watches the heap, with a way to wait that may be cut short.
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

    /// What grew over these moments.
    pub(crate) fn growth_of(&self, moments: &Windows) -> Result<Profile> {
        let shared = self.shared();
        let grown = moments.growth().ok_or_else(|| Error::new(ErrorKind::NotEnabled, not_enabled()))?;
        profiler::count(&shared.counters.served);
        Ok(self.complete(grown, shared.settings.symbolize))
    }
}
