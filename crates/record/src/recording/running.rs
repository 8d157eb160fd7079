//! A command that goes on when its recording has ended.

use std::io;
use std::process::{Child, ExitStatus};

use crate::processes::signal::{self, Signal};

/// The command of a recording that ended first.
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

    /// How it ended; `None` as long as it runs.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Asks it, and what it started, to end. Only as long as it runs: later its number may be another's.
    pub fn ask_to_end(&self, how: Signal) {
        signal::send_to_all(self.id(), how);
    }

    /// Ends it at once.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()
    }
}
