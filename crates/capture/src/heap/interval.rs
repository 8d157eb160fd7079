//! How far apart samples are, and what each stands for.
//!
//! Every allocated byte is hit with the same small chance, so the distance between hits is exponential with
//! mean `R`, and an object of `s` bytes is sampled with probability `1 - exp(-s/R)`. Each sample stands for
//! one over that many objects of its own size. Doing this for each sample, and not for the sum of a stack, is what
//! makes stacks of mixed sizes come out right.

pub(super) use crate::tables::{mix, next_random};

/// Objects are counted in units of 1/65536, so that weights add up without a floating point sum.
pub(super) const OBJECT: u64 = 1 << 16;

/// What one sampled object stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weight {
    /// Objects, in units of 1/[`OBJECT`].
    pub(super) objects: u64,
    /// Bytes.
    pub(super) bytes: u64,
}

impl Weight {
    /// The weight of an object of `size` bytes when one byte in `mean` is hit.
    pub(super) fn of(size: usize, mean: u64) -> Self {
        Self::found_as(size, size, mean)
    }

    /// The weight of an object of `size` bytes that was found because of the `counted` bytes it takes.
    pub(super) fn found_as(counted: usize, size: usize, mean: u64) -> Self {
        let chance = -(-(counted.max(1) as f64) / mean.max(1) as f64).exp_m1();
        let objects = 1.0 / chance;
        let bytes = (objects * size.max(1) as f64).round() as u64;
        Self { objects: (objects * OBJECT as f64).round() as u64, bytes }
    }
}

/// Returns the whole objects of a fixed-point count.
pub(super) fn whole_objects(fixed: i64) -> i64 {
    fixed.saturating_add(OBJECT as i64 / 2) >> 16
}

/// Returns the bytes until the next hit: exponential with `mean`, rounded down (an object is hit when it is longer).
pub(super) fn next_distance(state: &mut u64, mean: u64) -> i64 {
    // In (0, 1]: the logarithm is finite.
    let uniform = ((next_random(state) >> 11) + 1) as f64 / (1u64 << 53) as f64;
    (-uniform.ln() * mean as f64) as i64
}

/// Returns the power of two that is nearest to a mean, as jemalloc samples.
pub(super) fn nearest_power(mean: u64) -> usize {
    let below = mean.max(1).ilog2();
    (below + u32::from(mean - (1 << below) > (1 << below) / 2)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_object_stands_for_itself_and_a_small_one_for_many() {
        assert_eq!(Weight::of(1 << 30, 524_288), Weight { objects: OBJECT, bytes: 1 << 30 });
        let tiny = Weight::of(1, 524_288);
        assert_eq!(whole_objects(tiny.objects as i64), 524_289);
        // One byte in one: everything is sampled with 1 - 1/e per byte.
        assert_eq!(whole_objects(Weight::of(64, 1).objects as i64), 1);
    }

    #[test]
    fn the_nearest_power_of_two() {
        assert_eq!([1, 2, 3, 512 << 10, 600_000, 1_000_000].map(nearest_power), [0, 1, 1, 19, 19, 20]);
    }

    #[test]
    fn distances_have_their_mean_and_their_tail() {
        let (mut state, mean, draws) = (7, 1000, 200_000);
        let distances: Vec<i64> = (0..draws).map(|_| next_distance(&mut state, mean)).collect();
        let average = distances.iter().sum::<i64>() as f64 / f64::from(draws);
        // Rounded down, the mean is 1/(e^(1/R)-1); the standard error is R/sqrt(n).
        let expected = 1.0 / (1.0 / mean as f64).exp_m1();
        assert!((average - expected).abs() < 5.0 * mean as f64 / f64::from(draws).sqrt(), "{average}");
        let hit = distances.iter().filter(|&&distance| distance < 100).count() as f64 / f64::from(draws);
        let chance: f64 = -(-0.1f64).exp_m1();
        assert!((hit - chance).abs() < 5.0 * (chance * (1.0 - chance) / f64::from(draws)).sqrt(), "{hit}");
    }
}
