//! Sums of segments: a range that covers a segment is read from its sum, and says the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flamelet_profile::{Budget, LabelSetId, Limits, Observed, Profile, ProfileBuilder, pprof};
use flamelet_store::{Options, Query, Reader, Writer};

use crate::support::{THEN, WINDOW, facts, read, sum, window, window_at};

/// Windows in each segment of [`write`].
const WINDOWS: u64 = 30;

fn options() -> Options {
    let mut options = Options::default();
    options.segment_span = Duration::from_nanos(WINDOWS * WINDOW as u64);
    options
}

/// A window of waits: some windows know what they are based on, and the values are called otherwise from the middle on.
fn waits(number: u64) -> Profile {
    let delay = if number < 45 { "delay" } else { "wait" };
    let mut builder = ProfileBuilder::new(&[("contentions", "count"), (delay, "nanoseconds")]);
    for frame in 0..4 + number % 3 {
        let frames = [builder.named_frame(&format!("lock_{frame}")), builder.named_frame("main")];
        let stack = builder.stack(&frames);
        let value = (number * 10 + frame) as i64;
        let row = builder.merge_sample(stack, LabelSetId::EMPTY, &[1, value]);
        if number >= 45 {
            builder.observe(row, 1, Observed { count: 2.0, squares: (value * value) as f64 });
        }
    }
    let header = builder.header_mut();
    (header.time_nanos, header.duration_nanos) = (THEN + number as i64 * WINDOW, WINDOW);
    builder.finish()
}

/// A window of samples that know what they are based on.
fn observed(number: u64) -> Profile {
    let mut profile = window_at(number, THEN + number as i64 * WINDOW, 0x7f00_0000_0000);
    let rows =
        profile.samples().map(|sample| Observed::equal(sample.values[0] as f64, sample.values[1] as f64));
    profile.observations = Some(flamelet_profile::Observations { value_type: 1, rows: rows.collect() });
    profile
}

/// Writes four segments of CPU samples and waits.
fn write(folder: &Path) {
    let mut writer = Writer::open(folder, options()).expect("opened");
    for number in 0..4 * WINDOWS {
        writer.append("cpu", &observed(number)).expect("written");
        writer.append("block", &waits(number)).expect("written");
    }
}

fn sums(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("listed").map(|entry| entry.expect("listed").path());
    let mut sums: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "sum")).collect();
    sums.sort();
    sums
}

/// Returns the bytes of a profile, which say all that it knows, and what was left out.
fn profile(folder: &Path, query: &Query<'_>) -> (Option<Vec<u8>>, Vec<String>) {
    let budget = Budget::new(Limits::PERSON);
    let (profile, skipped) = Reader::open(folder).expect("opened").profile(query, &budget).expect("read");
    let encoded = profile.map(|profile| {
        let mut bytes = Vec::new();
        pprof::write(&profile, &mut bytes).expect("written");
        bytes
    });
    (encoded, skipped.notes())
}

#[test]
fn sums_say_the_same_as_their_windows() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path());
    assert_eq!(sums(folder.path()).len(), 4);
    let even = |labels: &[(&str, &str)]| labels.contains(&("thread", "even"));
    let ranges = [(0, 120), (0, 60), (7, 119), (30, 90), (31, 59), (119, 120)];
    let all = |folder: &Path| {
        let mut answers = Vec::new();
        for (from, to) in ranges.map(|(from, to)| (THEN + from * WINDOW, THEN + to * WINDOW)) {
            for kind in ["cpu", "block", "none"] {
                let mut query = Query::new(kind, from, to);
                answers.push(profile(folder, &query));
                query.keep = Some(&even);
                answers.push(profile(folder, &query));
            }
        }
        answers
    };
    let with_sums = all(folder.path());
    assert_eq!(facts(&read(folder.path(), THEN, i64::MAX).expect("there")), sum((0..120).map(window)));
    // Without the segments, the range that covers all of them is still read.
    let hidden = tempfile::tempdir().expect("a folder");
    for entry in fs::read_dir(folder.path()).expect("listed").map(|entry| entry.expect("listed").path()) {
        let to = hidden.path().join(entry.file_name().expect("a name"));
        let is_segment = entry.extension().is_some_and(|extension| extension == "segment");
        fs::write(to, if is_segment { Vec::new() } else { fs::read(&entry).expect("read") })
            .expect("written");
    }
    assert!(profile(hidden.path(), &Query::new("cpu", THEN, THEN + 120 * WINDOW)) == with_sums[0]);
    sums(folder.path()).iter().for_each(|sum| fs::remove_file(sum).expect("removed"));
    assert!(with_sums == all(folder.path()));
}

#[test]
fn a_damaged_sum_is_not_used() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path());
    let query = Query::new("cpu", THEN, i64::MAX);
    let whole = profile(folder.path(), &query);
    let path = &sums(folder.path())[1];
    let good = fs::read(path).expect("read");
    let bit_flips = (0..good.len()).step_by(97).map(|at| {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        bad
    });
    let cut = (0..good.len()).step_by(401).map(|length| good[..length].to_vec());
    let longer = [[&good[..], b"x"].concat(), [&good[..], &good[20..]].concat()];
    for bad in bit_flips.chain(cut).chain(longer) {
        fs::write(path, &bad).expect("written");
        assert!(profile(folder.path(), &query) == whole, "{} bytes", bad.len());
    }
}

#[test]
fn of_the_heap_there_is_no_sum() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::open(folder.path(), options()).expect("opened");
    for number in 0..WINDOWS {
        writer.append("cpu", &window(number)).expect("written");
        writer.append("heap", &window(number)).expect("written");
    }
    drop(writer);
    assert_eq!(sums(folder.path()).len(), 1);
    let query = Query::new("heap", THEN, i64::MAX);
    let with_sum = profile(folder.path(), &query);
    fs::remove_file(&sums(folder.path())[0]).expect("removed");
    assert!(with_sum == profile(folder.path(), &query));
    assert!(with_sum.0.is_some());
}

#[test]
fn what_is_as_quick_to_read_gets_no_sum_and_what_is_left_over_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::open(folder.path(), options()).expect("opened");
    (0..2).for_each(|number| writer.append("cpu", &window(number)).expect("written"));
    drop(writer);
    assert_eq!(sums(folder.path()), Vec::<PathBuf>::new());
    let unfinished = folder.path().join("history-0000000001-1794700800-1794700820.sum-new");
    fs::write(&unfinished, "flamelet sum 1").expect("written");
    drop(Writer::open(folder.path(), options()).expect("opened"));
    assert!(!unfinished.exists());
    assert_eq!(facts(&read(folder.path(), THEN, i64::MAX).expect("there")), sum((0..2).map(window)));
}

#[test]
fn sums_go_with_their_segments() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path());
    let first = sums(folder.path())[0].clone();
    let mut small = options();
    small.bytes = 64 << 10;
    let mut writer = Writer::open(folder.path(), small).expect("opened");
    for number in 4 * WINDOWS..12 * WINDOWS {
        writer.append("cpu", &observed(number)).expect("written");
    }
    drop(writer);
    assert!(!first.exists());
    let number = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy()[..18].to_owned();
    let entries = fs::read_dir(folder.path()).expect("listed").map(|entry| entry.expect("listed").path());
    let segments: Vec<String> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "segment"))
        .map(|path| number(&path))
        .collect();
    assert!(sums(folder.path()).iter().all(|sum| segments.contains(&number(sum))));
}
