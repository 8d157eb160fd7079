//! Records system calls without tracepoints: with ptrace, as strace does.
//!
//! ```text
//! caller's thread: looks at stop and duration ──drops the bell──► alarm child ends ─┐
//! flamelet-trace:  seizes, waits, counts, resumes ◄──────────────────────────────────┘
//! ```
//!
//! A tracee stops at the beginning and the end of every call, even if only some calls are requested
//! (`-e syscalls:sys_enter_openat`). A seccomp filter could let the others pass at full speed, but it stays for as
//! long as the command lives, and if the recorder is killed, the calls that it selects fail. ptrace ends with the
//! tracer and leaves the tracee as it was.

mod arguments;
mod stacks;
mod tracer;
mod wanted;

use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Instant;

use flamelet_profile::moment;

use crate::access::tracefs;
use crate::assemble::Columns;
use crate::checkpoint::Saver;
use crate::collect::{Counters, Findings};
use crate::names::Background;
use crate::recording::{Ending, LOOK, TELL, command_failed, fork_command};
use crate::sys::event::PerfEvent;
use crate::sys::process::Waiting;
use crate::{
    CommandEnd, Error, ErrorKind, Progress, RecordOptions, Recorded, Result, Target, access, processes,
};
use tracer::Tracer;
use wanted::WantedCalls;

/// How a recording is made.
pub(crate) enum Way {
    /// By events. Events opened as a trial are kept until the recording's own are open, see
    /// [`crate::events::plan::Plan`].
    Events(Option<PerfEvent>),
    /// By ptrace, and why.
    Ptrace(String),
}

/// Chooses ptrace if only system calls are requested and this user has no tracepoints.
pub(crate) fn way(options: &RecordOptions) -> Way {
    if options.arguments {
        return Way::Ptrace("arguments are read while the program is stopped".to_owned());
    }
    let only_calls = !options.cpu && !options.off_cpu && WantedCalls::of(options).is_some();
    if !only_calls || matches!(options.target, Target::All) {
        return Way::Events(None);
    }
    let refused = |error| access::explain(&error, "no tracepoints", access::level::TRACEPOINTS);
    let tried = tracefs::tracepoint_id("raw_syscalls", "sys_enter")
        .and_then(|id| access::try_tracepoint(id).map_err(refused));
    match tried {
        Ok(event) => Way::Events(Some(event)),
        Err(error) => Way::Ptrace(error.to_string()),
    }
}

/// The results of the tracing thread.
struct Traced {
    findings: Findings,
    cpu_nanos: u64,
    save_failure: Option<std::io::Error>,
}

/// What to trace, once it is known to exist.
enum TraceTarget {
    Processes(Vec<u32>),
    Command(Waiting),
}

/// Records by ptrace until the target ends, the duration is over or `stop` is set.
pub(crate) fn record(
    mut options: RecordOptions,
    why: &str,
    progress: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
) -> Result<Recorded> {
    let wanted =
        WantedCalls::of(&options).ok_or_else(|| Error::new(ErrorKind::InvalidOption, "no system calls"))?;
    let target = TraceTarget::new(&mut options)?;
    let counters = Arc::new(Counters::default());
    let columns = Columns::new(&options);
    let (start_nanos, started) = (moment::now(), Instant::now());
    let status = Arc::new(OnceLock::new());
    let tracer = Tracer::new(wanted, counters.clone(), status.clone(), &options);
    let saver = options.checkpoint.take().map(Saver::new);
    let tracing = Tracing::start(tracer, target, saver, columns.clone(), start_nanos)?;
    let (traced, child) = tracing.wait(&options, started, &counters, progress, stop)?;
    let background = Background::start(options.symbolize.clone())?;
    background.questions().ask(&traced.findings.stacks, 0);
    let ending = Ending {
        options: &options,
        engine: "ptrace",
        with_kernel: false,
        columns: &columns,
        start_nanos,
        elapsed: started.elapsed(),
        running_nanos: 0,
        own_cpu_nanos: traced.cpu_nanos,
        findings: &traced.findings,
    };
    let note = format!(
        "system calls were traced by ptrace, which slows the program down and lengthens their times: {why}"
    );
    let (profile, summary, symbols) =
        ending.finish(background.finish(), &counters, vec![note], traced.save_failure);
    let command = child.map(|child| end_of(child, &status)).transpose()?;
    Ok(Recorded { profile, summary, symbols, command })
}

