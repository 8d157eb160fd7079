//! Keeps a span of time, for profiles that know when their samples were taken.

use std::ops::Range;

use crate::{Event, Profile};

/// How often a sample was taken, and the total of its events' values.
#[derive(Clone, Copy, Default)]
struct EventTotal {
    value: i64,
    count: u64,
}

impl EventTotal {
    fn add(&mut self, value: i64) {
        self.value = self.value.saturating_add(value);
        self.count += 1;
    }

    /// Returns the share by value, or by count where the values are zero, as for idle samples and untimed calls.
    fn share_of(self, all: Self) -> f64 {
        match all {
            Self { count: 0, .. } => 0.0,
            Self { value: 0, count } => self.count as f64 / count as f64,
            Self { value, .. } => self.value as f64 / value as f64,
        }
    }
}

impl Profile {
    /// Keeps what was sampled in `span` (nanoseconds since the timeline's start). A sample that was taken several
    /// times keeps the share that falls inside it, and an interval in which a thread waited the part that does. A profile
    /// without a timeline is left unchanged.
    pub fn keep_time(&mut self, span: Range<u64>) {
        let sets = self.waiting_sets();
        let waits: Vec<bool> = self.samples.labels.iter().map(|set| sets[set.index()]).collect();
        let has_durations = self.timeline.as_ref().is_some_and(|it| self.counts_nanoseconds(it.value_type));
        let Some(timeline) = &mut self.timeline else { return };
        let mut before = vec![EventTotal::default(); self.samples.stacks.len()];
        let mut after = before.clone();
        timeline.events.retain_mut(|event| {
            let row = event.sample as usize;
            before[row].add(event.value);
            let kept = kept_part(event, &span, has_durations && waits[row]);
            kept.into_iter().for_each(|part| {
                *event = part;
                after[row].add(part.value);
            });
            kept.is_some()
        });
        let width = self.sample_types.len();
        for row in 0..before.len() {
            let share = after[row].share_of(before[row]);
            for value in &mut self.samples.values[row * width..(row + 1) * width] {
                *value = (*value as f64 * share).round() as i64;
            }
            if let Some(observations) = &mut self.observations {
                let kept = after[row].count as f64 / before[row].count.max(1) as f64;
                observations.rows[row].count *= kept;
                observations.rows[row].squares *= kept;
            }
        }
        let length = span.end.saturating_sub(span.start);
        self.header.duration_nanos = self.header.duration_nanos.min(length as i64);
        let keep: Vec<bool> = after.iter().map(|kept| kept.count > 0).collect();
        self.retain_samples(&keep);
    }
}

/// Returns the part of an event that is within `span`, if any. If it is an interval, its value is its duration.
fn kept_part(event: &Event, span: &Range<u64>, is_interval: bool) -> Option<Event> {
    let duration = u64::try_from(event.value).unwrap_or(0);
    if !is_interval || duration == 0 {
        return span.contains(&event.time).then_some(*event);
    }
    let (from, to) = (event.time.max(span.start), event.time.saturating_add(duration).min(span.end));
    (from < to).then(|| Event { time: from, value: i64::try_from(to - from).unwrap_or(i64::MAX), ..*event })
}
