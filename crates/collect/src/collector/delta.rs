//! Profiles that count since the start of a process become what was added since the one before.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use flamelet_profile::{Budget, Error, ErrorKind, Limits, Profile, Result, merge_within, pprof};

use crate::lock::lock;
use crate::series::is_cumulative;

/// Bytes of all previous profiles together.
const MAX_BYTES: usize = 256 << 20;
/// A previous profile is forgotten after this long.
const MAX_AGE: i64 = 3_600_000_000_000;

/// The last profile of each process that sends totals.
pub(crate) struct Deltas {
    table: Mutex<Table>,
    most: usize,
}

#[derive(Default)]
struct Table {
    before: HashMap<String, Before>,
    /// Processes whose next profile is on its way to the disk.
    busy: HashSet<String>,
    /// Bytes of the previous profiles, and of those that are on their way.
    bytes: usize,
}

#[derive(Clone)]
struct Before {
    packed: Arc<[u8]>,
    /// When the profile was taken, by the clock of its process.
    time: i64,
    /// When it arrived.
    seen: i64,
}

/// A profile whose differences were computed. It becomes the base of the next one by [`Step::commit`]; until then, and
/// if that is never called because the profile was refused, the base stays.
pub(crate) struct Step<'d> {
    deltas: &'d Deltas,
    key: String,
    /// `None` if the base stays, because the profile is older.
    next: Option<Before>,
}

/// Returns whether values of a profile count since the start of the process.
pub(crate) fn has_totals(profile: &Profile) -> bool {
    profile.sample_types().iter().any(|value| is_cumulative(profile.string(value.kind)))
}

impl Deltas {
    /// Creates an empty table, one of `share` that have the memory between them.
    pub(crate) fn new(share: usize) -> Self {
        Self { table: Mutex::default(), most: MAX_BYTES / share.max(1) }
    }

    /// Replaces the totals in `profile`, which was taken at `time`, by what was added since the last profile with this
    /// key. Those of the first one, and of one after a restart of the process, become 0: what was added, and since
    /// when, is not known. Those of a profile that is older than the last one become 0 too: what it has is in the
    /// differences of the last one already.
    pub(crate) fn apply(
        &self,
        key: &str,
        profile: &Profile,
        time: i64,
        now: i64,
    ) -> Result<(Profile, Step<'_>)> {
        let mut packed = Vec::new();
        pprof::write_gzip(profile, &mut packed)?;
        let next = Before { packed: packed.into(), time, seen: now };
        let (before, step) = self.begin(key, next)?;
        let profile = match before.filter(|_| step.next.is_some()) {
            Some(before) => difference(profile, &before.packed)?,
            None => without_totals(profile),
        };
        Ok((profile, step))
    }

    /// Reserves the memory for the next profile of a process, and returns the previous one.
    fn begin(&self, key: &str, next: Before) -> Result<(Option<Before>, Step<'_>)> {
        let mut table = lock(&self.table);
        let (added, now) = (next.packed.len(), next.seen);
        let before = table.before.get(key).cloned();
        let is_older = before
            .as_ref()
            .is_some_and(|before| next.time < before.time && now.saturating_sub(before.seen) < MAX_AGE);
        if table.bytes + added > self.most {
            table.forget_old(now);
        }
        if table.bytes + added > self.most {
            return Err(Error::new(
                ErrorKind::Busy,
                "too many processes send totals since their start; send differences (with the label __delta__=false)",
            ));
        }
        if !table.busy.insert(key.to_owned()) {
            return Err(Error::new(
                ErrorKind::Busy,
                "another profile of the same process is being written; send it again",
            ));
        }
        let next = (!is_older).then_some(next);
        if next.is_some() {
            table.bytes += added;
        }
        Ok((before, Step { deltas: self, key: key.to_owned(), next }))
    }
}

impl Step<'_> {
    /// Makes the profile the base of the next one: it is on disk.
    pub(crate) fn commit(mut self) {
        let Some(next) = self.next.take() else { return };
        let mut table = lock(&self.deltas.table);
        let old = table.before.insert(self.key.clone(), next);
        table.bytes -= old.map_or(0, |old| old.packed.len());
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        let mut table = lock(&self.deltas.table);
        table.busy.remove(&self.key);
        table.bytes -= self.next.as_ref().map_or(0, |next| next.packed.len());
    }
}

impl Table {
    fn forget_old(&mut self, now: i64) {
        let bytes = |before: &HashMap<String, Before>| -> usize {
            before.values().map(|before| before.packed.len()).sum()
        };
        let was = bytes(&self.before);
        self.before.retain(|_, before| now.saturating_sub(before.seen) < MAX_AGE);
        self.bytes -= was - bytes(&self.before);
    }
}

