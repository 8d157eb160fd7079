//! Profiles that count since the start of a process become what was added since the one before.

use std::collections::HashMap;

use flamelet_profile::{Budget, Error, ErrorKind, Limits, Profile, Result, merge_within, pprof};

use crate::series::is_cumulative;

/// Bytes of the profiles before, all together.
const MAX_BYTES: usize = 256 << 20;
/// A profile before is forgotten after this long.
const MAX_AGE: i64 = 3_600_000_000_000;

/// The last profile of each process that sends totals.
pub(crate) struct Deltas {
    before: HashMap<String, Before>,
    bytes: usize,
    most: usize,
}

struct Before {
    packed: Vec<u8>,
    time: i64,
}

/// Returns whether values of a profile count since the start of the process.
pub(crate) fn has_totals(profile: &Profile) -> bool {
    profile.sample_types().iter().any(|value| is_cumulative(profile.string(value.kind)))
}

impl Deltas {
    /// Creates an empty table, which is one of `share` that have the memory together.
    pub(crate) fn new(share: usize) -> Self {
        Self { before: HashMap::default(), bytes: 0, most: MAX_BYTES / share.max(1) }
    }

    /// Replaces the totals in `profile` by what was added since the last profile with this key. Those of the first
    /// one, and of one after a restart of the process, become 0: what was added since when is not known.
    pub(crate) fn apply(&mut self, key: &str, profile: &Profile, now: i64) -> Result<Profile> {
        let mut packed = Vec::new();
        pprof::write_gzip(profile, &mut packed)?;
        let before = self.replace(key, Before { packed, time: now }, now)?;
        let columns: Vec<bool> =
            profile.sample_types().iter().map(|value| is_cumulative(profile.string(value.kind))).collect();
        let keep = |factor: f64, other: f64| -> Vec<f64> {
            columns.iter().map(|&is_total| if is_total { factor } else { other }).collect()
        };
        let without_totals = || {
            let mut profile = profile.clone();
            profile.scale_each(&keep(0.0, 1.0));
            profile
        };
        let Some(before) = before else { return Ok(without_totals()) };
        let budget = Budget::new(Limits::SERVICE);
        let Ok(mut before) = pprof::read_within(&before.packed, &budget) else { return Ok(without_totals()) };
        let is_same = kinds(&before) == kinds(profile);
        if !is_same {
            return Ok(without_totals());
        }
        before.scale_each(&keep(-1.0, 0.0));
        let mut merged = merge_within(&[profile, &before], &budget)?;
        let is_restart = merged.samples().any(|sample| {
            sample.values.iter().zip(&columns).any(|(value, is_total)| *is_total && *value < 0)
        });
        if is_restart {
            return Ok(without_totals());
        }
        // A merge begins with the first of its profiles.
        merged.header.time_nanos = profile.header.time_nanos;
        merged.header.duration_nanos = profile.header.duration_nanos;
        Ok(merged)
    }

    fn replace(&mut self, key: &str, new: Before, now: i64) -> Result<Option<Before>> {
        let added = new.packed.len();
        if self.bytes + added > self.most {
            self.forget_old(now);
        }
        if self.bytes + added > self.most {
            return Err(Error::new(
                ErrorKind::Busy,
                "too many processes send totals since their start; send differences (with the label __delta__=false)",
            ));
        }
        let old = self.before.insert(key.to_owned(), new);
        self.bytes += added;
        self.bytes -= old.as_ref().map_or(0, |old| old.packed.len());
        Ok(old)
    }

    fn forget_old(&mut self, now: i64) {
        self.before.retain(|_, before| now.saturating_sub(before.time) < MAX_AGE);
        self.bytes = self.before.values().map(|before| before.packed.len()).sum();
    }
}

fn kinds(profile: &Profile) -> Vec<(&str, &str)> {
    let texts = profile.sample_types().iter();
    texts.map(|value| (profile.string(value.kind), profile.string(value.unit))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_profile::{LabelSetId, ProfileBuilder};

    fn heap(time: i64, stacks: &[(&str, i64, i64)]) -> Profile {
        let mut builder = ProfileBuilder::new(&[("alloc_space", "bytes"), ("inuse_space", "bytes")]);
        builder.header_mut().time_nanos = time;
        for (name, allocated, in_use) in stacks {
            let frame = builder.named_frame(name);
            let stack = builder.stack(&[frame]);
            builder.sample(stack, LabelSetId::EMPTY, &[*allocated, *in_use]);
        }
        builder.finish()
    }

    fn totals(profile: &Profile) -> (i64, i64) {
        (profile.total(0), profile.total(1))
    }

    #[test]
    fn totals_become_differences_and_moments_stay() {
        let mut deltas = Deltas::new(1);
        let first = deltas.apply("a", &heap(1, &[("x", 100, 10)]), 0).expect("first");
        assert_eq!(totals(&first), (0, 10), "what was allocated before is not known");
        let second = deltas.apply("a", &heap(2, &[("x", 130, 7), ("y", 5, 5)]), 0).expect("second");
        assert_eq!(totals(&second), (35, 12));
        assert_eq!(second.header.time_nanos, 2);
        let other = deltas.apply("b", &heap(2, &[("x", 1000, 1)]), 0).expect("another process");
        assert_eq!(totals(&other), (0, 1));
        let restarted = deltas.apply("a", &heap(3, &[("x", 20, 20)]), 0).expect("restarted");
        assert_eq!(totals(&restarted), (0, 20));
        let after = deltas.apply("a", &heap(4, &[("x", 21, 20)]), 0).expect("after the restart");
        assert_eq!(totals(&after), (1, 20));
    }
}
