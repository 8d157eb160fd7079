//! Reading other tools' files: perf script text compared with inferno, perf.data with `perf script`, the rest alone.

mod inputs;

use std::path::{Path, PathBuf};
use std::process::Command;

use self::inputs::Inputs;
use super::measure::{Cost, cost};
use super::page::{Section, verdict};
use super::statistics::{median_cost, megabytes, seconds, times};
use super::{Options, build_apart, build_flamelet};
use crate::{Failure, run};

/// Programs that read the same file.
struct Contest {
    what: &'static str,
    file: PathBuf,
    /// The others are compared with the first one.
    programs: Vec<(String, Vec<String>)>,
}

const TEXT: &str = "perf script text, every stack new";
const TEXT_FEW: &str = "perf script text, stacks that repeat";
const TEXT_SITES: &str = "perf script text, half a million addresses";
const FRAME_POINTERS: &str = "perf.data, frame pointers";
const DUMPS: &str = "perf.data, stack dumps of 16 KiB";
const RUST: &str = "perf.data of a Rust release build with lines";
const SMALL: &str = "a small perf.data of a Rust release build with lines";

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    let flamelet = build_flamelet()?;
    let inferno = build_apart("bench-inferno", &[])?;
    let inputs = Inputs { flamelet: &flamelet, quick: options.quick };
    let rounds = if options.quick { 1 } else { options.rounds };
    let mut contests = text_contests(&inputs, &inferno)?;
    contests.extend(recorded_contests(&inputs)?);
    contests.extend(lone_contests(&inputs)?);
    let mut costs: Vec<Vec<Vec<Cost>>> =
        contests.iter().map(|contest| vec![Vec::new(); contest.programs.len()]).collect();
    for round in 1..=rounds {
        for (contest, costs) in contests.iter().zip(&mut costs) {
            println!("   round {round} of {rounds}: {}", contest.what);
            for ((_, line), costs) in contest.programs.iter().zip(costs) {
                costs.push(cost(Command::new(&line[0]).args(&line[1..]))?);
            }
        }
    }
    let middle: Vec<Vec<Cost>> =
        costs.iter().map(|costs| costs.iter().map(|costs| median_cost(costs)).collect()).collect();
    let growth = growth(&inputs)?;
    Ok(section(&contests, &middle, &growth, rounds))
}

fn text_contests(inputs: &Inputs<'_>, inferno: &Path) -> Result<Vec<Contest>, Failure> {
    let texts = [
        (TEXT, inputs.perf_script("many", 1)?),
        (TEXT_FEW, inputs.repeated_text()?),
        (TEXT_SITES, inputs.perf_script_with_sites()?),
    ];
    let mut contests = Vec::new();
    for (what, file) in texts {
        check_same_stacks(inputs.flamelet, inferno, &file)?;
        let collapse = |threads: &str| {
            (format!("inferno, {threads} threads"), vec![path(inferno), threads.to_owned(), path(&file)])
        };
        let programs = vec![convert(inputs.flamelet, &file), collapse("1"), collapse("2")];
        contests.push(Contest { what, programs, file });
    }
    Ok(contests)
}

fn recorded_contests(inputs: &Inputs<'_>) -> Result<Vec<Contest>, Failure> {
    let mut contests = Vec::new();
    let files = [
        (FRAME_POINTERS, inputs.frame_pointers()?),
        (DUMPS, inputs.dumps()?),
        (RUST, inputs.rust_program("flamelet", 1)?),
        (SMALL, inputs.rust_program("flamelet-small", 20)?),
    ];
    for (what, file) in files {
        let Some(file) = file else {
            eprintln!("SKIP: {what}, because this machine's perf cannot record");
            continue;
        };
        let script = |options: &[&str]| {
            let mut line = vec!["perf".to_owned(), "script".to_owned(), "-i".to_owned(), path(&file)];
            line.extend(options.iter().map(|option| (*option).to_owned()));
            line
        };
        let programs = vec![
            convert(inputs.flamelet, &file),
            ("`perf script`".to_owned(), script(&[])),
            ("`perf script --no-inline`".to_owned(), script(&["--no-inline"])),
        ];
        contests.push(Contest { what, programs, file });
    }
    Ok(contests)
}

