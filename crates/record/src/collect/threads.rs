//! The watched threads and the state of each.

use flamelet_unwind::Registers;
use rustc_hash::FxHashMap;

use super::spaces::process_name;
use super::stack_table::StackNumber;
use super::syscalls::CallKey;
use crate::events::plan::EventSource;
use crate::events::ring_records::ThreadOf;
use crate::events::session::Origin;
use crate::processes;

/// An index into [`Threads::rows`].
pub(crate) type ThreadRow = u32;

/// A thread as the profile names it. A thread that executes another program gets a new row.
#[derive(Clone, Debug)]
pub(crate) struct SeenThread {
    pub(crate) of: ThreadOf,
    pub(crate) name: String,
    /// An index into [`Threads::process_names`].
    pub(crate) process: u32,
}

#[derive(Debug)]
pub(crate) struct ThreadState {
    pub(crate) row: ThreadRow,
    /// Where it was when it last stopped running.
    pub(crate) stopped_at: Option<StackNumber>,
    /// When it stopped running, and whether only because it was preempted.
    pub(crate) stopped_since: Option<(u64, bool)>,
    /// How to complete that stack while the thread is not running.
    pub(super) cut: Option<Cut>,
    pub(super) completed: Option<Completed>,
    /// When its current system call began.
    pub(crate) syscall_since: Option<u64>,
    /// Which program made that call, if it has executed another one since.
    pub(super) called_by: Option<ThreadRow>,
    /// A call that a signal interrupted, until the thread goes on.
    pub(super) interrupted: Option<EndedCall>,
    /// Whether it existed before the recording and no record of it has arrived yet.
    pub(crate) is_silent: bool,
    owners: Vec<(EventSource, u32, u32)>,
}

/// Where a thread stopped, if its dump was too short for the whole stack.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) thread: ThreadOf,
    pub(super) kernel: Vec<u64>,
    pub(super) registers: Registers,
}

/// A system call that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedCall {
    pub(super) key: CallKey,
    pub(super) result: i64,
    pub(super) nanos: Option<u64>,
}

/// A stack that was read while its thread was blocked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completed {
    pub(super) stack: StackNumber,
    /// When all of it was read.
    pub(super) read_at: u64,
}

#[derive(Default)]
pub(crate) struct Threads {
    by_tid: FxHashMap<u32, ThreadState>,
    pub(crate) rows: Vec<SeenThread>,
    pub(crate) process_names: Vec<String>,
    processes: FxHashMap<u32, u32>,
}

impl Threads {
    /// Returns the thread, reading it from the system if it is not known yet.
    pub(crate) fn of(&mut self, thread: ThreadOf) -> &mut ThreadState {
        if !self.by_tid.contains_key(&thread.tid) {
            let process = self.process(thread.pid);
            let name = processes::thread_name(thread.pid, thread.tid);
            let name = name.unwrap_or_else(|| self.process_names[process as usize].clone());
            self.begin(thread, name, process, true);
        }
        self.by_tid.get_mut(&thread.tid).expect("it was just inserted")
    }

    /// Adds a new thread or process, which inherits the name of its parent.
    pub(crate) fn fork(&mut self, thread: ThreadOf, parent: ThreadOf) {
        let parent_row = self.of(parent).row;
        let SeenThread { name, process, .. } = self.rows[parent_row as usize].clone();
        let process = if thread.pid == parent.pid {
            process
        } else {
            self.process_names.push(self.process_names[process as usize].clone());
            (self.process_names.len() - 1) as u32
        };
        self.processes.insert(thread.pid, process);
        self.begin(thread, name, process, false);
    }

    /// Renames the thread. After an exec it is another program.
    pub(crate) fn rename(&mut self, thread: ThreadOf, name: &str, is_exec: bool) {
        if is_exec {
            self.process_names.push(name.to_owned());
            let process = (self.process_names.len() - 1) as u32;
            self.processes.insert(thread.pid, process);
            let before = self.by_tid.get(&thread.tid).map(|state| (state.syscall_since, state.row));
            self.begin(thread, name.to_owned(), process, false);
            if let Some((Some(since), row)) = before {
                let state = self.of(thread);
                (state.syscall_since, state.called_by) = (Some(since), Some(row));
            }
            return;
        }
        let row = self.of(thread).row as usize;
        name.clone_into(&mut self.rows[row].name);
        if thread.pid == thread.tid {
            let process = self.rows[row].process as usize;
            name.clone_into(&mut self.process_names[process]);
        }
    }

