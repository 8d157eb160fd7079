//! Keeping a span of time, for profiles that know when their samples were taken.

use std::ops::Range;

use crate::Profile;

impl Profile {
    /// Keeps what was sampled in `span` (nanoseconds since the timeline's start). A sample that was taken
    /// several times keeps its share. A profile without a timeline stays as it is.
    pub fn keep_time(&mut self, span: Range<u64>) {
        let Some(timeline) = &mut self.timeline else { return };
        let mut before = vec![0i64; self.samples.stacks.len()];
        let mut after = vec![0i64; self.samples.stacks.len()];
        timeline.events.retain(|event| {
            let row = event.sample as usize;
            before[row] = before[row].saturating_add(event.value);
            let is_kept = span.contains(&event.time);
            if is_kept {
                after[row] = after[row].saturating_add(event.value);
            }
            is_kept
        });
        let width = self.sample_types.len();
        for row in 0..before.len() {
            let share = if before[row] == 0 { 0.0 } else { after[row] as f64 / before[row] as f64 };
            for value in &mut self.samples.values[row * width..(row + 1) * width] {
                *value = (*value as f64 * share).round() as i64;
            }
        }
        let length = span.end.saturating_sub(span.start);
        self.header.duration_nanos = self.header.duration_nanos.min(length as i64);
        let keep: Vec<bool> = after.iter().map(|&value| value != 0).collect();
        self.retain_samples(&keep);
    }
}
