//! Ranges of time, restarts, clocks, retention, and readers next to the writer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flamelet_profile::{Budget, LabelSetId, Limits, Observed, Profile, ProfileBuilder, merge};
use flamelet_store::{Options, Query, Reader, Writer, is_history};

use crate::support::{SECOND, THEN, WINDOW, facts, read, read_window, sum, window, window_at};

fn files(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("listed");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("listed").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

#[test]
fn what_was_written_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(!is_history(folder.path()));
    let mut writer = Writer::open(folder.path(), Options::default()).expect("opened");
    for number in 0..100 {
        writer.append("cpu", &window(number)).expect("written");
    }
    assert!(is_history(folder.path()));
    assert_eq!((writer.status().windows, writer.status().failed), (100, 0));
    let profile = read(folder.path(), THEN, i64::MAX).expect("there");
    assert_eq!(facts(&profile), sum((0..100).map(window)));
    assert_eq!((profile.header.time_nanos, profile.header.duration_nanos), (THEN, 100 * WINDOW));
    let kinds: Vec<&str> = profile.sample_types().iter().map(|value| profile.string(value.kind)).collect();
    assert_eq!((kinds, profile.header.period), (vec!["samples", "cpu"], 52_631_578));
    let quality = profile.quality.expect("said");
    assert_eq!((profile.string(quality.engine), quality.samples, quality.lost), ("timer", 1000, 100));
    let mappings: Vec<&str> = profile.mappings().iter().map(|it| profile.string(it.filename)).collect();
    assert_eq!(mappings, ["/bin/service", "/lib/some.so"], "the program comes first");
    // The same after the writer has ended.
    drop(writer);
    assert_eq!(files(folder.path()).iter().filter(|name| name.ends_with(".segment")).count(), 1);
    assert_eq!(facts(&read(folder.path(), THEN, i64::MAX).expect("there")), sum((0..100).map(window)));
}

#[test]
fn a_range_has_the_windows_whose_middle_is_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = || {
        let mut options = Options::default();
        options.segment_span = Duration::from_secs(45);
        options
    };
    // Restarts in between change nothing.
    for part in 0..4 {
        let mut writer = Writer::open(folder.path(), options()).expect("opened");
        for number in part * 10..part * 10 + 10 {
            writer.append("cpu", &window(number)).expect("written");
        }
    }
    assert!(files(folder.path()).len() > 10, "segments of 45 seconds: {:?}", files(folder.path()));
    for (from, to) in [(0, 40), (0, 1), (39, 40), (7, 23), (12, 13)] {
        let (start, end) = (THEN + from * WINDOW, THEN + to * WINDOW);
        let expected = sum((from as u64..to as u64).map(window));
        assert_eq!(facts(&read(folder.path(), start, end).expect("there")), expected, "{from} to {to}");
        let half = WINDOW / 2;
        let later = read(folder.path(), start + half, end + half).expect("there");
        assert_eq!(facts(&later), expected, "{from} to {to}, half a window later");
    }
    for (from, to) in [(40, 50), (-10, 0), (7, 7), (9, 3)] {
        let (start, end) = (THEN + from * WINDOW, THEN + to * WINDOW);
        assert!(read(folder.path(), start, end).is_none(), "{from} to {to}");
    }
    let reader = Reader::open(folder.path()).expect("opened");
    let span = reader.span(&Budget::new(Limits::SERVICE)).expect("read").expect("there");
    assert!(span.0 <= THEN && THEN - span.0 <= SECOND, "{span:?}");
    let end = THEN + 40 * WINDOW;
    assert!(span.1 >= end && span.1 - end <= SECOND, "{span:?}");
}

