//! Samples of one reader (or one window of one), each distinct stack stored once.

use crate::labels::LabelSet;
use flamelet_profile::InternedLists;
use flamelet_unwind::Era;
use rustc_hash::FxHashMap;

/// A thread under one of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ThreadKey {
    pub(crate) tid: i32,
    pub(crate) name: [u8; 16],
}

impl ThreadKey {
    pub(crate) fn name(&self) -> String {
        let length = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(&self.name[..length]).into_owned()
    }
}

/// Samples with the same stack, labels and thread name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowKey {
    pub(crate) stack: u32,
    /// Index into [`Aggregate::labels`].
    pub(crate) labels: u32,
    /// Index into [`Aggregate::names`].
    pub(crate) name: u32,
    pub(crate) era: Era,
    pub(crate) is_rooted: bool,
}

/// The sums of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RowCount {
    /// Sampling periods.
    pub(crate) periods: u64,
    /// Signals: one of them may stand for several periods.
    pub(crate) observations: u64,
    /// The sum of their squared periods.
    pub(crate) squares: f64,
}

impl RowCount {
    fn add(&mut self, periods: u64) {
        self.periods += periods;
        self.observations += 1;
        self.squares += (periods as f64).powi(2);
    }
}

/// When one sample was taken, and on which thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleMoment {
    /// The monotonic clock.
    pub(crate) time: u64,
    pub(crate) row: u32,
    /// Index into [`Aggregate::threads`].
    pub(crate) thread: u32,
    pub(crate) count: u32,
}

/// A sample to add.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    pub(crate) thread: ThreadKey,
    pub(crate) time: u64,
    pub(crate) labels: &'a LabelSet,
    pub(crate) frames: &'a [u64],
    /// Which modules were loaded where.
    pub(crate) era: Era,
    pub(crate) is_rooted: bool,
    /// How many sampling periods it stands for.
    pub(crate) count: u64,
}

/// Samples, each distinct stack stored once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aggregate {
    /// Leaf first.
    pub(crate) stacks: InternedLists<u64>,
    rows: FxHashMap<RowKey, u32>,
    /// Keys and counts, by row.
    pub(crate) counts: Vec<(RowKey, RowCount)>,
    thread_index: FxHashMap<ThreadKey, (u32, u32)>,
    pub(crate) threads: Vec<ThreadKey>,
    name_index: FxHashMap<[u8; 16], u32>,
    /// Distinct thread names.
    pub(crate) names: Vec<[u8; 16]>,
    label_index: FxHashMap<u32, u32>,
    pub(crate) labels: Vec<LabelSet>,
    /// The bytes that the labels' texts take.
    label_bytes: usize,
    pub(crate) moments: Vec<SampleMoment>,
    /// Whether the moments did not fit.
    pub(crate) has_no_timeline: bool,
    /// The sampling periods of all samples.
    pub(crate) periods: u64,
    /// The samples, whatever they stand for.
    pub(crate) observations: u64,
    /// The sampling periods of samples that did not fit.
    pub(crate) lost: u64,
    /// Samples that do not reach their thread's start.
    pub(crate) truncated: u64,
}

impl Aggregate {
    /// Adds a sample. Storage stays at about `budget` bytes: once half of it is used the timeline is dropped, and
    /// when it is full only existing rows continue to count.
    pub(crate) fn add(&mut self, sample: &Incoming<'_>, keep_moment: bool, budget: usize) {
        let is_full = self.byte_size() > budget;
        let row = if is_full { self.known_row(sample) } else { Some(self.row(sample)) };
        let Some(row) = row else {
            self.lost += sample.count;
            return;
        };
        self.counts[row as usize].1.add(sample.count);
        self.periods += sample.count;
        self.observations += 1;
        self.truncated += u64::from(!sample.is_rooted);
        if keep_moment {
            self.add_moment(sample, row, budget / 2);
        }
    }

    /// Adds to the timeline, or drops all of it: a timeline that ends early would look like a program that does.
    fn add_moment(&mut self, sample: &Incoming<'_>, row: u32, budget: usize) {
        if self.has_no_timeline || self.byte_size() > budget {
            self.has_no_timeline = true;
            self.moments = Vec::new();
            return;
        }
        let (thread, _) = self.thread(sample.thread);
        let count = u32::try_from(sample.count).unwrap_or(u32::MAX);
        self.moments.push(SampleMoment { time: sample.time, row, thread, count });
    }

    /// Returns the row of a sample, adding it if it is new.
    fn row(&mut self, sample: &Incoming<'_>) -> u32 {
        let (_, name) = self.thread(sample.thread);
        let labels = self.label_set(sample.labels);
        let stack = self.stacks.intern(sample.frames);
        let key = RowKey { stack, labels, name, era: sample.era, is_rooted: sample.is_rooted };
        let counts = &mut self.counts;
        *self.rows.entry(key).or_insert_with(|| {
            counts.push((key, RowCount::default()));
            counts.len() as u32 - 1
        })
    }

