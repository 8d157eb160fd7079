//! Recording another process: `flamelet record` compared with samply, `perf record` and cargo-flamegraph.

mod huge;
mod peers;
mod recorder;
mod recording;
mod rooted;

use std::path::PathBuf;

use super::page::{Section, at_most, cell, verdict};
use super::{Options, build_apart, build_flamelet, folder, statistics, syscalls};
use crate::Failure;
use peers::Peers;
use recorder::Recorder;
use recording::Recording;
pub(super) use recording::number_before;

#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    /// What the target does.
    kind: &'static str,
    threads: u32,
    hertz: u32,
    millis: u32,
}

/// The programs and paths of a run.
struct Tools {
    flamelet: PathBuf,
    target: PathBuf,
    inferno: PathBuf,
    peers: Peers,
    folder: PathBuf,
}

impl Tools {
    /// Where pictures go.
    fn picture(&self) -> PathBuf {
        self.folder.join("record.svg")
    }
}

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    let folder = folder()?;
    let tools = Tools {
        flamelet: build_flamelet()?,
        target: build_apart("bench-record", &[])?,
        inferno: build_apart("bench-inferno", &[])?,
        peers: Peers::prepare(&folder),
        folder,
    };
    let rounds = if options.quick { 1 } else { options.rounds };
    let millis = |millis: u32| if options.quick { millis / 10 } else { millis };
    let usual =
        Load { name: "2 threads, 997 Hz", kind: "deep", threads: 2, hertz: 997, millis: millis(10_000) };
    let stress =
        Load { name: "8 threads, 3000 Hz", kind: "deep", threads: 8, hertz: 3000, millis: millis(3_000) };
    let (mut rows, mut goals) = (Vec::new(), Vec::new());
    for load in [usual, stress] {
        let most_rounds = if options.quick { rounds } else { MOST_ROUNDS };
        let Compared { all, noise } = record_all(&tools, load, rounds, most_rounds)?;
        for (recorder, recordings) in &all {
            rows.push(row(load, *recorder, recordings));
        }
        let of =
            |wanted| all.iter().find(|(recorder, _)| *recorder == wanted).map(|(_, recordings)| recordings);
        if let Some(ours) = of(Recorder::Flamelet) {
            goals.extend(goals_of(load, ours));
            goals.push(certainty_goal(load, ours));
            goals.extend(of(Recorder::Samply).map(|samply| against_samply(load, ours, samply, noise)));
        }
    }
    goals.extend(huge::compare(&tools, rounds, millis(10_000))?);
    // strace takes half a minute, and the result is far from the goal.
    goals.extend(syscalls::compare(&tools.flamelet, &tools.folder, 1)?);
    Ok(Section {
        title: "record: sampling another process".to_owned(),
        about: format!(
            "The same program, with stacks of about 37 frames, interleaved; the median of {rounds} rounds. \
             The recorder's CPU is that\nof everything it started except the target; flamelet's and \
             samply's includes looking up names, cargo-flamegraph's also\ndrawing the picture. The \
             slowdown is of the work done in the same time, compared with runs without a recorder right\n\
             before and after. perf's picture is made by `perf script` and inferno, flamelet's by \
             `flamelet flame`; samply's file has\nno picture of its own."
        ),
        columns: vec![
            "workload",
            "recorder",
            "samples",
            "lost",
            "bytes a sample",
            "recorder CPU",
            "a sample",
            "slowdown",
            "rooted",
            "peak memory",
            "end to file",
            "end to picture",
        ],
        rows,
        goals,
    })
}

/// The slowdown is measured until it is known this well: half of the 95 % interval, in points.
const SLOWDOWN_HALF_WIDTH: f64 = 0.5;
/// The most rounds for that.
const MOST_ROUNDS: usize = 41;

/// All recordings of a load.
struct Compared {
    all: Vec<(Recorder, Vec<Recording>)>,
    /// By how many percent two unrecorded runs, one before and one after a recording, differ: the machine's own
    /// noise.
    noise: f64,
}

/// Runs every recorder `rounds` times, alternately forwards and backwards, with an unrecorded run before and after
/// each, because a machine's speed drifts by more than the effect that is measured. flamelet and samply, whose slowdowns
/// are compared, then go on until these are known well enough, or up to `most_rounds`.
fn record_all(tools: &Tools, load: Load, rounds: usize, most_rounds: usize) -> Result<Compared, Failure> {
    let calm = Load { millis: load.millis.min(2500), ..load };
    let nobody = || Recording::make(tools, calm, Recorder::Nothing).map(|run| run.turns_a_second);
    let mut all: Vec<(Recorder, Vec<Recording>)> =
        Recorder::all(tools).into_iter().map(|recorder| (recorder, Vec::new())).collect();
    let mut differences = Vec::new();
    let mut before = nobody()?;
    let is_compared = |recorder: Recorder| matches!(recorder, Recorder::Flamelet | Recorder::Samply);
    let mut done = 0;
    for round in 1..=most_rounds {
        let is_vague = |(recorder, recordings): &(Recorder, Vec<Recording>)| {
            is_compared(*recorder) && slowdown_half_width(recordings) >= SLOWDOWN_HALF_WIDTH
        };
        if round > rounds && !all.iter().any(is_vague) {
            break;
        }
        done = round;
        for (recorder, recordings) in
            all.iter_mut().filter(|(recorder, _)| round <= rounds || is_compared(*recorder))
        {
            println!("   {}, round {round}: {}", load.name, recorder.name());
            let mut recording = Recording::make(tools, load, *recorder)?;
            let after = nobody()?;
            let usual = f64::midpoint(before, after);
            recording.slowdown = Some((1.0 - recording.turns_a_second / usual) * 100.0);
            differences.push((after - before).abs() / usual * 100.0);
            recordings.push(recording);
            before = after;
        }
        all.reverse();
    }
    if done % 2 == 1 {
        all.reverse();
    }
    Ok(Compared { all, noise: statistics::middle(differences).unwrap_or(0.0) })
}

