//! The watched processes: what each has mapped where, and what it is called.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use flamelet_symbol::process::parse_maps;
use flamelet_unwind::Modules;
use rustc_hash::FxHashMap;

use super::images::{Images, Mapped};
use crate::processes;
use crate::sys::machine;

/// What each process has mapped, as the draining threads see it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedModules(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    by_pid: RwLock<FxHashMap<u32, Published>>,
    /// Changes with every change of the above.
    version: AtomicU64,
}

impl SharedModules {
    /// As long as this stays the same, so does everything else.
    pub(crate) fn version(&self) -> u64 {
        // Acquire: what is read after this is at least as new.
        self.0.version.load(Ordering::Acquire)
    }

    /// What `pid` has mapped; `None` also when that cannot be told without waiting.
    pub(crate) fn try_get(&self, pid: u32) -> Option<Published> {
        self.0.by_pid.try_read().ok()?.get(&pid).cloned()
    }

    /// The processes that are known.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.0.by_pid.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    fn change(&self, change: impl FnOnce(RwLockWriteGuard<'_, FxHashMap<u32, Published>>)) {
        change(self.0.by_pid.write().unwrap_or_else(PoisonError::into_inner));
        // Release: whoever sees the new version sees the change.
        self.0.version.fetch_add(1, Ordering::Release);
    }
}

/// What a process has mapped, and the time of the last record that is taken into account.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) modules: Arc<Modules>,
    pub(crate) as_of: u64,
}

/// All address spaces.
#[derive(Default)]
pub(crate) struct Spaces {
    by_pid: FxHashMap<u32, Space>,
    shared: SharedModules,
    pub(crate) images: Images,
    next_id: u32,
}

/// One address space.
#[derive(Clone)]
pub(crate) struct Space {
    pub(crate) modules: Arc<Modules>,
    /// Equal for two samples only when equal addresses mean the same code: each process has its own, and another one
    /// when it maps code after stacks were taken of it.
    pub(crate) id: u32,
    /// Stacks were taken with this number.
    is_used: bool,
    /// It began with an exec that was seen.
    pub(crate) was_executed: bool,
    /// The time of the last record that is taken into account.
    as_of: u64,
    /// How many stacks were taken of it.
    stacks: u32,
}

/// From so many stacks on the rules of their frames are remembered, which takes 64 KB.
const OFTEN: u32 = 32;

impl Spaces {
    pub(crate) fn new(shared: SharedModules) -> Self {
        Self { shared, ..Self::default() }
    }

    /// The address space of `pid`, read from the process itself when nothing is known of it yet.
    pub(crate) fn of(&mut self, pid: u32) -> &Space {
        if !self.by_pid.contains_key(&pid) {
            let now = machine::monotonic_nanos();
            let modules = self.read_modules(pid);
            self.replace(pid, modules, false, now);
        }
        &self.by_pid[&pid]
    }

    /// The same, for one of its stacks.
    pub(crate) fn of_stack(&mut self, pid: u32) -> &Space {
        self.of(pid);
        if let Some(space) = self.by_pid.get_mut(&pid) {
            space.stacks = space.stacks.saturating_add(1);
            space.is_used = true;
            if space.stacks == OFTEN {
                Arc::make_mut(&mut space.modules).remember_rules(true);
                let (modules, as_of) = (space.modules.clone(), space.as_of);
                self.publish(pid, &modules, as_of);
            }
        }
        &self.by_pid[&pid]
    }

    /// `pid` runs another program from `time` on.
    pub(crate) fn exec(&mut self, pid: u32, time: u64) {
        self.replace(pid, Modules::new(), true, time);
    }

    /// `pid` began as a copy of `parent` at `time`.
    pub(crate) fn fork(&mut self, pid: u32, parent: u32, time: u64) {
        if pid != parent {
            let id = self.take_id();
            let space = Space { as_of: time, id, is_used: false, ..self.of(parent).clone() };
            self.publish(pid, &space.modules, time);
            self.by_pid.insert(pid, space);
        }
    }

    /// A process mapped a file at `time`.
    pub(crate) fn map(&mut self, mapped: &Mapped<'_>, time: u64) {
        self.of(mapped.pid);
        let module = self.images.module(mapped);
        let id = self.take_id();
        let Some(space) = self.by_pid.get_mut(&mapped.pid) else { return };
        // Stacks from before must not be taken for those from now on: there may be other code at the same addresses,
        // or some where nothing was known.
        if space.is_used {
            (space.id, space.is_used) = (id, false);
        }
        Arc::make_mut(&mut space.modules).insert(module);
        space.as_of = time;
        let modules = space.modules.clone();
        self.publish(mapped.pid, &modules, time);
    }

    /// What is known of `pid` may be old: it is read again when it is asked for.
    pub(crate) fn forget(&mut self, pid: u32) {
        self.by_pid.remove(&pid);
    }

    /// `pid` has ended. Its records are all done, as they come in order.
    pub(crate) fn exit(&mut self, pid: u32) {
        self.by_pid.remove(&pid);
        self.shared.change(|mut by_pid| drop(by_pid.remove(&pid)));
    }

    fn replace(&mut self, pid: u32, modules: Modules, was_executed: bool, time: u64) {
        let (modules, id) = (Arc::new(modules), self.take_id());
        let space = Space { modules, id, is_used: false, was_executed, as_of: time, stacks: 0 };
        self.publish(pid, &space.modules, time);
        self.by_pid.insert(pid, space);
    }

    fn take_id(&mut self) -> u32 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }

    fn publish(&self, pid: u32, modules: &Arc<Modules>, as_of: u64) {
        let published = Published { modules: modules.clone(), as_of };
        self.shared.change(|mut by_pid| drop(by_pid.insert(pid, published)));
    }

    fn read_modules(&mut self, pid: u32) -> Modules {
        let mut modules = Modules::new();
        let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        for mapping in parse_maps(&String::from_utf8_lossy(&maps)).unwrap_or_default() {
            if !mapping.executable || mapping.path == "[vsyscall]" {
                continue;
            }
            let name = if mapping.path.is_empty() { "//anon" } else { &mapping.path };
            modules.insert(self.images.module(&Mapped {
                pid,
                start: mapping.start,
                end: mapping.limit,
                offset: mapping.offset,
                name,
                build_id: None,
                is_deleted: mapping.deleted,
            }));
        }
        modules
    }
}

/// The name of a process that was there before the recording.
pub(crate) fn process_name(pid: u32) -> String {
    processes::thread_name(pid, pid).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_mean_equal_code() {
        let mut spaces = Spaces::default();
        spaces.exec(1, 10);
        let map = |spaces: &mut Spaces, pid, start| {
            let end = start + 0x1000;
            let mapped =
                Mapped { pid, start, end, offset: 0, name: "//anon", build_id: None, is_deleted: false };
            spaces.map(&mapped, 20);
        };
        // At the start of a program, before stacks are taken, the number stays.
        let first = spaces.of(1).id;
        map(&mut spaces, 1, 0x1000);
        assert_eq!(spaces.of_stack(1).id, first);
        // Parent and child may load different code at the same free address.
        spaces.fork(2, 1, 30);
        assert_ne!(spaces.of_stack(2).id, first);
        // What had no name before may have one now.
        map(&mut spaces, 1, 0x5000);
        let second = spaces.of(1).id;
        assert_ne!(second, first);
        assert_ne!(spaces.of(2).id, second);
    }
}
