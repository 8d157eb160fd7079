//! The course of a recording, from the options to the profile.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flamelet_profile::{Profile, moment};
use flamelet_symbol::symbolize;

use crate::assemble::Columns;
use crate::checkpoint::Saver;
use crate::collect::{Collector, Findings, SharedModules};
use crate::drain::batch::BatchDrain;
use crate::drain::eager::EagerDrain;
use crate::drain::{self, DrainContext, DrainPace, Message, Outlet};
use crate::events::chunk::Backlog;
use crate::events::plan::{EventSource, Plan};
use crate::events::session::{CpuRings, Session};
use crate::events::watch;
use crate::names::Background;
use crate::sys::event::{PerfEvent, Watch};
use crate::sys::machine;
use crate::sys::process::{Waiting, find_program, open_pidfd};
use crate::{Error, ErrorKind, Progress, RecordOptions, Result, Summary, Target, processes};

mod completion;
mod ending;
mod running;
mod worker;

use completion::CompletionState;
pub(crate) use ending::Ending;
pub use running::RunningCommand;

/// A finished recording.
#[derive(Debug)]
pub struct Recorded {
    /// The profile, with names if they were requested.
    pub profile: Profile,
    /// The summary of the recording.
    pub summary: Summary,
    /// What was found out about names; `None` if they were not requested.
    pub symbols: Option<symbolize::SymbolizeSummary>,
    /// What became of the command; `None` if there was none.
    pub command: Option<CommandEnd>,
}

/// What became of the command.
#[derive(Debug)]
pub enum CommandEnd {
    /// It ended.
    Exited(ExitStatus),
    /// The recording ended first; the caller decides what happens to it.
    Running(RunningCommand),
}

impl CommandEnd {
    /// Returns what became of `child`, which has this status if it has ended.
    pub(crate) fn new(child: Child, status: Option<ExitStatus>) -> Self {
        status.map_or_else(|| Self::Running(child.into()), Self::Exited)
    }
}

/// How often to check `stop`.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// The same at the start, to find out early whether stacks are cut.
const EARLY_LOOK: Duration = Duration::from_millis(2);
const EARLY: Duration = Duration::from_millis(200);
/// How often to report progress.
pub(crate) const TELL: Duration = Duration::from_millis(200);

/// Records with events. Events opened as a trial are kept until the recording's own are open.
pub(crate) fn record(
    options: RecordOptions,
    tried: Option<PerfEvent>,
    progress: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
) -> Result<Recorded> {
    let mut recording = Recording::prepare(options)?;
    recording.start()?;
    drop(tried);
    recording.wait(progress, stop)?;
    recording.finish()
}

/// What the recording watches, once it is known to exist.
enum WatchTarget {
    Processes(Vec<u32>),
    Waiting(Waiting),
    Running(Child),
    Everything,
    /// A placeholder during transitions.
    Nothing,
}

enum Drain {
    Batch(BatchDrain),
    Eager(EagerDrain),
    /// A placeholder during transitions.
    None,
}

struct Recording {
    options: RecordOptions,
    watched: WatchTarget,
    session: Session,
    /// Dropped after the session, whose events may belong to its probes.
    plan: Plan,
    drain: Drain,
    messages: mpsc::Sender<Message>,
    backlog: Backlog,
    collector: JoinHandle<worker::WorkerOutput>,
    background: Background,
    context: DrainContext,
    columns: Columns,
    /// These become readable when the target ends.
    ends: Vec<OwnedFd>,
    started: Instant,
    start_nanos: i64,
    drain_cpu_nanos: u64,
    completion: CompletionState,
    notes: Vec<String>,
}

impl Recording {
    fn prepare(mut options: RecordOptions) -> Result<Self> {
        let watched = WatchTarget::new(&mut options)?;
        let cpus = machine::online_cpus();
        let plan = Plan::new(&options, watched.first(), cpus.first().copied().unwrap_or(0))?;
        let (session, rings) = Session::new(&plan, options.ring_bytes)?;
        let mut notes = plan.notes.clone();
        let got = rings.first().map_or(0, |ring| ring.samples.size());
        if got < 4 * options.dump_bytes as usize {
            notes.push(format!(
                "rings of only {} KiB: samples may be lost (raise `ulimit -l` or kernel.perf_event_mlock_kb)",
                got >> 10
            ));
        }
        let origins = session.origins();
        let context = DrainContext { modules: SharedModules::default(), origins, counters: Arc::default() };
        let start_nanos = moment::now();
        let DrainContext { modules, counters, .. } = &context;
        let mut findings = Findings::new(modules.clone(), counters.clone(), options.max_moments);
        let images = &mut findings.stacks.spaces.images;
        watched.programs().iter().for_each(|path| images.learn(path));
        let completion = CompletionState::new(&options, images.has_huge_frames());
        let period = 1_000_000_000 / u64::from(options.frequency);
        let collector = Collector::new(rings.len() * drain::RINGS, session.origins(), period, findings);
        let columns = Columns::new(&options);
        let background = Background::start(options.symbolize.clone())?;
        let (messages, inbox) = mpsc::channel();
        let worker = worker::Worker {
            collector,
            questions: background.questions(),
            saver: options.checkpoint.take().map(Saver::new),
            columns: columns.clone(),
            start_nanos,
        };
        let collector = worker.start(inbox)?;
        let backlog = Backlog::new(rings.iter().map(CpuRings::size).sum());
        let outlet = Outlet::new(messages.clone(), backlog.clone(), DrainPace::new(options.off_cpu));
        let drain = Drain::Batch(BatchDrain::start(rings, outlet, &context)?);
        Ok(Self {
            options,
            watched,
            plan,
            session,
            drain,
            messages,
            backlog,
            collector,
            background,
            context,
            columns,
            ends: Vec::new(),
            started: Instant::now(),
            start_nanos,
            drain_cpu_nanos: 0,
            completion,
            notes,
        })
    }

