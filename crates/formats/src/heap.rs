//! What heap formats share: the names of their values, and the correction of sampling bias.

use crate::assembly::Assembly;

/// Go's four values, in Go's order.
pub(crate) const GO_VALUES: [(&str, &str); 4] = [
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
];

/// Adds Go's four values as columns 0 to 3.
pub(crate) fn add_go_columns(assembly: &mut Assembly) {
    for (kind, unit) in GO_VALUES {
        assembly.column(kind, unit);
    }
}

/// Estimates what was really allocated from what a sampler with one sample per `rate` bytes saw: an object of size
/// `s` is seen with probability `1 - exp(-s / rate)`.
pub(crate) fn unbias(objects: i64, bytes: i64, rate: i64) -> (i64, i64) {
    if objects <= 0 || bytes <= 0 || rate <= 1 {
        return (objects, bytes);
    }
    let size = bytes as f64 / objects as f64;
    let scale = 1.0 / (1.0 - (-size / rate as f64).exp());
    ((objects as f64 * scale) as i64, (bytes as f64 * scale) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_objects_are_scaled_up_and_large_ones_are_not() {
        assert_eq!(unbias(1, 512 << 10, 512 << 10), (1, 829_411));
        assert_eq!(unbias(10, 10 << 30, 512 << 10), (10, 10 << 30));
        assert_eq!(unbias(0, 0, 512 << 10), (0, 0));
        assert_eq!(unbias(3, 100, 1), (3, 100));
    }
}
