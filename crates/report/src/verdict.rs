//! How much a profile can be trusted: what is wrong with it, what that does to the answer, and what to do.

use std::collections::BTreeSet;

use flamelet_profile::observations::share_interval;
use flamelet_profile::{KERNEL_START, Profile, Quality, Sample};
use serde::Serialize;

use crate::observations::effective_observations;

/// How much a profile can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No faults found.
    Good,
    /// Usable, with the listed faults.
    Fair,
    /// Misleading: read the faults first.
    Poor,
}

impl Verdict {
    /// Returns the verdict in one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Fair => "fair",
            Self::Poor => "poor",
        }
    }
}

/// Shares above which a fault is mentioned, and above which the profile is misleading.
const FAIR: f64 = 0.02;
const POOR: f64 = 0.20;

/// With fewer observations than this, shares are guesses; with fewer than the second, small ones are.
const GUESSES: f64 = 50.0;
const ROUGH: f64 = 400.0;

/// The observations from which a list of roots says anything.
const ENOUGH_ROOTS: u64 = 100;

/// Something that makes an answer wrong.
struct Fault {
    /// The share of the answer that it concerns, or as bad as if it concerned that share.
    share: f64,
    /// What is wrong, its effect, and what to do.
    text: String,
}

/// Returns the verdict and the faults, the most important one first.
pub(crate) fn judge(profile: &Profile) -> (Verdict, Vec<String>) {
    let mut faults: Vec<Fault> =
        [no_samples(profile), few(profile), unnamed(profile), wrong_roots(profile)]
            .into_iter()
            .chain(profile.quality.iter().flat_map(|quality| {
                [lost(profile, quality), cut(profile, quality), unseen(profile, quality)]
            }))
            .flatten()
            .filter(|fault| fault.share > FAIR)
            .collect();
    faults.sort_by(|a, b| b.share.total_cmp(&a.share));
    let verdict = match faults.first() {
        None => Verdict::Good,
        Some(worst) if worst.share > POOR => Verdict::Poor,
        Some(_) => Verdict::Fair,
    };
    (verdict, faults.into_iter().map(|fault| fault.text).collect())
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn no_samples(profile: &Profile) -> Option<Fault> {
    let text = "it has no samples: was the program idle, or the capture too short?";
    (profile.sample_count() == 0).then(|| Fault { share: 1.0, text: text.to_owned() })
}

fn few(profile: &Profile) -> Option<Fault> {
    if profile.sample_count() == 0 {
        return None;
    }
    let count = effective_observations(profile, profile.default_sample_index())?;
    let share = match count {
        _ if count < GUESSES => 0.5,
        _ if count < ROUGH => 0.1,
        _ => return None,
    };
    let (low, high) = share_interval(0.1, count);
    let shown = count.round().max(1.0);
    let observations = if shown == 1.0 { "observation" } else { "observations" };
    let text = format!(
        "it rests on {shown} {observations}: a function shown with 10 % may really have {:.0} to {:.0} %; {}",
        low * 100.0,
        high * 100.0,
        more_observations(profile)
    );
    Some(Fault { share, text })
}

/// Returns how to get more observations.
fn more_observations(profile: &Profile) -> &'static str {
    match &profile.quality {
        Some(quality) if is_coarse(profile, quality) => "capture for longer, or with the engine `perf`",
        Some(_) => "capture for longer, or at a higher rate",
        None => "capture for longer",
    }
}

/// Returns whether observations stand for much more than the period: the requested rate was not reached, and
/// nothing is missing.
fn is_coarse(profile: &Profile, quality: &Quality) -> bool {
    quality.asked_millihertz > 0
        && quality.achieved_millihertz > 0
        && profile.observations.is_some()
        && quality.achieved_millihertz < quality.asked_millihertz * 2 / 3
}

fn unnamed(profile: &Profile) -> Option<Fault> {
    let share = unnamed_share(profile);
    let text = format!(
        "{} of the leaf frames have no name, so their functions cannot be told apart: symbolize it with \
         `flamelet symbolize --binary FILE`",
        percent(share)
    );
    Some(Fault { share, text })
}

