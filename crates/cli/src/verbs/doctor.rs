//! `flamelet doctor`: what is possible on this machine.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueHint;
use flamelet_profile::open_regular;
use flamelet_record::doctor;

use crate::arguments::guide::Guide;
use crate::error::{About, Failure, Result};
use crate::output;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A binary, or the id of a running process
    #[arg(value_name = "PID|BINARY", value_hint = ValueHint::FilePath)]
    subject: Option<String>,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Check what can be profiled on this machine, and how to enable the rest",
        examples: &[
            ("flamelet doctor", "what this machine and user can record"),
            ("flamelet doctor ./target/release/service", "does this binary have names and lines"),
            ("flamelet doctor 1234", "the same for a running process"),
        ],
        exit_status: Some("0 nothing required is missing, 1 something is missing, 2 bad usage or bad input."),
        ..Guide::default()
    }
}

/// Prints the findings. The exit status is 1 if something that is needed is missing.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let report = match &args.subject {
        None => doctor::machine(),
        Some(subject) => {
            let path = match subject.parse::<u32>() {
                Ok(pid) => binary_of(pid)?,
                Err(_) => PathBuf::from(subject),
            };
            // Opened here for our own error message: a missing file is the most frequent mistake.
            open_regular(&path).about(subject)?;
            doctor::binary(&path).map_err(|error| Failure::new(error.to_string()))?
        }
    };
    output::text::write(None, |out| Ok(write!(out, "{report}")?))?;
    Ok(if report.is_usable() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Returns the file that a process runs.
fn binary_of(pid: u32) -> Result<PathBuf> {
    if !Path::new(&format!("/proc/{pid}")).exists() {
        return Err(Failure::new(format!("no process with id {pid}")));
    }
    let path = PathBuf::from(format!("/proc/{pid}/exe"));
    let error = match File::open(&path) {
        Ok(_) => return Ok(path),
        Err(error) => error,
    };
    Err(Failure::new(match error.kind() {
        ErrorKind::PermissionDenied => {
            format!("process {pid} belongs to another user; run with sudo, or give its binary instead")
        }
        ErrorKind::NotFound => {
            format!("process {pid} has no binary: it has exited or is a kernel thread")
        }
        _ => format!("process {pid}: {error}"),
    }))
}
