//! A limit on how many captures run at the same time.

use std::sync::atomic::Ordering;

use super::Profiler;

/// Permission to run one of the captures that may run at the same time.
pub(crate) struct Permit {
    profiler: Profiler,
}

impl Profiler {
    /// Returns a permit, unless the maximum number of captures is running.
    pub(crate) fn permit(&self) -> Option<Permit> {
        let most = self.limits().max_captures;
        let more = |running| (running < most).then_some(running + 1);
        self.shared().counters.running.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(Permit { profiler: self.clone() })
    }

    /// Returns whether the answers that wait for their clients have reached the limit.
    pub(crate) fn has_many_unread(&self) -> bool {
        self.shared().counters.unread.load(Ordering::Acquire) >= self.limits().max_unread
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.profiler.shared().counters.running.fetch_sub(1, Ordering::AcqRel);
    }
}
