//! How many captures run at the same time.

use std::sync::atomic::Ordering;

use super::Profiler;

/// The right to one of the captures that may run at the same time.
pub(crate) struct Permit {
    profiler: Profiler,
}

impl Profiler {
    /// A permit, unless as many captures as allowed are running.
    pub(crate) fn permit(&self) -> Option<Permit> {
        let most = self.limits().max_captures;
        let more = |running| (running < most).then_some(running + 1);
        self.shared().counters.running.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(Permit { profiler: self.clone() })
    }

    /// Whether as many bytes of answers as may wait for their clients do so.
    pub(crate) fn has_many_unread(&self) -> bool {
        self.shared().counters.unread.load(Ordering::Acquire) >= self.limits().max_unread
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.profiler.shared().counters.running.fetch_sub(1, Ordering::AcqRel);
    }
}
