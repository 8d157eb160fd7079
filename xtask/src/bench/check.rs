//! `flamelet check`: how often it fails for an unchanged program, and how often it finds a change.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::page::{Section, verdict};
use super::real::Recorder;
use super::{Options, build_flamelet, folder};
use crate::{Failure, run, workspace};

/// Recorded again and again, unchanged. The first runs under load, the last starts a thousand processes.
const PROGRAMS: [&str; 5] = ["redis", "sort", "jq", "perl", "forking script"];
/// Pairs of recordings of each.
const PAIRS: usize = 40;
/// Runs a side.
const RUNS: usize = 3;
/// The growth of a function that fails the check: less than the smallest that is planted.
const MAX_GROWTH: &str = "2%";
/// Samples a second of the program with planted changes. Each of its nine functions takes a third of a second: 5 % more of
/// that is seen only in thousands of samples.
const HERTZ: &str = "19997";
/// Of the program with planted changes: the function that takes longer.
const PLANTED_IN: &str = "second";
/// How many percent longer a function takes, and how many of a hundred must be found.
const PLANTED: [(u32, usize); 3] = [(5, 80), (10, 95), (20, 100)];
/// Tries with each of them.
const TRIES: usize = 20;

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    let flamelet = build_flamelet()?;
    let folder = folder()?.join("check");
    std::fs::create_dir_all(&folder).map_err(|error| Failure::failed(error.to_string()))?;
    let recorder = Recorder { flamelet: flamelet.clone(), folder: folder.clone(), quick: true };
    let pairs = if options.quick { 2 * RUNS } else { PAIRS };
    let (mut rows, mut sums) = (Vec::new(), [Count::default(), Count::default()]);
    for name in PROGRAMS {
        let runs: Vec<PathBuf> =
            (0..=pairs).map(|number| recorder.record(name, number)).collect::<Result<_, _>>()?;
        let counts = [failures(&flamelet, &runs, 1)?, failures(&flamelet, &runs, RUNS)?];
        rows.push(vec![name.to_owned(), "nothing".to_owned(), counts[0].text(), counts[1].text()]);
        sums.iter_mut().zip(counts).for_each(|(sum, count)| sum.add(count));
    }
    let mut goals: Vec<String> = ["one run a side", "three runs a side"]
        .into_iter()
        .zip(sums)
        .map(|(side, sum)| {
            let is_rare = sum.all > 0 && sum.failed * 100 <= sum.all;
            format!(
                "an unchanged program fails in at most 1 % of cases, {side}: {}, {}",
                sum.text(),
                verdict(is_rare)
            )
        })
        .collect();
    let found = Planted::new(&flamelet, &folder)?.found(if options.quick { 2 } else { TRIES })?;
    for ((percent, wanted), found) in PLANTED.into_iter().zip(found) {
        rows.push(vec![
            "nine functions".to_owned(),
            format!("one takes {percent} % longer"),
            "–".to_owned(),
            found.text(),
        ]);
        goals.push(format!(
            "{percent} % in one function is found, and where it is, in at least {wanted} %, three runs a side: {}, {}",
            found.text(),
            verdict(found.failed * 100 >= found.all * wanted)
        ));
    }
    Ok(Section {
        title: "check: unchanged programs, and planted changes".to_owned(),
        about: "`flamelet check --max-growth 2%` on recordings of the same program with the same input: how many of \
                the\ncomparisons failed. Neighbouring recordings are compared, so most are used twice. The last rows are \
                of a program\nof nine functions, one of which takes longer on the new side: a failure counts if it names \
                that one."
            .to_owned(),
        columns: vec!["program", "what changed", "failed, one run a side", "failed, three runs a side"],
        rows,
        goals,
    })
}

/// How many comparisons failed.
#[derive(Clone, Copy, Default)]
struct Count {
    failed: usize,
    all: usize,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.failed += other.failed;
        self.all += other.all;
    }

    fn text(self) -> String {
        format!("{} of {}", self.failed, self.all)
    }
}

