//! `cargo xtask test`: the one command that runs all tests.

use std::ffi::OsString;
use std::process::Command;

use crate::golang::Golang;
use crate::processes::Stopwatch;
use crate::tally::{Tally, Watch};
use crate::{Failure, Outcome, check, gates, peers, run, skips, tools, wheels, workspace};

/// Variables that every suite gets.
pub(crate) type Environment = Vec<(&'static str, OsString)>;

/// Prepares the machine, runs the fast checks and every suite, and prints the counts on the last line.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let stopwatch = Stopwatch::start();
    let options = Options::parse(arguments);
    let environment = prepare(options.install)?;
    let mut tally = Tally::default();
    if !options.quick {
        check::fast(&mut tally)?;
    }
    let with_gates = options.cargo.is_empty() && !options.quick;
    let suites = || suites(&options, &environment);
    let (counted, mut gates) =
        if with_gates { gates::beside(suites)? } else { (suites()?, gates::Results::default()) };
    tally.add(counted);
    tally.failed += gates.print();
    tally.skipped += gates.tally.skipped;
    tally.skips.append(&mut gates.tally.skips);
    end(tally, &stopwatch)
}

/// Builds and runs the tests.
fn suites(options: &Options, environment: &Environment) -> Result<Tally, Failure> {
    let is_whole = options.cargo.is_empty();
    build(is_whole)?;
    let mut tally = cargo_tests(&options.cargo, environment)?;
    if is_whole {
        tally.add(page_tests(environment)?);
    }
    Ok(tally)
}

/// Prints the results of a run; the counts come last.
fn end(mut tally: Tally, stopwatch: &Stopwatch) -> Outcome {
    run::heading("what was left out");
    tally.failed += skips::judge(&tally.skips);
    println!("\neverything took {}", stopwatch.cost());
    println!("{tally}");
    if tally.failed == 0 { Ok(()) } else { Err(Failure::failed("tests failed")) }
}

/// `cargo xtask tools`: only prepares, and prints the variables to export for a plain `cargo test`.
pub(crate) fn prepare_only(arguments: &[String]) -> Outcome {
    let options = Options::parse(arguments);
    if arguments.iter().any(|argument| argument == "--peers") {
        tools::install(options.install)?;
        peers::build(&Golang::prepare(options.install)?)?;
        wheels::moto(options.install)?;
        wheels::duckdb_s3(options.install)?;
    }
    for (name, value) in prepare(options.install)? {
        println!("export {name}='{}'", value.to_string_lossy());
    }
    Ok(())
}

/// The options of `test`.
struct Options {
    install: bool,
    quick: bool,
    /// Passed to `cargo test` in place of `--workspace`.
    cargo: Vec<String>,
}

impl Options {
    fn parse(arguments: &[String]) -> Self {
        let mut options = Self { install: true, quick: false, cargo: Vec::new() };
        for argument in arguments {
            match argument.as_str() {
                "--no-install" => options.install = false,
                "--quick" => options.quick = true,
                other => options.cargo.push(other.to_owned()),
            }
        }
        options
    }
}

fn prepare(install: bool) -> Result<Environment, Failure> {
    tools::install(install)?;
    let golang = Golang::prepare(install)?;
    let mut environment: Environment =
        golang.environment().into_iter().map(|(name, value)| (name, value.into_os_string())).collect();
    environment.push(("FLAMELET_MCP_CLIENT", wheels::mcp_client(install)?.into_os_string()));
    environment.push(("FLAMELET_DUCKDB", wheels::duckdb(install)?.into_os_string()));
    environment.push(("FLAMELET_GRPCIO", wheels::grpcio(install)?.into_os_string()));
    environment.push(("FLAMELET_BIN", workspace::target().join("debug/flamelet").into_os_string()));
    Ok(environment)
}

/// Builds the command, which the black-box tests run, and unless only some tests were asked for, those with it: the features of
/// dependencies are then the same for both, and each is built once. The gates `clean-clone` and `dist` try the command as a
/// user builds it.
fn build(with_tests: bool) -> Outcome {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--bin=flamelet", "--bin=cargo-flamelet"]);
    cargo.args(if with_tests { &["--workspace", "--tests"][..] } else { &["--package=flamelet-cli"] });
    run::step("building the flamelet command and the tests", &mut cargo)
}

fn cargo_tests(arguments: &[String], environment: &Environment) -> Result<Tally, Failure> {
    let mut command = workspace::cargo();
    command.args(["test", "--no-fail-fast", "--color", "never"]);
    if arguments.is_empty() {
        command.arg("--workspace");
    }
    // Arguments after the user's own `--` belong to the test binaries, as ours do.
    let mut parts = arguments.splitn(2, |argument| argument == "--");
    command.args(parts.next().unwrap_or_default());
    command.args(["--", "--show-output"]).args(parts.next().unwrap_or_default());
    suite("cargo test", &mut command, environment)
}

/// Tests the viewer's page: its types, its logic under node, and the page in a browser. The script knows how.
fn page_tests(environment: &Environment) -> Result<Tally, Failure> {
    let script = workspace::root().join("ui/test");
    if !script.is_file() {
        return Ok(Tally::default());
    }
    suite("ui/test", Command::new(script).current_dir(workspace::root()), environment)
}

/// Runs one suite, shows the relevant part of its output, and counts.
pub(crate) fn suite(title: &str, command: &mut Command, environment: &Environment) -> Result<Tally, Failure> {
    run::heading(title);
    let mut watch = Watch::default();
    let end = run::lines(command.envs(environment.iter().cloned()), &mut |line| {
        if watch.line(line) {
            println!("{line}");
        }
    })?;
    watch.slowest().for_each(|line| println!("   {line}"));
    let tally = watch.finish(end.success);
    println!("   {title}: {tally}, {}", end.cost);
    Ok(tally)
}
