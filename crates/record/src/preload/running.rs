//! A command that runs with a library inside, until the recording ends.

use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::sys::machine;
use crate::sys::process::{cpu_time_of_ended, open_pidfd};
use crate::{CommandEnd, Error, ErrorKind, Result};

/// How often to check `stop` and the duration.
const LOOK: Duration = Duration::from_millis(20);

/// See the module documentation.
pub(super) struct RunningCommand {
    child: Child,
    pub(super) started: Instant,
}

impl RunningCommand {
    /// Starts the command; if `shielded`, in a process group of its own, so that Ctrl-C at the terminal reaches only
    /// the recorder.
    pub(super) fn start(mut command: Command, shielded: bool) -> Result<Self> {
        if shielded {
            command.process_group(0);
        }
        let failed =
            |error| Error::new(ErrorKind::NotFound, format!("the command could not be started: {error}"));
        Ok(Self { child: command.spawn().map_err(failed)?, started: Instant::now() })
    }

    /// Waits until the command ends, `duration` is over or `stop` is set; calls `look` now and then.
    pub(super) fn wait(
        &self,
        duration: Option<Duration>,
        stop: &AtomicBool,
        mut look: impl FnMut(Duration),
    ) -> Result<()> {
        let end = open_pidfd(self.child.id())?;
        loop {
            let elapsed = self.started.elapsed();
            let left = duration.map_or(LOOK, |duration| duration.saturating_sub(elapsed).min(LOOK));
            let ready = machine::poll(&[end.as_raw_fd()], left)?;
            let has_ended = ready.first().is_some_and(|ready| ready.readable || ready.hung_up);
            let is_over =
                stop.load(Ordering::Relaxed) || duration.is_some_and(|duration| elapsed >= duration);
            if has_ended || is_over {
                return Ok(());
            }
            look(elapsed);
        }
    }

    /// Returns the CPU time of the command and of the processes below it, if it has ended.
    pub(super) fn cpu_time(&self) -> Option<Duration> {
        cpu_time_of_ended(self.child.id())
    }

    /// Kills a command that cannot be recorded. Returns whether it was still running.
    pub(super) fn kill(mut self) -> bool {
        let still_ran = matches!(self.child.try_wait(), Ok(None));
        let _ = self.child.kill();
        let _ = self.child.wait();
        still_ran
    }

    /// Returns what became of the command.
    pub(super) fn end(mut self) -> Result<CommandEnd> {
        let status = self.child.try_wait()?;
        Ok(CommandEnd::new(self.child, status))
    }
}