    /// Returns the name of the program that a thread runs.
    pub(crate) fn program(&self, row: ThreadRow) -> &str {
        &self.process_names[self.rows[row as usize].process as usize]
    }

    /// Notes that the thread has ended.
    pub(crate) fn exit(&mut self, thread: ThreadOf) {
        self.by_tid.remove(&thread.tid);
        if thread.pid == thread.tid {
            self.processes.remove(&thread.pid);
        }
    }

    pub(super) fn known(&mut self, tid: u32) -> Option<&mut ThreadState> {
        self.by_tid.get_mut(&tid)
    }

    /// All living threads.
    pub(crate) fn living(&mut self) -> impl Iterator<Item = &mut ThreadState> {
        self.by_tid.values_mut()
    }

    fn process(&mut self, pid: u32) -> u32 {
        if let Some(&process) = self.processes.get(&pid) {
            return process;
        }
        self.process_names.push(process_name(pid));
        let process = (self.process_names.len() - 1) as u32;
        self.processes.insert(pid, process);
        process
    }

    fn begin(&mut self, of: ThreadOf, name: String, process: u32, is_silent: bool) {
        self.rows.push(SeenThread { of, name, process });
        let row = (self.rows.len() - 1) as u32;
        let state = ThreadState {
            row,
            stopped_at: None,
            stopped_since: None,
            cut: None,
            completed: None,
            syscall_since: None,
            called_by: None,
            interrupted: None,
            is_silent,
            owners: Vec::new(),
        };
        self.by_tid.insert(of.tid, state);
    }
}

impl ThreadState {
    /// Returns where the thread stopped, now that it runs again at `now` (or never did), and whether that stack was
    /// completed.
    pub(super) fn take_stopped_at(&mut self, now: u64) -> (Option<StackNumber>, bool) {
        self.cut = None;
        let completed = self.completed.take().filter(|completed| completed.read_at <= now);
        match (self.stopped_at.take(), completed) {
            (Some(_), Some(completed)) => (Some(completed.stack), true),
            (stopped_at, _) => (stopped_at, false),
        }
    }

    /// Notes that the system call has returned. Returns when the call began, if known, and who called.
    pub(super) fn end_call(&mut self) -> (Option<u64>, ThreadRow) {
        (self.syscall_since.take(), self.called_by.take().unwrap_or(self.row))
    }

    /// Returns whether a record of this origin counts. A thread that started while events were being opened may have
    /// both an inherited event and one of its own; the first one to report is used.
    pub(crate) fn accepts(&mut self, origin: &Origin) -> bool {
        let Some(known) = self.owners.iter_mut().find(|(source, ..)| *source == origin.source) else {
            self.owners.push((origin.source, origin.generation, origin.owner));
            return true;
        };
        if origin.generation > known.1 {
            (known.1, known.2) = (origin.generation, origin.owner);
        }
        (known.1, known.2) == (origin.generation, origin.owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(owner: u32, generation: u32) -> Origin {
        Origin { source: EventSource::Cpu, sample_type: 0, owner, generation }
    }

    #[test]
    fn one_owner_counts_until_events_are_reopened() {
        let mut threads = Threads::default();
        let (parent, child) = (ThreadOf { pid: 1, tid: 1 }, ThreadOf { pid: 1, tid: 900_001 });
        threads.fork(child, parent);
        let state = threads.of(child);
        assert!(state.accepts(&origin(1, 0)));
        assert!(!state.accepts(&origin(900_001, 0)));
        assert!(state.accepts(&origin(900_001, 1)));
        assert!(!state.accepts(&origin(1, 0)));
        assert!(!state.accepts(&origin(1, 1)));
    }

    #[test]
    fn an_exec_is_another_program_and_a_rename_is_not() {
        let mut threads = Threads::default();
        let (parent, child) =
            (ThreadOf { pid: 900_000, tid: 900_000 }, ThreadOf { pid: 900_001, tid: 900_001 });
        threads.rename(parent, "shell", true);
        threads.fork(child, parent);
        let before = threads.of(child).row;
        threads.rename(child, "renamed", false);
        assert_eq!(threads.of(child).row, before);
        threads.rename(child, "worker", true);
        let after = threads.of(child).row;
        assert_ne!(after, before);
        let process = |row: u32| threads.process_names[threads.rows[row as usize].process as usize].as_str();
        assert_eq!((process(before), process(after)), ("renamed", "worker"));
        assert_eq!(threads.rows[0].name, "shell");
    }
}
