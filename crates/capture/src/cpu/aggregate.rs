//! Samples of one reader (or one window of one), each distinct stack stored once.

use super::seen_modules::Era;
use crate::labels::LabelSet;
use hashbrown::HashTable;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::BuildHasher;

/// A thread under one of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ThreadKey {
    pub(crate) tid: i32,
    pub(crate) name: [u8; 16],
}

impl ThreadKey {
    /// The name as text.
    pub(crate) fn name(&self) -> String {
        let length = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(&self.name[..length]).into_owned()
    }
}

/// Samples with the same stack, labels and thread name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowKey {
    pub(crate) stack: u32,
    /// In [`Aggregate::labels`].
    pub(crate) labels: u32,
    /// In [`Aggregate::names`].
    pub(crate) name: u32,
    pub(crate) era: Era,
    pub(crate) is_rooted: bool,
}

/// One sample's moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The monotonic clock.
    pub(crate) time: u64,
    pub(crate) row: u32,
    /// In [`Aggregate::threads`].
    pub(crate) thread: u32,
    pub(crate) count: u32,
}

/// A sample as it is added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    pub(crate) thread: ThreadKey,
    pub(crate) time: u64,
    pub(crate) labels: &'a LabelSet,
    pub(crate) frames: &'a [u64],
    /// What was loaded where.
    pub(crate) era: Era,
    pub(crate) is_rooted: bool,
    /// How many sampling periods it stands for.
    pub(crate) count: u64,
}

/// The samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aggregate {
    stacks: Stacks,
    rows: FxHashMap<RowKey, u32>,
    /// Keys and counts, by row.
    pub(crate) counts: Vec<(RowKey, u64)>,
    thread_index: FxHashMap<ThreadKey, (u32, u32)>,
    pub(crate) threads: Vec<ThreadKey>,
    /// Distinct thread names.
    pub(crate) names: Vec<[u8; 16]>,
    label_index: FxHashMap<u32, u32>,
    pub(crate) labels: Vec<LabelSet>,
    /// What the texts of the labels take.
    label_bytes: usize,
    pub(crate) moments: Vec<Moment>,
    /// All counts together.
    pub(crate) samples: u64,
    /// Samples that did not fit.
    pub(crate) lost: u64,
    /// Counts of samples that do not reach their thread's start.
    pub(crate) truncated: u64,
}

impl Aggregate {
    /// Adds a sample, if what is stored stays below `budget` bytes.
    pub(crate) fn add(&mut self, sample: &Incoming<'_>, keep_moment: bool, budget: usize) {
        if self.byte_size() > budget {
            self.lost += sample.count;
            return;
        }
        let (thread, name) = self.thread(sample.thread);
        let labels = self.label_set(sample.labels);
        let stack = self.stacks.intern(sample.frames);
        let key = RowKey { stack, labels, name, era: sample.era, is_rooted: sample.is_rooted };
        let counts = &mut self.counts;
        let row = *self.rows.entry(key).or_insert_with(|| {
            counts.push((key, 0));
            counts.len() as u32 - 1
        });
        self.counts[row as usize].1 += sample.count;
        self.samples += sample.count;
        if !sample.is_rooted {
            self.truncated += sample.count;
        }
        if keep_moment {
            let count = u32::try_from(sample.count).unwrap_or(u32::MAX);
            self.moments.push(Moment { time: sample.time, row, thread, count });
        }
    }

    /// The frames of a stack, leaf first.
    pub(crate) fn frames(&self, stack: u32) -> &[u64] {
        self.stacks.get(stack)
    }

    /// Roughly what is allocated.
    pub(crate) fn byte_size(&self) -> usize {
        self.stacks.frames.len() * 8
            + self.stacks.ends.len() * 12
            + self.counts.len() * 64
            + self.threads.len() * 64
            + self.labels.len() * 64
            + self.label_bytes
            + self.moments.len() * size_of::<Moment>()
    }

