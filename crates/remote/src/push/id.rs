//! The id of a profile: the same whenever the same profile is sent again.

use flamelet_profile::Profile;

use super::Series;

/// Returns an id of 128 bits, as a UUID of version 8, from the series, the time and the total of a profile.
pub fn profile_id(series: &Series<'_>, profile: &Profile, part: usize) -> u128 {
    let header = &profile.header;
    let totals = (0..profile.sample_types().len()).map(|at| profile.total(at));
    let numbers: Vec<i64> =
        [header.time_nanos, header.duration_nanos, part as i64, profile.sample_count() as i64]
            .into_iter()
            .chain(totals)
            .collect();
    let hash = |seed: u64| {
        let mut hash = fnv(seed, series.name.as_bytes());
        hash = fnv(hash, series.service.as_bytes());
        for (name, value) in series.labels {
            hash = fnv(fnv(hash, name.as_bytes()), value.as_bytes());
        }
        numbers.iter().fold(hash, |hash, number| fnv(hash, &number.to_le_bytes()))
    };
    let bits = u128::from(hash(0xcbf2_9ce4_8422_2325)) << 64 | u128::from(hash(0x6c62_272e_07bb_0142));
    // The version and the variant have their place in a UUID.
    bits & !(0xf << 76 | 0b11 << 62) | 8 << 76 | 0b10 << 62
}

/// Returns an id as a UUID is written.
pub(super) fn uuid(id: u128) -> String {
    let hex = format!("{id:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// FNV-1a over the bytes and their end.
fn fnv(seed: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    step(bytes.iter().fold(seed, step), &0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids() {
        let series = Series { name: "process_cpu", service: "a", labels: &[] };
        let id = uuid(profile_id(&series, &Profile::default(), 0));
        assert_eq!((id.len(), &id[14..15]), (36, "8"), "{id}");
        assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"), "{id}");
        let other = Series { service: "b", ..series };
        assert_ne!(profile_id(&series, &Profile::default(), 0), profile_id(&other, &Profile::default(), 0));
        assert_ne!(profile_id(&series, &Profile::default(), 0), profile_id(&series, &Profile::default(), 1));
    }
}
