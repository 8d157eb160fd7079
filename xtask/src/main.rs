//! flamelet's own commands, run as `cargo xtask COMMAND`: one file for each command.
//!
//! Exit status: 0 success, 1 something failed, 2 wrong usage or a program that this machine lacks.

mod bench;
mod check;
mod fuzz;
mod gates;
mod golang;
mod processes;
mod run;
mod skips;
mod tally;
mod test;
mod tools;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test [CARGO-TEST-ARGS]   install what the tests need, then run every test and every gate
       --quick             leave out formatting, clippy, the crate edges, the module circles and the gates
       --no-install        say what is missing instead of installing it
  check                    formatting, clippy, docs, crate edges, module circles, feature combinations, stale documents
  gate [NAME...]           gates of `test` alone: licences, docs, features, targets, unoptimized, sanitizer, fuzz,
                           clean-clone
  fuzz [TARGET...]         run fuzz targets (all), in parallel, and keep what they find in fuzz/artifacts
       --minutes N         for so long in all (10)
  bench NAME [OPTIONS]     measure side by side with the peers, and write docs/benchmarks.md
       names: cpu, formats, heap, open, record, symbolize, view
       --rounds N          the middle of N runs counts: an odd number (3)
       --quick             tiny runs that only show that everything works
  tools                    only install what the tests need, and print the environment they get
";

/// The message and the exit status of a failed command.
#[derive(Debug)]
struct Failure {
    status: u8,
    message: String,
}

impl Failure {
    /// A check failed.
    fn failed(message: impl Into<String>) -> Self {
        Self { status: 1, message: message.into() }
    }

    /// The command line, or the machine, does not allow the work to start.
    fn unusable(message: impl Into<String>) -> Self {
        Self { status: 2, message: message.into() }
    }
}

type Outcome = Result<(), Failure>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &[][..]),
    };
    let outcome = match command {
        "test" => test::run(rest),
        "check" => check::run(rest),
        "bench" => bench::run(rest),
        "fuzz" => fuzz::run(rest),
        "gate" => gates::run(rest),
        "tools" => test::prepare_only(rest),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            Ok(())
        }
        other => Err(Failure::unusable(format!("unknown command `{other}`\n\n{USAGE}"))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {}", failure.message);
            ExitCode::from(failure.status)
        }
    }
}
