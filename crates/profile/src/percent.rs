//! Percent escapes, as in URLs: `%2F` is `/`.

/// Undoes escapes; `None` if one of them is broken, or if the result is not UTF-8.
pub fn decode(text: &str) -> Option<String> {
    String::from_utf8(bytes_of(text, |_| None)?).ok()
}

/// Undoes escapes. Broken ones stay as they are.
pub fn decode_lossy(text: &str) -> String {
    let bytes = bytes_of(text, Some).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Undoes escapes; `broken` says what stands for the `%` of a broken one.
fn bytes_of(text: &str, broken: impl Fn(u8) -> Option<u8>) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|value| value as u8);
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let escaped = match tail {
            [high, low, ..] if *first == b'%' => digit(high).zip(digit(low)),
            _ => None,
        };
        let (byte, after) = match escaped {
            Some((high, low)) => (high << 4 | low, &tail[2..]),
            None if *first == b'%' => (broken(*first)?, tail),
            None => (*first, tail),
        };
        bytes.push(byte);
        rest = after;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone() {
        for (text, plain) in [("", ""), ("a%2Fb%20c", "a/b c"), ("%c3%A9+", "é+")] {
            assert_eq!(decode(text).as_deref(), Some(plain));
            assert_eq!(decode_lossy(text), plain);
        }
        for broken in ["%", "a%2", "%zz", "%+f", "100%"] {
            assert_eq!(decode(broken), None, "{broken}");
            assert_eq!(decode_lossy(broken), broken);
        }
        assert_eq!(decode("%ff"), None);
        assert_eq!(decode_lossy("%ff%41"), "\u{fffd}A");
    }
}
