//! The modules of this process, published so that signal handlers read them without a lock.
//!
//! A reader announces itself, loads the pointer, reads, and leaves. A writer swaps the pointer, and drops an
//! old list only at a moment after the swap when no reader is inside: whoever enters later sees the new one.

use super::loader;
use crate::error::Result;
use crate::module::Modules;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

static CURRENT: AtomicPtr<Modules> = AtomicPtr::new(ptr::null_mut());
static READERS: AtomicUsize = AtomicUsize::new(0);
/// Taken while modules are read, which may wait for the loader; never by readers of any kind.
static REFRESH: Mutex<Option<loader::Generation>> = Mutex::new(None);
/// Taken for a moment only.
static OWNER: Mutex<Owner> = Mutex::new(Owner { current: None, retired: Vec::new() });

struct Owner {
    current: Option<Arc<Modules>>,
    /// Lists that a reader may still hold.
    retired: Vec<Arc<Modules>>,
}

/// A visit to the published modules.
pub(super) struct Reader {
    modules: *const Modules,
}

static NONE: Modules = Modules::EMPTY;

impl Reader {
    /// Async-signal-safe.
    #[inline]
    pub(super) fn enter() -> Self {
        READERS.fetch_add(1, Ordering::SeqCst);
        Self { modules: CURRENT.load(Ordering::SeqCst) }
    }

    #[inline]
    pub(super) fn modules(&self) -> &Modules {
        // SAFETY: the pointer is null or comes from an `Arc` that the writer keeps until no reader that
        // entered before its retirement is left; this reader is counted until it is dropped.
        unsafe { self.modules.as_ref() }.unwrap_or(&NONE)
    }
}

impl Drop for Reader {
    #[inline]
    fn drop(&mut self) {
        READERS.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(super) fn modules() -> Arc<Modules> {
    lock(&OWNER).current.clone().unwrap_or_default()
}

pub(super) fn refresh() -> Result<bool> {
    let mut seen = lock(&REFRESH);
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
    let mut owner = lock(&OWNER);
    CURRENT.store(Arc::as_ptr(&modules).cast_mut(), Ordering::SeqCst);
    let old = owner.current.replace(modules);
    owner.retired.extend(old);
}

fn free_retired() {
    let mut owner = lock(&OWNER);
    if !owner.retired.is_empty() && READERS.load(Ordering::SeqCst) == 0 {
        let retired = std::mem::take(&mut owner.retired);
        drop(owner);
        drop(retired);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