    fn thread(&mut self, key: ThreadKey) -> (u32, u32) {
        let (threads, names) = (&mut self.threads, &mut self.names);
        *self.thread_index.entry(key).or_insert_with(|| {
            threads.push(key);
            let name = names.iter().position(|name| *name == key.name).unwrap_or_else(|| {
                names.push(key.name);
                names.len() - 1
            });
            (threads.len() as u32 - 1, name as u32)
        })
    }

    fn label_set(&mut self, set: &LabelSet) -> u32 {
        let (labels, bytes) = (&mut self.labels, &mut self.label_bytes);
        // The set is kept, so its number stays its own.
        *self.label_index.entry(set.id()).or_insert_with(|| {
            labels.push(set.clone());
            *bytes += set.iter().map(|(name, value)| 32 + name.len() + value.len()).sum::<usize>();
            labels.len() as u32 - 1
        })
    }
}

/// Distinct stacks, one after the other.
#[derive(Clone, Debug, Default)]
struct Stacks {
    frames: Vec<u64>,
    ends: Vec<usize>,
    index: HashTable<u32>,
}

impl Stacks {
    fn intern(&mut self, frames: &[u64]) -> u32 {
        let hash = FxBuildHasher.hash_one(frames);
        let Self { frames: stored, ends, index } = self;
        if let Some(&found) = index.find(hash, |&at| row(stored, ends, at) == frames) {
            return found;
        }
        stored.extend_from_slice(frames);
        ends.push(stored.len());
        let at = ends.len() as u32 - 1;
        index.insert_unique(hash, at, |&at| FxBuildHasher.hash_one(row(stored, ends, at)));
        at
    }

    fn get(&self, at: u32) -> &[u64] {
        row(&self.frames, &self.ends, at)
    }
}

fn row<'a>(frames: &'a [u64], ends: &[usize], at: u32) -> &'a [u64] {
    let start = (at as usize).checked_sub(1).map_or(0, |before| ends[before]);
    &frames[start..ends[at as usize]]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample<'a>(labels: &'a LabelSet, tid: i32, frames: &'a [u64]) -> Incoming<'a> {
        let thread = ThreadKey { tid, name: *b"worker\0\0\0\0\0\0\0\0\0\0" };
        Incoming { thread, time: 7, labels, frames, era: Era::default(), is_rooted: tid != 3, count: 2 }
    }

    #[test]
    fn equal_stacks_of_threads_with_one_name_share_a_row() {
        let labels = LabelSet::EMPTY;
        let mut aggregate = Aggregate::default();
        aggregate.add(&sample(&labels, 1, &[1, 2]), true, usize::MAX);
        aggregate.add(&sample(&labels, 2, &[1, 2]), true, usize::MAX);
        aggregate.add(&sample(&labels, 1, &[1, 3]), true, usize::MAX);
        aggregate.add(&sample(&labels, 3, &[1, 2]), true, usize::MAX);
        let counts: Vec<u64> = aggregate.counts.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [4, 2, 2]);
        assert_eq!((aggregate.samples, aggregate.truncated), (8, 2));
        assert_eq!(aggregate.frames(aggregate.counts[1].0.stack), [1, 3]);
        assert_eq!((aggregate.threads.len(), aggregate.names.len(), aggregate.moments.len()), (3, 1, 4));
        assert_eq!(aggregate.threads[0].name(), "worker");
    }

    #[test]
    fn what_does_not_fit_the_budget_is_counted() {
        let labels = LabelSet::EMPTY;
        let mut aggregate = Aggregate::default();
        for leaf in 0..1000 {
            aggregate.add(&sample(&labels, 1, &[leaf, 1, 2, 3]), false, 4096);
        }
        assert!(aggregate.byte_size() < 5000);
        assert_eq!(aggregate.samples + aggregate.lost, 2000);
        assert!(aggregate.lost > 0);
    }
}
