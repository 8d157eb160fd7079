//! Unwinding inside this process: in a signal handler, or in an allocator.
//!
//! ```text
//!  ordinary threads                      any thread, any moment (a signal handler, malloc)
//!  ────────────────                      ─────────────────────────────────────────────────
//!  refresh() ─► tables of the loaded ─►  unwind(registers, frames)      lock-free, allocation-free,
//!  now and then  modules, published      unwind_here(frames)            cannot fault
//! ```
//!
//! * [`refresh`] is cheap when no library was loaded or unloaded since the last call. It takes the loader's
//!   lock and allocates: never call it from a handler.
//! * [`unwind`] reads the thread's own stack directly, after checking once that each page of it can be read; memory
//!   of any other stack (coroutines, an alternate signal stack) is read through the kernel, which returns an error
//!   instead of faulting. Where the kernel denies that, such stacks end as truncated.
//! * A stack that reaches code of a library loaded after the last [`refresh`] ends there as truncated.

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "walks the loader's list of modules and their memory")]
mod loader;
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "publishes a pointer to lock-free readers")]
mod published;
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "reads the stack of the running thread")]
mod repeat;
#[allow(unsafe_code, reason = "sets the signal mask of a thread")]
mod spawn;
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "reads the stack of the running thread")]
mod stack;

use crate::arch::Registers;
use crate::error::Result;
use crate::module::Modules;
use crate::walk::Unwound;
use std::sync::Arc;

#[cfg(target_os = "linux")]
pub use repeat::{Repeated, RepeatedFrame, RepeatedWalk};
pub use spawn::spawn;
#[cfg(target_os = "linux")]
pub use stack::{fetch, thread_pointer};

#[cfg(target_os = "linux")]
impl Modules {
    /// Returns the modules of this process, from the dynamic loader, including the vdso. Takes the loader's lock and
    /// allocates. To unwind in this process, use this module's functions, which keep such a list up to date.
    pub fn of_this_process() -> Result<Self> {
        loader::loaded_modules()
    }
}

/// Learns the modules of this process, on the first call and whenever libraries were loaded or unloaded since.
/// Returns whether anything changed. Not async-signal-safe.
#[cfg(target_os = "linux")]
pub fn refresh() -> Result<bool> {
    published::refresh()
}

/// Returns the modules as of the last [`refresh`]. Not async-signal-safe.
#[cfg(target_os = "linux")]
pub fn modules() -> Arc<Modules> {
    published::modules()
}

/// Unwinds the running thread from `registers`: those that a signal interrupted
/// ([`Registers::of_context`]), or its own ([`Registers::here`]). Async-signal-safe. Uses about 1 KB of stack.
#[cfg(target_os = "linux")]
#[inline]
pub fn unwind(registers: &Registers, frames: &mut [u64]) -> Unwound {
    let visit = published::ReaderVisit::enter();
    let mut memory = stack::LiveStack::new(registers.sp);
    crate::walk(visit.modules(), registers, &mut memory, frames)
}

/// Unwinds the running thread from `registers` to the frame whose registers were `last` ([`Registers::here`]) and which has not
/// returned. That frame is the last one; the stack then ends as [`Reason::OutOfStack`](crate::Reason::OutOfStack). Where the two are
/// on different stacks, it may be as [`unwind`] finds it. Async-signal-safe.
#[cfg(target_os = "linux")]
#[inline]
pub fn unwind_to(last: &Registers, registers: &Registers, frames: &mut [u64]) -> Unwound {
    let visit = published::ReaderVisit::enter();
    // What leads from that frame to its caller lies above its stack pointer.
    let end = if registers.sp <= last.sp { last.sp } else { u64::MAX };
    let mut memory = stack::LiveStack::up_to(end, registers.sp);
    crate::walk(visit.modules(), registers, &mut memory, frames)
}

/// Prefetches what [`unwind`] needs, so that it is on its way to the cache while the caller does something else.
/// Async-signal-safe.
#[cfg(target_os = "linux")]
#[inline]
pub fn about_to_unwind() {
    published::fetch_ahead();
}

/// Unwinds the running thread from the calling function, which is the first frame. Async-signal-safe.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
pub fn unwind_here(frames: &mut [u64]) -> Unwound {
    unwind(&Registers::here(), frames)
}

/// Fails: learning the modules of this process is not supported on this system.
#[cfg(not(target_os = "linux"))]
pub fn refresh() -> Result<bool> {
    use crate::error::{Error, ErrorKind};
    Err(Error::new(ErrorKind::Unsupported, "unwinding in this process is not supported on this system"))
}

/// Returns no modules on this system.
#[cfg(not(target_os = "linux"))]
pub fn modules() -> Arc<Modules> {
    Arc::default()
}

/// Finds nothing on this system.
#[cfg(not(target_os = "linux"))]
pub fn unwind(_registers: &Registers, _frames: &mut [u64]) -> Unwound {
    Unwound { depth: 0, end: crate::End::Truncated(crate::Reason::NoModule) }
}
