//! A small service under continuous CPU profiles: flamelet's history and its push to Pyroscope, compared with Pyroscope's own
//! agent and with no profiler.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::collect::store::{Store, bytes_in};
use super::page::{Section, at_most, verdict};
use super::statistics::{median, megabytes};
use super::{Options, build_apart, folder};
use crate::{Failure, run};

/// A way to profile the service: the features that it is built with, and what its row says.
struct Way {
    name: &'static str,
    features: &'static [&'static str],
    pushes: bool,
}

const WAYS: [Way; 4] = [
    Way { name: "no profiler", features: &[], pushes: false },
    Way { name: "flamelet's history", features: &["--features", "flamelet"], pushes: false },
    Way { name: "the same, pushed to Pyroscope", features: &["--features", "flamelet"], pushes: true },
    Way {
        name: "pyroscope-rs 2.1.5, pushed to Pyroscope",
        features: &["--features", "pyroscope"],
        pushes: true,
    },
];

/// What one way took, a value for each round.
#[derive(Default)]
struct Taken {
    /// CPU time of the workers for a request, in nanoseconds.
    request: Vec<u64>,
    /// CPU time of all other threads, in microseconds.
    others: Vec<u64>,
    memory: Vec<u64>,
    /// Bytes that the history, or the store of Pyroscope, has in the end.
    kept: Vec<u64>,
}

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    let seconds = if options.quick { 12 } else { 40 };
    let place = folder()?.join("live");
    let mut programs = Vec::new();
    for (number, way) in WAYS.iter().enumerate() {
        // The next build replaces the program.
        let program = place.join(format!("service-{number}"));
        copy(&build_apart("bench-live", way.features)?, &program)?;
        programs.push(program);
    }
    let mut taken: [Taken; 4] = Default::default();
    for round in 1..=options.rounds {
        println!("   round {round}");
        for ((way, program), taken) in WAYS.iter().zip(&programs).zip(&mut taken) {
            let place = place.join("kept");
            let _ = std::fs::remove_dir_all(&place);
            taken.take(way, program, &place, seconds)?;
        }
    }
    Ok(section(&taken, seconds))
}

fn copy(from: &Path, to: &PathBuf) -> Result<(), Failure> {
    let made = to.parent().map_or(Ok(()), std::fs::create_dir_all);
    let copied = made.and_then(|()| std::fs::copy(from, to));
    copied.map(drop).map_err(|error| Failure::failed(format!("{}: {error}", to.display())))
}

impl Taken {
    fn take(&mut self, way: &Way, program: &Path, place: &Path, seconds: u64) -> Result<(), Failure> {
        let store = way.pushes.then(|| Store::pyroscope(place)).transpose()?;
        let history = place.join("history");
        let mut command = Command::new(program);
        command.arg(seconds.to_string()).arg(&history);
        command.args(store.as_ref().map(|store| format!("http://{}", store.address)));
        let line = run::output(&mut command)?;
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [requests, worked, others, memory] = numbers[..] else {
            return Err(Failure::failed(format!("bench-live printed `{line}` for {}", way.name)));
        };
        self.request.push(worked * 1000 / requests.max(1));
        self.others.push(others);
        self.memory.push(memory);
        let kept = store.map(|store| {
            let kept = store.kept.clone();
            // What it has in memory is written as it ends.
            store.process.end();
            kept
        });
        let kept = kept.unwrap_or(history);
        self.kept.push(if kept.exists() { bytes_in(&kept)? } else { 0 });
        Ok(())
    }
}

fn section(taken: &[Taken; 4], seconds: u64) -> Section {
    let middle = |values: &[u64]| median(values.iter().copied()) as f64;
    let alone = &taken[0];
    let core = Duration::from_secs(seconds).as_micros() as f64;
    let added = |taken: &Taken| (middle(&taken.others) - middle(&alone.others)) / core * 100.0;
    let grown = |taken: &Taken| (middle(&taken.memory) - middle(&alone.memory)).max(0.0);
    let slower = |taken: &Taken| (middle(&taken.request) / middle(&alone.request) - 1.0) * 100.0;
    let rows = WAYS.iter().zip(taken).map(|(way, taken)| {
        vec![
            way.name.to_owned(),
            format!("{:.3} %", added(taken)),
            format!("{:+.1} %", slower(taken)),
            megabytes(grown(taken) as u64),
            megabytes(middle(&taken.kept) as u64),
        ]
    });
    let memory = grown(&taken[1]) / 1e6;
    let times = added(&taken[3]) / added(&taken[2]).max(f64::EPSILON);
    Section {
        title: format!("live: a service under continuous CPU profiles, {seconds} seconds"),
        about: "Two workers answer requests at half load. Each profiler takes 100 samples a second, and \
                writes or pushes a profile every\nten seconds and once more at the end. CPU is that of all \
                threads except the workers, beyond that of the service without\na profiler, in percent of \
                a core; it includes looking up names, which a service pays once for each function. \
                Workers:\nCPU time for a request, including signal handlers. Kept: by the history, or by \
                Pyroscope."
            .to_owned(),
        columns: vec!["profiled by", "CPU added", "workers", "memory added", "kept"],
        rows: rows.collect(),
        goals: vec![
            at_most("memory that the history adds, in MB", Some(memory), 16.0, ""),
            format!(
                "the push takes less CPU than pyroscope-rs: {times:.1} times less, {}",
                verdict(times >= 1.0)
            ),
        ],
    }
}
