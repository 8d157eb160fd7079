//! Recording another process: `flamelet record` beside `perf record` and samply.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use super::measure::{Cost, cost};
use super::page::Section;
use super::{Options, build_apart, build_flamelet, folder, syscalls};
use crate::{Failure, run};

/// What is recorded: the workload of ANCHORS.md, and the stress.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    threads: u32,
    hertz: u32,
    millis: u32,
}

/// Who records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Recorder {
    /// Nobody: what the slowdown is measured against.
    Nobody,
    Flamelet,
    /// cargo-flamegraph runs this, then `perf script` and inferno.
    Perf64K,
    Perf8K,
    Samply,
}

impl Recorder {
    const fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Flamelet => "`flamelet record`",
            Self::Perf64K => "`perf record --call-graph dwarf,64000` (cargo-flamegraph)",
            Self::Perf8K => "`perf record --call-graph dwarf,8192`",
            Self::Samply => "`samply record`",
        }
    }
}

/// The programs and places of a run.
struct Tools {
    flamelet: PathBuf,
    target: PathBuf,
    inferno: PathBuf,
    samply: Option<PathBuf>,
    folder: PathBuf,
}

/// One recording.
struct Recording {
    cost: Cost,
    /// Turns that the target made, and its CPU time in seconds.
    turns: f64,
    target_cpu: f64,
    bytes: u64,
    samples: Option<u64>,
    lost: Option<u64>,
    rooted: Option<f64>,
    /// Seconds from the target's end to the file, and to a picture.
    to_file: f64,
    to_picture: Option<f64>,
}

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    let tools = Tools {
        flamelet: build_flamelet()?,
        target: build_apart("bench-record", &[])?,
        inferno: build_apart("bench-inferno", &[])?,
        samply: samply(),
        folder: folder()?,
    };
    let rounds = if options.quick { 1 } else { options.rounds };
    let millis = |millis: u32| if options.quick { millis / 10 } else { millis };
    let loads = [
        Load { name: "2 threads, 997 Hz", threads: 2, hertz: 997, millis: millis(10_000) },
        Load { name: "8 threads, 3000 Hz", threads: 8, hertz: 3000, millis: millis(5_000) },
    ];
    let recorders = recorders(&tools);
    let mut rows = Vec::new();
    let mut goals = Vec::new();
    for load in loads {
        let mut all: Vec<Vec<Recording>> = recorders.iter().map(|_| Vec::new()).collect();
        for round in 1..=rounds {
            for (recorder, recordings) in recorders.iter().zip(&mut all) {
                println!("   {}, round {round} of {rounds}: {}", load.name, recorder.name());
                recordings.push(record(&tools, load, *recorder)?);
            }
        }
        for (recorder, recordings) in recorders.iter().zip(&all).skip(1) {
            rows.push(row(load, *recorder, recordings, &all[0]));
            if *recorder == Recorder::Flamelet {
                goals.extend(goals_of(load, recordings));
            }
        }
    }
    goals.extend(syscalls::compare(&tools.flamelet, &tools.folder, rounds)?);
    Ok(Section {
        title: "record: sampling another process".to_owned(),
        about: format!(
            "The same program with stacks of some 37 frames; {rounds} rounds. The recorder's CPU is that of everything it \
             started, without\nthe target's; the slowdown is of the work done in the same time with nobody recording. \
             perf's picture is made by `perf\nscript` and inferno, as cargo-flamegraph does it (only for the first \
             workload: the other takes minutes); samply's file\nhas no picture of its own."
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

/// Those that are installed here; the others are named.
fn recorders(tools: &Tools) -> Vec<Recorder> {
    let mut recorders = vec![Recorder::Nobody, Recorder::Flamelet];
    if run::which("perf").is_some() {
        recorders.extend([Recorder::Perf64K, Recorder::Perf8K]);
    } else {
        eprintln!("SKIP: perf, which is not installed (Debian: linux-perf)");
    }
    if tools.samply.is_some() {
        recorders.push(Recorder::Samply);
    } else {
        eprintln!("SKIP: samply; to have it: cargo install --root target/bench/tools --locked samply");
    }
    recorders
}

fn samply() -> Option<PathBuf> {
    let own = folder().ok()?.join("tools/bin/samply");
    own.is_file().then_some(own).or_else(|| run::which("samply"))
}

fn record(tools: &Tools, load: Load, recorder: Recorder) -> Result<Recording, Failure> {
    let at = |name: &str| tools.folder.join(format!("record-{name}"));
    let (report, errors, profile) = (at("report.txt"), at("errors.txt"), at(output_name(recorder)));
    let _ = std::fs::remove_file(&report);
    let _ = std::fs::remove_file(&profile);
    let mut command = kept_errors(&errors);
    command.args(recorder_line(tools, load, recorder, &profile));
    command
        .arg(&tools.target)
        .args([load.threads, load.millis].map(|number| number.to_string()))
        .arg(&report);
    let cost = cost(&mut command)?;
    let to_file = since_end(&report)?;
    let to_picture = picture(tools, load, recorder, &profile, &report, to_file)?;
    let [turns, _, ticks] = numbers(&report)?;
    let errors = std::fs::read_to_string(&errors).unwrap_or_default();
    Ok(Recording {
        cost,
        turns,
        target_cpu: ticks / 100.0,
        bytes: std::fs::metadata(&profile).map_or(0, |file| file.len()),
        samples: number_before(&errors, " samples"),
        lost: match recorder {
            // perf is silent when it lost nothing.
            Recorder::Perf64K | Recorder::Perf8K => Some(number_after(&errors, "lost ").unwrap_or(0)),
            _ => number_before(&errors, " lost"),
        },
        rooted: rooted(tools, load, recorder, &errors),
        to_file,
        to_picture,
    })
}

const fn output_name(recorder: Recorder) -> &'static str {
    match recorder {
        Recorder::Nobody => "nothing",
        Recorder::Flamelet => "flamelet.pb.gz",
        Recorder::Perf64K | Recorder::Perf8K => "perf.data",
        Recorder::Samply => "samply.json.gz",
    }
}

/// A shell that runs its arguments with the standard error kept in a file.
fn kept_errors(errors: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "exec 2>\"$0\"; exec \"$@\""]).arg(errors);
    command
}

