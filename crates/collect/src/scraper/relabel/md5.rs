//! MD5, by which Prometheus distributes targets (`hashmod`). Not for security.

/// The sines of whole numbers, times 2^32.
fn constants() -> [u32; 64] {
    std::array::from_fn(|at| ((at as f64 + 1.0).sin().abs() * 4_294_967_296.0) as u32)
}

const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

pub(super) fn md5(bytes: &[u8]) -> [u8; 16] {
    let constants = constants();
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - bytes.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let end = padded.len() - 8;
    padded[end..].copy_from_slice(&(bytes.len() as u64).wrapping_mul(8).to_le_bytes());
    for block in padded.chunks_exact(64) {
        let words: [u32; 16] =
            std::array::from_fn(|at| u32::from_le_bytes(std::array::from_fn(|byte| block[at * 4 + byte])));
        add_block(&mut state, &words, &constants);
    }
    let mut hash = [0; 16];
    for (part, word) in hash.chunks_exact_mut(4).zip(state) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    hash
}

fn add_block(state: &mut [u32; 4], words: &[u32; 16], constants: &[u32; 64]) {
    let [mut a, mut b, mut c, mut d] = *state;
    for (at, constant) in constants.iter().enumerate() {
        let (mix, word) = match at / 16 {
            0 => (b & c | !b & d, at),
            1 => (d & b | !d & c, 5 * at + 1),
            2 => (b ^ c ^ d, 3 * at + 5),
            _ => (c ^ (b | !d), 7 * at),
        };
        let sum = a.wrapping_add(mix).wrapping_add(*constant).wrapping_add(words[word % 16]);
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(SHIFTS[at / 16][at % 4]));
    }
    for (old, new) in state.iter_mut().zip([a, b, c, d]) {
        *old = old.wrapping_add(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_as_rfc_1321_has_them() {
        let hex =
            |text: &str| md5(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        for (text, hash) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            assert_eq!(hex(text), hash, "{text}");
        }
        // Around the places where the length needs one more block; hashes by Python's hashlib.
        for (length, hash) in HASHES_OF_AS {
            assert_eq!(hex(&"a".repeat(length)), hash, "{length}");
        }
    }

    const HASHES_OF_AS: [(usize, &str); 5] = [
        (55, "ef1772b6dff9a122358552954ad0df65"),
        (56, "3b0c8ac703f828b04c6c197006d17218"),
        (63, "b06521f39153d618550606be297466d5"),
        (64, "014842d480b571495a4a0363793f7367"),
        (65, "c743a45e0d2e6a95cb859adae0248435"),
    ];
}
