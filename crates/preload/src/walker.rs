//! The stack of the calling thread, as a node; and the modules that it is walked by.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use flamelet_preload_ledger::{ADDRESS_BITS, NO_ROOM, ROOT, TRUNCATED, modules::Module};
use flamelet_unwind::fork::Lock;
use flamelet_unwind::live::{self, Repeated};
use flamelet_unwind::{End, Modules, Reason, Registers};

use crate::{file, tree};

/// The modules of this moment; lists that were in force before are never given back.
static MODULES: AtomicPtr<Modules> = AtomicPtr::new(ptr::null_mut());
/// The number that addresses of this list carry.
static LIST: AtomicU32 = AtomicU32::new(0);
/// What was written down so far; held while the modules are looked at.
static WRITTEN: Lock<Vec<Line>> = Lock::new(Vec::new());
/// In a child that was forked while another thread of its parent looked at the modules: the locks of that are held
/// for ever, so what was known then has to do.
static IS_STUCK: AtomicBool = AtomicBool::new(false);

/// A module that was written down.
struct Line {
    start: u64,
    end: u64,
    build_id: Arc<[u8]>,
}

impl Line {
    fn overlaps(&self, module: &flamelet_unwind::Module) -> bool {
        self.start < module.end && module.start < self.end
    }

    fn is_of(&self, module: &flamelet_unwind::Module) -> bool {
        (self.start, self.end) == (module.start, module.end) && self.build_id == module.build_id
    }
}

/// Looks whether libraries were loaded or unloaded. Says whether anything changed.
pub(crate) fn refresh() -> bool {
    let Some(mut written) = WRITTEN.try_lock() else { return false };
    if IS_STUCK.load(Ordering::Relaxed) || !live::refresh().is_ok_and(|changed| changed) {
        return false;
    }
    let modules = live::modules();
    write_down(&modules, &mut written);
    MODULES.store(Arc::into_raw(modules).cast_mut(), Ordering::Release);
    true
}

/// In a forked child.
pub(crate) fn reset_in_child() {
    if WRITTEN.reset_in_child() {
        IS_STUCK.store(true, Ordering::Relaxed);
    }
}

/// Adds what is new to the file. Where something lay before, a new list begins.
fn write_down(modules: &Modules, written: &mut Vec<Line>) {
    // Of several that were there one after the other, the last one counts.
    let is_known = |module: &flamelet_unwind::Module| {
        written.iter().rev().find(|line| line.overlaps(module)).is_some_and(|line| line.is_of(module))
    };
    let new: Vec<_> = modules.iter().filter(|module| !is_known(module)).collect();
    let lies_over = new.iter().any(|module| written.iter().any(|line| line.overlaps(module)));
    if lies_over {
        LIST.fetch_add(1, Ordering::Relaxed);
    }
    let list = LIST.load(Ordering::Relaxed);
    let line = |module: &&flamelet_unwind::Module| {
        let (start, end, file_offset) = (module.start, module.end, module.file_offset);
        Module {
            list,
            start,
            end,
            file_offset,
            build_id: module.build_id_hex(),
            path: module.name.to_string(),
        }
        .line()
    };
    let lines: String = new.iter().map(line).collect();
    file::append_modules(&lines);
    let line = |module: &&flamelet_unwind::Module| Line {
        start: module.start,
        end: module.end,
        build_id: module.build_id.clone(),
    };
    written.extend(new.iter().map(line));
}

/// Walks the stacks of one thread.
pub(crate) struct Walker {
    stack: Repeated,
    modules: *const Modules,
    /// Stacks to let pass before the modules are looked at again: generated code is in none of them.
    patience: u32,
    fruitless: u32,
}

impl Walker {
    pub(crate) const fn new() -> Self {
        Self { stack: Repeated::new(), modules: ptr::null(), patience: 0, fruitless: 0 }
    }

    /// Another thread takes over.
    pub(crate) fn forget(&mut self) {
        self.stack.forget();
    }

    /// The node of the stack that `caller` stands on.
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
        // SAFETY: null, or from an `Arc` that is never given back.
        let Some(modules) = (unsafe { modules.as_ref() }) else { return End::Rooted };
        let again = self.stack.unwind(modules, caller);
        if again.kept < self.stack.frames().len() {
            self.name_frames(again.kept, again.end);
        }
        again.end
    }

    /// Gives the new frames their nodes.
    fn name_frames(&mut self, kept: usize, end: End) {
        let list = u64::from(LIST.load(Ordering::Relaxed) & 0x7fff) << ADDRESS_BITS;
        let outermost = if end.is_rooted() || self.is_start_of_process(end) { ROOT } else { TRUNCATED };
        let frames = self.stack.frames_mut();
        let mut parent = kept.checked_sub(1).map_or(outermost, |caller| frames[caller].tag);
        for frame in &mut frames[kept..] {
            if parent != NO_ROOM {
                parent = tree::child(parent, frame.address & ((1 << ADDRESS_BITS) - 1) | list);
            }
            frame.tag = parent;
        }
    }

    /// Libraries are initialized by the loader's first instructions, which have no unwind information: nothing called
    /// them.
    #[cold]
    fn is_start_of_process(&self, end: End) -> bool {
        // SAFETY: null, or from an `Arc` that is never given back.
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
        let changed = crate::start::on_own_behalf(refresh);
        self.fruitless = if changed { 0 } else { (self.fruitless * 2 + 1).min(MOST) };
        self.patience = self.fruitless;
        changed
    }
}
