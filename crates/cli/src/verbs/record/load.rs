//! A load generator that runs beside a recording.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use flamelet_record::signal::{Signal, send_to_all};

use crate::error::{About, Result};

/// A running load generator; dropping it ends it and everything it started.
pub(crate) struct Load {
    shell: Child,
}

impl Load {
    /// Starts `command` in a shell, in its own process group.
    pub(crate) fn start(command: &str) -> Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::null()).process_group(0);
        Ok(Self { shell: shell.spawn().about(format!("--load '{command}'"))? })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let had_ended = has_ended(self.shell.id());
        // The shell was not waited for yet, so its process group id cannot have been reused.
        send_to_all(self.shell.id(), Signal::Terminate);
        // The shell itself may be waiting for a process that ignores the signal.
        let _ = self.shell.kill();
        if let (true, Ok(status)) = (had_ended, self.shell.wait())
            && !status.success()
        {
            note!("flamelet: the load generator ended before the recording, with {status}");
        }
        let _ = self.shell.wait();
    }
}

/// Returns whether a child that was not waited for has ended.
fn has_ended(child: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('Z'))
}