fn lost(profile: &Profile, quality: &Quality) -> Option<Fault> {
    let share = share(quality.lost, quality.samples.saturating_add(quality.lost));
    // A capture inside the process counts as lost what the CPU time called for and no signal saw.
    let text = match profile.observations {
        Some(_) if profile.string(quality.engine) == Quality::INSIDE_A_COMMAND => format!(
            "{} of the CPU time has no sample: work in processes and threads that live for milliseconds is shown too \
             small; `flamelet doctor` says how to allow perf_event_open, which sees them",
            percent(share)
        ),
        Some(_) => format!(
            "{} of the CPU time has no sample: work in threads that live for milliseconds is shown too small; \
             sample from outside with `flamelet record`",
            percent(share)
        ),
        None => {
            format!("{} of the samples were lost: what ran then is missing; lower the rate", percent(share))
        }
    };
    Some(Fault { share, text })
}

fn cut(profile: &Profile, quality: &Quality) -> Option<Fault> {
    let whole = if is_opened(profile) { go_roots(profile) } else { 0 };
    let share = share(quality.truncated.saturating_sub(whole), quality.samples);
    let text = format!(
        "{} of the stacks do not reach the start of their thread: callers above the cut are shown too small, functions' \
         own costs are right; `flamelet doctor BINARY` says what is missing",
        percent(share)
    );
    Some(Fault { share, text })
}

/// Returns the CPU time that perf's clock did not see: it starts anew with each thread.
fn unseen(profile: &Profile, quality: &Quality) -> Option<Fault> {
    if quality.asked_millihertz == 0 || quality.achieved_millihertz == 0 || profile.observations.is_some() {
        return None;
    }
    let share = 1.0 - share(quality.achieved_millihertz, quality.asked_millihertz);
    let text = format!(
        "{} of the CPU time has no sample: threads that end within a sampling period are missed, so what they do is \
         shown too small; raise the rate",
        percent(share)
    );
    Some(Fault { share, text })
}

/// Returns the share of stacks whose roots start no thread, as those of `perf record -g` for a program without frame
/// pointers.
fn wrong_roots(profile: &Profile) -> Option<Fault> {
    const FEWEST_KINDS: usize = 4;
    let is_enough = profile.quality.as_ref().is_some_and(|quality| quality.samples >= ENOUGH_ROOTS);
    if !is_opened(profile) || !is_enough {
        return None;
    }
    let (mut wrong, mut all, mut kinds) = (0.0, 0.0, BTreeSet::new());
    for sample in profile.samples() {
        let value = default_value(profile, &sample);
        all += value;
        let Some(root) = root_of(profile, &sample) else { continue };
        if !starts_a_thread(&root) {
            wrong += value;
            kinds.insert(root.name);
        }
    }
    // A runtime of its own has few roots; stacks that end anywhere have many.
    if kinds.len() < FEWEST_KINDS || all == 0.0 {
        return None;
    }
    let text = format!(
        "{} of the stacks end in functions that start no thread: the program has no frame pointers, so callers are wrong \
         or missing, and only functions' own costs are right; record with `perf record --call-graph dwarf` or \
         `flamelet record`",
        percent(wrong / all)
    );
    Some(Fault { share: wrong / all, text })
}

/// Returns whether perf recorded it and flamelet only opened it.
fn is_opened(profile: &Profile) -> bool {
    profile.quality.as_ref().is_some_and(|quality| profile.string(quality.engine) == "perf")
}

/// The outermost frame of a stack.
#[derive(Clone, Copy)]
struct Root<'p> {
    name: &'p str,
    is_kernel: bool,
    is_mapped: bool,
}

fn root_of<'p>(profile: &'p Profile, sample: &Sample<'_>) -> Option<Root<'p>> {
    let &id = profile.stack(sample.stack).last()?;
    let location = profile.location(id);
    let function = profile.lines(id).last().and_then(|line| line.function);
    Some(Root {
        name: function.map_or("", |function| profile.string(profile.function(function).name)),
        is_kernel: location.address >= KERNEL_START,
        is_mapped: location.mapping.is_some() || location.address == 0,
    })
}

