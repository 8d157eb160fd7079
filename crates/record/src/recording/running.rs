//! A command that goes on when its recording has ended.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::signal::{self, Signal};

/// The command of a recording that ended first.
#[derive(Debug)]
pub struct RunningCommand {
    child: Child,
    /// Who still traces it hears of its end first, and tells.
    told: Option<Arc<OnceLock<ExitStatus>>>,
}

impl From<Child> for RunningCommand {
    fn from(child: Child) -> Self {
        Self { child, told: None }
    }
}

impl RunningCommand {
    /// One of whose end `told` tells.
    pub(crate) fn traced(child: Child, told: Arc<OnceLock<ExitStatus>>) -> Self {
        Self { child, told: Some(told) }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended; `None` as long as it runs.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match &self.told {
            Some(told) => Ok(told.get().copied()),
            None => self.child.try_wait(),
        }
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        match &self.told {
            Some(told) => Ok(*told.wait()),
            None => self.child.wait(),
        }
    }

    /// Whether it cannot do without this process as long as it runs.
    pub fn needs_tracer(&self) -> bool {
        self.told.is_some()
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

/// Lets the system calls of a command, and of all that it started, pass through the filter that was put over them.
/// Without this process those calls fail.
#[derive(Clone, Debug, Default)]
pub struct Guard(Arc<AtomicBool>);

impl Guard {
    /// Whether something still runs that has the filter.
    pub fn is_needed(&self) -> bool {
        !self.0.load(Ordering::Acquire)
    }

    /// Nothing has it any more.
    pub(crate) fn dismiss(&self) {
        self.0.store(true, Ordering::Release);
    }
}
