//! Sampled allocations estimate the true values, for any sizes.

use std::path::Path;

use crate::recording::{compiled, record, values_of};

#[test]
fn sampled_counts_are_right_within_their_error_and_not_biased() {
    const TURNS: u32 = 400_000;
    const MEAN: f64 = 16_384.0;
    let program = compiled("rust.rs", "rust", &[]);
    let turns = TURNS.to_string();
    let recording = record("sampled", &["--heap=16KB"], &[&program, Path::new(&turns)]);
    let found = values_of(&recording.profile, "sampled_sizes", None);
    // One in ten has 5000 bytes, the others 50: as (objects, size).
    let classes = [(f64::from(TURNS) * 0.1, 5000.0), (f64::from(TURNS) * 0.9, 50.0)];
    let chance = |size: f64| -(-size / MEAN).exp_m1();
    let objects: f64 = classes.iter().map(|(count, _)| count).sum();
    let bytes: f64 = classes.iter().map(|(count, size)| count * size).sum();
    // Each object is seen or not, and counts for one over the chance: the variance of n of them.
    let variance = |weigh_bytes: bool| -> f64 {
        let each = |(count, size): &(f64, f64)| {
            let (p, weight) = (chance(*size), if weigh_bytes { *size } else { 1.0 });
            count * weight * weight * (1.0 - p) / p
        };
        classes.iter().map(each).sum()
    };
    let near =
        |value: i64, expected: f64, variance: f64| (value as f64 - expected).abs() < 6.0 * variance.sqrt();
    assert!(near(found[0], objects, variance(false)), "{found:?}: {objects} objects");
    assert!(near(found[1], bytes, variance(true)), "{found:?}: {bytes} bytes");
    assert_eq!(found[2..4], [0, 0], "all were freed");
    let profile = &recording.profile;
    let labels = profile.samples().flat_map(|sample| profile.labels(sample.labels).iter());
    let sizes = labels.filter(|label| profile.string(label.key) == "bytes").map(|label| label.number);
    let seen: Vec<i64> = sizes.collect();
    assert!(seen.contains(&50) && seen.contains(&5000), "{seen:?}");
    assert!(recording.said.stderr.contains("one every 16kB"), "{}", recording.said.stderr);
}