#[test]
fn a_restart_at_other_addresses_merges_and_another_build_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, base) in [(0, 0x7f00_0000_0000), (1, 0x5500_0000_0000), (2, 0x7f00_0000_0000)] {
        let mut writer = Writer::open(folder.path(), Options::default()).expect("opened");
        let start = THEN + number as i64 * WINDOW;
        writer.append("cpu", &window_at(number, start, base)).expect("written");
    }
    // A build that has something else where the first one had its program.
    let mut other = window_at(3, THEN + 3 * WINDOW, 0x7f00_0000_0000);
    let build_id = other.intern("cd02");
    other.mappings_mut()[0].build_id = build_id;
    let mut writer = Writer::open(folder.path(), Options::default()).expect("opened");
    writer.append("cpu", &other).expect("written");
    let profile = read(folder.path(), THEN, i64::MAX).expect("there");
    assert_eq!(facts(&profile), sum((0..3).map(window).chain([other])));
    assert_eq!(profile.mappings().len(), 3);
    for (at, one) in profile.mappings().iter().enumerate() {
        for two in &profile.mappings()[at + 1..] {
            assert!(one.limit <= two.start || two.limit <= one.start, "{one:?} {two:?}");
        }
    }
}

#[test]
fn samples_can_be_chosen_by_their_labels() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::open(folder.path(), Options::default()).expect("opened");
    (0..10).for_each(|number| writer.append("cpu", &window(number)).expect("written"));
    let is_odd = |labels: &[(&str, &str)]| labels.contains(&("thread", "odd"));
    let mut query = Query::new("cpu", THEN, i64::MAX);
    query.keep = Some(&is_odd);
    let reader = Reader::open(folder.path()).expect("opened");
    let budget = Budget::new(Limits::SERVICE);
    let profile = reader.profile(&query, &budget).expect("read").0.expect("there");
    assert_eq!(facts(&profile), sum([1, 3, 5, 7, 9].map(window)));
    query.kind = "heap";
    assert!(reader.profile(&query, &budget).expect("read").0.is_none());
    let kinds = reader.kinds(&query, &budget).expect("read");
    assert_eq!(kinds.iter().map(|kind| &*kind.name).collect::<Vec<_>>(), ["cpu"]);
}

#[test]
fn a_clock_that_jumps_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::open(folder.path(), Options::default()).expect("opened");
    let day = 86_400 * SECOND;
    let starts =
        [0, 400 * day, 400 * day + WINDOW, -300 * day, -300 * day, WINDOW, -THEN, i64::MAX / 2 - THEN];
    let windows: Vec<_> =
        (0..).zip(starts).map(|(number, at)| window_at(number, THEN + at, 0x1000_0000)).collect();
    for window in &windows {
        writer.append("cpu", window).expect("written");
    }
    for (window, at) in windows.iter().zip(starts) {
        let same =
            windows.iter().zip(starts).filter(|(_, other)| *other == at).map(|(window, _)| window.clone());
        let found = read(folder.path(), THEN + at, THEN + at + WINDOW).expect("there");
        assert_eq!(facts(&found), sum(same), "{}", window.header.time_nanos);
    }
    drop(writer);
    let all = read(folder.path(), i64::MIN, i64::MAX).expect("there");
    assert_eq!(facts(&all), sum(windows));
}

#[test]
fn the_oldest_windows_go_first_and_the_folder_stays_small() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = Options::default();
    (options.bytes, options.segment_bytes) = (64 << 10, 4 << 10);
    let mut writer = Writer::open(folder.path(), options).expect("opened");
    let count = 2000;
    for number in 0..count {
        writer.append("cpu", &window(number)).expect("written");
        let bytes: u64 = std::fs::read_dir(folder.path())
            .expect("listed")
            .map(|entry| entry.expect("listed").metadata().expect("there").len())
            .sum();
        assert!(bytes <= 64 << 10, "{bytes} bytes after {number}");
    }
    let is_there: Vec<bool> = (0..count).map(|number| read_window(folder.path(), number).is_some()).collect();
    let first = is_there.iter().position(|&there| there).expect("some") as u64;
    assert!(first > 0 && is_there[first as usize..].iter().all(|&there| there));
    assert!(count - first > 50, "{first}");
    assert_eq!(read_window(folder.path(), first), Some(facts(&window(first))));
}

