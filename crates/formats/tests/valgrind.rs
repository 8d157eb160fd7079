//! callgrind, cachegrind, massif and DHAT files made by the real valgrind, against what its own reports say.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use flamelet_formats::{Format, FormatOptions, write};
use support::{column, fixture, flat_and_cumulative, folder, need, number_after, open, printed, run, total};

/// Runs a tool of valgrind and returns its file and its output.
fn valgrind(tool: &str, name: &str, rounds: &str, arguments: &[&str]) -> (PathBuf, String) {
    need("valgrind", "valgrind");
    let file = folder("valgrind").join(name);
    let mut command = Command::new("valgrind");
    command.arg(format!("--tool={tool}")).arg(format!("--{tool}-out-file={}", file.display()));
    let output = run(command.args(arguments).arg(fixture()).arg(rounds));
    (file, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The figures of `callgrind_annotate` for functions of the fixture, by name.
fn annotated(file: &Path, arguments: &[&str]) -> BTreeMap<String, f64> {
    let text = printed(
        Command::new("callgrind_annotate").args(["--threshold=100", "--auto=no"]).args(arguments).arg(file),
    );
    let mut costs = BTreeMap::new();
    for (name, cost) in text.lines().filter_map(annotated_line) {
        *costs.entry(name).or_default() += cost;
    }
    costs
}

/// What functions of the fixture cost with everything they call. The report splits a function by source file, and
/// repeats the sum in each row, so the largest row counts.
fn annotated_inclusive(file: &Path) -> BTreeMap<String, f64> {
    let arguments = ["--threshold=100", "--auto=no", "--inclusive=yes"];
    let text = printed(Command::new("callgrind_annotate").args(arguments).arg(file));
    let mut costs: BTreeMap<String, f64> = BTreeMap::new();
    for (name, cost) in text.lines().filter_map(annotated_line) {
        let largest = costs.entry(name).or_default();
        *largest = largest.max(cost);
    }
    costs
}

/// `900,000 (36.54%) … file.rs:fixture::leaf [/path]` as the name and the first cost.
fn annotated_line(line: &str) -> Option<(String, f64)> {
    let (_, name) = line.rsplit_once(":fixture::")?;
    let name = format!("fixture::{}", name.split(" [").next().unwrap_or(name).trim());
    let cost: String =
        line.trim().chars().take_while(|c| c.is_ascii_digit() || *c == ',').filter(|&c| c != ',').collect();
    Some((name, cost.parse().unwrap_or(0.0)))
}

#[test]
fn callgrind_totals_own_and_inclusive_costs() {
    let options = ["--collect-jumps=yes", "--simulate-cache=yes", "--separate-threads=no"];
    let (file, _) = valgrind("callgrind", "callgrind.out", "60", &options);
    let read = open(&file, Format::Callgrind);
    let text = std::fs::read_to_string(&file).unwrap();
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: ")).expect("a line of totals");
    let events = text.lines().find_map(|line| line.strip_prefix("events: ")).expect("a line of events");
    assert!(events.split(' ').count() >= 9, "{events}");
    for (event, sum) in events.split(' ').zip(totals.split(' ')) {
        assert_eq!(total(&read.profile, event), sum.parse::<i64>().unwrap(), "{event}");
    }
    let costs = flat_and_cumulative(&read.profile, "Ir");
    for (name, own) in annotated(&file, &[]) {
        assert_eq!(costs[&name].0 as f64, own, "{name} itself");
    }
    let whole = total(&read.profile, "Ir") as f64;
    let inclusive = annotated_inclusive(&file);
    for name in ["fixture::main", "fixture::heavy", "fixture::light", "fixture::keep"] {
        let difference = (costs[name].1 as f64 - inclusive[name]).abs();
        assert!(difference <= whole * 0.01, "{name}: {} here, {} there", costs[name].1, inclusive[name]);
    }
    assert!(read.notes.iter().any(|note| note.contains("jumps")), "{:?}", read.notes);
}

#[test]
fn callgrind_parts_threads_and_instructions() {
    let options =
        ["--dump-instr=yes", "--separate-threads=yes", "--combine-dumps=yes", "--dump-every-bb=200000"];
    let (file, _) = valgrind("callgrind", "parts.out", "60", &options);
    let mut parts = 0;
    // With --combine-dumps all parts and threads are in one file, but some versions still write one per thread.
    for part in [file.clone(), file.with_extension("out-01"), file.with_extension("out-02")] {
        let Some(text) = std::fs::read_to_string(&part).ok().filter(|text| !text.is_empty()) else {
            continue;
        };
        let read = open(&part, Format::Callgrind);
        let totals = text.lines().filter_map(|line| line.strip_prefix("totals: "));
        let sum: i64 = totals.map(|line| line.trim().parse::<i64>().unwrap()).sum();
        assert_eq!(total(&read.profile, "Ir"), sum, "{}", part.display());
        assert!(read.profile.locations().iter().any(|location| location.address != 0));
        parts += text.lines().filter(|line| line.starts_with("part:")).count();
    }
    assert!(parts > 2, "the files hold several parts");
}

#[test]
fn what_is_written_is_read_by_callgrind_annotate() {
    let (file, _) = valgrind("callgrind", "again.out", "30", &[]);
    let profile = open(&file, Format::Callgrind).profile;
    let written = folder("valgrind").join("written.callgrind");
    write(
        &profile,
        Format::Callgrind,
        &mut std::fs::File::create(&written).unwrap(),
        &FormatOptions::default(),
    )
    .unwrap();
    assert_eq!(annotated(&written, &[]), annotated(&file, &[]));
    let again = open(&written, Format::Callgrind).profile;
    assert_eq!(total(&again, "Ir"), total(&profile, "Ir"));
}

#[test]
fn cachegrind_totals() {
    let (file, said) = valgrind("cachegrind", "cachegrind.out", "20", &["--cache-sim=yes"]);
    let profile = open(&file, Format::Cachegrind).profile;
    let text = std::fs::read_to_string(&file).unwrap();
    let summary = text.lines().find_map(|line| line.strip_prefix("summary: ")).expect("a summary");
    let sums: Vec<i64> = summary.split(' ').map(|word| word.parse().unwrap()).collect();
    for (index, sum) in sums.iter().enumerate() {
        assert_eq!(profile.total(index), *sum);
    }
    assert_eq!(total(&profile, "Ir") as f64, number_after(&said, "refs:"));
}

#[test]
fn massif_peak() {
    let (file, _) = valgrind("massif", "massif.out", "300", &[]);
    let read = open(&file, Format::Massif);
    let report = printed(Command::new("ms_print").arg(&file));
    let (_, detailed) = report.split_once("Detailed snapshots: [").expect("the list of detailed snapshots");
    let (before, _) = detailed.split_once(" (peak)").expect("a peak");
    let number = before.rsplit([' ', '[']).next().unwrap();
    let row = report
        .lines()
        .find(|line| line.split_whitespace().next() == Some(number))
        .expect("the row of the peak");
    let useful: String = row.split_whitespace().nth(3).unwrap().chars().filter(|&c| c != ',').collect();
    assert_eq!(total(&read.profile, "inuse_space"), useful.parse::<i64>().unwrap());
    let costs = flat_and_cumulative(&read.profile, "inuse_space");
    assert!(costs["fixture::keep"].1 * 2 > total(&read.profile, "inuse_space"), "most is kept by `keep`");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut labels: Vec<_> = read.profile.samples().map(|sample| sample.labels).collect();
    labels.sort();
    labels.dedup();
    // One a snapshot, and none for the peak.
    assert_eq!(labels.len(), text.matches("snapshot=").count() + 1);
    // The timeline has every snapshot's heap, as the file gives it.
    let heaps = text.lines().filter_map(|line| line.strip_prefix("mem_heap_B=")?.parse::<i64>().ok());
    assert_eq!(total(&read.profile, "snapshot_space"), heaps.sum::<i64>());
    assert!(read.profile.timeline.is_some());
}

#[test]
fn dhat_totals() {
    let (file, said) = valgrind("dhat", "dhat.json", "300", &[]);
    let profile = open(&file, Format::Dhat).profile;
    let line = |label: &str| said.lines().find(|line| line.contains(label)).expect(label).to_owned();
    for (label, kind) in [("Total:", "alloc"), ("At t-gmax:", "peak"), ("At t-end:", "inuse")] {
        let line = line(label);
        assert_eq!(total(&profile, &format!("{kind}_space")) as f64, number_after(&line, label), "{label}");
        assert_eq!(
            total(&profile, &format!("{kind}_objects")) as f64,
            number_after(&line, "bytes in"),
            "{label}"
        );
    }
    assert_eq!(total(&profile, "read_space") as f64, number_after(&said, "Reads:"));
    assert_eq!(profile.default_sample_index(), column(&profile, "peak_space"));
}
