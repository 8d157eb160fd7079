//! A day of a service's CPU samples: flamelet's history compared with a pprof file for each window and with Pyroscope.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use super::collect::CPU;
use super::collect::store::{Store, bytes_in};
use super::page::{Section, at_most};
use super::statistics::{median, megabytes, milliseconds, seconds, times};
use super::{Options, build_peer, folder};
use crate::{Failure, run};

/// Ten-second windows of a day.
const DAY: u64 = 8640;
const WAYS: [(&str, &str); 3] =
    [("history", "flamelet's history"), ("files", "a pprof file each"), ("pyroscope", "Pyroscope 1.12.0")];
/// Windows of the service in fast motion in a second, and how many are recorded at most: a quarter of a day, repeated.
const FAST: u64 = 10;
const RECORDED: u64 = DAY / 4;

/// What one way took, a value for each round.
#[derive(Default)]
struct Taken {
    bytes: Vec<u64>,
    writing: Vec<Duration>,
    all: Vec<Duration>,
    minute: Vec<Duration>,
    memory: Vec<u64>,
}

/// A day of a service that ran.
struct RealDay {
    /// How many windows were recorded, and the different stacks of each, added up.
    recorded: u64,
    stacks: u64,
    /// CPU time of the thread that wrote its history.
    writing: Duration,
    taken: [Taken; 2],
}

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    let program = build_peer("bench-history")?;
    let windows = if options.quick { DAY / 24 } else { DAY };
    let place = folder()?.join("history");
    let spool = folder()?.join("history-windows");
    let mut real = record(&program, &spool, windows.min(RECORDED))?;
    let mut taken: [Taken; 3] = Default::default();
    for round in 1..=options.rounds {
        println!("   round {round}");
        measure(&program, &place, windows, None, &mut taken)?;
        measure(&program, &place, windows, Some(&spool), &mut real.taken)?;
    }
    run::heading("Pyroscope");
    taken[2].take(&pyroscope(&folder()?.join("history"), windows)?, WAYS[2].0)?;
    Ok(section(&taken, windows, &real))
}

/// Runs a service in fast motion, and leaves the windows of its history in `spool`.
fn record(program: &Path, spool: &Path, windows: u64) -> Result<RealDay, Failure> {
    let (service, recorded) = (build_peer("bench-day")?, folder()?.join("history-recorded"));
    for place in [&*recorded, spool] {
        let _ = std::fs::remove_dir_all(place);
    }
    run::heading(&format!("a service in fast motion, {} s", windows / FAST));
    let mut service = Command::new(service);
    let text = run::output(service.arg(&recorded).arg((windows / FAST).to_string()))?;
    let micros = text.trim().parse().map_err(|_| Failure::failed(format!("bench-day printed `{text}`")))?;
    let mut prepare = Command::new(program);
    let text = run::output(prepare.arg("prepare").arg(&recorded).arg(spool).arg(windows.to_string()))?;
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [recorded, stacks] = numbers[..] else {
        return Err(Failure::failed(format!("bench-history printed `{text}` for the recorded windows")));
    };
    Ok(RealDay { recorded, stacks, writing: Duration::from_micros(micros), taken: Default::default() })
}

/// Keeps windows, those in `spool` or made-up ones, in a history and as files.
fn measure(
    program: &Path,
    place: &Path,
    windows: u64,
    spool: Option<&Path>,
    taken: &mut [Taken],
) -> Result<(), Failure> {
    let _ = std::fs::remove_dir_all(place);
    let mut command = Command::new(program);
    let text = run::output(command.arg(place).arg(windows.to_string()).args(spool))?;
    text.lines().zip(taken).zip(WAYS).try_for_each(|((line, taken), (name, _))| taken.take(line, name))
}

impl Taken {
    /// Parses `NAME bytes writing-µs all-µs minute-µs memory`.
    fn take(&mut self, line: &str, name: &str) -> Result<(), Failure> {
        let numbers: Vec<u64> = line.split(' ').skip(1).filter_map(|word| word.parse().ok()).collect();
        let [bytes, writing, all, minute, memory] = numbers[..] else {
            return Err(Failure::failed(format!("bench-history printed `{line}` for {name}")));
        };
        self.bytes.push(bytes);
        self.writing.push(Duration::from_micros(writing));
        self.all.push(Duration::from_micros(all));
        self.minute.push(Duration::from_micros(minute));
        self.memory.push(memory);
        Ok(())
    }

    /// Returns its row of the table; `ours` is what flamelet takes to merge everything.
    fn row(&self, name: &str, ours: Duration) -> Vec<String> {
        let all = of(&self.all);
        vec![
            name.to_owned(),
            megabytes(median(self.bytes.iter().copied())),
            seconds(of(&self.writing)),
            milliseconds(all),
            milliseconds(of(&self.minute)),
            megabytes(median(self.memory.iter().copied())),
            times(all.as_secs_f64(), ours.as_secs_f64()),
        ]
    }
}