/// Functions in which programs and threads begin, of C, Rust, Java and Go.
const BEGINNINGS: [&str; 14] = [
    "_start",
    "_dl_start",
    "_dl_start_user",
    "main",
    "start_thread",
    "clone",
    "clone3",
    "__clone",
    "__clone3",
    "thread_start",
    "start",
    "_start_c",
    "__start_context",
    "start_c11",
];

/// Parts of the names of such functions.
const BEGINNING_PARTS: [&str; 5] =
    ["libc_start", "thread_start", "thread_native_entry", "lang_start", "__rust_begin_short_backtrace"];

/// Functions in which Go's goroutines and threads begin.
const GO_BEGINNINGS: [&str; 6] = [
    "runtime.goexit",
    "runtime.mstart",
    "runtime.mcall",
    "runtime.rt0_go",
    "runtime.systemstack",
    "_rt0_amd64_linux",
];

fn starts_a_thread(root: &Root<'_>) -> bool {
    let is_unknown = root.name.is_empty() || root.name.starts_with('[');
    root.is_kernel
        || (is_unknown && root.is_mapped)
        || BEGINNINGS.contains(&root.name)
        || BEGINNING_PARTS.iter().any(|part| root.name.contains(part))
        || starts_in_go(root.name)
}

fn starts_in_go(name: &str) -> bool {
    GO_BEGINNINGS.contains(&name.trim_end_matches(".abi0"))
}

/// Returns how many observations have a stack that begins where Go's threads and goroutines do: such a stack is whole,
/// though no unwind table says so.
fn go_roots(profile: &Profile) -> u64 {
    let observed = profile.observed(profile.default_sample_index());
    let is_go = |sample: &Sample<'_>| root_of(profile, sample).is_some_and(|root| starts_in_go(root.name));
    let counts = profile.samples().zip(observed).filter(|(sample, _)| is_go(sample));
    counts.map(|(_, observed)| observed.count).sum::<f64>() as u64
}

fn default_value(profile: &Profile, sample: &Sample<'_>) -> f64 {
    sample.values.get(profile.default_sample_index()).map_or(0.0, |&value| value.unsigned_abs() as f64)
}

