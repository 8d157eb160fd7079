//! Merging, normalizing and cutting profiles that do not agree in everything.

use flamelet_profile::pprof::{self, Limits};
use flamelet_profile::{Event, Line, Observed, Profile, ProfileBuilder, Thread, ThreadId, Timeline, merge};

/// One function sampled at each of `times`; each sample has these values.
fn sampled(types: &[(&str, &str)], values: &[i64], timeline: (i64, usize, &[u64])) -> Profile {
    let (start_nanos, value_type, times) = timeline;
    let mut builder = ProfileBuilder::new(types);
    let function = builder.named_function("work", "src/work.rs");
    let location = builder.location(None, 0, &[Line { function: Some(function), line: 1, column: 0 }]);
    let stack = builder.stack(&[location]);
    let sums: Vec<i64> = values.iter().map(|value| value * times.len() as i64).collect();
    builder.merge_sample(stack, Default::default(), &sums);
    let name = builder.string("main");
    let event =
        |&time: &u64| Event { time, sample: 0, thread: ThreadId::from_index(0), value: values[value_type] };
    let timeline = Timeline {
        start_nanos,
        threads: vec![Thread { pid: 1, tid: 1, name, process: name }],
        events: times.iter().map(event).collect(),
        value_type,
    };
    builder.finish_with(Some(timeline), None)
}

const PERF: [(&str, &str); 2] = [("samples", "count"), ("cycles", "count")];

#[test]
fn a_timeline_of_a_kind_that_is_not_kept_is_left_out_and_the_file_can_be_read() {
    let cycles = sampled(&PERF, &[1, 500], (0, 1, &[10, 20]));
    let counted = sampled(&[("samples", "count")], &[1], (0, 0, &[30]));
    let merged = merge(&[&cycles, &counted]).expect("they have samples in common");
    assert_eq!(merged.total(0), 3);
    let timeline = merged.timeline.as_ref().expect("that of the other is there");
    assert_eq!((timeline.value_type, timeline.events.len()), (0, 1));
    pprof::read(&pprof::encode(&merged), &Limits::default()).expect("readable");
}

#[test]
fn the_kind_of_a_timeline_is_found_again_in_another_order_and_unit() {
    let one = sampled(&[("cpu", "nanoseconds"), ("samples", "count")], &[1_000_000, 1], (0, 0, &[10]));
    let other = sampled(&[("samples", "count"), ("cpu", "milliseconds")], &[1, 2], (0, 1, &[20]));
    let merged = merge(&[&one, &other]).expect("the same kinds");
    let timeline = merged.timeline.as_ref().expect("both have one");
    let values: Vec<i64> = timeline.events.iter().map(|event| event.value).collect();
    assert_eq!((timeline.value_type, values), (0, vec![1_000_000, 2_000_000]));
}

#[test]
fn a_timeline_without_a_date_begins_with_the_others() {
    const DATE: i64 = 1_700_000_000_000_000_000;
    let dated = sampled(&PERF, &[1, 1], (DATE, 0, &[10]));
    let undated = sampled(&PERF, &[1, 1], (0, 0, &[30]));
    for pair in [[&dated, &undated], [&undated, &dated]] {
        let merged = merge(&pair).expect("the same kinds");
        let timeline = merged.timeline.as_ref().expect("both have one");
        let times: Vec<u64> = timeline.events.iter().map(|event| event.time).collect();
        assert_eq!((timeline.start_nanos, times), (DATE, vec![10, 30]));
    }
}

#[test]
fn what_is_subtracted_has_no_moments() {
    let new = sampled(&PERF, &[1, 1], (0, 0, &[10, 20, 30]));
    let mut base = sampled(&PERF, &[1, 1], (0, 0, &[40]));
    base.scale(-1.0);
    let difference = merge(&[&new, &base]).expect("the same kinds");
    assert_eq!(difference.total(0), 2);
    assert_eq!(difference.timeline.expect("that of the new one").events.len(), 3);
}