    /// Opens the events and starts them.
    fn start(&mut self) -> Result<()> {
        let mut events = self.plan.events.clone();
        if self.begin_completion() {
            let cpu = events.iter_mut().filter(|event| event.source == EventSource::Cpu);
            cpu.for_each(|event| event.attr.wakeup = 1);
        }
        match std::mem::replace(&mut self.watched, WatchTarget::Nothing) {
            WatchTarget::Waiting(waiting) => {
                let pid = waiting.pid();
                self.session.watch(Watch::Thread(pid), &events)?;
                self.ends.push(open_pidfd(pid)?);
                let program = waiting.program().to_owned();
                let child = waiting.release().map_err(|error| command_failed(&program, &error))?;
                self.watched = WatchTarget::Running(child);
            }
            WatchTarget::Processes(pids) => {
                watch::watch_families(&mut self.session, &pids, &events)?;
                self.session.enable()?;
                for &pid in &pids {
                    match open_pidfd(pid) {
                        Ok(end) => self.ends.push(end),
                        // One that has ended meanwhile has nothing left to watch.
                        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                        Err(error) => return Err(exit_watch_failed(pid, &error)),
                    }
                }
                for pid in processes::families(&pids) {
                    let with_waits = self.options.off_cpu;
                    let _ = self.messages.send(Message::Introduce { pid, with_waits });
                }
                self.watched = WatchTarget::Processes(pids);
            }
            watched => {
                self.session.watch(Watch::Everything, &events)?;
                self.session.enable()?;
                self.watched = watched;
            }
        }
        self.plan.tried.clear();
        Ok(())
    }

    /// Supervises the recording until it is over.
    fn wait(&mut self, progress: &mut dyn FnMut(&Progress), stop: &AtomicBool) -> Result<()> {
        let mut told = Instant::now();
        loop {
            let fds: Vec<i32> = self.ends.iter().map(AsRawFd::as_raw_fd).collect();
            let left = self.options.duration.map(|duration| duration.saturating_sub(self.started.elapsed()));
            let is_early = self.started.elapsed() < EARLY || self.awaits_huge_frames();
            let look = if is_early { EARLY_LOOK } else { LOOK };
            let ready = machine::poll(&fds, left.unwrap_or(look).min(look))?;
            if let Drain::Eager(eager) = &self.drain {
                eager.nudge();
            }
            let mut ended = ready.iter();
            self.ends.retain(|_| ended.next().is_none_or(|ready| !ready.readable && !ready.hung_up));
            let everything = matches!(self.watched, WatchTarget::Everything);
            let is_over = stop.load(Ordering::Relaxed)
                || left.is_some_and(|left| left.is_zero())
                || self.ends.is_empty() && !everything;
            if is_over || told.elapsed() >= TELL {
                told = Instant::now();
                progress(&self.progress());
            }
            if is_over {
                return Ok(());
            }
            self.review_completion()?;
        }
    }

    fn progress(&self) -> Progress {
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.context.counters;
        Progress {
            elapsed: self.started.elapsed(),
            samples: count(&counters.samples),
            lost: count(&counters.lost),
            syscalls: count(&counters.syscalls),
            cut: count(&counters.cut),
            is_eager: matches!(self.drain, Drain::Eager(_)),
        }
    }
}

impl WatchTarget {
    fn new(options: &mut RecordOptions) -> Result<Self> {
        match &mut options.target {
            Target::Pids(pids) => {
                *pids = processes::processes(pids)?;
                Ok(Self::Processes(pids.clone()))
            }
            Target::Command(command) => fork_command(command, options.shield_command).map(Self::Waiting),
            Target::All => Ok(Self::Everything),
        }
    }

    /// Returns where to try events before they are opened everywhere.
    fn first(&self) -> Watch {
        match self {
            Self::Processes(pids) => Watch::Thread(pids.first().copied().unwrap_or(0)),
            Self::Waiting(waiting) => Watch::Thread(waiting.pid()),
            _ => Watch::Everything,
        }
    }

    /// Returns the files of the programs that are watched, where they are known before the first sample.
    fn programs(&self) -> Vec<PathBuf> {
        match self {
            Self::Processes(pids) => pids.iter().map(|pid| format!("/proc/{pid}/exe").into()).collect(),
            Self::Waiting(waiting) => find_program(OsStr::new(waiting.program())).into_iter().collect(),
            _ => Vec::new(),
        }
    }
}

fn exit_watch_failed(pid: u32, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("process {pid}: cannot watch for its exit (pidfd_open): {error}"))
}

/// Starts the process of a command, which waits before it becomes the program. `command` is taken.
pub(crate) fn fork_command(command: &mut Command, shield: bool) -> Result<Waiting> {
    let command = std::mem::replace(command, Command::new(""));
    let program = command.get_program().to_string_lossy().into_owned();
    Waiting::fork(command, shield).map_err(|error| command_failed(&program, &error))
}

/// Explains why `program` could not be started.
pub(crate) fn command_failed(program: &str, error: &std::io::Error) -> Error {
    let why = match error.kind() {
        std::io::ErrorKind::NotFound => "no such program; check its name, or give its path".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    };
    Error::new(ErrorKind::NotFound, format!("{program}: cannot start the command: {why}"))
}
