//! A day of a service's CPU samples: flamelet's history compared with a pprof file for each window.

use std::process::Command;
use std::time::Duration;

use super::page::Section;
use super::statistics::{median, megabytes, milliseconds, seconds, times};
use super::{Options, build_peer, folder};
use crate::{Failure, run};

/// Ten-second windows of a day.
const DAY: u64 = 8640;
const WAYS: [(&str, &str); 2] = [("history", "flamelet's history"), ("files", "a pprof file each")];

/// What one way took, a value for each round.
#[derive(Default)]
struct Taken {
    bytes: Vec<u64>,
    writing: Vec<Duration>,
    all: Vec<Duration>,
    minute: Vec<Duration>,
    memory: Vec<u64>,
}

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    let program = build_peer("bench-history")?;
    let windows = if options.quick { DAY / 24 } else { DAY };
    let mut taken: [Taken; 2] = Default::default();
    for round in 1..=options.rounds {
        println!("   round {round}");
        let place = folder()?.join("history");
        let _ = std::fs::remove_dir_all(&place);
        let text = run::output(Command::new(&program).arg(&place).arg(windows.to_string()))?;
        for (line, (taken, (name, _))) in text.lines().zip(taken.iter_mut().zip(WAYS)) {
            taken.take(line, name)?;
        }
    }
    Ok(section(&taken, windows))
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
}

fn section(taken: &[Taken; 2], windows: u64) -> Section {
    let of = |values: &[Duration]| median(values.iter().copied());
    let bytes = |taken: &Taken| median(taken.bytes.iter().copied());
    let memory = |taken: &Taken| median(taken.memory.iter().copied());
    let all = of(&taken[0].all);
    let rows = WAYS.iter().zip(taken).map(|((_, name), taken)| {
        vec![
            (*name).to_owned(),
            megabytes(bytes(taken)),
            seconds(of(&taken.writing)),
            milliseconds(of(&taken.all)),
            milliseconds(of(&taken.minute)),
            megabytes(memory(taken)),
            times(of(&taken.all).as_secs_f64(), all.as_secs_f64()),
        ]
    });
    let time = windows * 10;
    let share = of(&taken[0].writing).as_secs_f64() / time as f64 * 100.0;
    let verdict = |is_reached: bool| if is_reached { "reached" } else { "**missed**" };
    let ours = &taken[0];
    Section {
        title: format!("history: {windows} windows of ten seconds"),
        about: "A made-up service of 6,000 stacks, 40 frames deep, 190 samples a window, written to a history with the names of its\n\
                functions and as a pprof file without names for each window; CPU time and memory to write them, and time to\n\
                merge all and one minute, with the names."
            .to_owned(),
        columns: vec!["kept as", "bytes", "CPU to write", "all merged", "a minute", "memory", "against flamelet"],
        rows: rows.collect(),
        goals: vec![
            format!("at most 12 MB a day: {}", verdict(bytes(ours) <= 12_000_000 * windows / DAY)),
            format!("a day merged in at most 100 ms: {}", verdict(all <= Duration::from_millis(100))),
            format!("a minute in at most 20 ms: {}", verdict(of(&ours.minute) <= Duration::from_millis(20))),
            format!("at most 16 MB of memory: {}", verdict(memory(ours) <= 16_000_000)),
            format!("writing takes at most 0.05 % of a core: {share:.4} %, {}", verdict(share <= 0.05)),
        ],
    }
}