#[test]
fn normalizing_knows_units() {
    let mut milliseconds = sampled(&[("cpu", "milliseconds")], &[7], (0, 0, &[1]));
    let nanoseconds = sampled(&[("cpu", "nanoseconds")], &[7_000_000], (0, 0, &[1]));
    milliseconds.normalize_to(&nanoseconds).expect("the same kind");
    assert_eq!(milliseconds.total(0), 7);
}

#[test]
fn samples_without_a_value_are_cut_by_their_number() {
    let mut calls =
        sampled(&[("calls", "count"), ("time", "nanoseconds")], &[1, 0], (0, 1, &[10, 20, 30, 40]));
    calls.keep_time(0..25);
    assert_eq!((calls.total(0), calls.sample_count()), (2, 1));
    calls.keep_time(50..60);
    assert_eq!(calls.sample_count(), 0);
}

#[test]
fn a_wait_keeps_the_part_of_it_that_is_in_the_range() {
    let mut builder = ProfileBuilder::new(&[("off_cpu", "nanoseconds")]);
    let stack = builder.stack(&[]);
    let label = builder.text_label("wait", "futex");
    let waiting = builder.labels(&[label]);
    let wait = builder.sample(stack, waiting, &[1_000]) as u32;
    let run = builder.sample(stack, Default::default(), &[10]) as u32;
    let event = |time, sample, value| Event { time, sample, value, thread: ThreadId::from_index(0) };
    let events = vec![event(100, wait, 900), event(500, run, 10), event(1_500, wait, 100)];
    let timeline = Timeline { threads: vec![Default::default()], events, ..Timeline::default() };
    let mut profile = builder.finish_with(Some(timeline), None);
    profile.keep_time(400..700);
    assert_eq!(profile.total(0), 300 + 10);
    let kept = profile.timeline.expect("it stays").events;
    assert_eq!(
        kept.iter().map(|event| (event.time, event.value)).collect::<Vec<_>>(),
        [(400, 300), (500, 10)]
    );
}

/// A stack with these observations, each given by its weight in nanoseconds.
fn weighed(weights: &[i64], is_stated: bool) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let stack = builder.stack(&[]);
    let values = [weights.len() as i64, weights.iter().sum()];
    let row = builder.merge_sample(stack, Default::default(), &values);
    if is_stated {
        let squares = weights.iter().map(|&weight| (weight as f64).powi(2)).sum();
        builder.observe(row, 1, Observed { count: weights.len() as f64, squares });
    }
    builder.finish()
}

#[test]
fn observations_survive_the_file_and_add_up() {
    let unequal = weighed(&[10, 10, 40], true);
    let read = pprof::read(&pprof::encode(&unequal), &Limits::default()).expect("readable");
    assert_eq!(read.observed(1), [Observed { count: 3.0, squares: 1800.0 }]);
    assert_eq!(read.observations, unequal.observations);
    let equal = weighed(&[20, 20], true);
    let read_equal = pprof::read(&pprof::encode(&equal), &Limits::default()).expect("readable");
    assert_eq!(read_equal.observations, equal.observations, "their squares are not written");
    // Those of a file that does not state them are derived.
    let merged = merge(&[&unequal, &equal, &weighed(&[5, 5], false)]).expect("the same kinds");
    assert_eq!(merged.observed(1), [Observed { count: 7.0, squares: 1800.0 + 800.0 + 50.0 }]);
    assert_eq!((merged.total(0), merged.total(1)), (7, 110));
}

#[test]
fn scaling_changes_weights_and_not_how_many_there_are() {
    let mut profile = weighed(&[10, 30], true);
    profile.scale_each(&[1.0, 2.0]);
    assert_eq!(profile.observed(1), [Observed { count: 2.0, squares: 4000.0 }]);
    assert_eq!(profile.total_observed(1).effective(80.0), 1.6);
}