/// The tracer learns of the end of its tracees first; one that was detached ends like any child.
fn end_of(mut child: Child, status: &OnceLock<ExitStatus>) -> Result<CommandEnd> {
    let told = status.get().copied();
    let status = told.map_or_else(|| child.try_wait(), |status| Ok(Some(status)))?;
    Ok(CommandEnd::new(child, status))
}

impl TraceTarget {
    fn new(options: &mut RecordOptions) -> Result<Self> {
        match &mut options.target {
            Target::Command(command) => fork_command(command, options.shield_command).map(Self::Command),
            Target::Pids(pids) => {
                *pids = processes::processes(pids)?;
                Ok(Self::Processes(processes::families(pids)))
            }
            Target::All => Err(Error::new(ErrorKind::InvalidOption, "ptrace cannot follow every process")),
        }
    }
}

/// The tracing thread, as the caller sees it.
struct Tracing {
    found: mpsc::Receiver<Traced>,
    /// Dropped to end the tracing.
    bell: Option<std::io::PipeWriter>,
    child: Option<Child>,
}

impl Tracing {
    fn start(
        tracer: Tracer,
        target: TraceTarget,
        saver: Option<Saver>,
        columns: Columns,
        start_nanos: i64,
    ) -> Result<Self> {
        let (send, found) = mpsc::channel();
        let (tell, began) = mpsc::channel();
        let pid = match &target {
            TraceTarget::Command(waiting) => Some(waiting.pid()),
            TraceTarget::Processes(_) => None,
        };
        let pids = match &target {
            TraceTarget::Processes(pids) => pids.clone(),
            TraceTarget::Command(_) => Vec::new(),
        };
        std::thread::Builder::new().name("flamelet-trace".to_owned()).spawn(move || {
            let saving = tracer::Saving { saver, columns, start_nanos };
            tracer.run(pid, &pids, &tell, &send, saving);
        })?;
        let failed = |_| Error::new(ErrorKind::Io, "the tracing thread failed");
        let bell = began.recv().map_err(failed)??;
        let child = match target {
            TraceTarget::Command(waiting) => {
                let program = waiting.program().to_owned();
                Some(waiting.release().map_err(|error| command_failed(&program, &error))?)
            }
            TraceTarget::Processes(_) => None,
        };
        Ok(Self { found, bell: Some(bell), child })
    }

    /// Waits until the target ends, the duration is over or `stop` is set.
    fn wait(
        mut self,
        options: &RecordOptions,
        started: Instant,
        counters: &Counters,
        progress: &mut dyn FnMut(&Progress),
        stop: &AtomicBool,
    ) -> Result<(Traced, Option<Child>)> {
        let mut told = Instant::now();
        loop {
            let left = options.duration.map(|duration| duration.saturating_sub(started.elapsed()));
            let found = self.found.recv_timeout(left.unwrap_or(LOOK).min(LOOK));
            if told.elapsed() >= TELL || found.is_ok() {
                told = Instant::now();
                let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
                progress(&Progress {
                    elapsed: started.elapsed(),
                    samples: count(&counters.samples),
                    syscalls: count(&counters.syscalls),
                    ..Progress::default()
                });
            }
            match found {
                Ok(traced) => return Ok((traced, self.child)),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(Error::new(ErrorKind::Io, "the tracing thread failed"));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            if stop.load(Ordering::Relaxed) || left.is_some_and(|left| left.is_zero()) {
                self.bell = None;
            }
        }
    }
}
