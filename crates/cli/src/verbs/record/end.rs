//! Ends the command when its recording is over, and handles Ctrl-C.
//!
//! ```text
//! Ctrl-C, or the duration is over ──► the recording ends, the command is asked to end (as by Ctrl-C, or SIGTERM)
//!                                     the profile is written; then the command is waited for:
//!    Ctrl-C again: SIGTERM;  once more: SIGKILL;  after some seconds it is left running, and a note says so
//! ```

use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flamelet_record::RunningCommand;
use flamelet_record::signal::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::Result;

/// How long to wait for a command that was asked to end.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// Ctrl-C and the other requests to end: a closed terminal, a service manager.
pub(crate) struct Interruptions {
    is_asked: Arc<AtomicBool>,
    is_by_keyboard: Arc<AtomicBool>,
    /// Set when there is nothing left to write: then the next signal ends this process.
    is_over: Arc<AtomicBool>,
    /// The terminal sends Ctrl-C to the command as well.
    reaches_command: bool,
}

impl Interruptions {
    pub(crate) fn watch() -> Result<Self> {
        let (is_asked, is_by_keyboard) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        // Registered before the other flag, so that it is always set first.
        signal_hook::flag::register(SIGINT, Arc::clone(&is_by_keyboard))?;
        let is_over = Arc::<AtomicBool>::default();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        // Under nohup, a closed terminal is no reason to end.
        let hangup = (!ignores(&status, SIGHUP)).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&is_over))?;
            signal_hook::flag::register(signal, Arc::clone(&is_asked))?;
        }
        let reaches_command = flamelet_record::signal::is_in_foreground();
        Ok(Self { is_asked, is_by_keyboard, is_over, reaches_command })
    }

    /// Returns the flag that is set when the recording should end.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.is_asked
    }

    /// Returns the same flag for another thread.
    pub(crate) fn shared_flag(&self) -> Arc<AtomicBool> {
        self.is_asked.clone()
    }

    /// Returns whether the command should have its own process group. In the foreground of a terminal it must share
    /// ours, or it would be stopped when it reads from the terminal.
    pub(crate) fn shield_command(&self) -> bool {
        !self.reaches_command
    }

    /// Lets the next signal end this process.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Returns whether there was a request to end since the last call.
    pub(crate) fn take(&self) -> bool {
        self.is_asked.swap(false, Ordering::Relaxed)
    }
}

/// A command that still runs after its recording, and was asked to end.
pub(crate) struct EndingCommand {
    command: RunningCommand,
    asked: Instant,
    times: u32,
}

impl EndingCommand {
    /// Asks `command` to end: after an interruption with the same signal.
    pub(crate) fn ask(command: RunningCommand, was_interrupted: bool, by: &Interruptions) -> Self {
        let is_by_keyboard = was_interrupted && by.is_by_keyboard.swap(false, Ordering::Relaxed);
        match is_by_keyboard {
            // The terminal has already sent it, and some programs treat a second one as a demand to quit at once.
            true if by.reaches_command => {}
            true => command.ask_to_end(Signal::Interrupt),
            false => command.ask_to_end(Signal::Terminate),
        }
        Self { command, asked: Instant::now(), times: 1 }
    }

    /// Waits for the command to end, after everything is written. Returns `None` if it is left running.
    pub(crate) fn wait(mut self, by: &Interruptions) -> Result<Option<ExitStatus>> {
        let id = self.command.id();
        let mut was_told = false;
        loop {
            if let Some(status) = self.command.try_wait()? {
                return Ok(Some(status));
            }
            if !was_told {
                was_told = true;
                note!("Waiting for the command (process {id}) to exit; press Ctrl-C to stop it now");
            }
            if by.take() {
                self.ask_again();
            }
            if self.asked.elapsed() >= PATIENCE {
                note!(
                    "The command (process {id}) does not exit and is left running; stop it with: kill -KILL {id}"
                );
                return Ok(None);
            }
            std::thread::park_timeout(LOOK);
        }
    }

    /// Waits for the command to end, and kills it if it takes too long, because another run follows. Returns `None`
    /// if the user interrupts meanwhile, so that none follows.
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

/// Returns whether a process with this `/proc/PID/status` ignores `signal`.
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
