//! Labels that the samples of a process had in its last profile and do not have now.
//!
//! Of values that say how much there is at a moment, the last moment of a series counts. When all memory of a route was
//! freed, say, the next profile has no sample with this route, and its series would keep what it had. So what is gone is
//! noted with that profile, and its rows say 0.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;

use flamelet_profile::{LabelSetId, Profile};

use crate::lock::lock;
use crate::series::{Labels, is_gauge, with_sample_labels};

/// Bytes of the labels of all processes together.
const MAX_BYTES: usize = 64 << 20;
/// A profile is forgotten after this long.
const MAX_AGE: i64 = 3_600_000_000_000;

/// The labels in the last profile of each process that sends moments.
pub(crate) struct Gone {
    table: Mutex<Table>,
    most: usize,
}

#[derive(Default)]
struct Table {
    last: HashMap<String, LastProfile>,
    bytes: usize,
}

struct LastProfile {
    sets: BTreeSet<Labels>,
    bytes: usize,
    /// When the profile was taken, by the clock of its process.
    time: i64,
    /// When it came.
    seen: i64,
}

/// Returns the labels of the series of a profile that was sent with these labels; `None` if no value says how much there is
/// at a moment.
pub(crate) fn label_sets(labels: &Labels, profile: &Profile) -> Option<BTreeSet<Labels>> {
    let has_moments = profile.sample_types().iter().any(|value| is_gauge(profile.string(value.kind)));
    has_moments.then(|| {
        let sets: BTreeSet<usize> = profile.samples().map(|sample| sample.labels.index()).collect();
        let own = sets.into_iter().map(|set| profile.labels(LabelSetId::from_index(set)));
        own.map(|own| with_sample_labels(labels, profile, own)).collect()
    })
}

impl Gone {
    /// Creates an empty table, one of `share` that have the memory between them.
    pub(crate) fn new(share: usize) -> Self {
        Self { table: Mutex::default(), most: MAX_BYTES / share.max(1) }
    }

    /// Returns which labels the last profile of a process had that this one, which was taken at `time`, does not have.
    pub(crate) fn since_last(&self, process: &str, sets: &BTreeSet<Labels>, time: i64) -> Vec<Labels> {
        let table = lock(&self.table);
        let last = table.last.get(process).filter(|last| last.time < time);
        last.map_or_else(Vec::new, |last| last.sets.difference(sets).cloned().collect())
    }

    /// Remembers a profile, which is on disk, as the last one of its process. Without room, nothing is remembered.
    pub(crate) fn remember(&self, process: String, mut sets: BTreeSet<Labels>, time: i64, now: i64) {
        let mut table = lock(&self.table);
        match table.last.get(&process) {
            Some(last) if time < last.time && now.saturating_sub(last.seen) < MAX_AGE => return,
            // Large profiles come in parts of the same time.
            Some(last) if time == last.time => sets.extend(last.sets.iter().cloned()),
            _ => {}
        }
        let text = |(name, value): &(String, String)| name.len() + value.len() + 2 * size_of::<String>();
        let labels: usize = sets.iter().map(|labels| labels.iter().map(text).sum::<usize>() + 64).sum();
        let bytes = process.len() + labels + 200;
        if table.bytes + bytes > self.most {
            table.last.retain(|_, last| now.saturating_sub(last.seen) < MAX_AGE);
            table.bytes = table.last.values().map(|last| last.bytes).sum();
        }
        let old = table.last.remove(&process);
        table.bytes -= old.map_or(0, |old| old.bytes);
        if table.bytes + bytes <= self.most {
            table.bytes += bytes;
            table.last.insert(process, LastProfile { sets, bytes, time, seen: now });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(routes: &[&str]) -> BTreeSet<Labels> {
        routes.iter().map(|route| vec![("route".to_owned(), (*route).to_owned())]).collect()
    }

    fn gone(table: &Gone, routes: &[&str], time: i64) -> Vec<String> {
        let gone = table.since_last("a", &sets(routes), time);
        table.remember("a".to_owned(), sets(routes), time, time);
        gone.into_iter().map(|labels| labels[0].1.clone()).collect()
    }

    #[test]
    fn labels_are_gone_once() {
        let table = Gone::new(1);
        assert!(gone(&table, &["x", "y"], 1).is_empty(), "the first profile");
        assert_eq!(gone(&table, &["y", "z"], 2), ["x"]);
        assert!(gone(&table, &["y", "z"], 3).is_empty());
        assert!(gone(&table, &[], 2).is_empty(), "a late one says nothing about later moments");
        assert!(gone(&table, &["w"], 3).is_empty(), "another part of the same profile");
        assert_eq!(gone(&table, &[], 4), ["w", "y", "z"]);
        assert!(table.since_last("b", &sets(&[]), 5).is_empty(), "another process");
    }

    #[test]
    fn memory_is_bounded() {
        let table = Gone { table: Mutex::default(), most: 2000 };
        for process in 0..100 {
            table.remember(process.to_string(), sets(&["x"]), 1, 1);
        }
        let bytes = lock(&table.table).bytes;
        assert!((1..=2000).contains(&bytes), "{bytes}");
        table.remember("later".to_owned(), sets(&["x"]), MAX_AGE + 1, MAX_AGE + 1);
        assert_eq!(lock(&table.table).last.len(), 1, "what was there was too old");
        table.remember("later".to_owned(), sets(&["x"]), MAX_AGE + 2, MAX_AGE + 2);
        let table = lock(&table.table);
        assert_eq!(table.bytes, table.last.values().map(|last| last.bytes).sum::<usize>());
    }
}
