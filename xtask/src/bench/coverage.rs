//! Whether the intervals of shares cover the truth: in process and by `flamelet record`, at several rates, with one
//! and with eight threads, on an idle and on a busy machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde_json::Value;

use super::page::{Section, verdict};
use super::{Options, build_flamelet, folder};
use crate::{Failure, run, workspace};

const FREQUENCIES: [u32; 4] = [99, 250, 499, 1000];
const THREADS: [u32; 2] = [1, 8];
/// Intervals of each kind.
const RUNS: u32 = 200;
/// The recorded program works in as many stretches, and each has an interval of its own.
const STRETCHES: u32 = 10;
/// The CPU time that an interval is of.
const MILLIS: u32 = 200;
/// How many percent of the intervals should cover the truth, and how far from that is good enough.
const WANTED: f64 = 95.0;
const TOLERATED: f64 = 2.0;

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    let runs = if options.quick { STRETCHES } else { RUNS };
    let recorder = Recorder::new()?;
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    for (machine, is_busy) in [("idle", false), ("busy", true)] {
        let _load = is_busy.then(Load::start);
        run::heading(&format!("in process, {machine} machine"));
        let mut inside = inside(runs)?.into_iter();
        for hertz in FREQUENCIES {
            for threads in THREADS {
                run::heading(&format!("record, {machine} machine, {hertz} Hz, {threads} thread(s)"));
                let inside =
                    inside.next().ok_or_else(|| Failure::failed("the test printed too few lines"))?;
                let pair = [inside, recorder.covered(hertz, threads, runs)?];
                let cells = pair.map(|percent| format!("{percent:.1} %"));
                rows.push(
                    [vec![machine.to_owned(), hertz.to_string(), threads.to_string()], cells.into()].concat(),
                );
                all.push(pair);
            }
        }
    }
    Ok(section(rows, &all, runs))
}

fn section(rows: Vec<Vec<String>>, all: &[[f64; 2]], runs: u32) -> Section {
    let tolerated = TOLERATED + chance(runs);
    let far = all.iter().flatten().filter(|&&percent| (percent - WANTED).abs() > tolerated).count();
    let mut goals = vec![format!(
        "each kind: {WANTED:.0} % ± {TOLERATED:.0} points, and what chance adds to {runs} intervals ({:.1} points, three \
         standard deviations): {} of {} kinds, {}",
        chance(runs),
        all.len() * 2 - far,
        all.len() * 2,
        verdict(far == 0)
    )];
    for (at, what) in ["in process", "`flamelet record`"].into_iter().enumerate() {
        let percent = all.iter().map(|pair| pair[at]).sum::<f64>() / all.len() as f64;
        goals.push(format!(
            "all {} intervals together, {what}: {WANTED:.0} % ± {TOLERATED:.0} points: {percent:.1} %, {}",
            all.len() * runs as usize,
            verdict((percent - WANTED).abs() <= TOLERATED)
        ));
    }
    Section {
        title: "coverage: how often an interval covers the truth".to_owned(),
        about: format!(
            "A program works in short turns of random length, a fifth of them in one function. Its own clocks measure that\n\
             function's share of the CPU time, and a profile of {MILLIS} ms of CPU time gives a 95 % interval for it. The table\n\
             shows how many of {runs} intervals contain the share: in process, and by `flamelet record`. A busy machine has one\n\
             more thread for each CPU, which never rests."
        ),
        columns: vec!["machine", "samples a second", "threads", "in process", "`flamelet record`"],
        rows,
        goals,
    }
}

/// Returns how far, in points, the share of this many intervals may be from its mean by chance: three standard
/// deviations.
fn chance(runs: u32) -> f64 {
    3.0 * (WANTED * (100.0 - WANTED) / f64::from(runs)).sqrt()
}

