//! How far apart samples are, without the math library.

/// Returns the bytes until the next sample: exponential with `mean`, so that every byte is hit with the same chance.
pub(crate) fn next_distance(random: &mut u64, mean: u64) -> i64 {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *random;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    // In (0, 1]: the logarithm is finite.
    let uniform = ((mixed >> 11) + 1) as f64 / (1u64 << 53) as f64;
    (-natural_logarithm(uniform) * mean as f64) as i64
}

/// Returns the logarithm of a positive, normal number, to about ten digits.
fn natural_logarithm(number: f64) -> f64 {
    let bits = number.to_bits();
    let exponent = (bits >> 52) as i64 - 1023;
    // In 1..2.
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    // ln m = 2 artanh((m - 1) / (m + 1)), and the argument is at most 1/3.
    let argument = (mantissa - 1.0) / (mantissa + 1.0);
    let square = argument * argument;
    let mut series = 0.0;
    for odd in (0..10).rev() {
        series = series * square + 1.0 / f64::from(2 * odd + 1);
    }
    2.0 * argument * series + exponent as f64 * std::f64::consts::LN_2
}
