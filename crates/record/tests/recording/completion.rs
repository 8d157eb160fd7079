//! Stacks that are larger than any dump.

use crate::programs::{alone, c, folder, quiet, rust, telling};
use crate::seen::{frames, has, number, recorded};
use flamelet_profile::Profile;
use flamelet_record::{Completion, Progress, RecordOptions, Target, record};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Samples of the two leaves: under their own caller, under the other one, under none.
fn verdict(profile: &Profile) -> (i64, i64, i64) {
    let (mut right, mut wrong, mut cut) = (0, 0, 0);
    for sample in profile.samples() {
        let frames = frames(profile, &sample);
        let (own, other) = match (has(&frames, "leaf_a"), has(&frames, "leaf_b")) {
            (true, false) => ("caller_a", "caller_b"),
            (false, true) => ("caller_b", "caller_a"),
            _ => continue,
        };
        let into = match (has(&frames, own), has(&frames, other)) {
            (_, true) => &mut wrong,
            (true, false) => &mut right,
            (false, false) => &mut cut,
        };
        *into += sample.values[0];
    }
    (right, wrong, cut)
}

#[test]
fn small_frames_need_no_completion_and_are_never_wrong() {
    let _one = alone();
    let recorded = recorded(quiet(&rust("two_callers", &[]), &["small", "150"]), |_| {});
    let (right, wrong, cut) = verdict(&recorded.profile);
    assert!(right > 100, "{right} right: {:?}", recorded.summary);
    assert_eq!((wrong, cut), (0, 0), "{:?}", recorded.summary);
    // Stacks of a program that is just starting may be cut.
    let summary = &recorded.summary;
    assert!(
        !summary.was_eager || summary.cut > 0,
        "a huge frame that never runs changes nothing: {summary:?}"
    );
}

#[test]
fn huge_frames_are_cut_without_completion_and_counted_as_cut() {
    let _one = alone();
    let recorded = recorded(quiet(&rust("two_callers", &[]), &["large", "100"]), |options| {
        options.completion = Completion::Never;
    });
    let (right, wrong, cut) = verdict(&recorded.profile);
    assert_eq!((right, wrong), (0, 0), "{:?}", recorded.summary);
    assert!(cut > 50 && recorded.summary.cut as i64 >= cut, "{:?}", recorded.summary);
}

#[test]
fn huge_frames_keep_the_right_roots_when_stacks_are_completed() {
    let _one = alone();
    let recorded = recorded(quiet(&rust("two_callers", &[]), &["large", "800"]), |_| {});
    let summary = &recorded.summary;
    let (right, wrong, cut) = verdict(&recorded.profile);
    eprintln!("completion: {right} right, {wrong} wrong, {cut} cut; {summary:?}");
    assert!(summary.was_eager, "{summary:?}");
    // Stacks are cut if they came before the eager drain took over, or if it is late on a busy machine. They are counted
    // as cut; one that has no caller and is not counted is as wrong as one with another's.
    let wrong = wrong + (cut - summary.cut as i64).max(0);
    assert!(wrong * 1000 <= right + cut + wrong, "{wrong} wrong of {}: {summary:?}", right + cut + wrong);
    if right == 0 && !std::path::Path::new("/proc/thread-self/schedstat").exists() {
        // Without real-time priority, the drain cannot know whether the sampled thread ran on.
        flamelet_test_support::skip!("this kernel does not count how long threads wait to run");
        return;
    }
    assert!(right > 0, "{cut} cut: {summary:?}");
}

/// How many stacks are cut before the eager drain takes over depends on the load of the machine: `cargo xtask bench
/// record` measures it.
#[test]
fn a_short_recording_of_huge_frames_has_the_right_roots_or_none() {
    let _one = alone();
    let recorded = recorded(quiet(&rust("two_callers", &[]), &["large", "200"]), |_| {});
    let summary = &recorded.summary;
    let (right, wrong, cut) = verdict(&recorded.profile);
    eprintln!("200 ms: {right} right, {wrong} wrong, {cut} cut; {summary:?}");
    assert!(summary.was_eager, "{summary:?}");
    assert_eq!(wrong, 0, "{summary:?}");
    if right == 0 && !Path::new("/proc/thread-self/schedstat").exists() {
        // As above.
        flamelet_test_support::skip!("this kernel does not count how long threads wait to run");
        return;
    }
    assert!(right > 0 && summary.cut as i64 >= cut, "{right} right, {cut} cut: {summary:?}");
}

/// The eager drain runs at first, since the program has a huge frame, goes when it turns out that this does not run, and
/// comes back when it does.
#[test]
fn huge_frames_that_run_late_are_completed_too() {
    let _one = alone();
    let signal = folder().join("run-huge-frames");
    let signal_name = signal.to_str().expect("UTF-8");
    let command = quiet(&rust("two_callers", &[]), &["large", "300", signal_name]);
    let mut options = RecordOptions::new(Target::Command(command));
    // The program waits for the signal, and so would the test.
    options.duration = Some(Duration::from_secs(60));
    let mut was_eager = Vec::new();
    let mut tell = |progress: &Progress| {
        was_eager.push(progress.is_eager);
        if was_eager.contains(&true) && !progress.is_eager {
            std::fs::write(&signal, "").expect("our own folder");
        }
    };
    let recorded = record(options, &mut tell, &AtomicBool::new(false)).expect("permitted here");
    let summary = &recorded.summary;
    assert!(signal.exists(), "the eager drain never ran, or never went: {was_eager:?} {summary:?}");
    let (right, wrong, cut) = verdict(&recorded.profile);
    eprintln!("late: {right} right, {wrong} wrong, {cut} cut; {summary:?}");
    assert!(summary.was_eager, "{summary:?}");
    assert_eq!(wrong, 0, "{summary:?}");
    if right == 0 && !Path::new("/proc/thread-self/schedstat").exists() {
        // As above.
        flamelet_test_support::skip!("this kernel does not count how long threads wait to run");
        return;
    }
    assert!(right > 0 && summary.cut as i64 >= cut, "{right} right, {cut} cut: {summary:?}");
}

#[test]
fn no_process_is_lost_when_the_eager_drain_takes_over() {
    let _one = alone();
    // Its frames are known only once `env` has become the program.
    let program = c("prefork", &[]);
    let (command, out) = telling(Path::new("/usr/bin/env"), &[program.to_str().expect("UTF-8")], "prefork");
    let recorded = recorded(command, |_| {});
    assert!(recorded.summary.was_eager, "{:?}", recorded.summary);
    let started: BTreeSet<i64> = std::fs::read_to_string(out)
        .expect("its output")
        .lines()
        .map(|line| line.parse().expect("a pid"))
        .collect();
    let seen = recorded.profile.samples().filter_map(|sample| number(&recorded.profile, &sample, "pid"));
    let seen: BTreeSet<i64> = seen.collect();
    let missed: Vec<&i64> = started.difference(&seen).collect();
    // One may be in the middle of its fork while the others are searched for.
    assert!(missed.len() <= 1, "{missed:?} of {}: {:?}", started.len(), recorded.summary);
}
