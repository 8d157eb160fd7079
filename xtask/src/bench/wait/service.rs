//! A service that runs under load.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use super::super::process::Process;
use super::{ask, number};
use crate::Failure;

/// A running service.
pub(super) struct Service {
    pub(super) process: Process,
    address: String,
}

/// What a client has measured, and what the service used for each request.
pub(super) struct Loaded {
    pub(super) rate: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) cpu_us: f64,
}

impl Service {
    pub(super) fn start(program: &Path) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::failed(format!("{}: {error}", program.display()));
        let traces = super::folder()?.join("dial9");
        let mut command = Command::new(program);
        command.arg("serve").env("DIAL9_ENABLED", "true").env("DIAL9_TRACE_DIR", traces);
        let mut process = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
        let mut address = String::new();
        if let Some(out) = process.stdout.take() {
            BufReader::new(out).read_line(&mut address).map_err(failed)?;
        }
        let service = Self { process: Process(process), address: address.trim().to_owned() };
        match service.address.is_empty() {
            true => Err(Failure::failed(format!("{} does not serve", program.display()))),
            false => Ok(service),
        }
    }

    /// Loads it for this many milliseconds.
    pub(super) fn load(
        &self,
        client: &Path,
        connections: u32,
        millis: u32,
        rate: u32,
    ) -> Result<Loaded, Failure> {
        let numbers = [connections, millis, rate].map(|number| number.to_string());
        let before = self.process.cpu_nanos()?;
        let answer = ask(client, &["load", &self.address, &numbers[0], &numbers[1], &numbers[2]])?;
        let used = self.process.cpu_nanos()?.saturating_sub(before);
        Ok(Loaded {
            rate: number(&answer, "rate"),
            p50_us: number(&answer, "p50_us"),
            p99_us: number(&answer, "p99_us"),
            cpu_us: used as f64 / 1e3 / number(&answer, "requests"),
        })
    }
}
