//! Real programs, recorded by `flamelet record` and by perf in the same run: the share of every function that matters,
//! and how much of the stacks and names is missing.

mod names;
mod programs;
mod shares;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::page::{Section, verdict};
use super::{Options, build_flamelet, folder};
use crate::{Failure, Outcome, run};
use names::Unnamed;
use programs::{PROGRAMS, Program};
use shares::{Difference, Shares};

/// Samples a second, for both.
const HERTZ: u32 = 997;
/// How far a share may be from perf's, in points, if chance does not make it further.
const TOLERATED_POINTS: f64 = 2.0;
/// How many of the stacks may be cut, and of the samples without a name that the machine has, in percent.
const TOLERATED_PERCENT: f64 = 1.0;

/// What was found about one program.
struct Figures {
    samples: f64,
    perf_samples: f64,
    worst: Option<Difference>,
    /// Of the stacks, in percent.
    cut: f64,
    unnamed: Unnamed,
    /// Of perf's samples, in percent.
    perf_unnamed: f64,
    bytes: u64,
    perf_bytes: u64,
}

impl Figures {
    fn is_good(&self) -> [bool; 3] {
        let is_close = self.worst.as_ref().is_none_or(|worst| worst.points <= worst.tolerated);
        [is_close, self.cut <= TOLERATED_PERCENT, self.unnamed.missed_percent() <= TOLERATED_PERCENT]
    }
}

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    if run::which("perf").is_none() {
        return Err(Failure::unusable("bench real needs perf (Debian: apt-get install linux-perf)"));
    }
    let bench =
        Recorder { flamelet: build_flamelet()?, folder: folder()?.join("real"), quick: options.quick };
    std::fs::create_dir_all(&bench.folder).map_err(|error| Failure::failed(error.to_string()))?;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let (mut rows, mut reached, mut skipped) = (Vec::new(), [0; 3], Vec::new());
    for program in PROGRAMS {
        match bench.figures(program) {
            Ok(figures) => {
                let is_good = figures.is_good();
                reached.iter_mut().zip(is_good).for_each(|(count, is_good)| *count += usize::from(is_good));
                rows.push(row(program, &figures));
            }
            Err(failure) => {
                eprintln!("SKIP: {}: {}", program.name, failure.message);
                skipped.push(program.name);
            }
        }
    }
    Ok(section(rows, reached, &skipped, load.split_whitespace().next().unwrap_or("?")))
}

fn row(program: &Program, figures: &Figures) -> Vec<String> {
    let percent = |percent: f64| format!("{percent:.1} %");
    let worst = figures.worst.as_ref().map_or_else(
        || "–".to_owned(),
        |worst| {
            let mark = if worst.points <= worst.tolerated { "" } else { " (!)" };
            format!("{:.1} of {:.1}{mark}: `{}`", worst.points, worst.tolerated, worst.name)
        },
    );
    vec![
        program.name.to_owned(),
        format!("{:.0} / {:.0}", figures.samples, figures.perf_samples),
        worst,
        percent(figures.cut),
        percent(figures.unnamed.missed_percent()),
        format!("{} / {}", percent(figures.unnamed.nameless_percent()), percent(figures.perf_unnamed)),
        format!("{:.0} / {:.0} kB", figures.bytes as f64 / 1e3, figures.perf_bytes as f64 / 1e3),
    ]
}

fn section(rows: Vec<Vec<String>>, reached: [usize; 3], skipped: &[&str], load: &str) -> Section {
    let count = rows.len();
    let goal = |what: &str, reached: usize| {
        format!("{what}: {reached} of {count} programs, {}", verdict(reached == count && count > 0))
    };
    let left_out = if skipped.is_empty() { String::new() } else { format!(" (not {})", skipped.join(", ")) };
    let tried = format!(
        "{count} of {} programs tried{left_out}, {}",
        count + skipped.len(),
        verdict(skipped.is_empty())
    );
    Section {
        title: "real: programs from Debian and crates.io, beside perf in the same run".to_owned(),
        about: format!(
            "`perf record` (without stacks) starts `flamelet record`, which starts the program, so both \
             sample the same run, each\n{HERTZ} times per second of CPU time. The worst difference is the \
             largest among the ten functions with the most time of\ntheir own, in percentage points, \
             followed by what is tolerated: {TOLERATED_POINTS} points, or three standard deviations.\nA \
             sample is unnamed if its innermost function has no name although the machine has one: in a file with symbols, with\n\
             a debug file or in Go, in what a stripped file exports, in the kernel and in generated code. The next column is the\n\
             share of the samples in code for which nothing on the machine has names, beside all samples that perf does not\n\
             name. flamelet's bytes include all stacks, perf's none. The load of the machine was {load} at the start."
        ),
        columns: vec![
            "program",
            "samples",
            "worst difference",
            "cut",
            "unnamed",
            "no names here / perf's unnamed",
            "bytes",
        ],
        rows,
        goals: vec![
            tried,
            goal("every share of the top ten within 2 points or sampling error", reached[0]),
            goal("at most 1 % of the stacks cut", reached[1]),
            goal("at most 1 % of the samples in code with names unnamed", reached[2]),
        ],
    }
}

