//! The processes of a recording: what each has mapped, from its first record until after its end.

use std::collections::VecDeque;

use flamelet_profile::budget::{ALLOCATION, hash_entry};
use flamelet_profile::{Budget, LocationId, MappingId, ProfileBuilder};
use flamelet_unwind::perf_event::TaskChange;
use flamelet_unwind::{AddressSpace, Era, Eras, Module, Modules};
use rustc_hash::FxHashMap as HashMap;

/// The pid of the kernel's mappings.
pub(super) const KERNEL: u32 = u32::MAX;
/// How many ended processes are kept: records of their last moments may follow.
const KEPT_AFTER_END: usize = 256;

/// One process, or the kernel.
#[derive(Default)]
pub(super) struct RecordedProcess {
    pub(super) name: String,
    pub(super) space: AddressSpace,
    /// Addresses seen since the last change of the modules.
    locations: HashMap<u64, LocationId>,
    /// How many stacks were unwound.
    pub(super) unwound: u32,
    /// Its first thread has ended, and no other thread was seen since.
    ended: bool,
}

impl RecordedProcess {
    pub(super) fn location(
        &mut self,
        builder: &mut ProfileBuilder,
        address: u64,
        budget: &Budget,
    ) -> LocationId {
        if let Some(&known) = self.locations.get(&address) {
            return known;
        }
        let mapping = self.space.modules().find(address).map(|module| intern_module(builder, module));
        let location = builder.address(mapping, address);
        if budget.has_room(LOCATION) {
            self.locations.insert(address, location);
        }
        location
    }

    /// Returns what the process is charged.
    fn size(&self) -> usize {
        PROCESS + self.space.modules().len() * size_of::<Module>()
    }

    /// Forgets the locations of addresses.
    fn forget_locations(&mut self, budget: &Budget) {
        budget.refund(self.locations.len() * LOCATION);
        self.locations.clear();
    }

    /// Returns the initial state of a child process.
    fn forked(&self, eras: &mut Eras) -> Self {
        let mut space = self.space.fork(eras);
        space.remember_rules(false);
        Self { name: self.name.clone(), space, ..Self::default() }
    }
}

pub(super) fn intern_module(builder: &mut ProfileBuilder, module: &Module) -> MappingId {
    let Module { start, end, file_offset, name, .. } = module;
    builder.file_mapping(*start..*end, *file_offset, name, &module.build_id_hex())
}

/// What a process costs in addition to its modules, and each address seen in it.
const PROCESS: usize = hash_entry(size_of::<(u32, RecordedProcess)>()) + 4 * ALLOCATION;
const LOCATION: usize = hash_entry(size_of::<(u64, LocationId)>());
/// How many modules count as one step of work when they are moved to insert one.
const MODULES_PER_STEP: usize = 16;

/// All processes by pid.
pub(super) struct Processes {
    budget: Budget,
    known: HashMap<u32, RecordedProcess>,
    /// The pids of those that ended last.
    ended: VecDeque<u32>,
    eras: Eras,
}

