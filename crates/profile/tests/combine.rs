//! Merging, normalizing and cutting profiles that do not agree in everything.

use flamelet_profile::pprof::{self, Limits};
use flamelet_profile::{Event, Line, Profile, ProfileBuilder, Thread, ThreadId, Timeline, merge};

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
