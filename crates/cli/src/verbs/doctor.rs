//! `flamelet doctor`: what is possible here.

use std::path::PathBuf;
use std::process::ExitCode;

use flamelet_record::doctor;

use crate::error::{Failure, Result};
use crate::output;

/// Prints what was found. Exit status 1 when something that is needed is missing.
pub(crate) fn run(subject: Option<&str>) -> Result<ExitCode> {
    let report = match subject {
        None => doctor::machine(),
        Some(subject) => {
            let path = match subject.parse::<u32>() {
                Ok(pid) => PathBuf::from(format!("/proc/{pid}/exe")),
                Err(_) => PathBuf::from(subject),
            };
            doctor::binary(&path).map_err(|error| Failure::new(format!("{subject}: {error}")))?
        }
    };
    output::write(None, |out| Ok(write!(out, "{report}")?))?;
    Ok(if report.is_usable() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
