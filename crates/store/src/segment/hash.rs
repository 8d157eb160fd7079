//! The 128-bit content hash: MurmurHash3 (x64, 128 bits), which is public domain.
//!
//! It does not defend against deliberate collisions; it distinguishes what a fleet produces.

use std::fmt;

/// What identifies a frame or a stack on any machine: a hash of build ids and offsets in files.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ContentHash(pub u128);

impl ContentHash {
    /// The stack without frames.
    pub const EMPTY: Self = Self(0);

    /// Returns the hash of code at `offset` of the file with this identity (a build id, or a path without one).
    pub fn of_code(file: &str, offset: u64) -> Self {
        // A build id fits here, so that nearly no frame needs an allocation.
        let mut buffer = [0; 64];
        buffer[0] = b'c';
        buffer[1..9].copy_from_slice(&offset.to_le_bytes());
        if let Some(rest) = buffer.get_mut(9..9 + file.len()) {
            rest.copy_from_slice(file.as_bytes());
            return Self(murmur3(&buffer[..9 + file.len()], 0));
        }
        Self(murmur3(&[&buffer[..9], file.as_bytes()].concat(), 0))
    }

    /// Returns the hash of a frame that has a name and no code.
    pub fn of_name(name: &str, file: &str) -> Self {
        let mut bytes = Vec::with_capacity(name.len() + file.len() + 9);
        bytes.push(b'n');
        bytes.extend_from_slice(&(name.len() as u64).to_le_bytes());
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(file.as_bytes());
        Self(murmur3(&bytes, 0))
    }

    /// Returns the hash of any bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(murmur3(bytes, 0))
    }

    /// Returns the hash of the stack that calls `frame` from the stack `self`.
    #[must_use]
    pub fn calling(self, frame: Self) -> Self {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.0.to_le_bytes());
        bytes[16..].copy_from_slice(&frame.0.to_le_bytes());
        Self(murmur3(&bytes, 0))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// Returns MurmurHash3_x64_128 with the first half in the low 64 bits.
fn murmur3(bytes: &[u8], seed: u64) -> u128 {
    let (mut h1, mut h2) = (seed, seed);
    let (blocks, tail) = bytes.as_chunks::<16>();
    for block in blocks {
        let (k1, k2) = halves(block);
        h1 ^= mix1(k1);
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= mix2(k2);
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    if !tail.is_empty() {
        let mut last = [0; 16];
        last[..tail.len()].copy_from_slice(tail);
        let (k1, k2) = halves(&last);
        h2 ^= mix2(k2);
        h1 ^= mix1(k1);
    }
    h1 ^= bytes.len() as u64;
    h2 ^= bytes.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finish(h1);
    h2 = finish(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    u128::from(h2) << 64 | u128::from(h1)
}

fn halves(block: &[u8; 16]) -> (u64, u64) {
    let both = u128::from_le_bytes(*block);
    (both as u64, (both >> 64) as u64)
}

fn mix1(k: u64) -> u64 {
    k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix2(k: u64) -> u64 {
    k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finish(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ k >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_murmur3() {
        // The values of Guava's tests of Murmur3_128.
        for (seed, low, high, text) in [
            (0, 0x6299_4269_3e10_f867, 0x92db_0b82_baeb_5347_u64, "hell"),
            (1, 0xa78d_dff5_adae_8d10, 0x1289_00ef_2090_0135, "hello"),
            (2, 0x8a48_6b23_f422_e826, 0xf962_a2c5_8947_765f, "hello "),
            (3, 0x2ea5_9f46_6f6b_ed8c, 0xc610_990a_cc42_8a17, "hello w"),
        ] {
            assert_eq!(murmur3(text.as_bytes(), seed), u128::from(high) << 64 | low, "{text:?}");
        }
    }

    #[test]
    fn stacks_differ_by_order_and_by_depth() {
        let [a, b] = ["a", "b"].map(|file| ContentHash::of_code(file, 1));
        let root = ContentHash::EMPTY;
        let stacks = [root, root.calling(a), root.calling(a).calling(b), root.calling(b).calling(a)];
        for (at, stack) in stacks.iter().enumerate() {
            assert_eq!(stacks.iter().position(|other| other == stack), Some(at));
        }
        assert_ne!(ContentHash::of_name("ab", "c"), ContentHash::of_name("a", "bc"));
    }
}
