//! When each thread was where: the timeline of a wall clock profile.

use std::ops::Range;

use flamelet_profile::{Event, ProfileBuilder, Thread, ThreadId, Timeline, TimelineBuilder};
use rustc_hash::FxHashMap;

use crate::clock;
use crate::threads::Tid;

/// A profile with more moments than this has no timeline.
const MOST_MOMENTS: usize = 200_000;

/// A time during which a thread was booked under the same row.
struct Moment {
    start: u64,
    nanos: u64,
    row: u32,
    /// Its place among the threads.
    thread: u32,
}

/// The moments of all threads. Threads that wait have one for the whole wait.
#[derive(Default)]
pub(super) struct Moments {
    all: Vec<Moment>,
    threads: Vec<(Tid, String)>,
    places: FxHashMap<(Tid, String), u32>,
    /// There were too many.
    is_full: bool,
}

impl Moments {
    /// Adds the `time` of a thread under `row`. It becomes part of the moment `before`, if that was under the same row and
    /// ended when this time began. Returns the number of the moment.
    pub(super) fn add(
        &mut self,
        thread: Tid,
        name: &str,
        row: usize,
        time: Range<u64>,
        before: Option<usize>,
    ) -> Option<usize> {
        let row = u32::try_from(row).ok()?;
        let nanos = time.end.saturating_sub(time.start);
        let last = before.and_then(|at| Some((at, self.all.get_mut(at)?)));
        if let Some((at, last)) = last
            && last.row == row
            && last.start + last.nanos == time.start
        {
            last.nanos += nanos;
            return Some(at);
        }
        if self.all.len() >= MOST_MOMENTS {
            self.is_full = true;
            return None;
        }
        let thread = self.thread(thread, name);
        self.all.push(Moment { start: time.start, nanos, row, thread });
        Some(self.all.len() - 1)
    }

    fn thread(&mut self, thread: Tid, name: &str) -> u32 {
        let key = (thread, name.to_owned());
        let threads = &mut self.threads;
        *self.places.entry(key).or_insert_with_key(|key| {
            threads.push(key.clone());
            (threads.len() - 1) as u32
        })
    }

    /// Returns the timeline, in the sample type `value_type`. Times count from `start`; `samples` has the sample of each row, and
    /// moments of rows without one are left out. `None` if there were too many moments: a hole would look like threads that
    /// did not exist.
    pub(super) fn timeline(
        &self,
        builder: &mut ProfileBuilder,
        start: u64,
        samples: &[Option<u32>],
        value_type: usize,
    ) -> Option<Timeline> {
        if self.is_full {
            builder.comment("flamelet: no timeline: too many moments");
            return None;
        }
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(|path| path.file_name()).unwrap_or_default();
        let process = builder.string(&program.to_string_lossy());
        let mut timeline = TimelineBuilder::default();
        let mut describe = |(tid, name): &(Tid, String)| {
            let pid = u64::from(std::process::id());
            timeline.thread(Thread { pid, tid: *tid as u64, name: builder.string(name), process })
        };
        let threads: Vec<ThreadId> = self.threads.iter().map(&mut describe).collect();
        timeline.events(self.all.iter().filter_map(|moment| {
            Some(Event {
                time: moment.start.saturating_sub(start),
                sample: (*samples.get(moment.row as usize)?)?,
                thread: threads[moment.thread as usize],
                value: i64::try_from(moment.nanos).unwrap_or(i64::MAX),
            })
        }));
        let passed = i64::try_from(clock::monotonic_nanos().saturating_sub(start)).unwrap_or(i64::MAX);
        Some(timeline.finish(clock::unix_nanos().saturating_sub(passed), value_type))
    }
}

#[cfg(test)]
mod tests {
    use flamelet_profile::LabelSetId;

    use super::*;

    #[test]
    fn a_wait_is_one_moment_and_everything_else_is_several() {
        let mut moments = Moments::default();
        let waits = moments.add(7, "worker", 0, 100..200, None);
        assert_eq!(moments.add(7, "worker", 0, 200..250, waits), waits, "it still waits");
        let other = moments.add(7, "worker", 1, 250..300, waits);
        assert_ne!(other, waits);
        assert_ne!(moments.add(7, "worker", 0, 300..310, waits), waits, "it has run in between");
        moments.add(8, "idle", 2, 100..310, None);
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("wall", "nanoseconds")]);
        let stack = builder.stack(&[]);
        let sample = builder.merge_sample(stack, LabelSetId::EMPTY, &[1, 210]) as u32;
        let samples = [Some(sample), Some(sample), None];
        let timeline = moments.timeline(&mut builder, 100, &samples, 1).expect("few moments");
        let events: Vec<(u64, i64)> = timeline.events.iter().map(|event| (event.time, event.value)).collect();
        assert_eq!(events, [(0, 150), (150, 50), (200, 10)]);
        assert_eq!(timeline.threads[0].tid, 7);
    }

    #[test]
    fn too_many_moments_are_no_timeline() {
        let mut moments = Moments::default();
        for time in 0..=MOST_MOMENTS as u64 {
            moments.add(7, "worker", 0, time..time + 1, None);
        }
        assert_eq!(moments.all.len(), MOST_MOMENTS);
        let mut builder = ProfileBuilder::new(&[("wall", "nanoseconds")]);
        assert!(moments.timeline(&mut builder, 0, &[Some(0)], 0).is_none());
        let comments: Vec<_> = builder.finish().comments().map(str::to_owned).collect();
        assert!(comments.iter().any(|comment| comment.contains("too many moments")), "{comments:?}");
    }
}