fn recorder_line(tools: &Tools, load: Load, recorder: Recorder, profile: &Path) -> Vec<String> {
    let (hertz, profile) = (load.hertz.to_string(), profile.to_string_lossy().into_owned());
    let program = |path: &Path| path.to_string_lossy().into_owned();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let perf = |dump: &str| {
        let graph = format!("dwarf,{dump}");
        words(&[
            "perf",
            "record",
            "-F",
            &hertz,
            "-e",
            "cpu-clock:u",
            "--call-graph",
            &graph,
            "-o",
            &profile,
            "--",
        ])
    };
    match recorder {
        Recorder::Nobody => Vec::new(),
        Recorder::Flamelet => {
            words(&[&program(&tools.flamelet), "record", "-F", &hertz, "-o", &profile, "--"])
        }
        Recorder::Perf64K => perf("64000"),
        Recorder::Perf8K => perf("8192"),
        Recorder::Samply => {
            let samply = tools.samply.as_deref().map(program).unwrap_or_default();
            words(&[&samply, "record", "--save-only", "-r", &hertz, "-o", &profile, "--"])
        }
    }
}

/// Seconds from the target's end until a flame graph is on disk.
fn picture(
    tools: &Tools,
    load: Load,
    recorder: Recorder,
    profile: &Path,
    report: &Path,
    to_file: f64,
) -> Result<Option<f64>, Failure> {
    let svg = tools.folder.join("record.svg");
    match recorder {
        Recorder::Nobody | Recorder::Samply => Ok(None),
        // The picture instead of the file, by a recording of its own.
        Recorder::Flamelet => {
            let mut command = Command::new(&tools.flamelet);
            command
                .args(["record", "-F", &load.hertz.to_string(), "-o"])
                .arg(&svg)
                .arg("--")
                .arg(&tools.target);
            command.args([load.threads, load.millis.min(2000)].map(|number| number.to_string())).arg(report);
            let before = std::fs::read(report).map_err(|error| Failure::failed(error.to_string()))?;
            cost(&mut command)?;
            let took = since_end(report)?;
            // The report of the recording that is measured comes back.
            std::fs::write(report, before).map_err(|error| Failure::failed(error.to_string()))?;
            Ok(Some(took))
        }
        Recorder::Perf64K | Recorder::Perf8K if load.threads > 2 => Ok(None),
        Recorder::Perf64K | Recorder::Perf8K => {
            let text = tools.folder.join("record-perf.txt");
            let start = SystemTime::now();
            let mut script = Command::new("sh");
            script.args(["-c", "perf script -i \"$0\" > \"$1\" 2>/dev/null"]).arg(profile).arg(&text);
            cost(&mut script)?;
            cost(Command::new(&tools.inferno).arg("2").arg(&text).arg(&svg))?;
            Ok(Some(to_file + start.elapsed().unwrap_or_default().as_secs_f64()))
        }
    }
}

/// The share of stacks that reach the thread's start, by flamelet's own count or by perf's text.
fn rooted(tools: &Tools, load: Load, recorder: Recorder, errors: &str) -> Option<f64> {
    match recorder {
        Recorder::Flamelet => {
            let samples = number_before(errors, " samples")?;
            let cut = number_before(errors, " stacks truncated").unwrap_or(0);
            Some(1.0 - cut as f64 / samples.max(1) as f64)
        }
        Recorder::Perf64K | Recorder::Perf8K if load.threads == 2 => {
            let text = std::fs::read(tools.folder.join("record-perf.txt")).ok()?;
            let text = String::from_utf8_lossy(&text);
            let stacks: Vec<&str> = text.split("\n\n").filter(|stack| !stack.trim().is_empty()).collect();
            let is_root =
                |line: &str| ["clone", "_start", "start_thread"].iter().any(|name| line.contains(name));
            let rooted = stacks.iter().filter(|stack| stack.lines().last().is_some_and(is_root)).count();
            Some(rooted as f64 / stacks.len().max(1) as f64)
        }
        _ => None,
    }
}