/// Records the programs, each in a folder of its own.
pub(super) struct Recorder {
    pub(super) flamelet: PathBuf,
    pub(super) folder: PathBuf,
    /// Short runs.
    pub(super) quick: bool,
}

impl Recorder {
    fn figures(&self, program: &Program) -> Result<Figures, Failure> {
        run::heading(program.name);
        let folder = self.prepare(program)?;
        let (ours, theirs) = (folder.join("flamelet.pb.gz"), folder.join("perf.data"));
        // flamelet's events ask for build ids, and Linux 6.18 then marks other events' records as if they had them too:
        // perf breaks on such records unless it asks as well.
        let perf = format!(
            "perf record -q -B -N --buildid-mmap -e cpu-clock -F {HERTZ} -o {} -- ",
            theirs.display()
        );
        let _ = std::fs::remove_file(&theirs);
        self.run(program, &folder, &perf, &ours)?;
        self.compare(&ours, &theirs)
    }

    /// Records a program with flamelet alone. Returns the file.
    pub(super) fn record(&self, name: &str, number: usize) -> Result<PathBuf, Failure> {
        let program = PROGRAMS.iter().find(|program| program.name == name);
        let program = program.ok_or_else(|| Failure::failed(format!("no program {name}")))?;
        let folder = self.prepare(program)?;
        let file = folder.join(format!("{number}.pb.gz"));
        self.run(program, &folder, "", &file)?;
        Ok(file)
    }

    /// Installs a program. Returns its folder.
    fn prepare(&self, program: &Program) -> Result<PathBuf, Failure> {
        program.install()?;
        let folder = self.folder.join(program.name.replace(' ', "-"));
        std::fs::create_dir_all(&folder).map_err(|error| Failure::failed(error.to_string()))?;
        Ok(folder)
    }

    fn shell(&self, folder: &Path, script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-ec", script]).current_dir(folder);
        shell.env("DIR", folder).env("ROUNDS", if self.quick { "1" } else { "8" });
        shell
    }

    /// Runs a recording: `before` starts flamelet, which starts the program.
    fn run(&self, program: &Program, folder: &Path, before: &str, ours: &Path) -> Outcome {
        let failed = |error: std::io::Error| Failure::failed(error.to_string());
        let _ = std::fs::remove_file(ours);
        let port = programs::free_port();
        // Its input, if it is not there already, and for a server a configuration with the port.
        run::output(self.shell(folder, program.prepare).env("PORT", &port))?;
        let mut record = self.shell(folder, &self.script(program, before, ours));
        let log = folder.join("log");
        let file = std::fs::File::create(&log).map_err(failed)?;
        let copy = file.try_clone().map_err(failed)?;
        record.env("PORT", port).stdin(Stdio::null()).stdout(file).stderr(copy);
        let status = record.status().map_err(failed)?;
        match ours.is_file() {
            true => Ok(()),
            false => Err(Failure::failed(format!("no recording ({status}); see {}", log.display()))),
        }
    }

    /// The command line of a recording.
    fn script(&self, program: &Program, before: &str, ours: &Path) -> String {
        let seconds = if self.quick { 2 } else { 10 };
        let load = program.load.map_or(String::new(), |load| format!("--duration {seconds} --load '{load}'"));
        format!(
            "{before}{} record -F {HERTZ} {load} -o {} -- {}",
            self.flamelet.display(),
            ours.display(),
            program.command
        )
    }

    fn compare(&self, ours: &Path, theirs: &Path) -> Result<Figures, Failure> {
        let flamelet = |words: &[&str]| run::output(Command::new(&self.flamelet).args(words).arg(ours));
        let top = flamelet(&["top", "--json", "--noinlines", "--no-trim"])?;
        let (tags, info) = (flamelet(&["tags", "--json"])?, flamelet(&["info", "--json"])?);
        let unnamed = Unnamed::of(&flamelet(&["raw"])?)?;
        let threads = shares::threads(&tags);
        let script = run::output(
            Command::new("perf")
                .args(["script", "--kallsyms=/proc/kallsyms", "-F", "comm,ip,sym", "-i"])
                .arg(theirs),
        )?;
        let facts = shares::facts(&info).ok_or_else(|| Failure::failed("no figures in `flamelet info`"))?;
        let (mine, perfs) = (Shares::of_flamelet(&top, facts.samples), Shares::of_perf(&script, &threads));
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
        Ok(Figures {
            samples: mine.samples,
            perf_samples: perfs.samples,
            worst: mine.worst_difference(&perfs, TOLERATED_POINTS),
            cut: facts.truncated / facts.samples.max(1.0) * 100.0,
            unnamed,
            perf_unnamed: perfs.unnamed * 100.0,
            bytes: size(ours),
            perf_bytes: size(theirs),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_left_out_is_no_success() {
        let row = || vec![String::new()];
        let all = section(vec![row(), row()], [2; 3], &[], "0.1");
        assert!(all.goals.iter().all(|goal| goal.ends_with("reached")), "{:?}", all.goals);
        let some = section(vec![row(), row()], [2; 3], &["redis"], "0.1");
        assert_eq!(some.goals[0], "2 of 3 programs tried (not redis), **missed**");
    }
}