/// Returns which values of a profile count since the start of the process, as factors: `factor` for these, and `other`
/// for the others.
fn factors(profile: &Profile, factor: f64, other: f64) -> Vec<f64> {
    let types = profile.sample_types().iter();
    types.map(|value| if is_cumulative(profile.string(value.kind)) { factor } else { other }).collect()
}

fn without_totals(profile: &Profile) -> Profile {
    let mut profile = profile.clone();
    profile.scale_each(&factors(&profile, 0.0, 1.0));
    profile
}

/// Returns a profile without what the previous one already had.
fn difference(profile: &Profile, before: &[u8]) -> Result<Profile> {
    let budget = Budget::new(Limits::SERVICE);
    let Ok(mut before) = pprof::read_within(before, &budget) else { return Ok(without_totals(profile)) };
    if kinds(&before) != kinds(profile) {
        return Ok(without_totals(profile));
    }
    before.scale_each(&factors(profile, -1.0, 0.0));
    let mut merged = merge_within(&[profile, &before], &budget)?;
    let columns = factors(profile, 1.0, 0.0);
    let is_restart = merged
        .samples()
        .any(|sample| sample.values.iter().zip(&columns).any(|(value, factor)| *factor > 0.0 && *value < 0));
    if is_restart {
        return Ok(without_totals(profile));
    }
    // A merge begins with the first of its profiles.
    merged.header.time_nanos = profile.header.time_nanos;
    merged.header.duration_nanos = profile.header.duration_nanos;
    Ok(merged)
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

    /// Sends a profile that was taken at `time`, which is accepted.
    fn send(deltas: &Deltas, key: &str, time: i64, stacks: &[(&str, i64, i64)]) -> Profile {
        let (profile, step) = deltas.apply(key, &heap(time, stacks), time, 0).expect("accepted");
        step.commit();
        profile
    }

    #[test]
    fn totals_become_differences_and_moments_stay() {
        let deltas = Deltas::new(1);
        let first = send(&deltas, "a", 1, &[("x", 100, 10)]);
        assert_eq!(totals(&first), (0, 10), "what was allocated before is not known");
        let second = send(&deltas, "a", 2, &[("x", 130, 7), ("y", 5, 5)]);
        assert_eq!(totals(&second), (35, 12));
        assert_eq!(second.header.time_nanos, 2);
        let other = send(&deltas, "b", 2, &[("x", 1000, 1)]);
        assert_eq!(totals(&other), (0, 1), "another process");
        let restarted = send(&deltas, "a", 3, &[("x", 20, 20)]);
        assert_eq!(totals(&restarted), (0, 20));
        let after = send(&deltas, "a", 4, &[("x", 21, 20)]);
        assert_eq!(totals(&after), (1, 20), "after the restart");
    }

    #[test]
    fn a_profile_that_was_refused_is_not_the_base_of_the_next() {
        let deltas = Deltas::new(1);
        send(&deltas, "a", 1, &[("x", 100, 10)]);
        let again = heap(2, &[("x", 130, 10)]);
        let (profile, refused) = deltas.apply("a", &again, 2, 0).expect("computed");
        assert_eq!(totals(&profile).0, 30);
        let busy = deltas.apply("a", &again, 2, 0).map(drop).expect_err("the first one is on its way");
        assert_eq!(busy.kind(), ErrorKind::Busy);
        drop(refused);
        assert_eq!(totals(&send(&deltas, "a", 2, &[("x", 130, 10)])).0, 30);
        assert_eq!(totals(&send(&deltas, "a", 3, &[("x", 131, 10)])).0, 1);
        let table = lock(&deltas.table);
        assert_eq!(table.bytes, table.before.values().map(|before| before.packed.len()).sum::<usize>());
    }

    #[test]
    fn a_profile_that_comes_late_changes_nothing() {
        let deltas = Deltas::new(1);
        send(&deltas, "a", 1, &[("x", 100, 10)]);
        assert_eq!(totals(&send(&deltas, "a", 3, &[("x", 130, 10)])).0, 30);
        assert_eq!(totals(&send(&deltas, "a", 2, &[("x", 110, 9)])), (0, 9), "it is in the 30 already");
        assert_eq!(totals(&send(&deltas, "a", 4, &[("x", 135, 10)])).0, 5);
        // A clock that was set back: after an hour, the new time is believed.
        let (_, step) = deltas.apply("a", &heap(2, &[("x", 140, 10)]), 2, MAX_AGE).expect("accepted");
        step.commit();
        assert_eq!(totals(&send(&deltas, "a", 3, &[("x", 142, 10)])).0, 2);
    }
}
