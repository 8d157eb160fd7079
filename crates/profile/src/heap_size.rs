//! How large the heap was over time, if a capture knows. It is stored as [`crate::timeline`] says.

use crate::Profile;

/// The size of the heap at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapSize {
    /// Nanoseconds since the start of the capture.
    pub time: u64,
    /// Bytes in use.
    pub bytes: u64,
}

/// The most moments that a profile keeps: more than a picture shows.
pub const MOST_HEAP_SIZES: usize = 400;

/// Collects the sizes of a heap in time order, and keeps few of them, however many there are.
#[derive(Clone, Debug, Default)]
pub struct HeapSizes {
    moments: Vec<HeapSize>,
}

impl HeapSizes {
    /// Adds a moment.
    pub fn push(&mut self, time: u64, bytes: u64) {
        if self.moments.len() >= 2 * MOST_HEAP_SIZES {
            self.moments = thinned(&self.moments);
        }
        self.moments.push(HeapSize { time, bytes });
    }
}

/// Keeps at most [`MOST_HEAP_SIZES`] moments. Of neighbours, the largest stays: a peak does not get lost.
fn thinned(moments: &[HeapSize]) -> Vec<HeapSize> {
    let neighbours = moments.chunks(moments.len().div_ceil(MOST_HEAP_SIZES).max(1));
    neighbours.filter_map(|chunk| chunk.iter().max_by_key(|moment| moment.bytes).copied()).collect()
}

impl Profile {
    /// Returns how large the heap was, in time order; empty if the capture does not say.
    pub fn heap_sizes(&self) -> &[HeapSize] {
        &self.heap_sizes
    }

    /// Sets how large the heap was.
    pub fn set_heap_sizes(&mut self, sizes: HeapSizes) {
        let HeapSizes { moments } = sizes;
        self.heap_sizes = if moments.len() <= MOST_HEAP_SIZES { moments } else { thinned(&moments) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProfileBuilder, merge, pprof};

    fn profile_with(sizes: &[(u64, u64)]) -> Profile {
        let mut builder = ProfileBuilder::new(&[("inuse_space", "bytes")]);
        let function = builder.named_function("shop::keep", "");
        let frame = builder.frame(function, 1);
        let stack = builder.stack(&[frame]);
        builder.sample(stack, Default::default(), &[7]);
        let mut profile = builder.finish();
        let mut collected = HeapSizes::default();
        sizes.iter().for_each(|&(time, bytes)| collected.push(time, bytes));
        profile.set_heap_sizes(collected);
        profile
    }

    #[test]
    fn few_moments_stay_and_the_peak_is_among_them() {
        for count in [1, 400, 401, 801, 10_000] {
            let peak = count * 2 / 3;
            let sizes = (0..count).map(|at| (at * 10, if at == peak { 1_000_000 } else { at % 97 }));
            let profile = profile_with(&sizes.collect::<Vec<_>>());
            let kept = profile.heap_sizes();
            assert!(!kept.is_empty() && kept.len() <= MOST_HEAP_SIZES, "{count}: {}", kept.len());
            assert!(kept.is_sorted_by_key(|moment| moment.time), "{count}");
            assert!(kept.contains(&HeapSize { time: peak * 10, bytes: 1_000_000 }), "{count}");
        }
    }

    #[test]
    fn sizes_travel_with_the_file() {
        let profile = profile_with(&[(0, 0), (5_000_000_000, 1 << 40), (6_000_000_000, 3)]);
        let read = pprof::decode(&pprof::encode(&profile), &Default::default()).expect("decoded");
        assert_eq!(read.heap_sizes(), profile.heap_sizes());
        assert_eq!(read.heap_sizes()[1], HeapSize { time: 5_000_000_000, bytes: 1 << 40 });
    }

    #[test]
    fn sizes_of_several_programs_or_of_a_difference_are_not_kept() {
        let profile = profile_with(&[(0, 0), (5, 7)]);
        assert_eq!(merge(&[&profile]).expect("merged").heap_sizes(), profile.heap_sizes());
        assert!(merge(&[&profile, &profile]).expect("merged").heap_sizes().is_empty());
        let mut base = profile;
        base.scale(-1.0);
        assert!(base.heap_sizes().is_empty());
    }

    #[cfg(feature = "filter")]
    #[test]
    fn a_part_of_the_heap_has_no_size_of_its_own() {
        let focus = |focus: &str| {
            let mut profile = profile_with(&[(0, 0), (5, 7)]);
            let options = crate::filter::FilterOptions { focus: focus.to_owned(), ..Default::default() };
            options.compile().expect("valid").apply(&mut profile);
            profile.heap_sizes().len()
        };
        assert_eq!((focus("keep"), focus("nothing")), (2, 0));
    }
}
