//! The `flamelet` command: arguments and glue, one file a verb in `verbs/`.

mod args;
mod error;
mod fetch;
mod interactive;
mod live_line;
mod load;
mod output;
mod pprof_args;
mod progress;
mod report_job;
mod source;
mod verbs;

use std::process::ExitCode;

use clap::Parser;

use error::Failure;

// The demo profiles its own heap; elsewhere nothing is sampled.
flamelet::global_allocator!();

fn main() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let is_help = !error.use_stderr();
            // A closed pipe while help is printed is nobody's fault.
            let _ = error.print();
            return if is_help { ExitCode::SUCCESS } else { ExitCode::from(2) };
        }
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
    eprintln!("flamelet: {failure}");
    ExitCode::from(2)
}
