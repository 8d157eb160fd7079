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
static WRITER: Mutex<Writer> = Mutex::new(Writer { current: None, retired: Vec::new(), seen: None });

struct Writer {
    current: Option<Arc<Modules>>,
    /// Lists that a reader may still hold.
    retired: Vec<Arc<Modules>>,
    seen: Option<loader::Generation>,
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
    writer().current.clone().unwrap_or_default()
}

pub(super) fn refresh() -> Result<bool> {
    let mut writer = writer();
    let now = loader::generation();
    let changed = writer.seen != Some(now);
    if changed {
        let known = writer.current.clone().unwrap_or_default();
        let modules = Arc::new(loader::reload(&known)?);
        CURRENT.store(Arc::as_ptr(&modules).cast_mut(), Ordering::SeqCst);
        let old = writer.current.replace(modules);
        writer.retired.extend(old);
        writer.seen = Some(now);
    }
    if !writer.retired.is_empty() && READERS.load(Ordering::SeqCst) == 0 {
        writer.retired.clear();
    }
    Ok(changed)
}

fn writer() -> MutexGuard<'static, Writer> {
    WRITER.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
