//! Random numbers and hashes: one multiplication a word, no state but the caller's.

/// Returns a random number (splitmix64): good enough for distances, and its state is one word.
pub(crate) fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(*state)
}

/// Spreads every bit of `value` over all bits of the result.
#[inline]
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Hashes words, four at a time, which do not wait for each other.
#[inline]
pub(crate) fn hash(words: &[u64]) -> u64 {
    let step = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let mut lanes = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, words.len() as u64];
    let (fours, rest) = words.as_chunks::<4>();
    for four in fours {
        for (lane, &word) in lanes.iter_mut().zip(four) {
            *lane = step(*lane, word);
        }
    }
    mix(lanes.iter().chain(rest).fold(0, |hash, &word| step(hash, word)))
}