impl Processes {
    /// Creates an empty set of processes, which are charged to `budget` as they are added.
    pub(super) fn within(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            known: HashMap::default(),
            ended: VecDeque::new(),
            eras: Eras::default(),
        }
    }

    /// Replaces the process with this pid.
    fn put(&mut self, pid: u32, process: RecordedProcess) {
        if self.budget.has_room(process.size()) {
            self.remove(pid);
            self.known.insert(pid, process);
        }
    }

    fn remove(&mut self, pid: u32) {
        if let Some(mut process) = self.known.remove(&pid) {
            process.forget_locations(&self.budget);
            self.budget.refund(process.size());
        }
    }

    pub(super) fn get(&self, pid: u32) -> Option<&RecordedProcess> {
        self.known.get(&pid)
    }

    /// Returns the era of samples taken now in the process.
    pub(super) fn era(&mut self, pid: u32) -> Era {
        self.known.get_mut(&pid).map_or(Era::default(), |process| process.space.use_era())
    }

    /// Returns the process with this pid, which is added if it is unknown.
    pub(super) fn entry(&mut self, pid: u32) -> &mut RecordedProcess {
        self.known.entry(pid).or_insert_with(|| {
            self.budget.has_room(PROCESS);
            RecordedProcess::default()
        })
    }

    /// Records that the process has mapped a module.
    pub(super) fn map(&mut self, pid: u32, module: Module) {
        let budget = self.budget.clone();
        self.entry(pid);
        let Some(process) = self.known.get_mut(&pid) else { return };
        let before = process.size();
        let steps = process.space.modules().len() / MODULES_PER_STEP;
        if !budget.can_work(steps) || !budget.has_room(module.name.len() + module.build_id.len() + ALLOCATION)
        {
            return;
        }
        process.space.map(module, &mut self.eras);
        process.forget_locations(&budget);
        // Mapping over a module can split it in two, or remove it.
        budget.has_room(process.size());
        budget.refund(before);
    }

    /// Records that the process now runs another program, or is new and inherits nothing from its parent.
    pub(super) fn exec(&mut self, pid: u32) {
        let space = AddressSpace::new(Modules::new(), &mut self.eras);
        self.put(pid, RecordedProcess { space, ..RecordedProcess::default() });
    }

    /// Records that a process has started. A new thread changes nothing.
    pub(super) fn fork(&mut self, fork: TaskChange) {
        if fork.pid == fork.parent_pid {
            return;
        }
        let parent = self.known.get(&fork.parent_pid).filter(|_| !fork.is_exec);
        match parent.filter(|parent| self.budget.can_work(parent.space.modules().len())) {
            Some(parent) => {
                let child = parent.forked(&mut self.eras);
                self.put(fork.pid, child);
            }
            None => self.exec(fork.pid),
        }
    }

    /// Records that a thread has ended. The process is forgotten some time after its first thread ends, unless others
    /// continue.
    pub(super) fn exit(&mut self, thread: TaskChange) {
        match self.known.get_mut(&thread.pid) {
            Some(process) if thread.pid == thread.tid => process.ended = true,
            _ => return,
        }
        self.ended.push_back(thread.pid);
        if self.ended.len() > KEPT_AFTER_END
            && let Some(pid) = self.ended.pop_front()
            && self.known.get(&pid).is_some_and(|process| process.ended)
        {
            self.remove(pid);
        }
    }

    /// Records that a thread is running.
    pub(super) fn is_seen(&mut self, pid: u32, tid: u32) {
        if pid != tid
            && let Some(process) = self.known.get_mut(&pid)
        {
            process.ended = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pid: u32, parent_pid: u32) -> TaskChange {
        TaskChange { is_exec: false, pid, parent_pid, tid: pid, parent_tid: parent_pid }
    }

    fn budget() -> Budget {
        Budget::new(flamelet_profile::Limits::default())
    }

    fn module() -> Module {
        Module {
            start: 0x1000,
            end: 0x2000,
            file_offset: 0,
            bias: 0,
            name: "/bin/server".into(),
            build_id: Vec::new().into(),
            table: None,
        }
    }

    #[test]
    fn processes_that_ended_are_forgotten_unless_threads_go_on() {
        let mut processes = Processes::within(&budget());
        processes.map(1, module());
        processes.fork(of(2, 1));
        processes.exit(of(2, 1));
        processes.is_seen(2, 3);
        for pid in 1000..3000 {
            processes.fork(of(pid, 1));
            assert!(processes.get(pid).unwrap().space.modules().find(0x1800).is_some());
            processes.exit(of(pid, 1));
        }
        assert_eq!(processes.known.len(), 2 + KEPT_AFTER_END);
        assert!(processes.get(2).is_some_and(|process| process.space.modules().find(0x1800).is_some()));
        assert!(processes.get(2999).is_some(), "what comes late finds what just ended");
    }

    #[test]
    fn a_child_has_the_modules_of_its_parent_but_not_its_caches() {
        let mut processes = Processes::within(&budget());
        processes.map(1, module());
        let mut builder = ProfileBuilder::new(&[]);
        let seen = processes.entry(1).location(&mut builder, 0x1800, &budget());
        processes.fork(of(2, 1));
        assert!(processes.entry(2).locations.is_empty());
        assert_eq!(processes.entry(2).location(&mut builder, 0x1800, &budget()), seen);
        // perf found process 3 already running, and the parent of process 4 is unknown.
        processes.fork(TaskChange { is_exec: true, ..of(3, 1) });
        processes.map(4, module());
        processes.fork(of(4, 77));
        for pid in [3, 4] {
            assert!(processes.get(pid).unwrap().space.modules().find(0x1800).is_none(), "process {pid}");
        }
    }
}