/// Threads that keep every CPU busy until this is dropped.
struct Load {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = |is_over: Arc<AtomicBool>| {
            while !is_over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        let threads = (0..count).map(|_| Arc::clone(&is_over));
        let threads = threads.map(|is_over| std::thread::spawn(move || spin(is_over))).collect();
        Self { is_over, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Returns the percentages of captures in process, by the test that does these: for each frequency, each number of
/// threads.
fn inside(runs: u32) -> Result<Vec<f64>, Failure> {
    let mut test = workspace::cargo();
    test.args(["test", "--release", "--package", "flamelet-capture", "--test", "coverage", "--"]);
    test.args(["--ignored", "--nocapture"]);
    test.env("FLAMELET_COVERAGE_RUNS", runs.to_string()).env("FLAMELET_COVERAGE_MILLIS", MILLIS.to_string());
    let text = run::output(&mut test)?;
    let lines = text.lines().filter(|line| line.contains("captures cover the truth"));
    Ok(lines.filter_map(|line| line.split(": ").nth(1)?.split(' ').next()?.parse().ok()).collect())
}

struct Recorder {
    flamelet: PathBuf,
    program: PathBuf,
    out: PathBuf,
}

impl Recorder {
    fn new() -> Result<Self, Failure> {
        let folder = folder()?;
        let program = folder.join("coverage");
        let mut build = Command::new("rustc");
        build.args(["-O", "-g", "--edition", "2024", "-o"]).arg(&program);
        build.arg(workspace::root().join("bench/workloads/coverage.rs"));
        run::step("building coverage", &mut build)?;
        Ok(Self { flamelet: build_flamelet()?, program, out: folder.join("coverage.pb.gz") })
    }

    /// Returns how many percent of the intervals cover the truth.
    fn covered(&self, hertz: u32, threads: u32, runs: u32) -> Result<f64, Failure> {
        let mut covered = 0;
        for seed in 0..runs / STRETCHES {
            let mut record = Command::new(&self.flamelet);
            record
                .args(["record", "-F", &hertz.to_string(), "-o"])
                .arg(&self.out)
                .arg("--")
                .arg(&self.program);
            let words = [threads, MILLIS, seed].map(|number| number.to_string());
            let printed = run::output(record.args(words))?;
            let truths: Vec<f64> = printed.lines().filter_map(|line| line.trim().parse().ok()).collect();
            let counts = Counts::of(&self.flamelet, &self.out)?;
            if truths.len() != STRETCHES as usize || counts.all() == 0.0 {
                return Err(Failure::failed(format!("no shares or no samples: {printed}")));
            }
            let intervals =
                truths.into_iter().enumerate().map(|(stretch, truth)| (counts.interval(stretch), truth));
            covered += intervals.filter(|((low, high), truth)| low <= truth && truth <= high).count();
        }
        Ok(covered as f64 * 100.0 / f64::from(runs))
    }
}

/// The samples of each function, of a recording whose samples all weigh the same.
struct Counts(BTreeMap<String, f64>);

impl Counts {
    fn of(flamelet: &Path, profile: &Path) -> Result<Self, Failure> {
        let mut top = Command::new(flamelet);
        top.args(["top", "--cum", "--json", "--no-trim", "--sample-index", "samples"]).arg(profile);
        let top: Value = serde_json::from_str(&run::output(&mut top)?)
            .map_err(|error| Failure::failed(format!("flamelet top: {error}")))?;
        let rows = top["rows"].as_array().into_iter().flatten();
        let counts = rows.filter_map(|row| {
            let name = row["name"].as_str()?.rsplit("::").next()?.to_owned();
            Some((name, row["cum"].as_f64()?))
        });
        Ok(Self(
            counts.filter(|(name, _)| name.starts_with("wanted_") || name.starts_with("other_")).collect(),
        ))
    }

    fn all(&self) -> f64 {
        self.0.values().sum()
    }

    /// Returns the 95 % interval of the share of `wanted` in a stretch.
    fn interval(&self, stretch: usize) -> (f64, f64) {
        let of = |name: String| self.0.get(&name).copied().unwrap_or(0.0);
        let (wanted, other) = (of(format!("wanted_{stretch}")), of(format!("other_{stretch}")));
        wilson(wanted, wanted + other)
    }
}

/// Returns the interval as flamelet computes it (`flamelet_profile::observations::share_interval`).
fn wilson(part: f64, count: f64) -> (f64, f64) {
    const Z: f64 = 1.959_963_984_540_054;
    if count <= 0.0 {
        return (0.0, 1.0);
    }
    let share = part / count;
    let middle = share + Z * Z / (2.0 * count);
    let half = Z * (share * (1.0 - share) / count + Z * Z / (4.0 * count * count)).sqrt();
    let scale = 1.0 + Z * Z / count;
    ((middle - half) / scale, (middle + half) / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_hold_the_share_and_chance_is_tolerated() {
        let (low, high) = wilson(20.0, 100.0);
        assert!(low > 0.12 && low < 0.2 && high > 0.2 && high < 0.3, "{low} to {high}");
        let goals = |all: &[[f64; 2]]| {
            section(Vec::new(), all, 200)
                .goals
                .iter()
                .map(|goal| goal.ends_with(", reached"))
                .collect::<Vec<_>>()
        };
        assert_eq!(goals(&[[95.0, 91.0], [94.0, 97.0]]), [true, true, true]);
        assert_eq!(goals(&[[95.0, 88.0], [95.0, 99.0]]), [false, true, true], "one is far");
        assert_eq!(goals(&[[92.0, 95.0], [92.5, 95.0]]), [true, false, true], "all are a little off");
    }

    #[test]
    fn samples_are_those_of_the_stretch() {
        let counts = [("wanted_1", 20.0), ("other_1", 80.0), ("wanted_2", 90.0)];
        let counts = Counts(counts.map(|(name, count)| (name.to_owned(), count)).into());
        assert_eq!(counts.all(), 190.0);
        assert_eq!(counts.interval(1), wilson(20.0, 100.0));
        assert_eq!(counts.interval(3), (0.0, 1.0), "nothing is known");
    }
}
