//! What is taken from a busy thread, seen by the thread itself.

use std::time::{Duration, Instant};

use crate::work;

/// Longer than the clock takes between two looks.
const SHORTEST: Duration = Duration::from_nanos(400);
/// What takes longer was not for this thread: another process, or the host.
const LONGEST: Duration = Duration::from_micros(150);

/// Looks at the clock for this long, under `depth` frames; returns the share of the time during which it could not.
pub(crate) fn lasting(time: Duration, depth: u32) -> f64 {
    let mut taken = Duration::ZERO;
    work::at_depth(depth, &mut || taken = interruptions(time));
    taken.as_secs_f64() / time.as_secs_f64()
}

fn interruptions(time: Duration) -> Duration {
    let mut taken = Duration::ZERO;
    let start = Instant::now();
    let mut last = start;
    while last - start < time {
        let now = Instant::now();
        let gap = now - last;
        if gap > SHORTEST && gap < LONGEST {
            taken += gap;
        }
        last = now;
    }
    taken
}
