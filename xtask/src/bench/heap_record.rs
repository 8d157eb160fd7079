//! Recording every allocation of an unmodified program: `flamelet record --heap` compared with heaptrack.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::page::{Section, at_most, verdict};
use super::statistics::megabytes;
use super::{Options, build_flamelet, folder};
use crate::{Failure, run, workspace};

/// How many times as long the work of a service may take while every allocation is recorded.
const MOST_SLOWDOWN: f64 = 2.0;

/// A workload: its name in the table, and its arguments (the last one is the number of turns).
const WORKLOADS: [(&str, [&str; 2], u32); 4] = [
    ("64 blocks, one replaced at a time", ["pairs", "1"], 2_000_000),
    ("the same, 2 threads", ["pairs", "2"], 1_000_000),
    ("documents read and written", ["service", "1"], 6_000),
    ("the same, 2 threads", ["service", "2"], 3_000),
];

/// The recorder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tool {
    Nothing,
    Heaptrack,
    Flamelet,
    FlameletSampled,
}

const TOOLS: [(Tool, &str); 4] = [
    (Tool::Nothing, "nobody"),
    (Tool::Heaptrack, "heaptrack"),
    (Tool::Flamelet, "flamelet record --heap"),
    (Tool::FlameletSampled, "flamelet record --heap=sampled"),
];

/// The best of all rounds, and the totals of the last.
#[derive(Clone, Default)]
struct Figures {
    wall_ms: Option<f64>,
    cpu_ticks: Option<f64>,
    rss_kb: f64,
    file: u64,
    totals: Option<Totals>,
}

#[derive(Clone, Copy)]
struct Totals {
    calls: f64,
    temporary: f64,
    peak: f64,
    left: f64,
}

struct Bench {
    flamelet: PathBuf,
    program: PathBuf,
    folder: PathBuf,
}

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    let bench = Bench { flamelet: build_flamelet()?, program: build_program()?, folder: folder()? };
    let rounds = if options.quick { 1 } else { options.rounds };
    let mut figures = vec![vec![Figures::default(); TOOLS.len()]; WORKLOADS.len()];
    for round in 1..=rounds {
        for ((name, words, turns), row) in WORKLOADS.iter().zip(&mut figures) {
            println!("   round {round} of {rounds}: {name}");
            let turns = if options.quick { turns / 20 } else { *turns }.to_string();
            let words = [words[0], words[1], &turns];
            for ((tool, _), figures) in TOOLS.iter().zip(row) {
                bench.measure(*tool, &words, figures)?;
            }
        }
    }
    Ok(section(&figures, rounds))
}

fn build_program() -> Result<PathBuf, Failure> {
    let program = folder()?.join("allocations");
    let mut build = Command::new("rustc");
    build.args(["-O", "-g", "--edition", "2024", "-o"]).arg(&program);
    build.arg(workspace::root().join("bench/allocations/main.rs"));
    run::step("building the program that allocates", &mut build)?;
    Ok(program)
}

impl Bench {
    fn measure(&self, tool: Tool, words: &[&str], figures: &mut Figures) -> Result<(), Failure> {
        let (profile, heaptrack) = (self.folder.join("heap.pb.gz"), self.folder.join("heap.heaptrack"));
        let mut command = match tool {
            Tool::Nothing => Command::new(&self.program),
            Tool::Heaptrack => {
                let mut command = Command::new("heaptrack");
                command.arg("-o").arg(&heaptrack).arg(&self.program);
                command
            }
            Tool::Flamelet | Tool::FlameletSampled => {
                let how = if tool == Tool::Flamelet { "--heap" } else { "--heap=sampled" };
                let mut command = Command::new(&self.flamelet);
                command.args(["record", how, "-o"]).arg(&profile).arg("--").arg(&self.program);
                command
            }
        };
        let text = run::output(command.args(words))?;
        let line = text.lines().find(|line| line.contains("wall_ms")).unwrap_or_default();
        // heaptrack prints before the program does, without ending the line.
        let line = &line[line.find('{').unwrap_or(0)..];
        let told: Value = serde_json::from_str(line)
            .map_err(|error| Failure::failed(format!("the program printed `{text}`: {error}")))?;
        let least = |known: &mut Option<f64>, field: &str| {
            let value = told[field].as_f64().unwrap_or(f64::NAN);
            *known = Some(known.map_or(value, |known| known.min(value)));
        };
        least(&mut figures.wall_ms, "wall_ms");
        least(&mut figures.cpu_ticks, "cpu_ticks");
        figures.rss_kb = told["rss_kb"].as_f64().unwrap_or(f64::NAN);
        match tool {
            Tool::Nothing => {}
            Tool::Heaptrack => {
                let endings =
                    ["zst", "gz"].map(|ending| self.folder.join(format!("heap.heaptrack.{ending}")));
                let file = endings.iter().find(|path| path.exists());
                let file = file.ok_or_else(|| Failure::failed("heaptrack left no file"))?;
                figures.file = length(file);
                figures.totals = Some(printed(&run::output(Command::new("heaptrack_print").arg(file))?));
                let _ = std::fs::remove_file(file);
            }
            Tool::Flamelet | Tool::FlameletSampled => {
                figures.file = length(&profile);
                let info = run::output(Command::new(&self.flamelet).args(["info", "--json"]).arg(&profile))?;
                figures.totals = Some(flamelet_totals(&serde_json::from_str(&info).unwrap_or(Value::Null)));
            }
        }
        Ok(())
    }
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

/// Parses the last lines of heaptrack_print.
fn printed(text: &str) -> Totals {
    let of = |label: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(label)).unwrap_or_default();
        let word = line.split_whitespace().next().unwrap_or_default();
        let digits = word.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit = match &word[digits.len()..] {
            "K" => 1e3,
            "M" => 1e6,
            "G" => 1e9,
            _ => 1.0,
        };
        digits.parse::<f64>().map_or(f64::NAN, |number| number * unit)
    };
    Totals {
        calls: of("calls to allocation functions:"),
        temporary: of("temporary memory allocations:"),
        peak: of("peak heap memory consumption:"),
        left: of("total memory leaked:"),
    }
}