/// Returns the share of samples, by their default value, whose leaf has no name.
fn unnamed_share(profile: &Profile) -> f64 {
    let (mut unnamed, mut all) = (0.0, 0.0);
    for sample in profile.samples() {
        let value = default_value(profile, &sample);
        all += value;
        let Some(&leaf) = profile.stack(sample.stack).first() else { continue };
        let function = profile.lines(leaf).first().and_then(|line| line.function);
        if function.is_none_or(|function| profile.function(function).name.is_empty()) {
            unnamed += value;
        }
    }
    if all == 0.0 { 0.0 } else { unnamed / all }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_profile::{LabelSetId, Observed, ProfileBuilder};

    /// A CPU profile with stacks, root first, and how many samples each has.
    fn profile(engine: &str, stacks: &[(&str, i64)], change: impl FnOnce(&mut Quality)) -> Profile {
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        let mut samples = 0;
        for &(names, count) in stacks {
            let mut frames: Vec<_> = names.split(';').map(|name| builder.named_frame(name)).collect();
            frames.reverse();
            let stack = builder.stack(&frames);
            builder.sample(stack, LabelSetId::EMPTY, &[count, count * 10_000_000]);
            samples += count.unsigned_abs();
        }
        let engine = builder.string(engine);
        let mut quality = Quality { engine, samples, ..Quality::default() };
        change(&mut quality);
        builder.finish_with(None, Some(quality))
    }

    fn verdict(profile: &Profile) -> (Verdict, String) {
        let (verdict, faults) = judge(profile);
        (verdict, faults.first().cloned().unwrap_or_default())
    }

    #[test]
    fn few_observations_are_not_good() {
        for count in [1, 12, 17] {
            let (found, why) = verdict(&profile("perf cpu-clock", &[("_start;main", count)], |_| {}));
            assert_eq!(found, Verdict::Poor);
            assert!(why.starts_with(&format!("it rests on {count} observation")), "{why}");
        }
        let (found, why) = verdict(&profile("perf cpu-clock", &[("_start;main", 100)], |_| {}));
        assert_eq!(found, Verdict::Fair);
        assert!(why.contains("10 % may really have 6 to 17 %"), "{why}");
        assert_eq!(verdict(&profile("perf cpu-clock", &[("_start;main", 1000)], |_| {})).0, Verdict::Good);
    }

    #[test]
    fn weighted_observations_are_counted_and_not_their_weights() {
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        let frame = builder.named_frame("main");
        let stack = builder.stack(&[frame]);
        let row = builder.sample(stack, LabelSetId::EMPTY, &[178, 905_000_000]);
        builder.observe(row, 1, Observed::equal(178.0, 905e6));
        let engine = builder.string("timer");
        let quality = Quality {
            engine,
            samples: 178,
            asked_millihertz: 1_000_000,
            achieved_millihertz: 197_000,
            ..Quality::default()
        };
        let (found, why) = verdict(&builder.finish_with(None, Some(quality)));
        assert_eq!(found, Verdict::Fair);
        assert!(why.contains("178 observations") && why.contains("engine `perf`"), "{why}");
    }

    #[test]
    fn stacks_of_go_are_whole_where_go_begins() {
        let stacks = [("runtime.goexit.abi0;main.work", 900), ("runtime.mstart;runtime.mcall", 100)];
        let cut = |quality: &mut Quality| quality.truncated = 1000;
        assert_eq!(verdict(&profile("perf", &stacks, cut)).0, Verdict::Good);
        let (found, why) = verdict(&profile("perf", &[("middle;leaf", 1000)], cut));
        assert_eq!(found, Verdict::Poor);
        assert!(why.contains("100.0 % of the stacks do not reach"), "{why}");
    }

    #[test]
    fn roots_that_cannot_be_right_are_found() {
        let wrong =
            [("parse", 300), ("hash;probe", 300), ("emit", 300), ("memcpy", 300), ("_start;main", 300)];
        let (found, why) = verdict(&profile("perf", &wrong, |_| {}));
        assert_eq!(found, Verdict::Poor);
        assert!(why.starts_with("80.0 % of the stacks end in functions that start no thread"), "{why}");
        let right =
            [("_start;main;parse", 500), ("clone3;start_thread;hash", 500), ("custom_runtime;a", 500)];
        assert_eq!(verdict(&profile("perf", &right, |_| {})).0, Verdict::Good);
        // flamelet's own recordings say themselves which stacks are cut.
        assert_eq!(verdict(&profile("perf cpu-clock", &wrong, |_| {})).0, Verdict::Good);
    }

    #[test]
    fn short_threads_are_said_to_be_shown_too_small() {
        let stacks = [("_start;main", 1000)];
        let slow = |quality: &mut Quality| {
            (quality.asked_millihertz, quality.achieved_millihertz) = (1_000_000, 700_000);
        };
        let (found, why) = verdict(&profile("perf cpu-clock", &stacks, slow));
        assert_eq!(found, Verdict::Poor);
        assert!(why.starts_with("30.0 % of the CPU time has no sample: threads that end"), "{why}");
        // Opened files do not know their rate.
        let asked = |quality: &mut Quality| quality.asked_millihertz = 1_000_000;
        assert_eq!(verdict(&profile("perf", &stacks, asked)).0, Verdict::Good);
    }

    #[test]
    fn the_worst_comes_first() {
        let faults =
            judge(&profile("perf cpu-clock", &[("_start;main", 100)], |quality| quality.lost = 900)).1;
        assert!(faults[0].starts_with("90.0 % of the samples were lost"), "{faults:?}");
        assert_eq!(faults.len(), 2);
    }
}
