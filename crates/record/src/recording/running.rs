//! A command that continues after its recording has ended.

use std::io;
use std::process::{Child, ExitStatus};

use crate::processes::signal::{self, Signal};

/// The command of a recording that ended before it.
#[derive(Debug)]
pub struct RunningCommand {
    child: Child,
}

impl From<Child> for RunningCommand {
    fn from(child: Child) -> Self {
        Self { child }
    }
}

impl RunningCommand {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns how it ended; `None` while it is running.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits for it to end.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Asks it, and what it started, to end. Does so only while it runs: later its pid may be reused.
    pub fn ask_to_end(&self, how: Signal) {
        signal::send_to_all(self.id(), how);
    }

    /// Kills it.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()
    }
}
