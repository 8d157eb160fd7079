//! The end of a service: captures end with it.

use std::sync::{Arc, MutexGuard, Weak};

use super::Profiler;
use crate::work::background::Cancel;
use crate::work::lock::ProcessMutex;

/// The captures that are running, and whether the service is ending. The child of a fork has no captures.
#[derive(Default)]
pub(super) struct Ending {
    state: ProcessMutex<EndingState>,
}

impl Ending {
    fn lock(&self) -> MutexGuard<'_, EndingState> {
        self.state.lock(EndingState::default)
    }
}

#[derive(Debug, Default)]
struct EndingState {
    has_begun: bool,
    running: Vec<Weak<Cancel>>,
}

impl Profiler {
    /// Ends all captures in progress, so that no shutdown waits for them: each returns or delivers what it has sampled
    /// so far. Requests for further captures are answered with 503. Call it when a graceful shutdown begins.
    ///
    /// Files at intervals, heap and continuous sampling continue.
    pub fn shutdown(&self) {
        let mut state = self.shared.ending.lock();
        state.has_begun = true;
        let running = std::mem::take(&mut state.running);
        drop(state);
        running.iter().filter_map(Weak::upgrade).for_each(|capture| capture.end());
    }

    /// Lets [`Profiler::shutdown`] end the capture that `cancel` belongs to.
    pub(crate) fn end_with_service(&self, cancel: &Arc<Cancel>) {
        let mut state = self.shared.ending.lock();
        if state.has_begun {
            drop(state);
            return cancel.end();
        }
        state.running.retain(|capture| capture.strong_count() > 0);
        state.running.push(Arc::downgrade(cancel));
    }

    #[cfg(feature = "http")]
    pub(crate) fn is_ending(&self) -> bool {
        self.shared.ending.lock().has_begun
    }
}
