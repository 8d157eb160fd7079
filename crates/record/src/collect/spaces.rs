//! The watched processes: their mappings and names.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use flamelet_symbol::process::parse_maps;
use flamelet_unwind::{AddressSpace, Era, Eras, Modules};
use rustc_hash::FxHashMap;

use super::images::{ANONYMOUS, Images, MappedImage};
use crate::generated::Generators;
use crate::processes;
use crate::sys::machine;

/// The mappings of each process, as the draining threads see them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedModules(Arc<ModulesByProcess>);

#[derive(Debug, Default)]
struct ModulesByProcess {
    by_pid: RwLock<FxHashMap<u32, Published>>,
    /// Increases with every change of the above.
    version: AtomicU64,
    /// See [`SharedModules::has_huge_frames`].
    has_huge_frames: AtomicBool,
}

impl SharedModules {
    /// Returns the version. While it stays the same, so does everything else.
    pub(crate) fn version(&self) -> u64 {
        // Acquire: what is read after this is at least as new.
        self.0.version.load(Ordering::Acquire)
    }

    /// Returns whether a program has a frame that no dump can hold: stacks below it need the eager drain.
    pub(crate) fn has_huge_frames(&self) -> bool {
        self.0.has_huge_frames.load(Ordering::Relaxed)
    }

    /// Returns what `pid` has mapped; `None` if it is unknown, or if the lock is taken.
    pub(crate) fn try_get(&self, pid: u32) -> Option<Published> {
        self.0.by_pid.try_read().ok()?.get(&pid).cloned()
    }

    /// Returns the known processes.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.0.by_pid.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    fn publish(&self, pid: u32, modules: &Arc<Modules>, as_of: u64) {
        let published = Published { modules: modules.clone(), as_of };
        self.change(|mut by_pid| drop(by_pid.insert(pid, published)));
    }

    fn change(&self, change: impl FnOnce(RwLockWriteGuard<'_, FxHashMap<u32, Published>>)) {
        change(self.0.by_pid.write().unwrap_or_else(PoisonError::into_inner));
        // Release: a reader of the new version also sees the change.
        self.0.version.fetch_add(1, Ordering::Release);
    }
}

/// The mappings of a process, and the time of the last record that they include.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) modules: Arc<Modules>,
    pub(crate) as_of: u64,
}

/// All address spaces.
#[derive(Default)]
pub(crate) struct Spaces {
    by_pid: FxHashMap<u32, Followed>,
    shared: SharedModules,
    pub(crate) images: Images,
    pub(crate) generators: Generators,
    eras: Eras,
}

struct Followed {
    space: AddressSpace,
    /// Whether it began with an exec that was recorded.
    was_executed: bool,
    /// The time of the last record that is included.
    as_of: u64,
    /// How many of its stacks were taken.
    stacks: u32,
}

impl Followed {
    fn now(&self) -> Space {
        let (modules, era) = (self.space.modules().clone(), self.space.era());
        Space { modules, era, was_executed: self.was_executed }
    }
}

/// One address space at one moment.
pub(crate) struct Space {
    pub(crate) modules: Arc<Modules>,
    /// Two stacks of the same era map equal addresses to the same code.
    pub(crate) era: Era,
    /// Whether it began with an exec that was recorded.
    pub(crate) was_executed: bool,
}

/// From this many stacks on, the rules of their frames are cached, which takes 64 KB.
const OFTEN: u32 = 32;

impl Spaces {
    pub(crate) fn new(shared: SharedModules) -> Self {
        Self { shared, ..Self::default() }
    }

    /// Returns the address space of `pid`, read from the process itself if nothing is known of it yet.
    pub(crate) fn of(&mut self, pid: u32) -> Space {
        self.follow(pid).now()
    }

    /// Returns the address space of `pid`, for one of its stacks.
    pub(crate) fn of_stack(&mut self, pid: u32) -> Space {
        let followed = self.follow(pid);
        followed.stacks = followed.stacks.saturating_add(1);
        followed.space.use_era();
        if followed.stacks == OFTEN {
            followed.space.remember_rules(true);
            let (space, as_of) = (followed.now(), followed.as_of);
            self.shared.publish(pid, &space.modules, as_of);
            return space;
        }
        followed.now()
    }

