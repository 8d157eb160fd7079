//! `cargo xtask fuzz`: the targets of `fuzz/`, built by the stable compiler without installing any tool.
//!
//! Each folder below `fuzz/corpus` is a target; all `read-FORMAT` are one program. Inputs that a run adds to its
//! corpus stay in the target folder; findings are in `fuzz/artifacts`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use crate::gates::sanitizer;
use crate::tally::Tally;
use crate::{Failure, Outcome, run, workspace};

/// How long the gate runs each target.
const GATE: Duration = Duration::from_secs(3);
/// More time for one input is a finding; the sanitizer, the counters and a busy machine slow everything down about
/// tenfold.
const LONGEST_INPUT: Duration = Duration::from_secs(30);
/// More memory is a finding: twice the budget that readers have in the targets, because the sanitizer keeps freed
/// memory.
const MOST_MEMORY_MIB: u32 = 2048;

/// The flags that libFuzzer needs to see where an input leads.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Ccodegen-units=1 -Cdebug-assertions";

/// `cargo xtask fuzz [--minutes N] [TARGET…]`.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let options = Options::parse(arguments)?;
    let programs = build(Speed::Fast)?;
    let asked = options.targets.len();
    let share = options.minutes * 60.0 * jobs() as f64 / asked as f64;
    println!("   {asked} targets, {share:.0} s each");
    let time = Duration::from_secs_f64(share.max(1.0));
    fuzz(&programs, options.targets, Effort { time, seed: Seed::OfTheDay })
}

/// Runs every target for a few seconds.
pub(crate) fn gate(_: &mut Tally) -> Outcome {
    let programs = build(Speed::SoonBuilt)?;
    let targets = targets()?;
    println!("   {} targets, {} s each", targets.len(), GATE.as_secs());
    fuzz(&programs, targets, Effort { time: GATE, seed: Seed::Fixed })
}

struct Options {
    /// For all targets together.
    minutes: f64,
    targets: Vec<String>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let all = targets()?;
        let mut options = Self { minutes: 10.0, targets: Vec::new() };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            if argument == "--minutes" {
                let minutes = arguments.next().and_then(|text| text.parse().ok());
                options.minutes = minutes
                    .filter(|minutes| *minutes > 0.0)
                    .ok_or_else(|| Failure::unusable("--minutes takes a number"))?;
            } else if all.contains(argument) {
                options.targets.push(argument.clone());
            } else {
                let message = format!("no fuzz target `{argument}`; there are {}", all.join(", "));
                return Err(Failure::unusable(message));
            }
        }
        if options.targets.is_empty() {
            options.targets = all;
        }
        Ok(options)
    }
}

fn folder() -> PathBuf {
    workspace::root().join("fuzz")
}

fn targets() -> Result<Vec<String>, Failure> {
    let corpora = std::fs::read_dir(folder().join("corpus"));
    let corpora = corpora.map_err(|error| Failure::failed(format!("fuzz/corpus: {error}")))?;
    let mut names: Vec<String> =
        corpora.flatten().map(|corpus| corpus.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// What the programs are good at.
#[derive(Clone, Copy)]
enum Speed {
    /// They run for minutes.
    Fast,
    /// They run for seconds, so that less optimization saves more time than it costs.
    SoonBuilt,
}

/// Builds all targets, and returns the folder with their programs.
fn build(speed: Speed) -> Result<PathBuf, Failure> {
    let host = workspace::host()?;
    let target = workspace::target().join("fuzz");
    let sanitizer = if sanitizer::is_there()? { " -Zsanitizer=address" } else { "" };
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--target", &host, "--target-dir"]).arg(&target);
    cargo
        .current_dir(folder())
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", format!("{COVERAGE}{sanitizer}"));
    if let Speed::SoonBuilt = speed {
        cargo.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    }
    run::step("building the fuzz targets", &mut cargo)?;
    Ok(target.join(host).join("release"))
}

/// Where the random numbers of a run start.
#[derive(Clone, Copy)]
enum Seed {
    /// Each run tries other inputs.
    OfTheDay,
    /// The same inputs first, so that a gate that held for a tree holds again.
    Fixed,
}

/// How much each target is tried.
#[derive(Clone, Copy)]
struct Effort {
    time: Duration,
    seed: Seed,
}

/// Runs the targets, as many at a time as there are cores.
fn fuzz(programs: &std::path::Path, targets: Vec<String>, effort: Effort) -> Outcome {
    let waiting = Mutex::new(targets.into_iter());
    let failed = Mutex::new(Vec::new());
    let work = || {
        loop {
            let next = waiting.lock().ok().and_then(|mut waiting| waiting.next());
            let Some(target) = next else { return };
            if let Err(failure) = fuzz_one(programs, &target, effort)
                && let Ok(mut failed) = failed.lock()
            {
                eprintln!("{}", failure.message);
                failed.push(target);
            }
        }
    };
    std::thread::scope(|scope| (0..jobs()).for_each(|_| drop(scope.spawn(work))));
    let failed = failed.into_inner().unwrap_or_default();
    if failed.is_empty() { Ok(()) } else { Err(Failure::failed(format!("found: {}", failed.join(", ")))) }
}

fn fuzz_one(programs: &std::path::Path, target: &str, Effort { time, seed }: Effort) -> Outcome {
    let program = programs.join(if target.starts_with("read-") { "read" } else { target });
    let grown = workspace::target().join("fuzz/corpus").join(target);
    let artifacts = folder().join("artifacts");
    for folder in [&grown, &artifacts] {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))?;
    }
    let mut command = Command::new(&program);
    command.arg(format!("-max_total_time={}", time.as_secs().max(1)));
    if let Seed::Fixed = seed {
        command.arg("-seed=1");
    }
    command.arg(format!("-timeout={}", LONGEST_INPUT.as_secs()));
    command.arg(format!("-rss_limit_mb={MOST_MEMORY_MIB}"));
    command.arg(format!("-artifact_prefix={}/{target}-", artifacts.display()));
    command.args(["-print_final_stats=1", "-verbosity=0"]).arg(grown).args(corpora(target)?);
    command.env("ASAN_OPTIONS", sanitizer::OPTIONS);
    if let Some(format) = target.strip_prefix("read-") {
        command.env("FLAMELET_FUZZ_FORMAT", format);
    }
    let output = command
        .output()
        .map_err(|error| Failure::failed(format!("cannot run {}: {error}", program.display())))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        let runs = said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        println!("   {target}: {} inputs", runs.unwrap_or("0").trim());
        return Ok(());
    }
    let tail: Vec<&str> = said.lines().collect();
    let tail = tail[tail.len().saturating_sub(60)..].join("\n");
    Err(Failure::failed(format!(
        "{tail}\nfuzz target {target} found a problem; see fuzz/artifacts and fuzz/README.md"
    )))
}

/// Returns the inputs that the target starts from: its own corpus, and for the one that recognises formats, all of
/// them.
fn corpora(target: &str) -> Result<Vec<PathBuf>, Failure> {
    let is_its_own = |name: &&String| *name == target || (target == "read-any" && name.starts_with("read-"));
    let names = targets()?;
    Ok(names.iter().filter(is_its_own).map(|name| folder().join("corpus").join(name)).collect())
}
