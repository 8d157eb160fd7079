//! Measures how much slower a program runs under each tool that `flamelet run` drives, and under `flamelet record`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::page::{Section, day_and_machine};
use super::statistics::middle;
use super::{Options, build_flamelet, folder};
use crate::{Failure, run, workspace};

/// The parts of the program, in the order of its times.
const PARTS: [&str; 3] = ["computing", "allocating", "system calls"];
const TOOLS: [&str; 8] =
    ["perf", "strace", "massif", "callgrind", "cachegrind", "dhat", "heaptrack", "bpftrace"];

/// The file that `flamelet run list` shows.
const SLOWDOWNS: &str = "crates/record/src/drive/slowdowns.txt";

/// Nanoseconds of each part.
type Times = [u64; 3];

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    let flamelet = build_flamelet()?;
    let bench =
        Bench { flamelet, program: build_program()?, work: if options.quick { "20" } else { "1000" } };
    let rounds = if options.quick { 1 } else { options.rounds };
    let mut rows = Vec::new();
    let alone = bench.times(&|out| bench.alone(out))?;
    rows.push(row("alone", &alone.map(|nanos| format!("{:.2} s", nanos as f64 / 1e9))));
    let record = bench.slowdowns(rounds, &|out| bench.recorded(out))?;
    rows.push(row("`flamelet record`", &record.map(shown)));
    let mut slowdowns = format!("{}\n", day_and_machine());
    let mut missing = 0;
    for tool in TOOLS {
        match bench.slowdowns(rounds, &|out| bench.driven(tool, out)) {
            Ok(ratios) => {
                rows.push(row(&format!("`flamelet run {tool}`"), &ratios.map(shown)));
                slowdowns.push_str(&slowdown_line(tool, ratios));
            }
            Err(failure) => {
                eprintln!("SKIP: {tool}: {}", failure.message);
                missing += 1;
                rows.push(row(&format!("`flamelet run {tool}`"), &["not here", "", ""].map(str::to_owned)));
            }
        }
    }
    if !options.quick && missing == 0 {
        let path = workspace::root().join(SLOWDOWNS);
        std::fs::write(path, slowdowns).map_err(|error| Failure::failed(format!("{SLOWDOWNS}: {error}")))?;
    }
    Ok(Section {
        title: "tools: what each costs the program".to_owned(),
        about: format!(
            "One program computes, allocates and calls the kernel, and measures the time of each part. The \
             table shows how many times\nlonger each part took than when the program ran alone before and \
             after; {rounds} rounds. `flamelet run list` shows these\nfigures."
        ),
        columns: vec!["under", PARTS[0], PARTS[1], PARTS[2]],
        rows,
        goals: Vec::new(),
    })
}

fn row(name: &str, cells: &[String; 3]) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(cells.iter().cloned()).collect()
}

fn shown(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.2} ×") } else { format!("{ratio:.0} ×") }
}

fn slowdown_line(tool: &str, ratios: [f64; 3]) -> String {
    let rounded =
        ratios.map(|ratio| if ratio < 10.0 { format!("{ratio:.1}") } else { format!("{ratio:.0}") });
    format!("{tool} {}\n", rounded.join(" "))
}

fn build_program() -> Result<PathBuf, Failure> {
    let program = folder()?.join("mixed");
    let mut build = Command::new("rustc");
    build.args(["-O", "-g", "-o"]).arg(&program).arg(workspace::root().join("bench/workloads/mixed.rs"));
    run::step("building the program", &mut build)?;
    Ok(program)
}

struct Bench {
    flamelet: PathBuf,
    program: PathBuf,
    work: &'static str,
}

impl Bench {
    fn alone(&self, out: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(out).arg(self.work);
        command
    }

    fn recorded(&self, out: &Path) -> Command {
        let mut command = Command::new(&self.flamelet);
        command
            .args(["record", "-o"])
            .arg(out.with_extension("pb.gz"))
            .args(["--"])
            .arg(&self.program)
            .arg(out)
            .arg(self.work);
        command
    }

    fn driven(&self, tool: &str, out: &Path) -> Command {
        let mut command = Command::new(&self.flamelet);
        command.args(["run", tool, "-o"]).arg(out.with_extension("runs")).arg("--");
        command.arg(&self.program).arg(out).arg(self.work);
        command
    }

    /// Returns how many times longer each part takes than in runs of the program alone, one before and one after,
    /// because the speed of a machine drifts. The median of all rounds.
    fn slowdowns(&self, rounds: usize, command: &dyn Fn(&Path) -> Command) -> Result<[f64; 3], Failure> {
        let mut all: [Vec<f64>; 3] = Default::default();
        for _ in 0..rounds {
            let before = self.times(&|out| self.alone(out))?;
            let under = self.times(command)?;
            let after = self.times(&|out| self.alone(out))?;
            for (part, ratios) in all.iter_mut().enumerate() {
                ratios.push(2.0 * under[part] as f64 / (before[part] + after[part]).max(1) as f64);
            }
        }
        Ok(all.map(|ratios| middle(ratios).unwrap_or(f64::NAN)))
    }

    /// Returns how long each part takes by the program's own clock.
    fn times(&self, command: &dyn Fn(&Path) -> Command) -> Result<Times, Failure> {
        let out = folder()?.join("mixed.times");
        let _ = std::fs::remove_file(&out);
        let mut command = command(&out);
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        let text = std::fs::read_to_string(&out).map_err(|_| {
            Failure::failed(format!("the program did not end under {command:?} ({status:?})"))
        })?;
        let times: Vec<u64> = text.lines().filter_map(|line| line.parse().ok()).collect();
        Times::try_from(times).map_err(|_| Failure::failed("the program wrote no times"))
    }
}