/// The last number that stands right before `word`.
fn number_before(text: &str, word: &str) -> Option<u64> {
    let (before, _) = text.rsplit_once(word)?;
    let digits = before.len() - before.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
    before[before.len() - digits..].parse().ok()
}

/// The number that follows `word`.
fn number_after(text: &str, word: &str) -> Option<u64> {
    let (_, after) = text.rsplit_once(word)?;
    after.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// The three numbers that the target writes at its end.
fn numbers(report: &Path) -> Result<[f64; 3], Failure> {
    let text = std::fs::read_to_string(report).unwrap_or_default();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    numbers
        .try_into()
        .map_err(|_| Failure::failed(format!("the recorded program reported `{}`", text.trim())))
}

fn since_end(report: &Path) -> Result<f64, Failure> {
    let [_, end, _] = numbers(report)?;
    Ok(SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs_f64() - end / 1e9)
}

/// The middle of a figure over the rounds; `None` when a round lacks it.
fn middle(recordings: &[Recording], figure: impl Fn(&Recording) -> Option<f64>) -> Option<f64> {
    let mut values: Vec<f64> = recordings.iter().map(figure).collect::<Option<_>>()?;
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

fn recorder_cpu(recording: &Recording) -> f64 {
    (recording.cost.cpu.as_secs_f64() - recording.target_cpu).max(0.0)
}

fn row(load: Load, recorder: Recorder, recordings: &[Recording], control: &[Recording]) -> Vec<String> {
    let cell = |value: Option<f64>, show: &dyn Fn(f64) -> String| value.map_or("–".to_owned(), show);
    let usual = middle(control, |recording| Some(recording.turns));
    let turns = middle(recordings, |recording| Some(recording.turns));
    let slowdown = turns.zip(usual).map(|(turns, usual)| (1.0 - turns / usual) * 100.0);
    let seconds = |value: f64| format!("{value:.2} s");
    vec![
        load.name.to_owned(),
        recorder.name().to_owned(),
        cell(middle(recordings, |recording| recording.samples.map(|count| count as f64)), &|n| {
            format!("{n:.0}")
        }),
        cell(middle(recordings, |recording| recording.lost.map(|count| count as f64)), &|n| {
            format!("{n:.0}")
        }),
        cell(middle(recordings, bytes_a_sample), &|bytes| format!("{bytes:.0}")),
        cell(middle(recordings, |recording| Some(recorder_cpu(recording))), &seconds),
        cell(middle(recordings, micros_a_sample), &|micros| format!("{micros:.1} µs")),
        cell(slowdown, &|percent| format!("{percent:.1} %")),
        cell(middle(recordings, |recording| recording.rooted), &|share| format!("{:.1} %", share * 100.0)),
        cell(middle(recordings, |recording| Some(recording.cost.peak as f64)), &|bytes| {
            format!("{:.0} MB", bytes / 1e6)
        }),
        cell(middle(recordings, |recording| Some(recording.to_file)), &seconds),
        cell(middle(recordings, |recording| recording.to_picture), &seconds),
    ]
}

fn bytes_a_sample(recording: &Recording) -> Option<f64> {
    Some(recording.bytes as f64 / recording.samples?.max(1) as f64)
}

fn micros_a_sample(recording: &Recording) -> Option<f64> {
    Some(recorder_cpu(recording) * 1e6 / recording.samples?.max(1) as f64)
}

fn goals_of(load: Load, recordings: &[Recording]) -> Vec<String> {
    let goal = |what: &str, value: Option<f64>, limit: f64| {
        let value = value.unwrap_or(f64::NAN);
        let verdict = if value <= limit { "reached" } else { "**missed**" };
        format!("{}: {what}, {limit} or less: {value:.2}, {verdict}", load.name)
    };
    vec![
        goal("bytes a sample", middle(recordings, bytes_a_sample), 100.0),
        goal("samples lost", middle(recordings, |recording| recording.lost.map(|count| count as f64)), 0.0),
        goal("µs of recorder CPU a sample, names included", middle(recordings, micros_a_sample), 10.0),
        goal(
            "seconds from the end to the picture",
            middle(recordings, |recording| recording.to_picture),
            0.3,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_the_recorders_words() {
        let perf = "[ perf record: Captured and wrote 579.000 MB perf.data (9011 samples) ]";
        assert_eq!(number_before(perf, " samples"), Some(9011));
        assert_eq!(number_after("Processed 9 events and lost 13 chunks!", "lost "), Some(13));
        let ours = "148 samples, 0 lost, 116 stacks truncated, 2 frames unresolved";
        assert_eq!(number_before(ours, " lost"), Some(0));
        assert_eq!(number_before(ours, " stacks truncated"), Some(116));
    }
}
