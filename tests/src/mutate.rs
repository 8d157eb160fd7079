//! Seeded damage: the same bytes on every machine and every run.

pub use flamelet_test_support::Random;

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
