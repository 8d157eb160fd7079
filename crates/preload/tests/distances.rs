//! The distances between samples, apart from the library: a test that linked it would have its own malloc counted.

#[path = "../src/sampling.rs"]
#[allow(dead_code, unreachable_pub, reason = "a part of the library, compiled again")]
mod sampling;

#[test]
fn distances_have_their_mean_and_their_tail() {
    const DRAWS: u32 = 200_000;
    for mean in [1000.0f64, 524_288.0] {
        let mut random = 7;
        let distances: Vec<i64> =
            (0..DRAWS).map(|_| sampling::next_distance(&mut random, mean as u64)).collect();
        assert!(distances.iter().all(|&distance| distance >= 0));
        let average = distances.iter().sum::<i64>() as f64 / f64::from(DRAWS);
        // Rounded down, the mean is 1/(e^(1/R)-1); the standard error is R/sqrt(n).
        let expected = 1.0 / (1.0 / mean).exp_m1();
        assert!(
            (average - expected).abs() < 5.0 * mean / f64::from(DRAWS).sqrt(),
            "{average} for {expected}"
        );
        for share in [0.1, 1.0, 3.0f64] {
            let below = distances.iter().filter(|&&distance| (distance as f64) < share * mean).count();
            let (found, chance) = (below as f64 / f64::from(DRAWS), -(-share).exp_m1());
            let error = (chance * (1.0 - chance) / f64::from(DRAWS)).sqrt();
            assert!((found - chance).abs() < 5.0 * error, "{found} for {chance}");
        }
    }
}
