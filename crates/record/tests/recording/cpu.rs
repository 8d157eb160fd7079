//! Where CPU time goes.

use crate::programs::{alone, c, folder, quiet, rust};
use crate::seen::{column, frames, has, is, label, recorded};
use flamelet_profile::Profile;
use flamelet_record::{Checkpoint, Recorded};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Every sample in `spin` was called through all 31 of `descend`, from a thread's start.
fn assert_whole(recorded: &Recorded) {
    let profile = &recorded.profile;
    let (mut right, mut all) = (0, 0);
    for sample in profile.samples() {
        let frames = frames(profile, &sample);
        if has(&frames, "spin") {
            all += sample.values[0];
            let depth = frames.iter().filter(|frame| is(frame, "descend")).count();
            right += if depth == 31 { sample.values[0] } else { 0 };
        }
    }
    let summary = &recorded.summary;
    assert!(all > 50, "only {all} samples in spin: {summary:?}");
    assert!(right * 1000 >= all * 999, "{right} of {all} stacks are whole: {summary:?}");
    assert!(summary.rooted_share() >= 0.99, "{summary:?}");
    assert_eq!(summary.lost, 0, "{summary:?}");
}

#[test]
fn every_thread_is_seen_with_its_name_and_its_whole_stack() {
    let _one = alone();
    let recorded = recorded(quiet(&rust("deep", &[]), &["3", "120"]), |_| {});
    assert_whole(&recorded);
    let profile = &recorded.profile;
    let mut by_thread: BTreeMap<&str, i64> = BTreeMap::new();
    for sample in profile.samples() {
        *by_thread.entry(label(profile, &sample, "thread").unwrap_or("")).or_default() += sample.values[0];
    }
    for thread in ["worker-0", "worker-1", "worker-2"] {
        assert!(by_thread.get(thread).is_some_and(|&count| count > 10), "{by_thread:?}");
    }
}

#[test]
fn the_timeline_and_the_verdict_agree_with_the_samples() {
    let _one = alone();
    let recorded = recorded(quiet(&rust("deep", &[]), &["2", "150"]), |options| options.frequency = 499);
    let (profile, summary) = (&recorded.profile, &recorded.summary);
    let timeline = profile.timeline.as_ref().expect("time is kept");
    assert_eq!(profile.total(0), summary.samples as i64);
    assert_eq!(timeline.events.len() as u64, summary.samples);
    assert!(timeline.events.is_sorted_by_key(|event| event.time));
    assert_eq!(profile.total(column(profile, "cpu")), summary.samples as i64 * (1_000_000_000 / 499));
    let quality = profile.quality.as_ref().expect("a verdict");
    assert_eq!((quality.samples, quality.lost), (summary.samples, 0));
    assert_eq!(quality.asked_millihertz, 499_000);
    // By the kernel's own count of the time that the threads ran. There are never more samples than that; there are fewer
    // if the host takes the CPU from a virtual machine, which counts that time: then the file says so.
    let achieved = summary.achieved_hertz.expect("known for a command");
    let ran = summary.target_cpu.expect("known for a command").as_secs_f64();
    assert!(summary.samples as f64 <= ran * 499.0 + 4.0, "{achieved} Hz of 499: {summary:?}");
    assert!(achieved > 100.0, "{achieved} Hz of 499: {summary:?}");
    assert_eq!(quality.achieved_millihertz, (achieved * 1000.0) as u64);
    let written = flamelet_profile::pprof::encode(profile);
    assert!(written.len() < 100 * summary.samples as usize + 65536, "{} bytes", written.len());
}

#[test]
fn a_full_timeline_ends_and_the_totals_go_on() {
    const MOST: usize = 20;
    let _one = alone();
    let saved = Arc::new(Mutex::new(None));
    let last = saved.clone();
    let recorded = recorded(quiet(&rust("deep", &[]), &["2", "150"]), |options| {
        options.max_moments = MOST;
        let save = Box::new(move |profile: &Profile| {
            *last.lock().expect("nothing panics with it") = Some(profile.clone());
            Ok(())
        });
        options.checkpoint = Some(Checkpoint { every: Duration::from_millis(1), save });
    });
    let (profile, summary) = (&recorded.profile, &recorded.summary);
    assert!(summary.samples > 2 * MOST as u64, "{summary:?}");
    assert_eq!(profile.total(0), summary.samples as i64);
    let is_told =
        |note: &str| note.contains("the timeline ends after") && note.contains("the totals continue");
    assert_eq!(summary.notes.iter().filter(|note| is_told(note)).count(), 1, "{summary:?}");
    // What is saved while it runs has no other comments.
    let saved = saved.lock().expect("nothing panics with it").take().expect("it was saved");
    for profile in [profile, &saved] {
        let timeline = profile.timeline.as_ref().expect("time is kept");
        assert!(timeline.events.len() <= MOST && timeline.events.is_sorted_by_key(|event| event.time));
        let told = profile.comments().filter(|comment| is_told(comment)).count();
        assert_eq!(told, usize::from(profile.total(0) > MOST as i64));
    }
    assert_eq!(profile.timeline.as_ref().map(|timeline| timeline.events.len()), Some(MOST));
}

