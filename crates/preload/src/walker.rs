//! Turns the stack of the calling thread into a node; and the modules that it is walked by.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use flamelet_preload_ledger::{ADDRESS_BITS, NO_ROOM, NUMBER_BITS, ROOT, TRUNCATED, modules::ModuleLine};
use flamelet_unwind::fork::Lock;
use flamelet_unwind::live::{self, Repeated};
use flamelet_unwind::{End, History, Modules, Reason, Registers};

use crate::slot::on_own_behalf;
use crate::{file, tree};

/// The current modules; earlier lists are never freed.
static MODULES: AtomicPtr<Modules> = AtomicPtr::new(ptr::null_mut());
/// The number of the era, which addresses carry.
static ERA: AtomicU32 = AtomicU32::new(0);
/// What was written to the file so far; locked while the modules are looked at.
static HISTORY: Lock<History> = Lock::new(History::new());
/// Set in a child that was forked while another thread of its parent looked at the modules: the locks for that stay
/// held forever, so what was known then has to do.
static IS_STUCK: AtomicBool = AtomicBool::new(false);

/// Checks whether libraries were loaded or unloaded. Returns whether anything changed.
pub(crate) fn refresh() -> bool {
    let Some(mut history) = HISTORY.try_lock() else { return false };
    if IS_STUCK.load(Ordering::Relaxed) || !live::refresh().is_ok_and(|changed| changed) {
        return false;
    }
    let modules = live::modules();
    write_down(&modules, &mut history);
    MODULES.store(Arc::into_raw(modules).cast_mut(), Ordering::Release);
    true
}

/// Called in a forked child.
pub(crate) fn reset_in_child() {
    if HISTORY.reset_in_child() {
        IS_STUCK.store(true, Ordering::Relaxed);
    }
}

/// Adds what is new to the file.
fn write_down(modules: &Modules, history: &mut History) {
    let new = history.learn(modules);
    let era = history.era().number();
    let lines: String = new.iter().map(|module| line(module, era)).collect();
    file::append_modules(&lines);
    ERA.store(era, Ordering::Relaxed);
}

fn line(module: &flamelet_unwind::Module, era: u32) -> String {
    let (start, end, file_offset) = (module.start, module.end, module.file_offset);
    ModuleLine {
        era,
        start,
        end,
        file_offset,
        build_id: module.build_id_hex(),
        path: module.name.to_string(),
    }
    .line()
}

/// Walks the stacks of one thread.
pub(crate) struct Walker {
    /// The lane of its nodes, where [`Node::parent`](flamelet_preload_ledger::Node::parent) has it.
    lane: u32,
    stack: Repeated,
    modules: *const Modules,
    /// How many stacks to skip before the modules are looked at again: generated code is in none of them.
    patience: u32,
    fruitless: u32,
}

impl Walker {
    pub(crate) const fn new(lane: u32) -> Self {
        let lane = lane << NUMBER_BITS;
        Self { lane, stack: Repeated::new(), modules: ptr::null(), patience: 0, fruitless: 0 }
    }

    /// Forgets the last stack, because another thread takes over.
    pub(crate) fn forget(&mut self) {
        self.stack.forget();
    }

    /// Returns the node of the stack on which `caller` is.
    #[inline]
    pub(crate) fn node(&mut self, caller: &Registers) -> u32 {
        let end = self.walk(caller);
        if end == End::Truncated(Reason::NoModule) && self.may_have_changed() {
            self.walk(caller);
        }
        self.stack.frames().last().map_or(NO_ROOM, |leaf| leaf.tag)
    }

    #[inline]
    fn walk(&mut self, caller: &Registers) -> End {
        let modules = MODULES.load(Ordering::Acquire).cast_const();
        if modules != self.modules {
            self.modules = modules;
            self.stack.forget();
        }
        // SAFETY: null, or from an `Arc` that is never freed.
        let Some(modules) = (unsafe { modules.as_ref() }) else { return End::Rooted };
        let again = self.stack.unwind(modules, caller);
        if again.kept < self.stack.frames().len() {
            self.name_frames(again.kept, again.end);
        }
        again.end
    }

    /// Gives the new frames their nodes.
    fn name_frames(&mut self, kept: usize, end: End) {
        let era = u64::from(ERA.load(Ordering::Relaxed) & 0x7fff) << ADDRESS_BITS;
        let outermost = if end.is_rooted() || self.is_start_of_process(end) { ROOT } else { TRUNCATED };
        let (frames, lane) = (self.stack.frames_mut(), self.lane);
        let mut parent = kept.checked_sub(1).map_or(outermost, |caller| frames[caller].tag);
        for frame in &mut frames[kept..] {
            if parent != NO_ROOM {
                parent = tree::child(parent | lane, frame.address & ((1 << ADDRESS_BITS) - 1) | era);
            }
            frame.tag = parent;
        }
    }

    /// Returns whether the stack ends at the loader's first instructions, which initialize libraries and have no
    /// unwind information: nothing called them.
    #[cold]
    fn is_start_of_process(&self, end: End) -> bool {
        // SAFETY: null, or from an `Arc` that is never freed.
        let modules = unsafe { self.modules.as_ref() };
        let outermost = self.stack.frames().first();
        let module = modules.zip(outermost).and_then(|(modules, frame)| modules.find(frame.address));
        end == End::Truncated(Reason::NoRule)
            && module.is_some_and(|module| module.name.contains("/ld-linux"))
    }

    #[cold]
    fn may_have_changed(&mut self) -> bool {
        const MOST: u32 = 255;
        if self.patience > 0 {
            self.patience -= 1;
            return false;
        }
        let changed = on_own_behalf(refresh);
        self.fruitless = if changed { 0 } else { (self.fruitless * 2 + 1).min(MOST) };
        self.patience = self.fruitless;
        changed
    }
}
