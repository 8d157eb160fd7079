//! A program that runs during the benchmark, and what its kernel says about it.

use std::process::Child;

use crate::Failure;

/// A running program, killed when dropped.
pub(super) struct Process(pub(super) Child);

impl Process {
    /// Returns the CPU time of all its threads so far, in nanoseconds: `stat` counts in ticks only.
    pub(super) fn cpu_nanos(&self) -> Result<u64, Failure> {
        let folder = format!("/proc/{}/task", self.0.id());
        let failed = |error: std::io::Error| Failure::failed(format!("{folder}: {error}"));
        let mut sum = 0;
        for thread in std::fs::read_dir(&folder).map_err(failed)?.flatten() {
            // A thread may end meanwhile.
            let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            sum += text.split_whitespace().next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(sum)
    }

    /// Returns its peak memory in megabytes.
    pub(super) fn peak_megabytes(&self) -> Result<f64, Failure> {
        Ok(self.kibibytes("VmHWM:")?.map_or(f64::NAN, |peak| peak as f64 * 1024.0 / 1e6))
    }

    /// Returns its resident memory in bytes.
    pub(super) fn resident_bytes(&self) -> Result<u64, Failure> {
        Ok(self.kibibytes("VmRSS:")?.unwrap_or(0) * 1024)
    }

    /// Returns the line of its status that begins with `name`.
    fn kibibytes(&self, name: &str) -> Result<Option<u64>, Failure> {
        let path = format!("/proc/{}/status", self.0.id());
        let status =
            std::fs::read_to_string(&path).map_err(|error| Failure::failed(format!("{path}: {error}")))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"));
        Ok(line.and_then(|line| line.parse().ok()))
    }

    /// Asks it to end, and waits until it has.
    pub(super) fn end(mut self) {
        let _ = std::process::Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already, or must end now.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