#[test]
fn readers_beside_the_writer_see_what_is_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = Options::default();
    options.segment_span = Duration::from_secs(200);
    let mut writer = Writer::open(folder.path(), options).expect("opened");
    writer.append("cpu", &window(0)).expect("written");
    let acknowledged = AtomicU64::new(1);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while acknowledged.load(Ordering::SeqCst) < 400 {
                    let before = acknowledged.load(Ordering::SeqCst);
                    let found = read(folder.path(), THEN, i64::MAX).expect("there");
                    let windows = found.header.duration_nanos / WINDOW;
                    assert!(windows as u64 >= before, "{windows} of {before}");
                    assert_eq!(facts(&found), sum((0..windows as u64).map(window)));
                }
            });
        }
        for number in 1..400 {
            writer.append("cpu", &window(number)).expect("written");
            acknowledged.store(number + 1, Ordering::SeqCst);
        }
    });
}

#[test]
fn two_writers_are_refused_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let writer = Writer::open(folder.path(), Options::default()).expect("opened");
    let error = Writer::open(folder.path(), Options::default()).expect_err("taken");
    assert!(error.to_string().contains("its own folder"), "{error}");
    drop(writer);
    Writer::open(folder.path(), Options::default()).expect("free again");
}

#[test]
fn totals_are_those_of_each_window_and_label() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::open(folder.path(), Options::default()).expect("opened");
    (0..10).for_each(|number| writer.append("cpu", &window(number)).expect("written"));
    let reader = Reader::open(folder.path()).expect("opened");
    let mut found: Vec<(i64, String, i64)> = Vec::new();
    let mut each = |middle: i64, labels: &[(&str, &str)], values: &[i64]| {
        found.push(((middle - THEN) / WINDOW, format!("{labels:?}"), values[0]));
    };
    let (query, budget) = (Query::new("cpu", THEN, i64::MAX), Budget::new(Limits::SERVICE));
    reader.totals(&query, &budget, &mut each).expect("read");
    // Sample 1 has a numeric label too, and so a set of its own.
    for number in 0..10 {
        let thread = if number % 2 == 0 { r#"[("thread", "even")]"# } else { r#"[("thread", "odd")]"# };
        let of_window = found.iter().filter(|(at, labels, _)| *at == number && labels == thread);
        let sum: i64 = of_window.map(|(_, _, sum)| sum).sum();
        assert_eq!(sum, window(number as u64).total(0), "window {number}");
    }
}

/// A window of two stacks, every third one with an observation that weighs more than the others.
fn observed_window(number: i64, is_stated: bool) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    for stack in 0..2 {
        let frames = [builder.named_frame(["one", "two"][stack as usize])];
        let id = builder.stack(&frames);
        let (count, heavy) = (number + stack + 2, if number % 3 == 0 { 9 } else { 1 });
        let row = builder.sample(id, LabelSetId::EMPTY, &[count, (count - 1 + heavy) * 1000]);
        let squares = (count - 1 + heavy * heavy) as f64 * 1e6;
        if is_stated {
            builder.observe(row, 1, Observed { count: count as f64, squares });
        }
    }
    let header = builder.header_mut();
    (header.time_nanos, header.duration_nanos) = (THEN + number * WINDOW, WINDOW);
    builder.finish()
}

