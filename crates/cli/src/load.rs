//! A load generator that runs beside a recording.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::error::{About, Result};

/// A running load generator; it ends, with all that it started, when this is dropped.
pub(crate) struct Load {
    shell: Child,
}

impl Load {
    /// Starts `command` in a shell, in a process group of its own.
    pub(crate) fn start(command: &str) -> Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::null()).process_group(0);
        Ok(Self { shell: shell.spawn().about(format!("--load '{command}'"))? })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let group = format!("-{}", self.shell.id());
        let _ = Command::new("kill").args(["-TERM", "--", &group]).stderr(Stdio::null()).status();
        // The shell itself may wait for what does not heed that.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
