//! Real programs, recorded by `flamelet record` and by perf in the same run: the share of every function that matters,
//! and how much of the stacks and names is missing.

mod programs;
mod shares;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::page::{Section, verdict};
use super::{Options, build_flamelet, folder};
use crate::{Failure, run};
use programs::{PROGRAMS, Program};
use shares::{Difference, Shares};

/// Samples a second, for both.
const HERTZ: u32 = 997;
/// How far a share may be from perf's, in points, if chance does not make it further.
const TOLERATED_POINTS: f64 = 2.0;
/// How many of the stacks may be cut, and of the samples without a name, in percent.
const TOLERATED_PERCENT: f64 = 1.0;

/// What was found about one program.
struct Figures {
    samples: f64,
    perf_samples: f64,
    worst: Option<Difference>,
    /// Of the stacks, in percent.
    cut: f64,
    /// Of the samples, in percent.
    unnamed: f64,
    perf_unnamed: f64,
    bytes: u64,
    perf_bytes: u64,
}

impl Figures {
    fn is_good(&self) -> [bool; 3] {
        let is_close = self.worst.as_ref().is_none_or(|worst| worst.points <= worst.tolerated);
        let named = self.unnamed <= self.perf_unnamed.max(TOLERATED_PERCENT);
        [is_close, self.cut <= TOLERATED_PERCENT, named]
    }
}

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    if run::which("perf").is_none() {
        return Err(Failure::unusable("bench real needs perf (Debian: apt-get install linux-perf)"));
    }
    let bench = Bench { flamelet: build_flamelet()?, folder: folder()?.join("real"), quick: options.quick };
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
        format!("{} / {}", percent(figures.unnamed), percent(figures.perf_unnamed)),
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
            "`perf record` (without stacks) starts `flamelet record`, which starts the program: both look at the same run, \
             {HERTZ} times\na second of CPU time each. The difference is the largest of the ten functions with the most \
             time of their own, in points, and\nwhat is tolerated: {TOLERATED_POINTS} points, or three standard \
             deviations. A sample is unnamed if its innermost function has no name\n(flamelet / perf). flamelet's bytes \
             hold all stacks, perf's none. The load of the machine was {load} at the start."
        ),
        columns: vec!["program", "samples", "worst difference", "cut", "unnamed", "bytes"],
        rows,
        goals: vec![
            tried,
            goal("every share of the top ten within 2 points or sampling error", reached[0]),
            goal("at most 1 % of the stacks cut", reached[1]),
            goal("at most 1 % of the samples unnamed, or no more than perf's", reached[2]),
        ],
    }
}

struct Bench {
    flamelet: PathBuf,
    folder: PathBuf,
    quick: bool,
}

impl Bench {
    fn figures(&self, program: &Program) -> Result<Figures, Failure> {
        run::heading(program.name);
        program.install()?;
        let folder = self.folder.join(program.name.replace(' ', "-"));
        std::fs::create_dir_all(&folder).map_err(|error| Failure::failed(error.to_string()))?;
        let port = programs::free_port();
        let shell = |script: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-ec", script]).current_dir(&folder).env("PORT", &port);
            shell.env("DIR", &folder).env("ROUNDS", if self.quick { "1" } else { "8" });
            shell
        };
        run::output(&mut shell(program.prepare))?;
        let (ours, theirs) = (folder.join("flamelet.pb.gz"), folder.join("perf.data"));
        let mut record = shell(&self.script(program, &ours, &theirs));
        let log = folder.join("log");
        let file = std::fs::File::create(&log).map_err(|error| Failure::failed(error.to_string()))?;
        let copy = file.try_clone().map_err(|error| Failure::failed(error.to_string()))?;
        record.stdin(Stdio::null()).stdout(file).stderr(copy);
        let status = record.status().map_err(|error| Failure::failed(error.to_string()))?;
        if !ours.is_file() || !theirs.is_file() {
            return Err(Failure::failed(format!("no recording ({status}); see {}", log.display())));
        }
        self.compare(&ours, &theirs)
    }

    /// The command line of a recording: perf starts flamelet, which starts the program.
    fn script(&self, program: &Program, ours: &Path, theirs: &Path) -> String {
        let seconds = if self.quick { 2 } else { 10 };
        let load = program.load.map_or(String::new(), |load| format!("--duration {seconds} --load '{load}'"));
        format!(
            "rm -f {ours} {theirs}; perf record -q -B -N -e cpu-clock -F {HERTZ} -o {theirs} -- {flamelet} record -F {HERTZ} {load} \
             -o {ours} -- {command}",
            ours = ours.display(),
            theirs = theirs.display(),
            flamelet = self.flamelet.display(),
            command = program.command
        )
    }

    fn compare(&self, ours: &Path, theirs: &Path) -> Result<Figures, Failure> {
        let flamelet = |words: &[&str]| run::output(Command::new(&self.flamelet).args(words).arg(ours));
        let top = flamelet(&["top", "--json", "--noinlines", "--no-trim"])?;
        let (tags, info) = (flamelet(&["tags", "--json"])?, flamelet(&["info", "--json"])?);
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
            unnamed: mine.unnamed * 100.0,
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
