//! A command that goes on when its recording has ended.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, OnceLock};

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

    /// Ends it at once.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()
    }
}