/// Formats that flamelet writes itself, read back.
const ALONE: [(&str, &str); 6] = [
    ("pprof", "pprof"),
    ("folded", "folded stacks"),
    ("speedscope", "speedscope JSON"),
    ("firefox", "Firefox JSON"),
    ("cpuprofile", ".cpuprofile"),
    ("callgrind", "callgrind out"),
];

fn lone_contests(inputs: &Inputs<'_>) -> Result<Vec<Contest>, Failure> {
    let mut contests = Vec::new();
    for (format, what) in ALONE {
        let file = inputs.converted(format)?;
        let line = vec![path(inputs.flamelet), "top".to_owned(), path(&file)];
        contests.push(Contest { what, programs: vec![("`flamelet top`".to_owned(), line)], file });
    }
    Ok(contests)
}

/// A format that is read as a stream, and the cost of a file and of one four times as long with the same stacks.
struct Growth {
    what: &'static str,
    bytes: [u64; 2],
    peak: [u64; 2],
}

fn growth(inputs: &Inputs<'_>) -> Result<Vec<Growth>, Failure> {
    let pairs = [
        ("perf script text", [inputs.perf_script("once", 1)?, inputs.perf_script("four times", 4)?]),
        ("folded stacks", [inputs.repeated_folded(1)?, inputs.repeated_folded(4)?]),
        ("strace log", [inputs.strace_log(1)?, inputs.strace_log(4)?]),
    ];
    let mut growth = Vec::new();
    let mut measure = |what, files: [PathBuf; 2]| {
        let mut peak = [0; 2];
        for (peak, file) in peak.iter_mut().zip(&files) {
            let (_, line) = convert(inputs.flamelet, file);
            *peak = cost(Command::new(&line[0]).args(&line[1..]))?.peak;
        }
        growth.push(Growth { what, bytes: files.map(|file| size(&file)), peak });
        Ok::<(), Failure>(())
    };
    for (what, files) in pairs {
        measure(what, files)?;
    }
    if let (Some(short), Some(long)) = (inputs.dumps_for(1)?, inputs.dumps_for(4)?) {
        measure("perf.data, stack dumps", [short, long])?;
    }
    Ok(growth)
}

fn section(contests: &[Contest], costs: &[Vec<Cost>], growth: &[Growth], rounds: usize) -> Section {
    let mut rows = Vec::new();
    for (contest, costs) in contests.iter().zip(costs) {
        let bytes = size(&contest.file);
        for ((name, _), cost) in contest.programs.iter().zip(costs) {
            rows.push(vec![
                format!("{}, {}", contest.what, megabytes(bytes)),
                name.clone(),
                format!("{:.0} MB/s", bytes as f64 / 1e6 / cost.wall.as_secs_f64()),
                seconds(cost.wall),
                seconds(cost.cpu),
                megabytes(cost.peak),
                times(cost.wall.as_secs_f64(), costs[0].wall.as_secs_f64()),
                times(cost.cpu.as_secs_f64(), costs[0].cpu.as_secs_f64()),
            ]);
        }
    }
    for growth in growth {
        for (bytes, peak) in growth.bytes.iter().zip(growth.peak) {
            let mut row = vec![format!("{}, {}", growth.what, megabytes(*bytes)), "memory alone".to_owned()];
            row.extend(["", "", ""].map(str::to_owned));
            row.extend([megabytes(peak), String::new(), String::new()]);
            rows.push(row);
        }
    }
    Section {
        title: "formats: reading other tools' files".to_owned(),
        about: format!(
            "From file to folded stacks (the readers alone: to `top`); {rounds} rounds. The perf script \
             text has stacks of about 50\nframes, from 22,000 call sites; with half a million addresses, \
             every depth has an address of its own. The perf.data\nfiles were just recorded by perf; \
             flamelet unwinds the stacks and adds names, including those of inlined functions. For\n\
             inlined functions, `perf script` runs addr2line, whose CPU time is not counted here; \
             `--no-inline` leaves them out."
        ),
        columns: vec![
            "input",
            "program",
            "speed",
            "wall",
            "CPU",
            "peak memory",
            "wall against flamelet",
            "CPU against flamelet",
        ],
        rows,
        goals: goals(contests, costs, growth),
    }
}

