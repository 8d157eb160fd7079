//! Reading other tools' files: perf script text beside inferno, perf.data beside `perf script`, the rest alone.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::measure::{Cost, cost};
use super::page::Section;
use super::statistics::{median_cost, megabytes, seconds, times};
use super::{Options, build_apart, build_flamelet, build_peer, folder};
use crate::{Failure, run, workspace};

/// A program on a file.
struct Contest {
    file: PathBuf,
    what: &'static str,
    /// The first one is what the others are compared with.
    programs: Vec<(String, Vec<String>)>,
}

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    let flamelet = build_flamelet()?;
    let inferno = build_apart("bench-inferno", &[])?;
    let rounds = if options.quick { 1 } else { options.rounds };
    let contests = contests(&flamelet, &inferno, options.quick)?;
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
    Ok(section(&contests, &middle, rounds))
}

fn section(contests: &[Contest], costs: &[Vec<Cost>], rounds: usize) -> Section {
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
    Section {
        title: "formats: reading other tools' files".to_owned(),
        about: format!(
            "From file to folded stacks (the readers alone: to `top`); {rounds} rounds. The perf script text has unique \
             stacks some 40\nframes deep; the perf.data was just recorded by perf with stack dumps of 16 KiB, and \
             flamelet and perf unwind and\nname it."
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
        goals: goals(contests, costs),
    }
}

fn goals(contests: &[Contest], costs: &[Vec<Cost>]) -> Vec<String> {
    let verdict = |holds: bool| if holds { "reached" } else { "**missed**" };
    let find = |what: &str| contests.iter().position(|contest| contest.what == what).map(|at| &costs[at]);
    let mut goals = Vec::new();
    if let Some([flamelet, inferno @ ..]) = find(TEXT).map(Vec::as_slice) {
        let best = inferno.iter().map(|cost| cost.wall).min().unwrap_or_default();
        let cpu = inferno.iter().map(|cost| cost.cpu).min().unwrap_or_default();
        let ratio = best.as_secs_f64() / flamelet.wall.as_secs_f64();
        let cpu = cpu.as_secs_f64() / flamelet.cpu.as_secs_f64();
        goals.push(format!(
            "perf script text no slower than inferno: {ratio:.2} times as fast (CPU: {cpu:.2}), {}",
            verdict(ratio >= 1.0)
        ));
        if let Some([twice]) = find(TEXT_TWICE).map(Vec::as_slice) {
            let growth = twice.peak as f64 / flamelet.peak as f64;
            goals.push(format!(
                "the same stacks twice need no more memory: {growth:.2} times, {}",
                verdict(growth <= 1.1)
            ));
        }
    }
    if let Some([flamelet, perf, ..]) = find(DATA).map(Vec::as_slice) {
        let ratio = perf.wall.as_secs_f64() / flamelet.wall.as_secs_f64();
        goals.push(format!(
            "perf.data at least 10 times faster than `perf script`: {ratio:.1} times, {}",
            verdict(ratio >= 10.0)
        ));
    }
    goals
}

const TEXT: &str = "perf script text";
const TEXT_TWICE: &str = "the same text twice";
const DATA: &str = "perf.data with stack dumps";

fn contests(flamelet: &Path, inferno: &Path, quick: bool) -> Result<Vec<Contest>, Failure> {
    let stacks = if quick { 1_000 } else { 50_000 };
    let pprof = generate(stacks)?;
    let text = perf_script_text(flamelet, &pprof, stacks)?;
    check_same_stacks(flamelet, inferno, &text)?;
    let twice = folder()?.join(format!("perf-script-{stacks}-twice.txt"));
    run::step(
        "writing the text twice",
        Command::new("sh").args(["-c", "cat \"$0\" \"$0\" > \"$1\""]).arg(&text).arg(&twice),
    )?;
    let convert = |file: &Path| ("`flamelet convert`".to_owned(), to_folded(flamelet, file));
    let collapse = |threads: &str| {
        let line = vec![path(inferno), threads.to_owned(), path(&text)];
        (format!("inferno, {threads} threads"), line)
    };
    let mut contests = vec![
        Contest {
            what: TEXT,
            programs: vec![convert(&text), collapse("1"), collapse("2")],
            file: text.clone(),
        },
        Contest { what: TEXT_TWICE, programs: vec![convert(&twice)], file: twice },
    ];
    match perf_data(quick)? {
        Some(data) => contests.push(Contest {
            what: DATA,
            programs: vec![
                convert(&data),
                ("`perf script`".to_owned(), perf_script(&data, &[])),
                ("`perf script --no-inline`".to_owned(), perf_script(&data, &["--no-inline"])),
            ],
            file: data,
        }),
        None => eprintln!("SKIP: perf.data, because this machine's perf cannot record"),
    }
    for (format, what) in ALONE {
        let file = folder()?.join(format!("stacks-{stacks}.{format}"));
        let mut command = Command::new(flamelet);
        command.arg("convert").arg(&pprof).args(["--to", format, "-o"]).arg(&file);
        run::output(&mut command)?;
        let line = vec![path(flamelet), "top".to_owned(), path(&file)];
        contests.push(Contest { what, programs: vec![("`flamelet top`".to_owned(), line)], file });
    }
    Ok(contests)
}

/// What flamelet writes by itself, read back.
const ALONE: [(&str, &str); 6] = [
    ("pprof", "pprof"),
    ("folded", "folded stacks"),
    ("speedscope", "speedscope JSON"),
    ("firefox", "Firefox JSON"),
    ("cpuprofile", ".cpuprofile"),
    ("callgrind", "callgrind out"),
];

fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

fn to_folded(flamelet: &Path, file: &Path) -> Vec<String> {
    ["convert", &path(file), "--to", "folded", "-o", "/dev/null"].iter().fold(
        vec![path(flamelet)],
        |mut line, word| {
            line.push((*word).to_owned());
            line
        },
    )
}

fn perf_script(data: &Path, options: &[&str]) -> Vec<String> {
    let mut line = vec!["perf".to_owned(), "script".to_owned(), "-i".to_owned(), path(data)];
    line.extend(options.iter().map(|option| (*option).to_owned()));
    line
}

fn generate(stacks: usize) -> Result<PathBuf, Failure> {
    let path = folder()?.join(format!("stacks-{stacks}.pb"));
    let generator = build_peer("bench-generate")?;
    run::step(
        &format!("generating {stacks} unique stacks"),
        Command::new(generator).arg(stacks.to_string()).arg(&path),
    )?;
    Ok(path)
}

/// The same stacks as `perf script` prints them.
fn perf_script_text(flamelet: &Path, pprof: &Path, stacks: usize) -> Result<PathBuf, Failure> {
    let failed = |error: std::io::Error| Failure::failed(error.to_string());
    let folded = folder()?.join(format!("stacks-{stacks}.folded"));
    let mut convert = Command::new(flamelet);
    convert.arg("convert").arg(pprof).args(["--to", "folded", "-o"]).arg(&folded);
    run::output(&mut convert)?;
    let text = folder()?.join(format!("perf-script-{stacks}.txt"));
    let mut out = BufWriter::new(File::create(&text).map_err(failed)?);
    for (number, line) in BufReader::new(File::open(&folded).map_err(failed)?).lines().enumerate() {
        let line = line.map_err(failed)?;
        let frames = line.rsplit_once(' ').map_or(line.as_str(), |(frames, _)| frames);
        let (second, micros) = (number / 1000, number % 1000 * 1000);
        writeln!(out, "checkout 4242/4243 [001] {second:>6}.{micros:06}:    1003009 cpu-clock:u: ")
            .map_err(failed)?;
        for (depth, frame) in frames.split(';').rev().enumerate() {
            let address = 0x55d0_c000_0000_u64 + (frame.len() * 4096 + depth * 16) as u64;
            writeln!(out, "\t{address:>16x} {frame}+0x{:x} (/usr/bin/checkout)", depth * 16 + 7)
                .map_err(failed)?;
        }
        writeln!(out).map_err(failed)?;
    }
    out.flush().map_err(failed)?;
    Ok(text)
}

/// Both must find as many different stacks.
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

/// A recording of perf's own, with stack dumps; `None` where perf may not record.
fn perf_data(quick: bool) -> Result<Option<PathBuf>, Failure> {
    if run::which("perf").is_none() {
        return Ok(None);
    }
    let program = folder()?.join("deep");
    let mut build = Command::new("rustc");
    build.args(["-O", "-g", "-o"]).arg(&program);
    build.arg(workspace::root().join("crates/record/tests/programs/deep.rs"));
    run::step("building the recorded program", &mut build)?;
    let data = folder()?.join("deep.perf.data");
    let mut record = Command::new("perf");
    record.args(["record", "-q", "-F", "997", "-e", "cpu-clock:u", "--call-graph", "dwarf,16384", "-o"]);
    record.arg(&data).arg("--").arg(&program).args(["2", if quick { "200" } else { "5000" }]);
    Ok(run::step("perf record", &mut record).is_ok().then_some(data))
}
