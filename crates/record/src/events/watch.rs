//! Opens events on threads that already exist when a recording starts.

use rustc_hash::FxHashSet;

use super::plan::PlannedEvent;
use super::session::Session;
use crate::Result;
use crate::processes::{families, threads};
use crate::sys::event::Watch;

/// Opens `events` on every thread of `pids` and of all processes below them. Looks again to find threads that start
/// meanwhile, because one that was not watched yet may have started them. (A thread that has both an event of its own and
/// an inherited one is recognised by its records, see `ThreadState::accepts`.) Returns the number of watched threads.
pub(crate) fn watch_families(session: &mut Session, pids: &[u32], events: &[PlannedEvent]) -> Result<usize> {
    const MOST_LOOKS: usize = 8;
    let mut seen = FxHashSet::default();
    let mut watched = 0;
    // A program that starts threads all the time shows new ones at every look, but watched threads started those.
    for _ in 0..MOST_LOOKS {
        let mut found_more = false;
        for pid in families(pids) {
            for tid in threads(pid) {
                if seen.insert(tid) {
                    found_more = true;
                    watched += usize::from(session.watch(Watch::Thread(tid), events)?);
                }
            }
        }
        if !found_more {
            break;
        }
    }
    Ok(watched)
}
