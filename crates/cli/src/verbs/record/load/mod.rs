//! A load generator that runs during a recording, from when the recorded command is ready.
//!
//! ```text
//! the recording begins ──► the command is ready (start) ──► the load runs ──► the recording ends, and so does the load
//!                                                              └ fails at once: the recording ends too
//! ```

mod output;
mod start;

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flamelet_profile::Profile;
use flamelet_record::signal::{Signal, send_to_all};

use super::Args;
use crate::error::{About, Failure, Result};
use output::{Tail, copy};
pub(crate) use start::LoadAfter;
use start::{Readiness, Starting};

/// How often to look at the command and at the load.
const LOOK: Duration = Duration::from_millis(20);
/// A load that fails within this time never put any load on the command.
const AT_ONCE: Duration = Duration::from_secs(2);

/// A load generator of one run; dropping it ends it and everything it started.
pub(crate) struct Load {
    shared: Arc<SharedLoad>,
    thread: Option<JoinHandle<()>>,
    readiness: Readiness,
}

struct SharedLoad {
    command: String,
    is_over: AtomicBool,
    /// Set to end the recording.
    stop: Arc<AtomicBool>,
    findings: Mutex<Findings>,
}

/// What became of the load.
#[derive(Clone, Default)]
struct Findings {
    /// When and why it was started.
    started: Option<String>,
    /// Why it failed, and whether it failed at once.
    failure: Option<(String, bool)>,
}

impl Load {
    /// Prepares the load that `args` describe. It is started once what is recorded is ready; `stop` is set if it fails at
    /// once.
    pub(crate) fn prepare(args: &Args, stop: Arc<AtomicBool>) -> Result<Option<Self>> {
        let Some(command) = args.load.clone() else { return Ok(None) };
        let readiness = Readiness::new(args)?;
        let shared = Arc::new(SharedLoad {
            command,
            is_over: AtomicBool::new(false),
            stop,
            findings: Mutex::default(),
        });
        let (theirs, starting) = (shared.clone(), readiness.starting());
        let thread = std::thread::Builder::new().name("flamelet-load".to_owned());
        let thread = thread.spawn(move || theirs.run(&starting)).about("--load")?;
        Ok(Some(Self { shared, thread: Some(thread), readiness }))
    }

    /// Watches the output of the command that is recorded, if the load waits for a text in it.
    pub(crate) fn watch_output(&self, command: &mut Command) -> Result<()> {
        self.readiness.watch_output(command)
    }

    /// Ends the load and notes in the profile what became of it. Returns an error if it failed at once.
    pub(crate) fn finish(mut self, profile: &mut Profile) -> Result<()> {
        self.end();
        let Findings { started, failure } = self.shared.findings().clone();
        let command = &self.shared.command;
        match &started {
            Some(when) => profile.add_comment(&format!("load: {command} (started {when})")),
            None if failure.is_none() => {
                let never = "it was not started: the recording ended before the command was ready";
                profile.add_comment(&format!("load: {command} ({never})"));
                note!("flamelet: --load: {never}; see --load-after");
            }
            None => {}
        }
        let Some((why, at_once)) = failure else { return Ok(()) };
        profile.add_comment(&format!("the load generator failed: {why}"));
        if at_once {
            return Err(Failure::new(format!("--load '{command}' failed: {why}")));
        }
        note!("flamelet: the load generator ended before the recording: {why}");
        Ok(())
    }

    fn end(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It reports its own failures.
            let _ = thread.join();
        }
        self.readiness.end();
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}

impl SharedLoad {
    fn findings(&self) -> std::sync::MutexGuard<'_, Findings> {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Waits until the load can start, runs it, and watches it until it or the recording is over.
    fn run(&self, starting: &Starting) {
        let began = Instant::now();
        let reason = loop {
            if self.is_over() {
                return;
            }
            match starting.reason(began) {
                Some(reason) => break reason,
                None => std::thread::park_timeout(LOOK),
            }
        };
        self.findings().started = Some(format!("after {:.1} s: {reason}", began.elapsed().as_secs_f64()));
        match Shell::start(&self.command) {
            Ok(shell) => self.watch(shell),
            Err(error) => self.fail(error.to_string(), true),
        }
    }

    fn watch(&self, mut shell: Shell) {
        let started = Instant::now();
        while !self.is_over() {
            if let Some(status) = shell.failure() {
                let at_once = started.elapsed() < AT_ONCE;
                let said = shell.last_words();
                let said = if said.is_empty() { String::new() } else { format!(": {said}") };
                self.fail(format!("{status}{said}"), at_once);
                return;
            }
            std::thread::park_timeout(LOOK);
        }
    }

    fn fail(&self, why: String, at_once: bool) {
        self.findings().failure = Some((why, at_once));
        if at_once {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// The running load; dropping it ends it and everything it started.
struct Shell {
    shell: Child,
    output: Tail,
    errors: Tail,
    copying: Vec<JoinHandle<()>>,
}

impl Shell {
    /// Starts `command` in a shell, in its own process group.
    fn start(command: &str) -> std::io::Result<Self> {
        let (from_output, their_output) = std::io::pipe()?;
        let (from_errors, their_errors) = std::io::pipe()?;
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::null()).process_group(0);
        let shell = shell.stdout(their_output).stderr(their_errors).spawn()?;
        let (output, errors) = (Tail::default(), Tail::default());
        let (to_output, to_errors) = (output.clone(), errors.clone());
        let copying = vec![
            copy(from_output, std::io::stdout(), move |bytes| to_output.add(bytes))?,
            copy(from_errors, std::io::stderr(), move |bytes| to_errors.add(bytes))?,
        ];
        Ok(Self { shell, output, errors, copying })
    }

    /// Returns its status if it has failed. It is not waited for yet, so that its process group id is not reused.
    fn failure(&self) -> Option<ExitStatus> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.shell.id())).ok()?;
        failed(&stat)
    }

    /// Returns the last line of its error output, or else of its output. (The two are read by two threads, so it is unknown
    /// which line of both came last.)
    fn last_words(&mut self) -> String {
        output::wait_for(&mut self.copying);
        [&self.errors, &self.output]
            .map(Tail::last_line)
            .into_iter()
            .find(|line| !line.is_empty())
            .unwrap_or_default()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        send_to_all(self.shell.id(), Signal::Terminate);
        // The shell itself may be waiting for a process that ignores the signal.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
        output::wait_for(&mut self.copying);
    }
}

/// Returns the status of a process that has ended and failed, from its `/proc/PID/stat`.
fn failed(stat: &str) -> Option<ExitStatus> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let has_ended = fields.starts_with('Z');
    let status = fields.split_whitespace().next_back().and_then(|status| status.parse().ok())?;
    Some(ExitStatus::from_raw(status)).filter(|status| has_ended && !status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_ended_can_have_failed() {
        assert_eq!(failed("12 (sh) x) Z 1 2 0 32512").and_then(|status| status.code()), Some(127));
        assert_eq!(failed("12 (sh) Z 1 2 0 0"), None);
        assert_eq!(failed("12 (sh) S 1 2 0 32512"), None);
        assert_eq!(failed(""), None);
    }
}
