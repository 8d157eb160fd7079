//! Whoever waits for a profile.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Whoever waits for a profile that is being taken, over a connection that may end before.
#[derive(Debug, Default)]
pub struct Asker {
    is_gone: Mutex<bool>,
    changed: Condvar,
}

impl Asker {
    /// Waits for so long, or until the asker is gone; says whether it is still there.
    pub fn is_there_after(&self, time: Duration) -> bool {
        let start = Instant::now();
        let mut is_gone = self.is_gone.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_gone {
            let left = time.saturating_sub(start.elapsed());
            if left.is_zero() {
                return true;
            }
            let waited = self.changed.wait_timeout(is_gone, left);
            is_gone = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    pub(crate) fn leave(&self) {
        *self.is_gone.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_is_not_waited_for() {
        let asker = Asker::default();
        assert!(asker.is_there_after(Duration::ZERO));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| asker.is_there_after(Duration::from_secs(3600)));
            asker.leave();
            assert!(!waiting.join().expect("no panic"));
        });
        assert!(!asker.is_there_after(Duration::ZERO));
    }
}
