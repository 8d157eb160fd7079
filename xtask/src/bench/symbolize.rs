//! Symbolizing addresses: flamelet-symbol compared with blazesym and addr2line.

use std::process::Command;
use std::time::Duration;

use super::page::{Section, verdict};
use super::statistics::{median, megabytes, milliseconds, times};
use super::{Options, build_peer};
use crate::{Failure, run};

const ENGINES: [&str; 3] = ["flamelet", "blazesym", "addr2line"];

/// The rounds of one engine: a first pass over a freshly opened binary, and a second over the same addresses.
#[derive(Default)]
struct Passes {
    cold: Vec<Duration>,
    warm: Vec<Duration>,
    /// How many addresses got a name, and the number of frames.
    found: String,
}

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    // The program symbolizes itself: it is large, and full of inlined frames.
    let program = build_peer("bench-symbolize")?;
    let size = std::fs::metadata(&program).map_or(0, |file| file.len());
    if size < 20_000_000 {
        return Err(Failure::failed(format!("the binary to symbolize has only {}", megabytes(size))));
    }
    let mut passes: [Passes; 3] = Default::default();
    for round in 1..=options.rounds.max(5) {
        println!("   round {round}");
        for (engine, passes) in ENGINES.iter().zip(&mut passes) {
            let text = run::output(Command::new(&program).arg(engine).arg(&program))?;
            passes.take(&text)?;
        }
    }
    Ok(section(&passes, size))
}

impl Passes {
    /// Parses `cold-µs warm-µs what-was-found`.
    fn take(&mut self, line: &str) -> Result<(), Failure> {
        let mut words = line.trim().splitn(3, ' ');
        let mut micros = || words.next().and_then(|word| word.parse().ok()).map(Duration::from_micros);
        let (Some(cold), Some(warm)) = (micros(), micros()) else {
            return Err(Failure::failed(format!("bench-symbolize printed `{}`", line.trim())));
        };
        self.cold.push(cold);
        self.warm.push(warm);
        self.found = words.next().unwrap_or_default().to_owned();
        Ok(())
    }
}

fn section(passes: &[Passes; 3], size: u64) -> Section {
    let cold = |passes: &Passes| median(passes.cold.iter().copied());
    let warm = |passes: &Passes| median(passes.warm.iter().copied());
    let ours = cold(&passes[0]);
    let rows = ENGINES.iter().zip(passes).map(|(engine, passes)| {
        vec![
            (*engine).to_owned(),
            milliseconds(cold(passes)),
            milliseconds(warm(passes)),
            passes.found.clone(),
            times(cold(passes).as_secs_f64(), ours.as_secs_f64()),
        ]
    });
    let best = passes[1..].iter().map(cold).min().unwrap_or_default();
    Section {
        title: "symbolize: 5,000 addresses of a large binary".to_owned(),
        about: format!(
            "5,000 seeded addresses inside the functions of a Rust binary of {} with full debug \
             information: names, files, lines and\ninlined frames. CPU time of a first pass, including \
             opening the file, and of a second pass.",
            megabytes(size)
        ),
        columns: vec!["engine", "first pass", "second pass", "found", "against flamelet"],
        rows: rows.collect(),
        goals: vec![format!(
            "no more than the better of the two peers in the same run: {}",
            verdict(ours <= best)
        )],
    }
}