#[test]
fn sums_rest_on_the_observations_of_their_windows() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = Options::default();
    options.segment_span = Duration::from_secs(45);
    let mut writer = Writer::open(folder.path(), options).expect("opened");
    let windows: Vec<Profile> = (0..20).map(|number| observed_window(number, number < 15)).collect();
    windows.iter().for_each(|window| writer.append("cpu", window).expect("written"));
    drop(writer);
    let stated = read(folder.path(), THEN, THEN + 15 * WINDOW).expect("there");
    let expected = merge(&windows[..15].iter().collect::<Vec<_>>()).expect("merged");
    let (found, expected) = (stated.total_observed(1), expected.total_observed(1));
    assert_eq!(found.count, expected.count);
    assert!((found.squares / expected.squares - 1.0).abs() < 1e-12, "{found:?} {expected:?}");
    assert!(stated.observations.is_some_and(|observed| observed.value_type == 1 && observed.rows.len() == 2));
    // Of a sum with a part that does not say, nothing is claimed.
    let all = read(folder.path(), THEN, THEN + 20 * WINDOW).expect("there");
    assert!(all.observations.is_none());
}

/// A window that shows the heap at a moment: this many bytes are in use, half of them by each of two threads.
fn heap_window(number: i64, bytes: i64) -> Profile {
    let mut builder = ProfileBuilder::new(&[("inuse_objects", "count"), ("inuse_space", "bytes")]);
    let function = builder.named_function("shop::remember", "");
    let frame = builder.frame(function, 1);
    let stack = builder.stack(&[frame]);
    for thread in ["one", "two"] {
        let label = builder.text_label("thread", thread);
        let labels = builder.labels(&[label]);
        builder.sample(stack, labels, &[1, bytes / 2]);
    }
    builder.header_mut().time_nanos = THEN + number * WINDOW;
    builder.finish()
}

#[test]
fn of_the_heap_a_range_has_the_last_moment_and_the_size_at_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let sizes = [100, 300, 50, 80];
    // A new segment begins in between.
    for numbers in [0..2, 2..4] {
        let mut writer = Writer::open(folder.path(), Options::default()).expect("opened");
        for number in numbers {
            writer.append("cpu", &window(number)).expect("written");
            writer.append("heap", &heap_window(number as i64, sizes[number as usize])).expect("written");
        }
    }
    let reader = Reader::open(folder.path()).expect("opened");
    let read = |query: &Query<'_>, limits: Limits| {
        let budget = Budget::new(limits);
        let profile = reader.range(query, &budget).expect("read").0.expect("there");
        let found: Vec<_> = profile.heap_sizes().iter().map(|size| (size.time as i64, size.bytes)).collect();
        (profile.total(1), found)
    };
    let all = Query::new("heap", THEN, i64::MAX);
    let every = vec![(0, 100), (WINDOW, 300), (2 * WINDOW, 50), (3 * WINDOW, 80)];
    assert_eq!(read(&all, Limits::SERVICE), (80, every));
    let part = Query::new("heap", THEN + WINDOW, THEN + 3 * WINDOW);
    assert_eq!(read(&part, Limits::SERVICE), (50, vec![(0, 300), (WINDOW, 50)]));
    let is_one = |labels: &[(&str, &str)]| labels.contains(&("thread", "one"));
    let one = Query { keep: Some(&is_one), ..part };
    assert_eq!(read(&one, Limits::SERVICE), (25, vec![(0, 150), (WINDOW, 25)]));
    let cpu = Query::new("cpu", THEN, i64::MAX);
    let budget = Budget::new(Limits::SERVICE);
    let cpu = reader.range(&cpu, &budget).expect("read").0.expect("there");
    assert_eq!((facts(&cpu), cpu.heap_sizes().len()), (sum((0..4).map(window)), 0));
    let none = Query::new("heap", THEN - SECOND, THEN);
    assert!(reader.range(&none, &budget).expect("read").0.is_none());
}

/// As a profile of the heap is, which shows one moment.
#[test]
fn the_last_window_is_found_though_it_has_no_length() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::open(folder.path(), Options::default()).expect("opened");
    for number in 0..3 {
        let mut moment = window(number);
        moment.header.duration_nanos = 0;
        writer.append("cpu", &moment).expect("written");
    }
    drop(writer);
    for number in 0..3 {
        assert_eq!(read_window(folder.path(), number), Some(facts(&window(number))), "{number}");
    }
}
