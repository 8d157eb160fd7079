//! Seeded damage: the same bytes on every machine and every run.

/// A small random generator (PCG, 32 bits out), seeded by hand.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator that always gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(0xD1B5_4A32_D192_ED03))
    }

    /// The next 32 bits.
    pub fn bits(&mut self) -> u32 {
        let old = self.0;
        self.0 = old.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (((old >> 18) ^ old) >> 27) as u32;
        mixed.rotate_right((old >> 59) as u32)
    }

    /// A number in `0..limit`; zero for a limit of zero.
    pub fn below(&mut self, limit: usize) -> usize {
        if limit == 0 { 0 } else { ((u64::from(self.bits()) * limit as u64) >> 32) as usize }
    }
}

/// Values that break readers which trust lengths, counts and indices.
const NASTY: [&[u8]; 6] = [
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
    &[0x00],
    &[0x80, 0x80, 0x04],
];

/// A damaged copy of `bytes`: a few changes, each a flipped bit, a nasty number, a cut, a repeat or a swap.
pub fn mutated(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(out.len());
        match random.below(6) {
            0 if !out.is_empty() => out[at] ^= 1 << random.below(8),
            1 => {
                let nasty = NASTY[random.below(NASTY.len())];
                let end = (at + nasty.len()).min(out.len());
                out.splice(at..end, nasty.iter().copied());
            }
            2 => out.truncate(at),
            3 => {
                let end = (at + random.below(64)).min(out.len());
                let piece = out[at..end].to_vec();
                let to = random.below(out.len());
                out.splice(to..to, piece);
            }
            4 => {
                let end = (at + random.below(16)).min(out.len());
                out.drain(at..end);
            }
            _ if !out.is_empty() => out[at] = random.bits() as u8,
            _ => {}
        }
    }
    out
}
