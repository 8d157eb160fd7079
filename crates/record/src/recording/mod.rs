//! The course of a recording, from the options to the profile.

use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use flamelet_profile::Profile;
use flamelet_symbol::symbolize;
use flamelet_unwind::perf_event::flag;

use crate::assemble::Columns;
use crate::checkpoint::Saver;
use crate::collect::{Collector, Counters, Findings, SharedModules};
use crate::drain::batch::BatchDrain;
use crate::drain::eager::EagerDrain;
use crate::drain::{self, Message, Outlet, Pace};
use crate::events::chunk::Backlog;
use crate::events::plan::{EventSource, Plan, PlannedEvent};
use crate::events::session::{CpuRings, Session};
use crate::events::watch;
use crate::names::Background;
use crate::sys::event::{PerfEvent, Watch};
use crate::sys::machine;
use crate::sys::process::{Waiting, open_pidfd};
use crate::{Completion, Error, ErrorKind, Progress, RecordOptions, Result, Summary, Target, processes};

mod ending;
mod running;
mod worker;

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

/// How often to check `stop`.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// The same at the start, to find out early whether stacks are cut.
const EARLY_LOOK: Duration = Duration::from_millis(2);
const EARLY: Duration = Duration::from_millis(200);
/// How often to report progress.
pub(crate) const TELL: Duration = Duration::from_millis(200);
/// From this many stacks on, the share of cut ones is trusted.
const ENOUGH_STACKS: u64 = 25;
/// From this many stacks on that not even the largest dump could hold, more of them are expected: the program has frames
/// that large, and spends time below them. If its unwind table has such a frame, the first one is enough.
const ENOUGH_HOPELESS: u64 = 2;
/// One in this many stacks may be cut before the eager drain takes over.
const TOLERATED_CUTS: u64 = 50;

/// How many stacks of CPU samples were taken, were larger than their dump, and than any dump.
#[derive(Clone, Copy, Debug)]
struct Cuts {
    stacks: u64,
    cut: u64,
    hopeless: u64,
}

