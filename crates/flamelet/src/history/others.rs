//! The windows of a history other than CPU time: locks, awaits and memory, in services where they are counted.

use std::time::{Duration, Instant};

use flamelet_capture::heap::Snapshot;
use flamelet_capture::profile::Profile;
use flamelet_capture::profile::moment::now;
use flamelet_capture::wait::Rows;

use super::{ALLOCS, HEAP};
use crate::symbols::Symbols;
use crate::waits::WaitView;

/// Windows from one snapshot of the heap to the next, which is larger than a window of samples and changes more slowly.
const HEAP_EVERY: u32 = 6;

/// A window, and the name of its kind.
type Named = (&'static str, Profile);

/// What was counted when the last windows were made.
pub(super) struct Others {
    waits: [Waits; 3],
    /// When the last windows ended, in nanoseconds since 1970.
    end: i64,
    heap: Option<Snapshot>,
    heap_end: i64,
    heap_due: Instant,
    heap_every: Duration,
}

/// A table of waits, and the windows that are made of it.
struct Waits {
    views: &'static [WaitView],
    before: Rows,
}

/// The views of each table.
const VIEWS: [&[WaitView]; 3] =
    [&[WaitView::Block, WaitView::Mutex], &[WaitView::Await], &[WaitView::Blocked]];

impl Others {
    /// Starts now, in a history of windows of this length.
    pub(super) fn start(window: Duration) -> Self {
        let (now, heap_every) = (now(), window * HEAP_EVERY);
        Self {
            waits: VIEWS.map(|views| Waits { views, before: views[0].rows() }),
            end: now,
            heap: Snapshot::take().ok(),
            heap_end: now,
            heap_due: Instant::now() + heap_every,
            heap_every,
        }
    }

    /// Returns what was counted since the last call, and the heap if it is due or `is_last`. What is not counted in this
    /// service, or did not occur, is left out.
    pub(super) fn windows(&mut self, symbols: Option<&Symbols>, is_last: bool) -> Vec<Named> {
        let now = now();
        let start = std::mem::replace(&mut self.end, now);
        let mut windows: Vec<Named> =
            self.waits.iter_mut().flat_map(|waits| waits.windows(symbols, start, now)).collect();
        if is_last || self.heap_due <= Instant::now() {
            self.heap_due = Instant::now() + self.heap_every;
            windows.extend(self.heap_windows(now));
        }
        windows
    }

    /// Returns the heap as it is, and what was allocated since the last time.
    fn heap_windows(&mut self, now: i64) -> Vec<Named> {
        let Ok(snapshot) = Snapshot::take() else { return Vec::new() };
        let start = std::mem::replace(&mut self.heap_end, now);
        let before = self.heap.replace(snapshot.clone());
        let allocated = before.map(|before| {
            let mut profile = spanning(snapshot.since(&before), start, now);
            profile.header.default_sample_type = profile.intern("alloc_space");
            (ALLOCS, profile)
        });
        [(HEAP, spanning(snapshot.heap(), now, now))].into_iter().chain(allocated).collect()
    }
}

impl Waits {
    fn windows(&mut self, symbols: Option<&Symbols>, start: i64, end: i64) -> Vec<Named> {
        let rows = self.views[0].rows();
        let before = std::mem::replace(&mut self.before, rows.clone());
        let new = rows.since(&before);
        if new.iter().next().is_none() {
            return Vec::new();
        }
        let window =
            |view: &WaitView| (view.name(), spanning(view.unnamed_profile(symbols, &new), start, end));
        self.views.iter().map(window).collect()
    }
}

fn spanning(mut profile: Profile, start: i64, end: i64) -> Profile {
    profile.header.time_nanos = start;
    // A clock that was set back makes no window negative.
    profile.header.duration_nanos = end.saturating_sub(start).max(0);
    profile
}
