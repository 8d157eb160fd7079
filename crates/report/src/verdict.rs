//! How much a profile can be trusted: what is wrong with it, what that does to the answer, and what to do.

use std::collections::{BTreeMap, BTreeSet};

use flamelet_profile::observations::share_interval;
use flamelet_profile::{KERNEL_START, LabelSetId, Profile, Quality, Sample};

use crate::observations::effective_observations;

/// How much a profile can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

impl serde::Serialize for Verdict {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// Shares above which a fault is mentioned, and above which the profile is misleading.
const FAIR: f64 = 0.02;
const POOR: f64 = 0.20;

/// With fewer observations than this, shares are guesses; with fewer than the second, small ones are.
pub(crate) const GUESSES: f64 = 50.0;
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
        [nothing(profile), few(profile), unnamed(profile), wrong_roots(profile)]
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

fn nothing(profile: &Profile) -> Option<Fault> {
    let is_zero = |sample: Sample<'_>| sample.values.iter().all(|value| *value == 0);
    let text = match profile.sample_count() {
        0 => "it has no samples: was the program idle, or the capture too short?",
        _ if profile.samples().all(is_zero) => {
            "all its values are zero: was the program idle, or the capture too short?"
        }
        _ => return None,
    };
    Some(Fault { share: 1.0, text: text.to_owned() })
}

fn few(profile: &Profile) -> Option<Fault> {
    if profile.sample_count() == 0 {
        return None;
    }
    let Some(count) = effective_observations(profile, profile.default_sample_index()) else {
        return lonely(profile);
    };
    let share = match count {
        _ if count < GUESSES => 0.5,
        _ if count < ROUGH => 0.1,
        _ => return None,
    };
    let (low, high) = share_interval(0.1, count);
    let shown = count.round().max(1.0);
    let observations = if shown == 1.0 { "observation" } else { "observations" };
    let text = format!(
        "it has only {shown} {observations}: a function shown at 10 % may really have {:.0} to {:.0} %; {}",
        low * 100.0,
        high * 100.0,
        more_observations(profile)
    );
    Some(Fault { share, text })
}

/// Says that a profile of unknown weight has one stack only, so that there is nothing to compare it with.
fn lonely(profile: &Profile) -> Option<Fault> {
    let text = "it has one stack and no count: it shows where the program was, but not for how long";
    // A capture that counts an event knows its number.
    let is_counted = profile.quality.is_some();
    (profile.sample_count() == 1 && !is_counted).then(|| Fault { share: 0.1, text: text.to_owned() })
}

/// Returns how to get more observations.
fn more_observations(profile: &Profile) -> &'static str {
    match &profile.quality {
        Some(quality) if is_coarse(profile, quality) => "capture for longer, or with the engine `perf`",
        Some(quality) if profile.string(quality.engine) == "preload" => {
            "capture for longer, or with a smaller `--heap=SIZE`"
        }
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
    let (share, file) = unnamed_leaves(profile);
    let remedy = match file {
        "" => "symbolize it with `flamelet symbolize --binary FILE`".to_owned(),
        file if is_generated(file) => {
            "most are in code that was generated while the program ran; start it so that its runtime lists that \
             code, and capture again"
                .to_owned()
        }
        file if file.starts_with("[kernel") => {
            "most are in the kernel, and `flamelet doctor` says how to see its names".to_owned()
        }
        file => {
            let name = file.rsplit('/').next().unwrap_or(file);
            format!(
                "most are in {name}; install its debug symbols, or symbolize it with `flamelet symbolize --binary \
                 FILE`"
            )
        }
    };
    let text = format!(
        "{} of the leaf frames have no name, so their functions cannot be told apart: {remedy}",
        percent(share)
    );
    Some(Fault { share, text })
}

/// Returns whether memory of this name is no file, but holds code that a program generates.
fn is_generated(name: &str) -> bool {
    const MEMORY: [&str; 5] = ["//anon", "[anon", "/memfd:", "/dev/zero", "/anon_hugepage"];
    MEMORY.iter().any(|memory| name.starts_with(memory))
}

fn lost(profile: &Profile, quality: &Quality) -> Option<Fault> {
    let share = share(quality.lost, quality.samples.saturating_add(quality.lost));
    // A capture inside the process counts as lost what the CPU time called for and no signal saw.
    let text = match profile.observations {
        Some(_) if profile.string(quality.engine) == Quality::INSIDE_A_COMMAND => format!(
            "{} of the CPU time has no sample: work in processes and threads that live for milliseconds is \
             undercounted; `flamelet doctor` says how to allow perf_event_open, which sees them",
            percent(share)
        ),
        Some(_) => format!(
            "{} of the CPU time has no sample: work in threads that live for milliseconds is undercounted; \
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
        "{} of the stacks do not reach the start of their thread: callers above the cut are undercounted, functions' \
         own costs are right; `flamelet doctor BINARY` says what is missing",
        percent(share)
    );
    Some(Fault { share, text })
}

/// Fewer missing samples than this are chance.
const SLIGHT: f64 = 10.0;

/// Returns the CPU time that perf's clock did not see: it starts again with each thread, and each time that a thread
/// wakes up.
fn unseen(profile: &Profile, quality: &Quality) -> Option<Fault> {
    if quality.asked_millihertz == 0 || quality.achieved_millihertz == 0 || profile.observations.is_some() {
        return None;
    }
    let share = 1.0 - share(quality.achieved_millihertz, quality.asked_millihertz);
    let missing = quality.samples as f64 * share / (1.0 - share);
    if share <= FAIR || missing < SLIGHT {
        return None;
    }
    let threads = thread_count(profile) as f64;
    // A thread that ends misses one sample at most.
    let is_user_side = profile.comments().any(|comment| comment.starts_with("user side only"));
    let why = if is_user_side {
        "most of it was spent inside the kernel, which this recording may not see; \
         `sudo sysctl kernel.perf_event_paranoid=1` allows it"
    } else if threads > 0.0 && threads < missing / 2.0 {
        "the clock starts a little late whenever a thread wakes up, which happens often here, so work right after a \
         wake-up is undercounted; other shares are right"
    } else {
        "threads that end within a sampling period are missed, so their work is undercounted; raise the rate"
    };
    let text = format!("{} of the CPU time has no sample: {why}", percent(share));
    Some(Fault { share, text })
}

/// Returns how many threads were seen, with samples or without, or 0 if the profile does not tell.
fn thread_count(profile: &Profile) -> usize {
    let labels = (0..profile.label_set_count()).map(|at| profile.labels(LabelSetId::from_index(at)));
    let threads = labels.flatten().filter(|label| profile.string(label.key) == "tid");
    let threads: BTreeSet<i64> = threads.map(|label| label.number).collect();
    // Threads that ended before their first sample are known to the timeline only.
    threads.len().max(profile.timeline.as_ref().map_or(0, |timeline| timeline.threads.len()))
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

/// Returns whether perf recorded it and flamelet only opened it: what perf itself used was not measured.
fn is_opened(profile: &Profile) -> bool {
    let is_perf = |quality: &Quality| profile.string(quality.engine) == "perf" && quality.own_cpu_nanos == 0;
    profile.quality.as_ref().is_some_and(is_perf)
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

/// Returns the share of samples, by their default value, whose leaf has no name, and the file that most of them are in;
/// empty if it is not known.
fn unnamed_leaves(profile: &Profile) -> (f64, &str) {
    let (mut by_file, mut all): (BTreeMap<&str, f64>, f64) = (BTreeMap::new(), 0.0);
    for sample in profile.samples() {
        let value = default_value(profile, &sample);
        all += value;
        let Some(&leaf) = profile.stack(sample.stack).first() else { continue };
        let function = profile.lines(leaf).first().and_then(|line| line.function);
        if function.is_none_or(|function| profile.function(function).name.is_empty()) {
            let mapping = profile.location(leaf).mapping;
            let file = mapping.map_or("", |mapping| profile.string(profile.mapping(mapping).filename));
            *by_file.entry(file).or_default() += value;
        }
    }
    let most = by_file.iter().max_by(|a, b| a.1.total_cmp(b.1)).map_or("", |(&file, _)| file);
    let unnamed: f64 = by_file.values().sum();
    (if all == 0.0 { 0.0 } else { unnamed / all }, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_profile::{Observed, ProfileBuilder};

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
            assert!(why.starts_with(&format!("it has only {count} observation")), "{why}");
        }
        let (found, why) = verdict(&profile("perf cpu-clock", &[("_start;main", 100)], |_| {}));
        assert_eq!(found, Verdict::Fair);
        assert!(why.contains("10 % may really have 6 to 17 %"), "{why}");
        assert_eq!(verdict(&profile("perf cpu-clock", &[("_start;main", 1000)], |_| {})).0, Verdict::Good);
    }

    #[test]
    fn one_stack_and_zeros_are_not_good() {
        let made = |kind: &str, unit: &str, values: &[i64]| {
            let mut builder = ProfileBuilder::new(&[(kind, unit)]);
            for (number, &value) in values.iter().enumerate() {
                let frame = builder.named_frame(&format!("step_{number}"));
                let stack = builder.stack(&[frame]);
                builder.sample(stack, LabelSetId::EMPTY, &[value]);
            }
            verdict(&builder.finish())
        };
        let (found, why) = made("instructions", "count", &[7000]);
        assert_eq!(found, Verdict::Fair, "{why}");
        assert!(why.starts_with("it has one stack"), "{why}");
        assert_eq!(made("instructions", "count", &[7000, 3]).0, Verdict::Good);
        let (found, why) = made("cpu", "nanoseconds", &[0, 0]);
        assert_eq!(found, Verdict::Poor);
        assert!(why.starts_with("all its values are zero"), "{why}");
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
        let own = |quality: &mut Quality| quality.own_cpu_nanos = 1;
        assert_eq!(verdict(&profile("perf", &wrong, own)).0, Verdict::Good);
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
        // Two threads with many samples each are not short.
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        let frame = builder.named_frame("_start");
        let stack = builder.stack(&[frame]);
        for tid in [7, 8] {
            let label = builder.number_label("tid", tid, "");
            let labels = builder.labels(&[label]);
            builder.sample(stack, labels, &[500, 5_000_000]);
        }
        let engine = builder.string("perf cpu-clock");
        let mut quality = Quality { engine, samples: 1000, ..Quality::default() };
        slow(&mut quality);
        let (_, why) = verdict(&builder.finish_with(None, Some(quality)));
        assert!(
            why.starts_with("30.0 % of the CPU time has no sample: the clock starts a little late"),
            "{why}"
        );
        let mut user_side = profile("perf cpu-clock", &stacks, slow);
        user_side.add_comment("user side only: time inside the kernel is not seen (…)");
        let (_, why) = verdict(&user_side);
        assert!(
            why.starts_with("30.0 % of the CPU time has no sample: most of it was spent inside the kernel"),
            "{why}"
        );
        // Threads that ended before their first sample have none, but the timeline knows them.
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        let frame = builder.named_frame("_start");
        let stack = builder.stack(&[frame]);
        let label = builder.number_label("tid", 7, "");
        let labels = builder.labels(&[label]);
        builder.sample(stack, labels, &[1000, 10_000_000]);
        let name = builder.string("worker");
        let thread = |tid| flamelet_profile::Thread { pid: 7, tid, name, process: name };
        let timeline = flamelet_profile::Timeline {
            start_nanos: 0,
            threads: (0..3000).map(thread).collect(),
            events: Vec::new(),
            value_type: 1,
        };
        let engine = builder.string("perf cpu-clock");
        let mut quality = Quality { engine, samples: 1000, ..Quality::default() };
        slow(&mut quality);
        let (_, why) = verdict(&builder.finish_with(Some(timeline), Some(quality)));
        assert!(why.starts_with("30.0 % of the CPU time has no sample: threads that end"), "{why}");
        // Opened files do not know their rate.
        let asked = |quality: &mut Quality| quality.asked_millihertz = 1_000_000;
        assert_eq!(verdict(&profile("perf", &stacks, asked)).0, Verdict::Good);
    }

    #[test]
    fn what_to_do_about_missing_names_depends_on_where_they_are() {
        let remedy = |file: &str| {
            let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
            let mapping = builder.file_mapping(0x1000..0x9000, 0, file, "");
            let leaf = builder.address(Some(mapping), 0x2000);
            let stack = builder.stack(&[leaf]);
            builder.sample(stack, LabelSetId::EMPTY, &[1000, 10_000_000]);
            verdict(&builder.finish()).1
        };
        assert!(remedy("//anon").contains("its runtime lists that code"), "{}", remedy("//anon"));
        assert!(remedy("/usr/lib/libz.so.1").contains("most are in libz.so.1; install its debug symbols"));
        assert!(remedy("[kernel.kallsyms]").contains("flamelet doctor"));
    }

    #[test]
    fn the_worst_comes_first() {
        let faults =
            judge(&profile("perf cpu-clock", &[("_start;main", 100)], |quality| quality.lost = 900)).1;
        assert!(faults[0].starts_with("90.0 % of the samples were lost"), "{faults:?}");
        assert_eq!(faults.len(), 2);
    }
}