fn flamelet_totals(info: &Value) -> Totals {
    let types = info["sample_types"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |kind: &str| {
        let found = types.iter().find(|value_type| value_type["kind"] == kind);
        found.and_then(|value_type| value_type["total"].as_f64()).unwrap_or(f64::NAN)
    };
    Totals {
        calls: of("alloc_objects"),
        temporary: of("temporary_objects"),
        peak: of("peak_space"),
        left: of("inuse_space"),
    }
}

fn section(figures: &[Vec<Figures>], rounds: usize) -> Section {
    let slowdown =
        |row: &[Figures], at: usize| row[at].wall_ms.unwrap_or(f64::NAN) / row[0].wall_ms.unwrap_or(f64::NAN);
    let kilobytes = |bytes: f64| format!("{:.1} kB", bytes / 1e3);
    let mut rows = Vec::new();
    let mut goals = Vec::new();
    for ((name, words, _), row) in WORKLOADS.iter().zip(figures) {
        for (at, (tool, who)) in TOOLS.iter().enumerate() {
            let cells = &row[at];
            let mut line = vec![
                if at == 0 { (*name).to_owned() } else { String::new() },
                (*who).to_owned(),
                format!("{:.0} ms", cells.wall_ms.unwrap_or(f64::NAN)),
                if at == 0 { "–".to_owned() } else { format!("{:.1} ×", slowdown(row, at)) },
                format!("{:.0} ms", cells.cpu_ticks.unwrap_or(f64::NAN) * 10.0),
            ];
            match cells.totals {
                Some(totals) => line.extend([
                    format!("{:.0}", totals.calls),
                    format!("{:.0}", totals.temporary),
                    kilobytes(totals.peak),
                    kilobytes(totals.left),
                    kilobytes(cells.file as f64),
                ]),
                None => line.extend(["–"; 5].map(str::to_owned)),
            }
            line.push(megabytes(cells.rss_kb as u64 * 1024));
            debug_assert_eq!(*tool == Tool::Nothing, at == 0);
            rows.push(line);
        }
        let (theirs, ours) = (slowdown(row, 1), slowdown(row, 2));
        let what = format!("{}, {} thread(s)", words[0], words[1]);
        goals.push(format!(
            "{what}: at most half of heaptrack's slowdown ({theirs:.1} ×): {ours:.1} ×, {}",
            verdict(ours <= theirs / 2.0)
        ));
        if words[0] == "service" {
            goals.push(at_most(&format!("{what}: slowdown"), Some(ours), MOST_SLOWDOWN, "×"));
        }
        if let (Some(theirs), Some(ours)) = (row[1].totals, row[2].totals) {
            // heaptrack's own C++ library makes one block before the program starts.
            let same = (theirs.calls - ours.calls).abs() <= 1.0;
            goals.push(format!(
                "{what}: the same calls as heaptrack, except for its own one: {:.0} and {:.0}, {}",
                theirs.calls,
                ours.calls,
                verdict(same)
            ));
        }
    }
    Section {
        title: "heap-record: every allocation of a program, from outside".to_owned(),
        about: format!(
            "A Rust program that allocates under about 40 frames and was not built for profiling. Time and \
             CPU time are the program's\nown, for its work only (heaptrack's interpreter runs beside it); \
             the best of {rounds} rounds. heaptrack itself allocates\n72.7 kB once, which is included in \
             its calls and peaks. Sampled figures are estimates."
        ),
        columns: vec![
            "work",
            "recorded by",
            "time",
            "slowdown",
            "its CPU time",
            "calls",
            "temporary",
            "peak",
            "left",
            "file",
            "its memory",
        ],
        rows,
        goals,
    }
}