#[test]
fn builds_that_abort_and_builds_with_frame_pointers_are_whole_too() {
    let _one = alone();
    for flags in [
        &["-C", "panic=abort"][..],
        &["-C", "force-frame-pointers=yes"],
        &["-C", "debuginfo=2", "-C", "opt-level=1"],
    ] {
        let program = rust("deep", flags);
        assert_whole(&recorded(quiet(&program, &["1", "150"]), |_| {}));
    }
}

#[test]
fn a_stripped_program_is_named_by_its_debug_file() {
    let _one = alone();
    let built = rust("deep", &["-g", "-C", "link-arg=-Wl,--build-id"]);
    let stripped = folder().join("deep-stripped");
    let debug = folder().join("deep-stripped.debug");
    let run = |tool: &str, args: &[&std::ffi::OsStr]| {
        let done = std::process::Command::new(tool).args(args).status();
        assert!(done.is_ok_and(|status| status.success()), "{tool} {args:?}");
    };
    run("objcopy", &["--only-keep-debug".as_ref(), built.as_ref(), debug.as_ref()]);
    run("strip", &["-s".as_ref(), "-o".as_ref(), stripped.as_ref(), built.as_ref()]);
    let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
    link.push(&debug);
    run("objcopy", &[&link, stripped.as_ref()]);
    let with_debug = recorded(quiet(&stripped, &["1", "150"]), |_| {});
    assert_whole(&with_debug);
    // Without it there are addresses, and what is needed to name them later.
    std::fs::remove_file(&debug).expect("it was just made");
    let without = recorded(quiet(&stripped, &["1", "150"]), |options| options.symbolize = None);
    assert!(without.summary.rooted_share() >= 0.99, "{:?}", without.summary);
    let profile = &without.profile;
    let program = stripped.to_str().expect("a plain path");
    let mapping = profile.mappings().iter().find(|mapping| profile.string(mapping.filename) == program);
    assert!(!profile.string(mapping.expect("the program").build_id).is_empty());
}

#[test]
fn generated_code_is_named_by_its_map() {
    let _one = alone();
    let program = c("jit", &[]);
    let recorded = recorded(quiet(&program, &[]), |_| {});
    let profile = &recorded.profile;
    let jitted: i64 = profile
        .samples()
        .filter(|sample| {
            let frames = frames(profile, sample);
            has(&frames, "jitted_spin") && has(&frames, "main")
        })
        .map(|sample| sample.values[0])
        .sum();
    assert!(jitted * 10 > profile.total(0) * 8, "{jitted} of {}: {:?}", profile.total(0), recorded.summary);
}

#[test]
fn the_highest_frequency_loses_nothing() {
    let _one = alone();
    let recorded = recorded(quiet(&rust("deep", &[]), &["2", "75"]), |options| {
        options.frequency = flamelet_record::RecordOptions::MAX_FREQUENCY;
        // Rings that hold everything: the host may delay the drain for any length of time.
        (options.dump_bytes, options.ring_bytes) = (8 << 10, Some(32 << 20));
    });
    let summary = &recorded.summary;
    // The kernel may pause sampling when it takes too long; then it says so.
    assert!(summary.samples > 500 || summary.throttled > 0, "{summary:?}");
    assert_eq!(summary.lost, 0, "{summary:?}");
    assert!(summary.rooted_share() >= 0.99, "{summary:?}");
}

#[test]
fn a_program_that_begins_without_unwind_information_is_whole() {
    let _one = alone();
    let program =
        c("bare", &["-nostdlib", "-static", "-fasynchronous-unwind-tables", "-fno-stack-protector"]);
    let recorded = recorded(quiet(&program, &[]), |_| {});
    let (profile, summary) = (&recorded.profile, &recorded.summary);
    let whole = |sample: &flamelet_profile::Sample<'_>| {
        let frames = frames(profile, sample);
        has(&frames, "spin") && frames.last() == Some(&"_start")
    };
    let spins: i64 = profile.samples().filter(whole).map(|sample| sample.values[0]).sum();
    assert!(spins > 20 && spins * 10 > profile.total(0) * 9, "{spins}: {summary:?}");
    assert!(summary.rooted_share() >= 0.99, "{summary:?}");
    assert_eq!(profile.quality.as_ref().expect("a verdict").truncated, summary.truncated);
}
