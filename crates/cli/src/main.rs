//! The `flamelet` command: arguments and glue, one file a verb in `verbs/`.

// `note!` and `output` instead: nobody listening is no reason to panic.
#![deny(clippy::print_stderr, clippy::print_stdout)]

#[macro_use]
mod note;

mod args;
mod error;
mod fetch;
mod interactive;
mod live_line;
mod load;
mod output;
mod plain;
mod pprof_args;
mod pprof_help;
mod progress;
mod report_job;
mod source;
mod text;
mod usage;
mod verbs;

use std::process::ExitCode;

use error::Failure;

// The demo profiles its own heap; elsewhere nothing is sampled.
flamelet::global_allocator!();

fn main() -> ExitCode {
    let cli = match args::parse() {
        Ok(cli) => cli,
        Err(error) => return usage::explain(&error),
    };
    match verbs::run(cli.verb) {
        Ok(code) => code,
        Err(failure) => report(&failure),
    }
}

fn report(failure: &Failure) -> ExitCode {
    if failure.is_closed_pipe() {
        return ExitCode::SUCCESS;
    }
    note!("flamelet: {failure}");
    ExitCode::from(2)
}
