//! The thread that waits for its tracees and resumes them.

use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

use super::Traced;
use super::arguments::{self, Surroundings};
use super::stacks::Skips;
use super::wanted::WantedCalls;
use crate::assemble::{self, Columns};
use crate::checkpoint::Saver;
use crate::collect::{ArgumentsId, CallKey, Counters, Findings, SharedModules};
use crate::events::ring_records::ThreadOf;
use crate::names::{FoundNames, calls};
use crate::sys::machine;
use crate::sys::memory::ProcessMemory;
use crate::sys::ptrace::{self, Alarm, Happened, SystemCall};
use crate::{Error, ErrorKind, RecordOptions, Result, access, processes};

#[derive(Default)]
struct Tracee {
    pid: u32,
    call: Option<CurrentCall>,
    stacks: u32,
    /// Its memory, once it was read.
    memory: Option<ProcessMemory>,
}

#[derive(Clone, Copy)]
struct CurrentCall {
    key: CallKey,
    /// When it began, if that was seen.
    since: Option<u64>,
}

/// A thread that is stopped at a call, for what its arguments refer to.
struct Stopped<'a> {
    tid: u32,
    memory: Option<&'a ProcessMemory>,
}

impl Surroundings for Stopped<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        self.memory.and_then(|memory| memory.read(address, into).ok()).unwrap_or(0)
    }

    fn descriptor(&self, number: i32) -> Option<Vec<u8>> {
        let link = std::fs::read_link(format!("/proc/{}/fd/{number}", self.tid)).ok()?;
        Some(link.into_os_string().into_vec())
    }
}

/// How the recording is saved while it runs.
pub(super) struct Saving {
    pub(super) saver: Option<Saver>,
    pub(super) columns: Columns,
    pub(super) start_nanos: i64,
}

/// Traces until the target ends or the alarm rings.
pub(super) struct Tracer {
    wanted: WantedCalls,
    findings: Findings,
    tracees: FxHashMap<u32, Tracee>,
    skips: Skips,
    with_arguments: bool,
    /// The command or the processes, as long as they live; the tracing ends without them.
    leaders: FxHashSet<u32>,
    /// The command, and where its exit status goes.
    command: Option<u32>,
    status: Arc<OnceLock<ExitStatus>>,
    /// When maps were last reread because of an address without a module, and how often those of each process.
    read_maps: (Instant, FxHashMap<u32, u32>),
}

impl Tracer {
    pub(super) fn new(
        wanted: WantedCalls,
        counters: Arc<Counters>,
        status: Arc<OnceLock<ExitStatus>>,
        options: &RecordOptions,
    ) -> Self {
        Self {
            wanted,
            findings: Findings::new(SharedModules::default(), counters, options.max_moments),
            with_arguments: options.arguments,
            tracees: FxHashMap::default(),
            skips: Skips::default(),
            leaders: FxHashSet::default(),
            command: None,
            status,
            read_maps: (Instant::now(), FxHashMap::default()),
        }
    }

    /// Seizes the command or the processes and reports that to `began`, with the bell that ends the tracing; finally
    /// detaches from them, and sends the findings.
    pub(super) fn run(
        mut self,
        command: Option<u32>,
        pids: &[u32],
        began: &mpsc::Sender<Result<std::io::PipeWriter>>,
        found: &mpsc::Sender<Traced>,
        mut saving: Saving,
    ) {
        self.command = command;
        self.leaders = command.iter().chain(pids).copied().collect();
        let alarm = match self.begin(command, pids) {
            Ok((alarm, bell)) => {
                let _ = began.send(Ok(bell));
                alarm
            }
            Err(error) => {
                let _ = began.send(Err(error));
                return;
            }
        };
        let has_rung = self.follow(&alarm, &mut saving);
        self.let_go();
        if !has_rung {
            alarm.cancel();
        }
        let save_failure = saving.saver.take().and_then(|saver| saver.failure);
        let cpu_nanos = machine::thread_cpu_nanos();
        let _ = found.send(Traced { findings: self.findings, cpu_nanos, save_failure });
    }

    fn begin(&mut self, command: Option<u32>, pids: &[u32]) -> Result<(Alarm, std::io::PipeWriter)> {
        let refused = |error: std::io::Error| access::explain_ptrace(&error);
        match command {
            // It is followed only from its exec on, which ptrace reports.
            Some(pid) => ptrace::seize(pid).map_err(refused)?,
            None => {
                self.seize_all(pids)?;
                let has_tracee = |pid: &u32| self.tracees.values().any(|tracee| tracee.pid == *pid);
                self.leaders = pids.iter().copied().filter(has_tracee).collect();
            }
        }
        Ok(Alarm::set()?)
    }