    fn known_row(&self, sample: &Incoming<'_>) -> Option<u32> {
        let stack = self.stacks.find(sample.frames)?;
        let labels = *self.label_index.get(&sample.labels.id())?;
        let name = *self.name_index.get(&sample.thread.name)?;
        let key = RowKey { stack, labels, name, era: sample.era, is_rooted: sample.is_rooted };
        self.rows.get(&key).copied()
    }

    /// Returns roughly how many bytes are allocated.
    pub(crate) fn byte_size(&self) -> usize {
        self.stacks.item_count() * 8
            + self.stacks.len() * 12
            + self.counts.len() * 80
            + self.threads.len() * 64
            + self.names.len() * 48
            + self.labels.len() * 64
            + self.label_bytes
            + self.moments.len() * size_of::<SampleMoment>()
    }

    /// Returns the indices of the thread and of its name.
    fn thread(&mut self, key: ThreadKey) -> (u32, u32) {
        let Self { threads, thread_index, names, name_index, .. } = self;
        *thread_index.entry(key).or_insert_with(|| {
            threads.push(key);
            let name = *name_index.entry(key.name).or_insert_with(|| {
                names.push(key.name);
                names.len() as u32 - 1
            });
            (threads.len() as u32 - 1, name)
        })
    }

    fn label_set(&mut self, set: &LabelSet) -> u32 {
        let (labels, bytes) = (&mut self.labels, &mut self.label_bytes);
        // Keeping the set keeps its number from being used again.
        *self.label_index.entry(set.id()).or_insert_with(|| {
            labels.push(set.clone());
            *bytes += set.iter().map(|(name, value)| 32 + name.len() + value.len()).sum::<usize>();
            labels.len() as u32 - 1
        })
    }
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
        let counts: Vec<_> =
            aggregate.counts.iter().map(|(_, count)| (count.periods, count.observations)).collect();
        assert_eq!(counts, [(4, 2), (2, 1), (2, 1)]);
        assert_eq!(aggregate.counts[0].1.squares, 8.0);
        assert_eq!((aggregate.periods, aggregate.observations, aggregate.truncated), (8, 4, 1));
        assert_eq!(aggregate.stacks.get(aggregate.counts[1].0.stack), [1, 3]);
        assert_eq!((aggregate.threads.len(), aggregate.names.len(), aggregate.moments.len()), (3, 1, 4));
        assert_eq!(aggregate.threads[0].name(), "worker");
    }

    #[test]
    fn the_timeline_goes_before_a_sample_does() {
        const BUDGET: usize = 64 << 10;
        let labels = LabelSet::EMPTY;
        let mut aggregate = Aggregate::default();
        for number in 0..100_000 {
            aggregate.add(&sample(&labels, 1, &[number % 10, 1, 2, 3]), true, BUDGET);
            assert!(aggregate.byte_size() <= BUDGET / 2 + 1000);
        }
        assert_eq!((aggregate.periods, aggregate.lost), (200_000, 0));
        assert_eq!((aggregate.counts.len(), aggregate.moments.len()), (10, 0));
    }

    #[test]
    fn what_is_known_is_counted_when_there_is_no_room_for_more() {
        const BUDGET: usize = 16 << 10;
        let labels = LabelSet::EMPTY;
        let mut aggregate = Aggregate::default();
        for number in 0..10_000 {
            aggregate.add(&sample(&labels, 1, &[number, 1, 2, 3]), true, BUDGET);
        }
        let (periods, lost, rows) = (aggregate.periods, aggregate.lost, aggregate.counts.len());
        assert!(lost > 0 && aggregate.byte_size() < BUDGET + 1000, "{} bytes", aggregate.byte_size());
        // From another thread with the same name, too.
        aggregate.add(&sample(&labels, 2, &[0, 1, 2, 3]), true, BUDGET);
        assert_eq!((aggregate.periods, aggregate.lost), (periods + 2, lost));
        // A known stack in a row that is not known.
        let other = LabelSet::new([("route", "/")]);
        aggregate.add(&sample(&other, 1, &[0, 1, 2, 3]), true, BUDGET);
        assert_eq!((aggregate.periods, aggregate.lost), (periods + 2, lost + 2));
        assert_eq!((aggregate.counts.len(), aggregate.labels.len(), aggregate.threads.len()), (rows, 1, 1));
    }

    #[test]
    fn what_does_not_fit_the_budget_is_counted() {
        let labels = LabelSet::EMPTY;
        let mut aggregate = Aggregate::default();
        for leaf in 0..1000 {
            aggregate.add(&sample(&labels, 1, &[leaf, 1, 2, 3]), false, 4096);
        }
        assert!(aggregate.byte_size() < 5000);
        assert_eq!(aggregate.periods + aggregate.lost, 2000);
        assert!(aggregate.lost > 0);
    }
}
