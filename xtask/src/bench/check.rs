//! `flamelet check`: how often it fails for an unchanged program, and how often it finds a change.

use std::path::{Path, PathBuf};
use std::process::Command;

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
/// How many percent longer a function takes, how many tries, and how many of a hundred must be found.
const PLANTED: [(u32, usize, usize); 3] = [(5, 20, 80), (10, 20, 95), (20, 20, 100)];

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    let flamelet = build_flamelet()?;
    let folder = folder()?.join("check");
    std::fs::create_dir_all(&folder).map_err(|error| Failure::failed(error.to_string()))?;
    let recorder = Recorder { flamelet: flamelet.clone(), folder: folder.clone(), quick: true };
    let pairs = if options.quick { RUNS } else { PAIRS };
    let (mut rows, mut sums) = (Vec::new(), [Count::default(), Count::default()]);
    for name in PROGRAMS {
        let runs: Vec<PathBuf> =
            (0..2 * pairs).map(|number| recorder.record(name, number)).collect::<Result<_, _>>()?;
        let counts = [failures(&flamelet, &runs, 1)?, failures(&flamelet, &runs, RUNS)?];
        rows.push(vec![name.to_owned(), "nothing".to_owned(), counts[0].text(), counts[1].text()]);
        sums.iter_mut().zip(counts).for_each(|(sum, count)| sum.add(count));
    }
    let mut goals: Vec<String> = ["one run a side", "three runs a side"]
        .into_iter()
        .zip(sums)
        .map(|(side, sum)| {
            let is_rare = sum.failed * 100 <= sum.all;
            format!(
                "an unchanged program fails in at most 1 % of cases, {side}: {}, {}",
                sum.text(),
                verdict(is_rare)
            )
        })
        .collect();
    let planted = Planted::new(&flamelet, &folder)?;
    for (percent, tries, wanted) in PLANTED {
        let tries = if options.quick { 2 } else { tries };
        let found = planted.found(percent, tries)?;
        rows.push(vec![
            "four functions".to_owned(),
            format!("one takes {percent} % longer"),
            "–".to_owned(),
            found.text(),
        ]);
        goals.push(format!(
            "{percent} % in one function is found in at least {wanted} %, three runs a side: {}, {}",
            found.text(),
            verdict(found.failed * 100 >= found.all * wanted)
        ));
    }
    Ok(Section {
        title: "check: unchanged programs, and planted changes".to_owned(),
        about: "`flamelet check --max-growth 2%` on recordings of the same program with the same input: how many of \
                the\ncomparisons failed. No recording is used twice with the same number of runs a side. The last rows are \
                of a program\nof four functions, one of which takes longer on the new side."
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

/// Compares neighbours, so many runs a side.
fn failures(flamelet: &Path, runs: &[PathBuf], side: usize) -> Result<Count, Failure> {
    let mut count = Count::default();
    for group in runs.chunks_exact(2 * side) {
        // Taken in turn, so that a machine that gets slower does not look like a change.
        let (base, new): (Vec<_>, Vec<_>) = group.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).unzip();
        count.add(Count { failed: usize::from(fails(flamelet, &base, &new)?), all: 1 });
    }
    Ok(count)
}

fn fails(flamelet: &Path, base: &[&PathBuf], new: &[&PathBuf]) -> Result<bool, Failure> {
    let mut check = Command::new(flamelet);
    check.args(["check", "--max-growth", MAX_GROWTH, "--base"]).args(base).arg("--new").args(new);
    let output = check.output().map_err(|error| Failure::failed(error.to_string()))?;
    match output.status.code() {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        _ => Err(Failure::failed(format!("{check:?}: {}", String::from_utf8_lossy(&output.stderr)))),
    }
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

    fn record(&self, percent: u32, name: &str) -> Result<PathBuf, Failure> {
        let out = self.program.with_file_name(format!("planted-{name}.pb.gz"));
        let mut record = Command::new(self.flamelet);
        record.args(["record", "-o"]).arg(&out).arg("--").arg(&self.program).arg(percent.to_string());
        run::output(&mut record).map(|_| out)
    }

    fn found(&self, percent: u32, tries: usize) -> Result<Count, Failure> {
        run::heading(&format!("{percent} % planted"));
        let mut count = Count::default();
        for _ in 0..tries {
            let (mut base, mut new) = (Vec::new(), Vec::new());
            for run in 0..RUNS {
                base.push(self.record(0, &format!("base-{run}"))?);
                new.push(self.record(percent, &format!("new-{run}"))?);
            }
            let is_found =
                fails(self.flamelet, &base.iter().collect::<Vec<_>>(), &new.iter().collect::<Vec<_>>())?;
            count.add(Count { failed: usize::from(is_found), all: 1 });
        }
        Ok(count)
    }
}
