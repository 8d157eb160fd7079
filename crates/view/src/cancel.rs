//! Cancels a capture that is no longer wanted.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Tells a capture that it is no longer wanted, because the connection that requested it has closed.
#[derive(Debug, Default)]
pub struct CancelToken {
    is_cancelled: Mutex<bool>,
    changed: Condvar,
}

impl CancelToken {
    /// Waits for this long, or until it is cancelled. Returns whether the capture is still wanted.
    pub fn is_wanted_after(&self, time: Duration) -> bool {
        let start = Instant::now();
        let mut is_cancelled = self.is_cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_cancelled {
            let left = time.saturating_sub(start.elapsed());
            if left.is_zero() {
                return true;
            }
            let waited = self.changed.wait_timeout(is_cancelled, left);
            is_cancelled = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    pub(crate) fn cancel(&self) {
        *self.is_cancelled.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_is_not_waited_for() {
        let cancel = CancelToken::default();
        assert!(cancel.is_wanted_after(Duration::ZERO));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| cancel.is_wanted_after(Duration::from_secs(3600)));
            cancel.cancel();
            assert!(!waiting.join().expect("no panic"));
        });
        assert!(!cancel.is_wanted_after(Duration::ZERO));
    }
}
