//! Parses numbers from the bytes of a line, without going through `str`.

/// Parses `bytes` as a decimal number.
pub(crate) fn decimal(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 20 {
        return None;
    }
    bytes.iter().try_fold(0u64, |sum, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { sum.checked_mul(10)?.checked_add(u64::from(digit)) }
    })
}

/// Parses a decimal number with an optional sign.
pub(crate) fn signed(bytes: &[u8]) -> Option<i64> {
    match bytes {
        [b'-', rest @ ..] => decimal(rest).and_then(|n| 0i64.checked_sub_unsigned(n)),
        [b'+', rest @ ..] => decimal(rest).and_then(|n| i64::try_from(n).ok()),
        _ => decimal(bytes).and_then(|n| i64::try_from(n).ok()),
    }
}

/// Parses a hexadecimal number without a prefix.
pub(crate) fn hex(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 16 {
        return None;
    }
    // One check for all digits: most numbers are valid.
    let (sum, all) = bytes.iter().fold((0u64, 0), |(sum, all), &byte| {
        let digit = HEX_DIGITS[usize::from(byte)];
        (sum << 4 | u64::from(digit & 15), all | digit)
    });
    (all < 16).then_some(sum)
}

/// The value of each byte as a hexadecimal digit; 16 and above if it is not one.
const HEX_DIGITS: [u8; 256] = {
    let mut digits = [16; 256];
    let mut value = 0;
    while value < 16 {
        digits[b"0123456789abcdef"[value] as usize] = value as u8;
        digits[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    digits
};

/// Parses a hexadecimal number after `0x`.
pub(crate) fn prefixed_hex(bytes: &[u8]) -> Option<u64> {
    hex(bytes.strip_prefix(b"0x")?)
}

/// Parses `seconds.fraction` as nanoseconds.
pub(crate) fn seconds(bytes: &[u8]) -> Option<u64> {
    let dot = memchr::memchr(b'.', bytes)?;
    let fraction = &bytes[dot + 1..];
    if fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    decimal(&bytes[..dot])?.checked_mul(1_000_000_000)?.checked_add(decimal(fraction)? * scale)
}

/// Parses any finite number.
pub(crate) fn float(bytes: &[u8]) -> Option<f64> {
    let starts_well = matches!(bytes.first(), Some(b'0'..=b'9' | b'.' | b'-' | b'+'));
    let text = std::str::from_utf8(bytes).ok().filter(|_| starts_well)?;
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Converts a float to a count, clamped to what fits.
pub(crate) fn to_count(number: f64) -> i64 {
    number.round() as i64
}

/// Splits a line into words at spaces and tabs.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b' ' || byte == b'\t').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_whole_or_not_at_all() {
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(decimal(b"18446744073709551616"), None);
        assert_eq!(decimal(b"12a"), None);
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed(b"+7"), Some(7));
        assert_eq!(hex(b"7f"), Some(127));
        assert_eq!([hex(b""), hex(b"7g"), hex(b"/1"), hex(b"00000000000000001")], [None; 4]);
        assert_eq!(hex(b"0123456789abcdef"), hex(b"0123456789ABCDEF"));
        assert_eq!(hex(b"FEDCBA9876543210"), Some(0xfedc_ba98_7654_3210));
        assert_eq!(prefixed_hex(b"0xFF"), Some(255));
        assert_eq!(seconds(b"846.712030"), Some(846_712_030_000));
        assert_eq!(seconds(b"846"), None);
        assert_eq!(float(b"nan"), None);
    }
}
