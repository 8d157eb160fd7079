//! A histogram of durations, fine enough for percentiles.

/// The bits that distinguish durations between two powers of two: 64 buckets, each 1.6 % wide at most, so the middle of
/// a bucket is within 0.8 % of every duration in it.
const FINE_BITS: u32 = 6;
const FINE: usize = 1 << FINE_BITS;

/// Durations counted by log-linear buckets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Up to the longest duration seen.
    counts: Vec<u64>,
}

/// Shows how many there are, and not thousands of buckets.
impl std::fmt::Debug for Latencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Latencies({} counted)", self.count())
    }
}

impl Latencies {
    /// Counts a duration.
    pub fn add(&mut self, nanos: u64) {
        let bucket = bucket(nanos);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
    }

    /// Returns how many durations were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the duration that `share` (0 to 1) of the counted ones do not exceed, within 1 %; 0 if there are none.
    pub fn quantile_nanos(&self, share: f64) -> u64 {
        let wanted = (self.count() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                let (first, width) = bounds(bucket);
                return first + (width - 1) / 2;
            }
        }
        0
    }

    /// Returns coarser counts: the n-th is of durations from 2^(n-1) up to 2^n nanoseconds, the first of 0.
    pub fn by_powers_of_two(&self) -> Vec<u64> {
        let mut counts = Vec::new();
        for (bucket, count) in self.counts.iter().enumerate() {
            let power = (u64::BITS - bounds(bucket).0.leading_zeros()) as usize;
            if counts.len() <= power {
                counts.resize(power + 1, 0);
            }
            counts[power] += count;
        }
        counts
    }
}

/// Small durations have a bucket each.
fn bucket(nanos: u64) -> usize {
    let Some(shift) = nanos.checked_ilog2().and_then(|power| power.checked_sub(FINE_BITS)) else {
        return nanos as usize;
    };
    (shift as usize * FINE) + (nanos >> shift) as usize
}

/// Returns the shortest duration of a bucket, and how many nanoseconds it covers.
fn bounds(bucket: usize) -> (u64, u64) {
    let shift = (bucket / FINE).saturating_sub(1);
    (((bucket - shift * FINE) as u64) << shift, 1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_test_support::Random;

    #[test]
    fn buckets_cover_every_duration_once() {
        let mut before = None;
        for nanos in (0..5_000).chain([1 << 20, (1 << 20) + 1, u64::MAX / 3, u64::MAX]) {
            let at = bucket(nanos);
            let (first, width) = bounds(at);
            assert!(first <= nanos && nanos - first < width, "{nanos}: {first} + {width}");
            assert!(width == 1 || width * FINE as u64 <= first, "{nanos}: {first} + {width}");
            assert!(before <= Some(at));
            before = Some(at);
        }
    }

    #[test]
    fn percentiles_are_within_two_hundredths_of_the_exact_ones() {
        let mut random = Random::new(1);
        let mut latencies = Latencies::default();
        let mut exact: Vec<u64> = (0..10_000)
            .map(|_| {
                let bits = 8 + random.below(24);
                (1 << bits) + u64::from(random.bits()) % (1 << bits)
            })
            .collect();
        exact.iter().for_each(|&nanos| latencies.add(nanos));
        exact.sort_unstable();
        for share in [0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let at = (exact.len() as f64 * share).ceil() as usize - 1;
            let error = latencies.quantile_nanos(share) as f64 / exact[at] as f64 - 1.0;
            assert!(error.abs() <= 0.01, "{share}: {error}");
        }
    }

    #[test]
    fn powers_of_two_add_up() {
        let mut latencies = Latencies::default();
        [0, 1, 3, 900, 1_000, 1_024].into_iter().for_each(|nanos| latencies.add(nanos));
        let powers = latencies.by_powers_of_two();
        assert_eq!((powers[0], powers[1], powers[2], powers[10], powers[11]), (1, 1, 1, 2, 1));
        assert_eq!(powers.iter().sum::<u64>(), latencies.count());
        assert_eq!(Latencies::default().quantile_nanos(0.5), 0);
    }
}
