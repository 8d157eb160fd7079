//! The `flamelet` command. Each verb is a file or a folder in `verbs/`, with its arguments, its help and its code.

// Use `note!` and `output` instead, which do not panic when the reader is gone.
#![deny(clippy::print_stderr, clippy::print_stdout)]
// Elsewhere nothing is recorded, so parts that only recordings use have no caller.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

#[macro_use]
mod note;

mod arguments;
mod error;
mod job;
#[cfg(target_os = "linux")]
mod large_pages;
mod output;
mod picture;
mod profiles;
mod progress;
mod verbs;

use std::process::ExitCode;

use error::Failure;

// The demo profiles its own heap; all other verbs sample nothing.
#[cfg(not(target_os = "linux"))]
flamelet::global_allocator!();
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: flamelet::Alloc<large_pages::LargePages> = flamelet::Alloc::new(large_pages::LargePages);

fn main() -> ExitCode {
    let verb = match verbs::parse() {
        Ok(verb) => verb,
        Err(error) => return arguments::usage::explain(&error),
    };
    match verb.run() {
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