fn goals(contests: &[Contest], costs: &[Vec<Cost>], growth: &[Growth]) -> Vec<String> {
    let find = |what: &str| contests.iter().position(|contest| contest.what == what).map(|at| &costs[at]);
    let mut goals = Vec::new();
    for what in [TEXT, TEXT_FEW, TEXT_SITES] {
        if let Some([flamelet, inferno @ ..]) = find(what).map(Vec::as_slice) {
            let best = inferno.iter().map(|cost| cost.wall).min().unwrap_or_default();
            let cpu = inferno.iter().map(|cost| cost.cpu).min().unwrap_or_default();
            let ratio = best.as_secs_f64() / flamelet.wall.as_secs_f64();
            let cpu = cpu.as_secs_f64() / flamelet.cpu.as_secs_f64();
            goals.push(format!(
                "{what}, no slower than inferno: {ratio:.2} times as fast (CPU: {cpu:.2}), {}",
                verdict(ratio >= 1.0)
            ));
        }
    }
    for what in [FRAME_POINTERS, DUMPS, RUST] {
        if let Some([flamelet, perf, plain, ..]) = find(what).map(Vec::as_slice) {
            let ratio = |cost: &Cost| cost.wall.as_secs_f64() / flamelet.wall.as_secs_f64();
            goals.push(format!(
                "{what}, at least 10 times faster than `perf script`: {:.1} times ({:.1} with --no-inline), {}",
                ratio(perf),
                ratio(plain),
                verdict(ratio(perf) >= 10.0)
            ));
        }
    }
    if let Some([flamelet, _, plain, ..]) = find(SMALL).map(Vec::as_slice) {
        let ratio = plain.wall.as_secs_f64() / flamelet.wall.as_secs_f64();
        goals.push(format!(
            "{SMALL}, no slower than `perf script --no-inline`: {ratio:.2} times as fast, {}",
            verdict(ratio >= 1.0)
        ));
    }
    for Growth { what, bytes, peak } in growth {
        let (file, memory) = (bytes[1] as f64 / bytes[0] as f64, peak[1] as f64 / peak[0] as f64);
        goals.push(format!(
            "{what}: a file {file:.1} times as long takes {memory:.2} times the memory, {}",
            verdict(memory <= 1.25)
        ));
    }
    goals
}

fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

fn convert(flamelet: &Path, file: &Path) -> (String, Vec<String>) {
    let words = ["convert", &path(file), "--to", "folded", "-o", "/dev/null"].map(str::to_owned);
    ("`flamelet convert`".to_owned(), std::iter::once(path(flamelet)).chain(words).collect())
}

/// Checks that both find the same number of distinct stacks.
fn check_same_stacks(flamelet: &Path, inferno: &Path, text: &Path) -> Result<(), Failure> {
    let mut ours = Command::new(flamelet);
    ours.arg("convert").arg(text).args(["--to", "folded", "-o", "-"]);
    let ours = run::output(&mut ours)?.lines().count();
    let theirs = run::output(Command::new(inferno).arg("1").arg(text))?.lines().count();
    if ours == theirs {
        return Ok(());
    }
    Err(Failure::failed(format!("flamelet finds {ours} stacks in the perf script text, inferno {theirs}")))
}
