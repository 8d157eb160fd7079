//! SHA-256 (FIPS 180-4), so that building needs no crate for it. A test compares the hashes with those of `sha2`.

/// The first 32 bits of the fractions of the cube roots of the first 64 primes.
const ROUNDS: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];
/// The same of the square roots of the first eight.
const START: [u32; 8] =
    [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];

pub(crate) fn digest(text: &[u8]) -> Vec<u8> {
    // A one, zeros, and the length in bits fill up the last block.
    let zeros = 63 - (text.len() + 8) % 64;
    let padded = [text, &[0x80], &vec![0; zeros], &(text.len() as u64 * 8).to_be_bytes()].concat();
    let state = padded.chunks_exact(64).fold(START, add_block);
    state.into_iter().flat_map(u32::to_be_bytes).collect()
}

fn add_block(state: [u32; 8], block: &[u8]) -> [u32; 8] {
    let mut words: Vec<u32> = block
        .chunks_exact(4)
        .map(|word| word.iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte)))
        .collect();
    for at in 16..64 {
        let (early, late) = (words[at - 15], words[at - 2]);
        let early = early.rotate_right(7) ^ early.rotate_right(18) ^ early >> 3;
        let late = late.rotate_right(17) ^ late.rotate_right(19) ^ late >> 10;
        words.push(words[at - 16].wrapping_add(early).wrapping_add(words[at - 7]).wrapping_add(late));
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
    for (word, round) in words.into_iter().zip(ROUNDS) {
        let mixed = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let first = [mixed, e & f ^ !e & g, round, word].into_iter().fold(h, u32::wrapping_add);
        let second = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let second = second.wrapping_add(a & b ^ a & c ^ b & c);
        (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(first), c, b, a, first.wrapping_add(second));
    }
    let added = [a, b, c, d, e, f, g, h];
    std::array::from_fn(|at| state[at].wrapping_add(added[at]))
}
