//! Work on many samples, by two threads where there are two processors.

use std::ops::Range;
use std::thread::{Builder, available_parallelism, scope};

/// Fewer samples than this take less time than starting a thread.
const MANY: usize = 1 << 16;
/// Each thread has sums of its own for all entries, which must be few for the samples.
const SAMPLES_AN_ENTRY: usize = 8;

/// Calls `work` for all of `samples`, in one or two ranges, and returns what it returned for each, in their order.
pub(crate) fn in_halves<T: Send>(
    samples: usize,
    entries: usize,
    work: impl Fn(Range<usize>) -> T + Sync,
) -> Vec<T> {
    let is_worth_it = samples >= MANY && entries <= samples / SAMPLES_AN_ENTRY;
    if !is_worth_it || available_parallelism().map_or(1, usize::from) == 1 {
        return vec![work(0..samples)];
    }
    let middle = samples / 2;
    scope(|scope| match Builder::new().spawn_scoped(scope, || work(middle..samples)) {
        Ok(thread) => {
            let first = work(0..middle);
            let second = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            vec![first, second]
        }
        // No room for another thread.
        Err(_) => vec![work(0..samples)],
    })
}

#[cfg(test)]
mod tests {
    use super::{MANY, in_halves};

    #[test]
    fn every_sample_is_worked_on_once() {
        for (samples, entries) in [(0, 0), (MANY - 1, 1), (2 * MANY + 1, 9), (2 * MANY + 1, MANY)] {
            let ranges = in_halves(samples, entries, |range| range);
            let all: Vec<usize> = ranges.into_iter().flatten().collect();
            assert!(all.into_iter().eq(0..samples), "{samples}");
        }
    }
}