    /// Seizes and stops every thread of `pids`, including those that start meanwhile.
    fn seize_all(&mut self, pids: &[u32]) -> Result<()> {
        let mut seen = FxHashSet::default();
        loop {
            let mut found_more = false;
            for &pid in pids {
                for tid in processes::threads(pid) {
                    if seen.insert(tid) {
                        found_more = true;
                        self.seize(pid, tid)?;
                    }
                }
            }
            if !found_more {
                break;
            }
        }
        if self.tracees.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, "the process has ended"));
        }
        Ok(())
    }

    fn seize(&mut self, pid: u32, tid: u32) -> Result<()> {
        match ptrace::seize(tid) {
            Ok(()) => {
                self.tracees.insert(tid, Tracee { pid, ..Tracee::default() });
                let _ = ptrace::interrupt(tid);
                Ok(())
            }
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) || processes::has_ended(pid, tid) => {
                Ok(())
            }
            // A traced thread started it, so it is traced already.
            Err(_) if self.tracees.values().any(|tracee| tracee.pid == pid) => Ok(()),
            Err(error) => Err(access::explain_ptrace(&error)),
        }
    }

    /// Counts until the command or the processes have ended. Returns true if the alarm rang first.
    fn follow(&mut self, alarm: &Alarm, saving: &mut Saving) -> bool {
        loop {
            let Ok((tid, happened)) = ptrace::wait() else { return false };
            let now = machine::monotonic_nanos();
            if alarm.is(tid) {
                return true;
            }
            let to_call = self.take(tid, happened, now);
            self.go_on(tid, happened, to_call);
            if self.leaders.is_empty() {
                return false;
            }
            if let Some(saver) = &mut saving.saver {
                let (findings, columns) = (&self.findings, &saving.columns);
                let names = &mut FoundNames::default();
                saver.save_if_due(|| assemble::profile(findings, columns, names, saving.start_nanos));
            }
        }
    }

    /// Handles what happened. Returns whether the tracee should stop at the next beginning or end of a call.
    fn take(&mut self, tid: u32, happened: Happened, now: u64) -> bool {
        match happened {
            Happened::Ended(status) => {
                self.leaders.remove(&tid);
                if let Some(Tracee { pid, .. }) = self.tracees.remove(&tid) {
                    self.findings.ended(ThreadOf { pid, tid });
                    if pid == tid {
                        self.read_maps.1.remove(&pid);
                    }
                    // The first thread of a process may have ended before it was traced.
                    if self.leaders.contains(&pid) && !self.tracees.values().any(|other| other.pid == pid) {
                        self.leaders.remove(&pid);
                    }
                }
                if self.command == Some(tid) {
                    let _ = self.status.set(ExitStatus::from_raw(status));
                }
                false
            }
            Happened::Executed => {
                self.executed(tid);
                true
            }
            Happened::AtCall => {
                self.at_call(tid, now);
                true
            }
            _ => {
                // The command itself is followed from its exec on.
                let is_followed = self.command != Some(tid) || self.tracees.contains_key(&tid);
                if is_followed {
                    self.tracee(tid);
                }
                is_followed
            }
        }
    }

    fn go_on(&self, tid: u32, happened: Happened, to_call: bool) {
        // A tracee that was killed meanwhile cannot continue; its end is reported next.
        let _ = match happened {
            Happened::Ended(_) => Ok(()),
            Happened::JobStopped => ptrace::listen(tid),
            Happened::Signal(signal) => ptrace::resume(tid, to_call, signal),
            _ => ptrace::resume(tid, to_call, 0),
        };
    }

    fn tracee(&mut self, tid: u32) -> &mut Tracee {
        self.tracees
            .entry(tid)
            .or_insert_with(|| Tracee { pid: processes::process_of(tid).unwrap_or(tid), ..Tracee::default() })
    }

    /// Handles an exec: all other threads of the process are gone, and this one has taken over the id of the first.
    fn executed(&mut self, tid: u32) {
        let former = ptrace::former_id(tid).unwrap_or(tid);
        let before = self.tracees.remove(&former);
        let thread = ThreadOf { pid: tid, tid };
        let name = processes::thread_name(tid, tid).unwrap_or_default();
        self.findings.executed(thread, &name);
        self.read_maps.1.remove(&tid);
        // The call belongs to the program that made it. That of the command itself was not seen.
        let call = before.and_then(|tracee| tracee.call).unwrap_or_else(|| CurrentCall {
            key: CallKey { thread: self.findings.row_of(thread), number: libc::SYS_execve, arguments: None },
            since: None,
        });
        self.tracees.insert(tid, Tracee { pid: tid, call: Some(call), ..Tracee::default() });
    }

    fn at_call(&mut self, tid: u32, now: u64) {
        let thread = ThreadOf { pid: self.tracee(tid).pid, tid };
        match ptrace::call(tid) {
            Ok(Some(SystemCall::Begins { number, arguments })) => {
                let arguments = self.with_arguments.then(|| self.arguments(thread, number, &arguments));
                let key = CallKey { thread: self.findings.row_of(thread), number, arguments };
                self.begins(thread, key);
                // Timed from when it is resumed.
                self.tracee(tid).call = Some(CurrentCall { key, since: Some(machine::monotonic_nanos()) });
            }
            Ok(Some(SystemCall::Ends { result })) => {
                if let Some(CurrentCall { key, since }) = self.tracee(tid).call.take() {
                    let nanos = since.map(|since| now.saturating_sub(since));
                    self.ends(thread, key, result, nanos);
                }
            }
            _ => {}
        }
    }

    /// Returns the number of the text of a call's arguments.
    fn arguments(&mut self, thread: ThreadOf, number: i64, arguments: &[u64; 6]) -> ArgumentsId {
        let tracee = self.tracee(thread.tid);
        if tracee.memory.is_none() {
            tracee.memory = ProcessMemory::open(thread.tid).ok();
        }
        let stopped = Stopped { tid: thread.tid, memory: tracee.memory.as_ref() };
        let text = arguments::text(&calls::syscall(number), arguments, &stopped);
        self.findings.arguments.intern(&text)
    }

    fn begins(&mut self, thread: ThreadOf, key: CallKey) {
        for at in self.wanted.events(key.number, false).collect::<Vec<_>>() {
            self.take_named(thread, at);
        }
        if self.wanted.all
            && let Some(weight) = self.skips.count(key)
        {
            let stack = self.stack(thread);
            self.findings.add_call_stack(key, stack, weight);
        }
    }

    fn ends(&mut self, thread: ThreadOf, key: CallKey, result: i64, nanos: Option<u64>) {
        for at in self.wanted.events(key.number, true).collect::<Vec<_>>() {
            self.take_named(thread, at);
        }
        if self.wanted.all {
            self.findings.add_call(key, result, nanos);
        }
    }

    fn take_named(&mut self, thread: ThreadOf, at: usize) {
        let stack = self.stack(thread);
        self.findings.add_named(thread, at, stack, machine::monotonic_nanos());
    }

    fn stack(&mut self, thread: ThreadOf) -> crate::collect::StackNumber {
        /// Maps are reread freely at first, when a program loads its libraries, and rarely later: the code of a JIT
        /// compiler may never be known. Each of many short processes loads them again.
        const OFTEN: u32 = 100;
        const SELDOM: Duration = Duration::from_millis(100);
        let tracee = self.tracee(thread.tid);
        tracee.stacks += 1;
        // Threads get their names a moment after they start.
        if tracee.stacks.is_power_of_two()
            && let Some(name) = processes::thread_name(thread.pid, thread.tid)
        {
            self.findings.renamed(thread, &name);
        }
        let registers = ptrace::registers(thread.tid).unwrap_or_default();
        let (last, by_process) = &mut self.read_maps;
        let times = by_process.entry(thread.pid).or_default();
        if (*times < OFTEN || last.elapsed() >= SELDOM)
            && !self.findings.stacks.knows_code_of(thread, &registers)
        {
            *times += 1;
            *last = Instant::now();
            self.findings.read_maps_again(thread.pid);
        }
        self.findings.stacks.of_standing(thread, &registers)
    }

    /// Detaches from all tracees: each must be stopped for that.
    fn let_go(&mut self) {
        // If the first thread of a process ends before the others, its end is not reported until they end too.
        self.tracees.retain(|&tid, tracee| !processes::has_ended(tracee.pid, tid));
        let tids: Vec<u32> = self.tracees.keys().copied().collect();
        // One that is already stopped is reported below all the same.
        tids.iter().for_each(|&tid| drop(ptrace::interrupt(tid)));
        while !self.tracees.is_empty() {
            let Ok((tid, happened)) = ptrace::wait() else { return };
            let signal = match happened {
                Happened::Ended(_) => {
                    self.take(tid, happened, 0);
                    continue;
                }
                Happened::Signal(signal) => signal,
                _ => 0,
            };
            let _ = ptrace::detach(tid, signal);
            self.tracees.remove(&tid);
        }
    }
}