/// Returns half of the 95 % interval of the mean slowdown, in points; infinite if it is not known.
fn slowdown_half_width(recordings: &[Recording]) -> f64 {
    let slowdowns = recordings.iter().map(|recording| recording.slowdown).collect::<Option<Vec<f64>>>();
    slowdowns.map_or(f64::INFINITY, |slowdowns| statistics::half_width(&slowdowns))
}

/// Says how well our slowdown is known.
fn certainty_goal(load: Load, ours: &[Recording]) -> String {
    let what = format!("{}: half of the 95 % interval of the slowdown ({} rounds)", load.name, ours.len());
    at_most(&what, Some(slowdown_half_width(ours)), SLOWDOWN_HALF_WIDTH, "points")
}

/// Returns the median of a figure over the rounds; `None` if a round lacks it.
fn middle(recordings: &[Recording], figure: impl Fn(&Recording) -> Option<f64>) -> Option<f64> {
    statistics::middle(recordings.iter().map(figure).collect::<Option<Vec<f64>>>()?)
}

fn lost(recording: &Recording) -> Option<f64> {
    recording.lost.map(|count| count as f64)
}

fn row(load: Load, recorder: Recorder, recordings: &[Recording]) -> Vec<String> {
    let of = |figure: &dyn Fn(&Recording) -> Option<f64>, show: &dyn Fn(f64) -> String| {
        cell(middle(recordings, figure), show)
    };
    let (count, seconds) = (|n: f64| format!("{n:.0}"), |value: f64| format!("{value:.2} s"));
    vec![
        load.name.to_owned(),
        recorder.name().to_owned(),
        of(&|recording| recording.samples.map(|count| count as f64), &count),
        of(&lost, &count),
        of(&Recording::bytes_a_sample, &|bytes| format!("{bytes:.1}")),
        of(&|recording| Some(recording.recorder_cpu()), &seconds),
        of(&Recording::micros_a_sample, &|micros| format!("{micros:.1} µs")),
        of(&|recording| recording.slowdown, &|percent| format!("{percent:.1} %")),
        of(&|recording| recording.rooted, &|share| format!("{:.1} %", share * 100.0)),
        of(&|recording| Some(recording.cost.peak as f64), &|bytes| format!("{:.0} MB", bytes / 1e6)),
        of(&|recording| Some(recording.to_file), &seconds),
        of(&|recording| recording.to_picture, &seconds),
    ]
}

/// Returns a line that says whether a figure is small enough.
fn goal(load: &str, what: &str, value: Option<f64>, limit: f64) -> String {
    at_most(&format!("{load}: {what}"), value, limit, "")
}

/// The goal for the recorder's CPU, without finding names.
fn cpu_goal(load: &str, how: &str, ours: &[Recording], limit: f64) -> String {
    let with_names = middle(ours, Recording::micros_a_sample).unwrap_or(f64::NAN);
    let what = format!("µs of recorder CPU a sample, {how}, finding names apart");
    let line = goal(load, &what, middle(ours, Recording::micros_without_names), limit);
    format!("{line} ({with_names:.1} with the names)")
}

fn goals_of(load: Load, ours: &[Recording]) -> Vec<String> {
    vec![
        goal(load.name, "bytes a sample", middle(ours, Recording::bytes_a_sample), 100.0),
        goal(load.name, "samples lost", middle(ours, lost), 0.0),
        cpu_goal(load.name, "in batches", ours, 10.0),
        goal(
            load.name,
            "µs of recorder CPU a sample, with names",
            middle(ours, Recording::micros_a_sample),
            6.0,
        ),
        goal(load.name, "seconds from the end to the picture", middle(ours, |one| one.to_picture), 0.3),
    ]
}

/// Returns which figures, if any, are worse than samply's by more than the noise.
fn against_samply(load: Load, ours: &[Recording], samply: &[Recording], noise: f64) -> String {
    type Figure<'a> = (&'static str, f64, &'a dyn Fn(&[Recording]) -> Option<f64>);
    // Differences below the second column are noise, for figures that are small for both.
    let figures: [Figure<'_>; 7] = [
        ("bytes a sample", 0.0, &|all| middle(all, Recording::bytes_a_sample)),
        ("lost", 0.0, &|all| middle(all, lost)),
        ("recorder CPU a sample", 0.5, &|all| middle(all, Recording::micros_a_sample)),
        ("slowdown", noise, &|all| middle(all, |one| one.slowdown)),
        ("rooted", 0.001, &|all| middle(all, |one| one.rooted).map(|share| 1.0 - share)),
        ("peak memory", 1e6, &|all| middle(all, |one| Some(one.cost.peak as f64))),
        ("end to file", 0.02, &|all| middle(all, |one| Some(one.to_file))),
    ];
    let worse: Vec<&str> = figures
        .iter()
        .filter(|(_, noise, figure)| {
            figure(ours).zip(figure(samply)).is_none_or(|(ours, samply)| ours > samply + noise)
        })
        .map(|(name, ..)| *name)
        .collect();
    let verdict = match worse[..] {
        [] => verdict(true).to_owned(),
        _ => format!("{} ({})", verdict(false), worse.join(", ")),
    };
    let name = load.name;
    format!(
        "{name}: no figure worse than samply's: {verdict} (runs without a recorder differ by {noise:.1} %)"
    )
}
