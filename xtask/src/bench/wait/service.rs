//! A service that runs, and what its kernel says about it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{ask, number};
use crate::Failure;

/// A running service, killed when dropped.
pub(super) struct Service {
    process: Child,
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
        let service = Self { process, address: address.trim().to_owned() };
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
        let before = self.cpu_nanos()?;
        let answer = ask(client, &["load", &self.address, &numbers[0], &numbers[1], &numbers[2]])?;
        let used = self.cpu_nanos()?.saturating_sub(before);
        Ok(Loaded {
            rate: number(&answer, "rate"),
            p50_us: number(&answer, "p50_us"),
            p99_us: number(&answer, "p99_us"),
            cpu_us: used as f64 / 1e3 / number(&answer, "requests"),
        })
    }

    /// Returns the CPU time of all threads, in nanoseconds: `stat` counts in ticks only.
    fn cpu_nanos(&self) -> Result<u64, Failure> {
        let folder = format!("/proc/{}/task", self.process.id());
        let failed = |error: std::io::Error| Failure::failed(format!("{folder}: {error}"));
        let mut sum = 0;
        for thread in std::fs::read_dir(&folder).map_err(failed)?.flatten() {
            // A thread may be gone meanwhile.
            let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            sum += text.split_whitespace().next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(sum)
    }

    pub(super) fn peak_megabytes(&self) -> Result<f64, Failure> {
        let path = format!("/proc/{}/status", self.process.id());
        let status =
            std::fs::read_to_string(&path).map_err(|error| Failure::failed(format!("{path}: {error}")))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        let kibibytes: f64 = peak.and_then(|peak| peak.parse().ok()).unwrap_or(f64::NAN);
        Ok(kibibytes * 1024.0 / 1e6)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It is gone already, or is to go.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
