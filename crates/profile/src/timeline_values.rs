//! The events of a timeline in any sample type, and how long they last.

use crate::{Event, Label, LabelSetId, Profile};

/// The label of samples that stand for an interval in which a thread waited.
const WAIT: &str = "wait";

/// The label and its value with which a wall clock profile says the same.
const STATE: &str = "state";
const WAITING: &str = "waiting";

impl Profile {
    /// Returns the events of the timeline in the sample type at `index`. Each event has the same share of its sample's
    /// value in every type, and the shares add up to the value. Events without one are left out.
    pub fn events_in(&self, index: usize) -> Option<impl Iterator<Item = Event> + '_> {
        let timeline = self.timeline.as_ref()?;
        let is_other = index != timeline.value_type;
        let mut rows = vec![Shares::default(); if is_other { self.sample_count() } else { 0 }];
        timeline
            .events
            .iter()
            .filter(|_| is_other)
            .for_each(|event| rows[event.sample as usize].add(event.value));
        let scaled = move |event: &Event| {
            let mut event = *event;
            if is_other {
                let total = self.sample(event.sample as usize).values.get(index).copied().unwrap_or(0);
                event.value = rows[event.sample as usize].take(event.value, total);
            }
            (event.value != 0).then_some(event)
        };
        Some(timeline.events.iter().filter_map(scaled))
    }

    /// Returns for each label set whether its samples are intervals in which a thread waited: they begin at the time of
    /// their event and last as long as its value, if that is a time.
    pub fn waiting_sets(&self) -> Vec<bool> {
        let [wait, state, waiting] = [WAIT, STATE, WAITING].map(|text| self.strings().find(text));
        let is_wait = |label: &Label| {
            let of_state = state.is_some_and(|state| label.key == state) && Some(label.text) == waiting;
            wait.is_some_and(|wait| label.key == wait) || of_state
        };
        let sets = (0..self.label_set_count()).map(LabelSetId::from_index);
        sets.map(|set| self.labels(set).iter().any(is_wait)).collect()
    }

    /// Returns whether the values of the sample type at `index` are nanoseconds.
    pub fn counts_nanoseconds(&self, index: usize) -> bool {
        self.sample_types().get(index).is_some_and(|value| self.string(value.unit) == "nanoseconds")
    }
}

/// How much of a sample's value its events have had so far.
#[derive(Clone, Copy, Default)]
struct Shares {
    all: i64,
    events: i64,
    taken: i64,
    taken_events: i64,
}

impl Shares {
    fn add(&mut self, value: i64) {
        self.all = self.all.saturating_add(value);
        self.events += 1;
    }

    /// Returns what the next event, of this value, has of `total`: by value, or by count where all values are zero.
    fn take(&mut self, value: i64, total: i64) -> i64 {
        let before = self.part(total);
        self.taken = self.taken.saturating_add(value);
        self.taken_events += 1;
        self.part(total).saturating_sub(before)
    }

    fn part(&self, total: i64) -> i64 {
        let (taken, all) =
            if self.all == 0 { (self.taken_events, self.events) } else { (self.taken, self.all) };
        let part = i128::from(total) * i128::from(taken) / i128::from(all.max(1));
        i64::try_from(part).unwrap_or(total)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Event, LabelSetId, ProfileBuilder, ThreadId, Timeline};

    #[test]
    fn values_of_another_type_add_up() {
        let mut builder =
            ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds"), ("other", "count")]);
        let stack = builder.stack(&[]);
        let one = builder.sample(stack, LabelSetId::EMPTY, &[3, 1_000, 0]) as u32;
        let label = builder.text_label("wait", "futex");
        let waiting = builder.labels(&[label]);
        let other = builder.sample(stack, waiting, &[0, 7, 5]) as u32;
        let event = |time, sample, value| Event { time, sample, value, thread: ThreadId::from_index(0) };
        let events = vec![
            event(1, one, 1),
            event(2, other, 0),
            event(3, one, 1),
            event(4, one, 1),
            event(5, other, 0),
        ];
        let timeline = Timeline { threads: vec![Default::default()], events, ..Timeline::default() };
        let profile = builder.finish_with(Some(timeline), None);
        let values = |index| -> Vec<(u64, i64)> {
            profile.events_in(index).expect("it has times").map(|event| (event.time, event.value)).collect()
        };
        assert_eq!(values(0), [(1, 1), (3, 1), (4, 1)]);
        assert_eq!(values(1), [(1, 333), (2, 3), (3, 333), (4, 334), (5, 4)]);
        assert_eq!(values(2), [(2, 2), (5, 3)]);
        assert_eq!(values(9), []);
        assert_eq!(profile.waiting_sets(), [false, true]);
        assert!(
            profile.counts_nanoseconds(1) && !profile.counts_nanoseconds(0) && !profile.counts_nanoseconds(9)
        );
    }
}
