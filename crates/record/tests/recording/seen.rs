//! Questions about a profile.

use flamelet_profile::{Profile, Sample};
use flamelet_record::{RecordOptions, Recorded, Target, record};
use std::process::Command;
use std::sync::atomic::AtomicBool;

/// The names of the frames of a sample, leaf first, inlined ones included.
pub(crate) fn frames<'a>(profile: &'a Profile, sample: &Sample<'_>) -> Vec<&'a str> {
    let lines = profile.stack(sample.stack).iter().flat_map(|&location| profile.lines(location));
    let names = lines.filter_map(|line| Some(profile.string(profile.function(line.function?).name)));
    names.collect()
}

/// Whether a function of this (last part of the) name is among the frames.
pub(crate) fn has(frames: &[&str], function: &str) -> bool {
    frames.iter().any(|frame| is(frame, function))
}

/// Whether the frame is the function of this last part of the name, generic or not.
pub(crate) fn is(frame: &str, function: &str) -> bool {
    let plain = frame.split('<').next().unwrap_or(frame).trim_end_matches("::");
    plain.rsplit("::").next() == Some(function)
}

/// The text of a label of a sample.
pub(crate) fn label<'a>(profile: &'a Profile, sample: &Sample<'_>, key: &str) -> Option<&'a str> {
    let labels = profile.labels(sample.labels).iter();
    labels.filter(|label| profile.string(label.key) == key).map(|label| profile.string(label.text)).next()
}

/// The number of a label of a sample.
pub(crate) fn number(profile: &Profile, sample: &Sample<'_>, key: &str) -> Option<i64> {
    let mut labels = profile.labels(sample.labels).iter();
    labels.find(|label| profile.string(label.key) == key).map(|label| label.number)
}

/// The place of a sample type.
pub(crate) fn column(profile: &Profile, kind: &str) -> usize {
    let mut kinds = profile.sample_types().iter().map(|value| profile.string(value.kind));
    kinds.position(|known| known == kind).expect("a sample type of this name")
}

/// Records a command to its end.
pub(crate) fn recorded(command: Command, change: impl FnOnce(&mut RecordOptions)) -> Recorded {
    let mut options = RecordOptions::new(Target::Command(command));
    change(&mut options);
    record(options, &mut |_| {}, &AtomicBool::new(false)).expect("permitted here")
}

/// Returns whether the kernel side can be recorded here; prints a `SKIP:` line if not.
pub(crate) fn may_see_kernel(test: &str) -> bool {
    let report = flamelet_record::doctor::machine();
    let is_good = |name: &str| {
        report.check(name).is_some_and(|check| check.state == flamelet_record::doctor::CheckResult::Good)
    };
    let may = is_good("kernel side") && is_good("tracepoints");
    if !may {
        flamelet_test_support::skip!("{test}: this user may not watch the kernel's side\n{report}");
    }
    may
}

/// How far a share of this many stacks may be from its true value: six standard deviations, since no test may fail by
/// chance.
pub(crate) fn by_chance(share: f64, stacks: f64) -> f64 {
    6.0 * (share * (1.0 - share) / stacks).sqrt()
}
