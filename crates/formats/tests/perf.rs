//! perf.data and `perf script` text, made by the real perf, against each other and against perf's own counts.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use flamelet_formats::Format;
use flamelet_profile::Profile;
use support::{column, fixture, folder, open, perf_may_record, printed, run, total};

fn record(name: &str, arguments: &[&str]) -> PathBuf {
    let file = folder("perf").join(format!("{name}.data"));
    let mut command = Command::new("perf");
    command
        .args(["record", "--no-buildid-cache", "-o"])
        .arg(&file)
        .args(arguments)
        .arg("--")
        .arg(fixture())
        // A few hundred samples; the few kernel samples of its start do not matter.
        .args(["20000", "forget"]);
    run(&mut command);
    file
}

fn script(data: &Path) -> Profile {
    let text = printed(Command::new("perf").args(["script", "--no-inline", "-i"]).arg(data));
    let file = data.with_extension("txt");
    std::fs::write(&file, text).unwrap();
    open(&file, Format::PerfScript).profile
}

/// How many samples each thread has, by its number.
fn by_thread(profile: &Profile) -> BTreeMap<u64, usize> {
    let timeline = profile.timeline.as_ref().expect("a timeline");
    let mut counts = BTreeMap::new();
    for event in &timeline.events {
        *counts.entry(timeline.threads[event.thread.index()].tid).or_default() += 1;
    }
    counts
}

/// The moments of samples in microseconds, which is what the text has, and how deep each stack is.
fn depths(profile: &Profile) -> Vec<(u64, usize)> {
    let timeline = profile.timeline.as_ref().expect("a timeline");
    let depth = |sample: u32| profile.stack(profile.sample(sample as usize).stack).len();
    timeline.events.iter().map(|event| (event.time / 10_000, depth(event.sample))).collect()
}

fn agree(data: &Path, kind: &str) -> (Profile, Profile) {
    let (binary, text) = (open(data, Format::PerfData).profile, script(data));
    // The same through a pipe, where nothing can be left in the file.
    let streamed = support::open_bytes(&std::fs::read(data).unwrap(), Format::PerfData).profile;
    assert_eq!(support::folded(&binary, kind), support::folded(&streamed, kind));
    assert_eq!(binary.quality, streamed.quality);
    assert_eq!(total(&binary, "samples"), total(&text, "samples"));
    assert_eq!(total(&binary, kind), total(&text, kind));
    assert_eq!(by_thread(&binary), by_thread(&text));
    let quality = binary.quality.expect("perf.data says how good it is");
    assert_eq!(quality.samples as i64, total(&binary, "samples"));
    (binary, text)
}

#[test]
fn frame_pointers() {
    if !perf_may_record() {
        return;
    }
    let data = record("fp", &["-F", "997", "--call-graph", "fp"]);
    let (binary, text) = agree(&data, "cpu");
    assert!(total(&binary, "samples") > 10);
    let (binary, text) = (depths(&binary), depths(&text));
    let different = binary.iter().zip(&text).filter(|(binary, text)| binary.1 != text.1).count();
    // A difference of one frame where perf finds no name and drops the rest.
    assert!(different * 20 <= binary.len(), "{different} of {} stacks have another depth", binary.len());
}

#[test]
fn stack_dumps_are_unwound() {
    if !perf_may_record() {
        return;
    }
    let data = record("dwarf", &["-F", "499", "--call-graph", "dwarf,8192"]);
    let (binary, _) = agree(&data, "cpu");
    let quality = binary.quality.unwrap();
    assert!(quality.truncated * 10 <= quality.samples, "{} of {} cut", quality.truncated, quality.samples);
    let deep = depths(&binary).iter().filter(|(_, depth)| *depth >= 7).count();
    assert!(deep * 10 >= depths(&binary).len() * 8, "only {deep} stacks go from a leaf to the start");
    sources_change_no_stack(&data);
}

/// With the source of each line, inlined functions are marked elsewhere.
fn sources_change_no_stack(data: &Path) {
    let read = |ending: &str, options: &[&str]| {
        let text = printed(Command::new("perf").args(["script", "-i"]).arg(data).args(options));
        let file = data.with_extension(ending);
        std::fs::write(&file, text).unwrap();
        open(&file, Format::PerfScript).profile
    };
    let (plain, with_sources) = (read("inlined.txt", &[]), read("sources.txt", &["-F", "+srcline"]));
    assert_eq!(support::folded(&plain, "cpu"), support::folded(&with_sources, "cpu"));
    let named = with_sources.functions().iter().filter(|f| with_sources.string(f.filename) == "fixture.rs");
    assert!(named.count() > 2, "functions have no sources");
}

#[test]
fn compressed_records_and_pipes() {
    if !perf_may_record() {
        return;
    }
    let data = record("compressed", &["-z", "-F", "997", "-g"]);
    agree(&data, "cpu");
    let piped = Command::new("perf")
        .args(["record", "--no-buildid-cache", "-F", "997", "-g", "-o", "-", "--"])
        .arg(fixture())
        .arg("2000")
        .output();
    let piped = piped.unwrap();
    let file = folder("perf").join("pipe.data");
    std::fs::write(&file, &piped.stdout).unwrap();
    let profile = open(&file, Format::PerfData).profile;
    let text = Command::new("sh")
        .arg("-c")
        .arg(format!("perf script -i - < '{}'", file.display()))
        .output()
        .unwrap();
    std::fs::write(file.with_extension("txt"), text.stdout).unwrap();
    let text = open(&file.with_extension("txt"), Format::PerfScript).profile;
    assert_eq!(total(&profile, "samples"), total(&text, "samples"));
    assert_eq!(total(&profile, "cpu"), total(&text, "cpu"));
}

#[test]
fn several_events_become_several_values() {
    if !perf_may_record() {
        return;
    }
    let data = record("events", &["-e", "cpu-clock", "-e", "page-faults", "-F", "997", "-g"]);
    let profile = open(&data, Format::PerfData).profile;
    let text = script(&data);
    for kind in ["samples", "cpu", "page-faults"] {
        assert_eq!(total(&profile, kind), total(&text, kind), "{kind}");
    }
    assert!(total(&profile, "page-faults") > 0);
}

#[test]
fn build_ids_and_modules_are_kept() {
    if !perf_may_record() {
        return;
    }
    let data = record("buildid", &["-F", "997", "-g"]);
    let profile = open(&data, Format::PerfData).profile;
    let list = printed(Command::new("perf").args(["buildid-list", "-i"]).arg(&data));
    let by_file: BTreeMap<&str, &str> =
        list.lines().filter_map(|line| line.trim().split_once(' ')).map(|(id, file)| (file, id)).collect();
    let mut seen = 0;
    for mapping in profile.mappings() {
        let (file, id) = (profile.string(mapping.filename), profile.string(mapping.build_id));
        if let Some(&expected) = by_file.get(file) {
            assert_eq!(id, expected, "{file}");
            seen += 1;
        }
    }
    assert!(seen > 0, "no module of {by_file:?}");
    let index = column(&profile, "samples");
    let mapped = profile.samples().filter(|sample| {
        profile.stack(sample.stack).iter().any(|&id| profile.location(id).mapping.is_some())
    });
    let mapped: i64 = mapped.map(|sample| sample.values[index]).sum();
    assert!(mapped * 10 >= profile.total(index) * 9);
}
