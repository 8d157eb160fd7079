//! Bytes as hexadecimal digits, in lower case.

/// Returns the digits of some bytes.
pub fn encode(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from_digit(digit.into(), 16).unwrap_or_default()).collect()
}

/// Reads what [`encode`] writes; `None` if it is anything else.
pub fn decode(digits: &str) -> Option<Vec<u8>> {
    digits.as_bytes().chunks(2).map(byte_of).collect()
}

/// Reads exactly `2 * N` digits.
pub fn decode_array<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = byte_of(pair)?;
    }
    Some(bytes)
}

fn byte_of(pair: &[u8]) -> Option<u8> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    Some(value(pair[0])? << 4 | value(*pair.get(1)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_bytes_are_each_others_inverse() {
        assert_eq!(encode(&[0, 255, 0x7a]), "00ff7a");
        assert_eq!(decode("00ff7a"), Some(vec![0, 255, 0x7a]));
        assert_eq!(decode_array(b"00ff7a"), Some([0, 255, 0x7a]));
        for wrong in ["0", "0g", "FF", "é", "+f"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
        for wrong in ["", "00ff", "00ff7", "00ff7a00", "00FF7A", "0gff7a", "é0ff7"] {
            assert_eq!(decode_array::<3>(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
