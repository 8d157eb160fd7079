//! A load generator that runs beside a recording.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use flamelet_record::signal::{Signal, send_to_all};

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

impl Load {
    /// Ends it; says so if it had ended long before, with an error.
    pub(crate) fn end(mut self) {
        if let Ok(Some(status)) = self.shell.try_wait()
            && !status.success()
        {
            eprintln!("flamelet: the load failed ({status}): what was recorded may be idle");
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // One that has ended may have left some of its group; its number is kept for as long as they run.
        send_to_all(self.shell.id(), Signal::Terminate);
        // The shell itself may wait for what does not heed that.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
