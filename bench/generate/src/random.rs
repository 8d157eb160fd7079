//! A small seeded generator (splitmix64).

/// Returns the same numbers for the same seed, everywhere.
pub struct Random(u64);

impl Random {
    /// Starts from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..limit`, each as likely.
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }

    /// A number in `0..limit`, small ones more likely: 0 about half of the time.
    pub fn skewed(&mut self, limit: usize) -> usize {
        let halvings = self.next().trailing_ones() as usize;
        if halvings < limit { halvings } else { self.below(limit) }
    }
}
