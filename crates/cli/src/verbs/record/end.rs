//! What becomes of a command when its recording is over, and of the person who presses Ctrl-C.
//!
//! ```text
//! Ctrl-C, or the duration is over ──► the recording ends, the command is asked to end (as by Ctrl-C, or SIGTERM)
//!                                     the profile is written; then the command is waited for:
//!    Ctrl-C again: SIGTERM;  once more: SIGKILL;  after some seconds it is left running, and that is said
//! ```

use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flamelet_record::RunningCommand;
use flamelet_record::signal::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::Result;

/// How long a command that was asked to end is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// Ctrl-C and the other ways to be asked to end: a closed terminal, a service manager.
pub(crate) struct Interruptions {
    is_asked: Arc<AtomicBool>,
    is_by_keyboard: Arc<AtomicBool>,
    /// Nothing is to be written any more: then whatever asks to end simply ends.
    is_over: Arc<AtomicBool>,
    /// The terminal sends what its keys mean to the command as well.
    reaches_command: bool,
}

impl Interruptions {
    pub(crate) fn watch() -> Result<Self> {
        let (is_asked, is_by_keyboard) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        // Before the other flag: who sees that one set sees why.
        signal_hook::flag::register(SIGINT, Arc::clone(&is_by_keyboard))?;
        let is_over = Arc::<AtomicBool>::default();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        // Under nohup a closed terminal is no reason to end.
        let hangup = (!ignores(&status, SIGHUP)).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&is_over))?;
            signal_hook::flag::register(signal, Arc::clone(&is_asked))?;
        }
        let reaches_command = flamelet_record::signal::is_in_foreground();
        Ok(Self { is_asked, is_by_keyboard, is_over, reaches_command })
    }

    /// Set when the recording should end.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.is_asked
    }

    /// Whether the command should have a process group of its own. In the foreground of a terminal it must share ours,
    /// or it would be stopped when it reads from there.
    pub(crate) fn shield_command(&self) -> bool {
        !self.reaches_command
    }

    /// Lets the next one end this process.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked since this was called last.
    pub(crate) fn take(&self) -> bool {
        self.is_asked.swap(false, Ordering::Relaxed)
    }
}

/// A command that goes on when its recording has ended, and was asked to end too.
pub(crate) struct Ending {
    command: RunningCommand,
    asked: Instant,
    times: u32,
}

impl Ending {
    /// Asks `command` to end, after an interruption as that does it.
    pub(crate) fn ask(command: RunningCommand, was_interrupted: bool, by: &Interruptions) -> Self {
        let is_by_keyboard = was_interrupted && by.is_by_keyboard.swap(false, Ordering::Relaxed);
        match is_by_keyboard {
            // The terminal has asked it already, and some take a second time for impatience.
            true if by.reaches_command => {}
            true => command.ask_to_end(Signal::Interrupt),
            false => command.ask_to_end(Signal::Terminate),
        }
        Self { command, asked: Instant::now(), times: 1 }
    }

    /// Waits for the end, with everything written. `None` when it is left running.
    pub(crate) fn wait(mut self, by: &Interruptions) -> Result<Option<ExitStatus>> {
        let id = self.command.id();
        let mut was_told = false;
        loop {
            if let Some(status) = self.command.try_wait()? {
                return Ok(Some(status));
            }
            if !was_told {
                was_told = true;
                note!("Waiting for the command (process {id}) to end; Ctrl-C ends it sooner");
            }
            if by.take() {
                self.ask_again();
            }
            if self.asked.elapsed() >= PATIENCE {
                note!(
                    "The command (process {id}) does not end, and is left running; kill -KILL {id} ends it"
                );
                return Ok(None);
            }
            std::thread::park_timeout(LOOK);
        }
    }

    /// Waits for the end, and ends a command that takes too long: another run is to follow. `None` when somebody
    /// asked to end meanwhile, and none is to follow.
    pub(crate) fn make_room(&mut self, by: &Interruptions) -> Result<Option<ExitStatus>> {
        while !by.take() {
            if let Some(status) = self.command.try_wait()? {
                return Ok(Some(status));
            }
            if self.asked.elapsed() >= PATIENCE {
                self.command.ask_to_end(Signal::Kill);
            }
            std::thread::park_timeout(LOOK);
        }
        Ok(None)
    }

    fn ask_again(&mut self) {
        let how = if self.times < 2 { Signal::Terminate } else { Signal::Kill };
        self.command.ask_to_end(how);
        self.times += 1;
        self.asked = Instant::now();
    }
}

/// Whether a process with this `/proc/PID/status` ignores `signal`.
fn ignores(status: &str, signal: i32) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|ignored| u64::from_str_radix(ignored.trim(), 16).ok());
    ignored.is_some_and(|ignored| ignored & (1 << (signal - 1)) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_noticed() {
        assert!(ignores("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n", SIGHUP));
        assert!(!ignores("Name:\tx\nSigIgn:\t0000000000001000\n", SIGHUP));
        assert!(!ignores("", SIGHUP));
    }
}