impl Cuts {
    /// Returns whether the eager drain should take over. `has_huge_frames`: the program is known to have a frame that is
    /// larger than any dump.
    fn call_for_eager(self, has_huge_frames: bool) -> bool {
        let Self { stacks, cut, hopeless } = self;
        if has_huge_frames && hopeless > 0 {
            return true;
        }
        let is_certain = stacks >= ENOUGH_STACKS || hopeless >= ENOUGH_HOPELESS;
        is_certain && cut * TOLERATED_CUTS > stacks
    }
}

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
    modules: SharedModules,
    counters: Arc<Counters>,
    columns: Columns,
    /// These become readable when the target ends.
    ends: Vec<OwnedFd>,
    started: Instant,
    start_nanos: i64,
    drain_cpu_nanos: u64,
    was_eager: bool,
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
        let (modules, counters) = (SharedModules::default(), Arc::new(Counters::default()));
        let start_nanos = unix_nanos();
        let findings = Findings::new(modules.clone(), counters.clone(), options.max_moments);
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
        let outlet = Outlet::new(messages.clone(), backlog.clone(), Pace::new(options.off_cpu));
        let drain = Drain::Batch(BatchDrain::start(rings, outlet, &modules, &session.origins())?);
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
            modules,
            counters,
            columns,
            ends: Vec::new(),
            started: Instant::now(),
            start_nanos,
            drain_cpu_nanos: 0,
            was_eager: false,
            notes,
        })
    }

    /// Opens the events and starts them.
    fn start(&mut self) -> Result<()> {
        let events = self.plan.events.clone();
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
        if self.options.completion == Completion::Eager {
            self.become_eager();
        }
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
            if !self.was_eager && self.options.completion == Completion::Auto && self.many_are_cut() {
                self.become_eager();
            }
        }
    }

    fn progress(&self) -> Progress {
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Progress {
            elapsed: self.started.elapsed(),
            samples: count(&self.counters.samples),
            lost: count(&self.counters.lost),
            syscalls: count(&self.counters.syscalls),
            cut: count(&self.counters.cut),
            is_eager: matches!(self.drain, Drain::Eager(_)),
        }
    }

    fn many_are_cut(&self) -> bool {
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let (stacks, cut) = (count(&self.counters.stacks), count(&self.counters.cut));
        let hopeless = cut.saturating_sub(count(&self.counters.cut_nearby));
        self.options.cpu && Cuts { stacks, cut, hopeless }.call_for_eager(self.awaits_huge_frames())
    }

    /// Returns whether the eager drain is needed as soon as the program runs below a frame that its unwind table knows to
    /// be larger than any dump.
    fn awaits_huge_frames(&self) -> bool {
        let is_watched = !matches!(self.watched, WatchTarget::Everything);
        let may_switch = !self.was_eager && self.options.completion == Completion::Auto && self.options.cpu;
        may_switch && is_watched && self.modules.has_huge_frames()
    }

    /// Reopens the CPU events so that each sample wakes a drain, and starts a drain on every CPU.
    fn become_eager(&mut self) {
        self.was_eager = true;
        if let Err(error) = self.try_become_eager() {
            self.notes.push(format!("large stacks are cut off: {error}"));
        }
    }

    fn try_become_eager(&mut self) -> Result<()> {
        let Some(planned) = self.plan.event(EventSource::Cpu).copied() else { return Ok(()) };
        let mut attr = planned.attr.without(flag::ENABLE_ON_EXEC);
        attr.wakeup = 1;
        // A larger dump, for samples that are drained too late to read the live stack.
        let cut = self.counters.cut.load(Ordering::Relaxed);
        if self.counters.cut_nearby.load(Ordering::Relaxed) * 2 > cut {
            attr.sample_stack_user = attr.sample_stack_user.max(RecordOptions::MAX_DUMP);
        }
        let events = [PlannedEvent { attr, ..planned }];
        let everything = matches!(self.watched, WatchTarget::Everything);
        let pids = self.living();
        self.session.replace(EventSource::Cpu, |session| {
            if everything {
                session.watch(Watch::Everything, &events).map(usize::from)
            } else {
                // Processes forked a moment ago are not in the records read so far.
                watch::watch_families(session, &pids, &events)
            }
        })?;
        let Drain::Batch(batch) = std::mem::replace(&mut self.drain, Drain::None) else { return Ok(()) };
        let drained = batch.finish()?;
        self.drain_cpu_nanos += drained.cpu_nanos;
        let rings: Vec<CpuRings> = drained.rings;
        let outlets = rings.iter().map(|_| self.outlet()).collect();
        let origins = self.session.origins();
        match EagerDrain::start(rings, outlets, &self.modules, &origins) {
            Ok(eager) => {
                self.drain = Drain::Eager(eager);
                Ok(())
            }
            Err((error, rings)) => {
                self.drain = Drain::Batch(BatchDrain::start(rings, self.outlet(), &self.modules, &origins)?);
                Err(error)
            }
        }
    }

    fn outlet(&self) -> Outlet {
        Outlet::new(self.messages.clone(), self.backlog.clone(), Pace::new(self.options.off_cpu))
    }

    /// Returns the watched processes that are alive.
    fn living(&self) -> Vec<u32> {
        let mut pids = self.modules.pids();
        pids.retain(|&pid| pid != 0);
        match &self.watched {
            WatchTarget::Processes(first) => pids.extend(first),
            WatchTarget::Running(child) => pids.push(child.id()),
            _ => {}
        }
        pids.sort_unstable();
        pids.dedup();
        pids
    }
}

impl WatchTarget {
    fn new(options: &mut RecordOptions) -> Result<Self> {
        match &mut options.target {
            Target::Pids(pids) => {
                *pids = processes::processes(pids)?;
                Ok(Self::Processes(pids.clone()))
            }
            Target::Command(command) => {
                let command = std::mem::replace(command, Command::new(""));
                let program = command.get_program().to_string_lossy().into_owned();
                let waiting = Waiting::fork(command, options.shield_command);
                waiting.map(Self::Waiting).map_err(|error| command_failed(&program, &error))
            }
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
}

fn exit_watch_failed(pid: u32, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("process {pid}: cannot watch for its exit (pidfd_open): {error}"))
}

/// Nanoseconds since 1970.
pub(crate) fn unix_nanos() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    i64::try_from(since).unwrap_or(0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eager_drain_takes_over_when_stacks_are_cut() {
        let calls = |stacks, cut, hopeless, has_huge| Cuts { stacks, cut, hopeless }.call_for_eager(has_huge);
        assert!(calls(1, 1, 1, true), "the table knows that more will follow");
        assert!(!calls(1, 1, 1, false), "one may be an accident");
        assert!(calls(1000, 1, 1, true) && !calls(1000, 1, 1, false));
        assert!(!calls(1000, 0, 0, true), "a huge frame that never runs costs nothing");
        assert!(calls(2, 2, 2, false));
        assert!(!calls(20, 5, 0, false) && calls(30, 5, 0, false));
    }
}