/// Pushes the windows to Pyroscope and asks for all and for a minute of them; returns a line like those of bench-history.
fn pyroscope(place: &Path, windows: u64) -> Result<String, Failure> {
    let (sender, store) = (build_peer("bench-collect")?, Store::pyroscope(place)?);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let before = store.process.cpu_nanos()?;
    let numbers = [1, windows, 10, now, 0].map(|number: u64| number.to_string());
    run::output(Command::new(sender).args([&store.address, "day"]).args(numbers))?;
    let writing = (store.process.cpu_nanos()? - before) / 1000;
    let ask = |from: u64, to: u64| {
        let body = json!({
            "profileTypeID": CPU,
            "labelSelector": "{service_name=\"day-0\"}",
            "start": (from * 1000).to_string(),
            "end": (to * 1000).to_string(),
            "maxNodes": "8192",
        });
        let start = Instant::now();
        store.ask("SelectMergeStacktraces", &body).map(|_| start.elapsed().as_micros())
    };
    let begin = now - windows * 10;
    let (all, minute) = (ask(begin, now)?, ask(begin + windows * 5, begin + windows * 5 + 60)?);
    let (memory, kept) = (store.process.peak_megabytes()? * 1e6, store.kept.clone());
    store.process.end();
    Ok(format!("pyroscope {} {writing} {all} {minute} {memory:.0}", bytes_in(&kept)?))
}

fn section(taken: &[Taken; 3], windows: u64, real: &RealDay) -> Section {
    let all = of(&taken[0].all);
    let made_up = WAYS.iter().zip(taken).map(|((_, name), taken)| taken.row(name, all));
    let all = of(&real.taken[0].all);
    let ran = WAYS
        .iter()
        .zip(&real.taken)
        .map(|((_, name), taken)| taken.row(&format!("of the service that ran: {name}"), all));
    let ours = &taken[0];
    let share = |writing: Duration, windows: u64| writing.as_secs_f64() / (windows * 10) as f64 * 100.0;
    let made_up_goals = goals("made-up", ours, windows, share(of(&ours.writing), windows));
    let real_share = share(real.writing, real.recorded.max(1));
    Section {
        title: format!("history: {windows} windows of ten seconds"),
        about: format!(
            "A synthetic service of 6,000 stacks, 40 frames deep, 190 samples a window, written to a \
             history with the names of its\nfunctions, and as a pprof file without names for each window; \
             CPU time and memory to write them, and time to merge all\nwindows, or those of one minute, \
             with names. Pyroscope gets the same number of windows of the same service, with names,\n\
             pushed once as its agents do; its figures are the server's: the bytes that it keeps, its CPU \
             time to take the windows\nin, its peak memory, and the times of its queries for a flame \
             graph.\n\nThe same with windows of a real service (the one of `live`) in fast motion: a tenth \
             of a second stands for ten seconds,\nwith up to 190 samples, {} different stacks a window. {} windows \
             were recorded; they are repeated until a day is over.\nMeanwhile, the thread that wrote the history took {} of CPU,\nincluding looking up names; the \
             last goal is about that.",
            real.stacks / real.recorded.max(1),
            real.recorded,
            seconds(real.writing),
        ),
        columns: vec![
            "kept as",
            "bytes",
            "CPU to write",
            "all merged",
            "a minute",
            "memory",
            "against flamelet",
        ],
        rows: made_up.chain(ran).collect(),
        goals: [made_up_goals, goals("service that ran", &real.taken[0], windows, real_share)].concat(),
    }
}

fn of(values: &[Duration]) -> Duration {
    median(values.iter().copied())
}

/// Returns the goals of the history of a day, of which there are this many windows, and whether they were reached; `share` is
/// what writing takes, in percent of a core.
fn goals(name: &str, history: &Taken, windows: u64, share: f64) -> Vec<String> {
    let bytes = median(history.bytes.iter().copied()) * DAY / windows.max(1);
    let memory = median(history.memory.iter().copied()) as f64 / 1e6;
    let milliseconds = |values: &[Duration]| Some(of(values).as_secs_f64() * 1e3);
    vec![
        at_most(&format!("{name}: a day"), Some(bytes as f64 / 1e6), 12.0, "MB"),
        at_most(&format!("{name}: all merged"), milliseconds(&history.all), 100.0, "ms"),
        at_most(&format!("{name}: a minute"), milliseconds(&history.minute), 20.0, "ms"),
        at_most(&format!("{name}: memory"), Some(memory), 16.0, "MB"),
        at_most(&format!("{name}: writing, of a core"), Some(share), 0.05, "%"),
    ]
}
