//! The modules of this process, published so that signal handlers read them without a lock.
//!
//! A reader announces itself, loads the pointer, reads, and leaves. A writer swaps the pointer, and drops an old list
//! only at a moment after the swap when no reader is inside: readers that enter later see the new one.
//!
//! A `fork` may come at any moment, and leaves the child with the locks that other threads held. So the child gets
//! locks of its own, and keeps the list that was published last. The loader's lock cannot be replaced: if no thread
//! in the child can ever take it, the list stays as it is.

use super::spawn::spawn;
use super::{loader, stack::fetch};
use crate::error::Result;
use crate::fork::{self, Handlers, Part, PerProcess};
use crate::module::Modules;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

static PUBLISHED: Published =
    Published { modules: AtomicPtr::new(ptr::null_mut()), readers: AtomicUsize::new(0) };
static WRITERS: PerProcess<Writers> = PerProcess::new();
// Whether the loader's lock can be taken.
const FREE: u8 = 0;
const UNKNOWN: u8 = 1;
const STUCK: u8 = 2;
/// Longer than any living thread holds the loader's lock.
const PATIENCE: Duration = Duration::from_secs(1);

/// What every reader reads, in one cache line.
#[repr(align(64))]
struct Published {
    modules: AtomicPtr<Modules>,
    readers: AtomicUsize,
}

/// What the writers of one process share.
struct Writers {
    /// Whether the loader's lock can be taken: one of the three above.
    loader: AtomicU8,
    /// Taken while modules are read, which may wait for the loader; never by readers of any kind.
    refresh: Mutex<Option<loader::Generation>>,
    /// Taken for a moment only.
    owner: Mutex<ModulesOwner>,
}

struct ModulesOwner {
    current: Option<Arc<Modules>>,
    /// Lists that a reader may still hold.
    retired: Vec<Arc<Modules>>,
}

/// A visit to the published modules.
pub(super) struct ReaderVisit {
    modules: *const Modules,
}

static NONE: Modules = Modules::EMPTY;

/// Prefetches what a reader will need. Async-signal-safe.
#[inline]
pub(super) fn fetch_ahead() {
    fetch(&raw const PUBLISHED);
    fetch(PUBLISHED.modules.load(Ordering::Relaxed));
}

impl ReaderVisit {
    /// Enters. Async-signal-safe.
    #[inline]
    pub(super) fn enter() -> Self {
        PUBLISHED.readers.fetch_add(1, Ordering::SeqCst);
        Self { modules: PUBLISHED.modules.load(Ordering::SeqCst) }
    }

    #[inline]
    pub(super) fn modules(&self) -> &Modules {
        // SAFETY: the pointer is null or comes from an `Arc` that the writer keeps until no reader that
        // entered before its retirement is left; this reader is counted until it is dropped.
        unsafe { self.modules.as_ref() }.unwrap_or(&NONE)
    }
}

impl Drop for ReaderVisit {
    #[inline]
    fn drop(&mut self) {
        PUBLISHED.readers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns this process' writers.
fn writers() -> &'static Writers {
    WRITERS.get(|has_parent| {
        fork::watch(Part::Modules, &AT_FORK);
        Writers::new(if has_parent { UNKNOWN } else { FREE })
    })
}

static AT_FORK: Handlers = Handlers::in_child(in_child);

/// In the child of a fork, where no thread but this one exists.
fn in_child() {
    WRITERS.disown();
    PUBLISHED.readers.store(0, Ordering::SeqCst);
}

/// Returns the list that the parent published. Call it only while the owner has none: once it has one, that is what
/// is published.
fn inherited() -> Option<Arc<Modules>> {
    let published = PUBLISHED.modules.load(Ordering::SeqCst).cast_const();
    // SAFETY: nothing of this process is published yet, so this is the parent's, from an `Arc` that its owner
    // holds, whose copy here is never freed.
    (!published.is_null()).then(|| unsafe {
        Arc::increment_strong_count(published);
        Arc::from_raw(published)
    })
}

impl Writers {
    fn new(loader: u8) -> Self {
        let owner = Mutex::new(ModulesOwner { current: None, retired: Vec::new() });
        Self { loader: AtomicU8::new(loader), refresh: Mutex::new(None), owner }
    }

    fn owner(&self) -> MutexGuard<'_, ModulesOwner> {
        let mut owner = lock(&self.owner);
        if owner.current.is_none() {
            owner.current = inherited();
        }
        owner
    }

    /// Returns whether the loader answers. In the child of a fork another thread tries, since it may have to wait
    /// forever.
    fn loader_answers(&'static self) -> bool {
        match self.loader.load(Ordering::SeqCst) {
            FREE => true,
            STUCK => false,
            _ => {
                // No channel: that is 20 KB of code in each crate that has one.
                let answer = Arc::new((Mutex::new(false), Condvar::new()));
                let theirs = answer.clone();
                let ask = move || {
                    loader::generation();
                    self.loader.store(FREE, Ordering::SeqCst);
                    *theirs.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
                    theirs.1.notify_one();
                };
                let is_free = spawn("flamelet", None, ask).is_ok() && {
                    let answered = answer.0.lock().unwrap_or_else(PoisonError::into_inner);
                    let waited = answer.1.wait_timeout_while(answered, PATIENCE, |answered| !*answered);
                    !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
                };
                if !is_free {
                    let _ = self.loader.compare_exchange(UNKNOWN, STUCK, Ordering::SeqCst, Ordering::SeqCst);
                }
                is_free
            }
        }
    }
}

pub(super) fn modules() -> Arc<Modules> {
    writers().owner().current.clone().unwrap_or_default()
}

pub(super) fn refresh() -> Result<bool> {
    let writers = writers();
    if !writers.loader_answers() {
        return Ok(false);
    }
    let mut seen = lock(&writers.refresh);
    let now = loader::generation();
    let changed = *seen != Some(now);
    if changed {
        let modules = loader::reload(&modules())?;
        publish(Arc::new(modules));
        *seen = Some(now);
    }
    free_retired();
    Ok(changed)
}

fn publish(modules: Arc<Modules>) {
    let mut owner = writers().owner();
    PUBLISHED.modules.store(Arc::as_ptr(&modules).cast_mut(), Ordering::SeqCst);
    let old = owner.current.replace(modules);
    owner.retired.extend(old);
}

fn free_retired() {
    let mut owner = writers().owner();
    if !owner.retired.is_empty() && PUBLISHED.readers.load(Ordering::SeqCst) == 0 {
        let retired = std::mem::take(&mut owner.retired);
        drop(owner);
        drop(retired);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