    fn follow(&mut self, pid: u32) -> &mut Followed {
        let Self { by_pid, shared, images, generators, eras } = self;
        by_pid.entry(pid).or_insert_with(|| {
            let as_of = machine::monotonic_nanos();
            let modules = read_modules(pid, images);
            modules.iter().for_each(|module| generators.mapped(pid, &module.name));
            shared.0.has_huge_frames.fetch_or(images.has_huge_frames(), Ordering::Relaxed);
            let space = AddressSpace::new(modules, eras);
            shared.publish(pid, space.modules(), as_of);
            Followed { space, was_executed: false, as_of, stacks: 0 }
        })
    }

    /// Notes that `pid` runs another program from `time` on.
    pub(crate) fn exec(&mut self, pid: u32, time: u64) {
        self.generators.exec(pid);
        let space = AddressSpace::new(Modules::new(), &mut self.eras);
        self.put(pid, Followed { space, was_executed: true, as_of: time, stacks: 0 });
    }

    /// Notes that `pid` began as a copy of `parent` at `time`.
    pub(crate) fn fork(&mut self, pid: u32, parent: u32, time: u64) {
        if pid != parent {
            let &mut Followed { ref space, was_executed, stacks, .. } = self.follow(parent);
            let copied = space.clone();
            let space = copied.fork(&mut self.eras);
            self.generators.fork(pid, parent);
            self.put(pid, Followed { space, was_executed, as_of: time, stacks });
        }
    }

    /// Notes that a process mapped a file at `time`.
    pub(crate) fn map(&mut self, mapped: &MappedImage<'_>, time: u64) {
        self.follow(mapped.pid);
        self.generators.mapped(mapped.pid, mapped.name);
        let module = self.images.module(mapped);
        self.shared.0.has_huge_frames.fetch_or(self.images.has_huge_frames(), Ordering::Relaxed);
        let Some(followed) = self.by_pid.get_mut(&mapped.pid) else { return };
        followed.space.map(module, &mut self.eras);
        followed.as_of = time;
        self.shared.publish(mapped.pid, followed.space.modules(), time);
    }

    /// Forgets `pid`, because what is known of it may be outdated. It is read again on the next use.
    pub(crate) fn forget(&mut self, pid: u32) {
        self.by_pid.remove(&pid);
    }

    /// Notes that `pid` has ended. Records come in order, so all of its records are done.
    pub(crate) fn exit(&mut self, pid: u32) {
        self.by_pid.remove(&pid);
        self.shared.change(|mut by_pid| drop(by_pid.remove(&pid)));
    }

    fn put(&mut self, pid: u32, followed: Followed) {
        self.shared.publish(pid, followed.space.modules(), followed.as_of);
        self.by_pid.insert(pid, followed);
    }
}

fn read_modules(pid: u32, images: &mut Images) -> Modules {
    let mut modules = Modules::new();
    let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    for mapping in parse_maps(&String::from_utf8_lossy(&maps)).unwrap_or_default() {
        if !mapping.executable || mapping.path == "[vsyscall]" {
            continue;
        }
        let name = if mapping.path.is_empty() { ANONYMOUS } else { &mapping.path };
        modules.insert(images.module(&MappedImage {
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

/// Returns the name of a process that existed before the recording.
pub(crate) fn process_name(pid: u32) -> String {
    processes::thread_name(pid, pid).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_what_it_mapped_and_eras_of_its_own() {
        let mut spaces = Spaces::default();
        spaces.exec(1, 10);
        let map = |spaces: &mut Spaces, pid, start| {
            let end = start + 0x1000;
            let mapped =
                MappedImage { pid, start, end, offset: 0, name: "//anon", build_id: None, is_deleted: false };
            spaces.map(&mapped, 20);
        };
        map(&mut spaces, 1, 0x1000);
        let first = spaces.of_stack(1);
        // Parent and child may load different code at the same free address.
        spaces.fork(2, 1, 30);
        assert_ne!(spaces.of_stack(2).era, first.era);
        // Code that had no name before may have one now.
        map(&mut spaces, 1, 0x5000);
        let second = spaces.of_stack(1);
        assert_ne!(second.era, first.era);
        assert_ne!(spaces.of_stack(2).era, second.era);
        let mapped = |modules: &Modules| [0x1800, 0x5800].map(|address| modules.find(address).is_some());
        assert_eq!(
            [mapped(&spaces.of(1).modules), mapped(&spaces.of(2).modules)],
            [[true, true], [true, false]]
        );
        spaces.exec(1, 40);
        let space = spaces.of(1);
        assert_eq!((mapped(&space.modules), space.was_executed), ([false; 2], true));
    }
}
