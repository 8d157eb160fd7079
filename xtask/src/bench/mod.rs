//! `cargo xtask bench NAME`: compares flamelet with its peers, in one run, interleaved. Each benchmark is a file.

mod adds;
mod check;
mod collect;
mod coverage;
mod cpu;
mod formats;
mod heap;
mod heap_record;
mod history;
mod live;
mod measure;
mod open;
mod page;
mod process;
mod real;
mod record;
mod statistics;
mod symbolize;
mod syscalls;
mod tools;
mod view;
mod wait;

use crate::{Failure, Outcome, run, workspace};

/// The options of a benchmark.
pub(crate) struct Options {
    /// How often each program runs; the median is reported.
    rounds: usize,
    /// Short runs that only show that everything works; no results are written.
    quick: bool,
}

/// A benchmark: its name, and the function that runs it and returns its section of docs/benchmarks.md.
struct Bench {
    name: &'static str,
    run: fn(&Options) -> Result<page::Section, Failure>,
}

const BENCHES: &[Bench] = &[
    Bench { name: "adds", run: adds::run },
    Bench { name: "check", run: check::run },
    Bench { name: "collect", run: collect::run },
    Bench { name: "coverage", run: coverage::run },
    Bench { name: "cpu", run: cpu::run },
    Bench { name: "formats", run: formats::run },
    Bench { name: "heap", run: heap::run },
    Bench { name: "heap-record", run: heap_record::run },
    Bench { name: "history", run: history::run },
    Bench { name: "live", run: live::run },
    Bench { name: "open", run: open::run },
    Bench { name: "real", run: real::run },
    Bench { name: "record", run: record::run },
    Bench { name: "symbolize", run: symbolize::run },
    Bench { name: "tools", run: tools::run },
    Bench { name: "view", run: view::run },
    Bench { name: "wait", run: wait::run },
];

/// Returns the names of all benchmarks.
pub(crate) fn names() -> String {
    BENCHES.iter().map(|bench| bench.name).collect::<Vec<_>>().join(", ")
}

/// Runs one benchmark by name, prints its table and puts it into docs/benchmarks.md.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let Some((name, rest)) = arguments.split_first() else {
        return Err(Failure::unusable(format!("bench needs a name: {}", names())));
    };
    let Some(bench) = BENCHES.iter().find(|bench| bench.name == name) else {
        return Err(Failure::unusable(format!("no benchmark `{name}`; there are: {}", names())));
    };
    let options = parse(rest)?;
    let section = (bench.run)(&options)?;
    println!("\n{}", section.markdown());
    if options.quick { Ok(()) } else { page::replace(bench.name, &section) }
}

fn parse(arguments: &[String]) -> Result<Options, Failure> {
    let mut options = Options { rounds: 3, quick: false };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if argument == "--quick" {
            options.quick = true;
            continue;
        }
        let value = arguments.next().and_then(|value| value.parse().ok());
        match (argument.as_str(), value) {
            // An even number of rounds has no middle, and the lower of the two would flatter.
            ("--rounds", Some(rounds)) if rounds % 2 == 1 => options.rounds = rounds,
            ("--rounds", _) => {
                return Err(Failure::unusable(
                    "--rounds needs an odd number, because the median is reported",
                ));
            }
            (other, _) => return Err(Failure::unusable(format!("unknown option `{other}`"))),
        }
    }
    Ok(options)
}

/// Builds the flamelet command in release mode.
fn build_flamelet() -> Result<std::path::PathBuf, Failure> {
    let mut build = workspace::cargo();
    build.args(["build", "--release", "--package", "flamelet-cli"]);
    run::step("building flamelet (release)", &mut build)?;
    Ok(workspace::target().join("release/flamelet"))
}

/// Builds a package of the bench workspace in release mode; its program has the package's name.
fn build_peer(package: &str) -> Result<std::path::PathBuf, Failure> {
    let mut build = workspace::cargo();
    build.args(["build", "--release", "--manifest-path", "bench/Cargo.toml", "--package", package]);
    build.arg("--target-dir").arg(workspace::target());
    run::step(&format!("building {package} (release)"), &mut build)?;
    Ok(workspace::target().join("release").join(package))
}

/// Does the same in the bench workspace's own target folder: for peers with many dependencies that nothing else
/// shares. `arguments` may select features, and compiler flags after `--`.
fn build_apart(package: &str, arguments: &[&str]) -> Result<std::path::PathBuf, Failure> {
    let target = workspace::root().join("bench/target");
    let mut build = workspace::cargo();
    build.args(["rustc", "--release", "--manifest-path", "bench/Cargo.toml", "--package", package]);
    build.arg("--target-dir").arg(&target).args(arguments);
    run::step(&format!("building {package} {}", arguments.join(" ")), &mut build)?;
    Ok(target.join("release").join(package))
}

/// Writes a seeded profile of this many unique stacks.
fn generate(stacks: usize) -> Result<std::path::PathBuf, Failure> {
    let path = folder()?.join(format!("stacks-{stacks}.pb"));
    let generator = build_peer("bench-generate")?;
    run::step(
        &format!("generating {stacks} unique stacks"),
        std::process::Command::new(generator).arg(stacks.to_string()).arg(&path),
    )?;
    Ok(path)
}

/// Returns the folder for generated inputs and outputs.
fn folder() -> Result<std::path::PathBuf, Failure> {
    let folder = workspace::target().join("bench");
    std::fs::create_dir_all(&folder).map_err(|error| Failure::failed(error.to_string()))?;
    Ok(folder)
}