/// Compares neighbours, with this many runs a side: each run is once on the new side and once on the base side.
fn failures(flamelet: &Path, runs: &[PathBuf], side: usize) -> Result<Count, Failure> {
    let mut count = Count::default();
    for group in runs.windows(2 * side).step_by(side) {
        // Taken in turn, so that a machine that gets slower does not look like a change.
        let (base, new): (Vec<_>, Vec<_>) = group.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).unzip();
        count.add(Count { failed: usize::from(fails(flamelet, &base, &new)?), all: 1 });
    }
    Ok(count)
}

fn fails(flamelet: &Path, base: &[&PathBuf], new: &[&PathBuf]) -> Result<bool, Failure> {
    offenders(flamelet, base, new).map(|found| found.is_some())
}

/// Compares; returns what `flamelet check` names, or `None` if it does not fail.
fn offenders(flamelet: &Path, base: &[&PathBuf], new: &[&PathBuf]) -> Result<Option<Vec<String>>, Failure> {
    let mut check = Command::new(flamelet);
    check.args(["check", "--json", "--max-growth", MAX_GROWTH, "--base"]).args(base).arg("--new").args(new);
    let output = check.output().map_err(|error| Failure::failed(error.to_string()))?;
    match output.status.code() {
        Some(0) => Ok(None),
        Some(1) => Ok(Some(names(&output.stdout))),
        _ => Err(Failure::failed(format!("{check:?}: {}", String::from_utf8_lossy(&output.stderr)))),
    }
}

/// Returns the names in `flamelet check --json`, without their paths.
fn names(json: &[u8]) -> Vec<String> {
    let json: Value = serde_json::from_slice(json).unwrap_or_default();
    let rows = json["offenders"].as_array().into_iter().flatten();
    let names = rows.filter_map(|row| row["name"].as_str()?.rsplit("::").next());
    names.map(str::to_owned).collect()
}

/// The program with a function that can take longer.
struct Planted<'a> {
    flamelet: &'a Path,
    program: PathBuf,
}

impl<'a> Planted<'a> {
    fn new(flamelet: &'a Path, folder: &Path) -> Result<Self, Failure> {
        let program = folder.join("planted");
        let mut build = Command::new("rustc");
        build
            .args(["-O", "-g", "-o"])
            .arg(&program)
            .arg(workspace::root().join("bench/workloads/planted.rs"));
        run::step("building planted", &mut build)?;
        Ok(Self { flamelet, program })
    }

    fn record(&self, percent: u32, run: usize) -> Result<PathBuf, Failure> {
        let out = self.program.with_file_name(format!("planted-{percent}-{run}.pb.gz"));
        let mut record = Command::new(self.flamelet);
        record
            .args(["record", "-F", HERTZ, "-o"])
            .arg(&out)
            .arg("--")
            .arg(&self.program)
            .arg(percent.to_string());
        run::output(&mut record).map(|_| out)
    }

    /// Returns for each of the planted changes how often it was found. They share the runs without a change.
    fn found(&self, tries: usize) -> Result<[Count; PLANTED.len()], Failure> {
        let mut counts = [Count::default(); PLANTED.len()];
        for number in 1..=tries {
            run::heading(&format!("planted changes, {number} of {tries}"));
            let mut base = Vec::new();
            let mut new: [Vec<PathBuf>; PLANTED.len()] = Default::default();
            // Taken in turn, so that a machine that gets slower does not look like a change.
            for run in 0..RUNS {
                base.push(self.record(0, run)?);
                for ((percent, _), runs) in PLANTED.into_iter().zip(&mut new) {
                    runs.push(self.record(percent, run)?);
                }
            }
            let base: Vec<&PathBuf> = base.iter().collect();
            for (runs, count) in new.iter().zip(&mut counts) {
                let named = offenders(self.flamelet, &base, &runs.iter().collect::<Vec<_>>())?;
                let is_found = named.is_some_and(|names| names.iter().any(|name| name == PLANTED_IN));
                count.add(Count { failed: usize::from(is_found), all: 1 });
            }
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_check_names_is_read() {
        let json = br#"{"passed": false, "offenders": [{"name": "planted::second"}, {"name": "memcpy"}]}"#;
        assert_eq!(names(json), ["second", "memcpy"]);
        assert!(names(b"").is_empty());
    }
}
