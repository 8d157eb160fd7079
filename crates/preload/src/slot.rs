//! The few words that the library has in each thread, usable at any moment of the thread's life.
//!
//! Thread-local storage of a shared library is usually found through a function of the loader that may allocate when
//! other libraries were loaded meanwhile, which malloc must not. A library that is loaded from the start has its
//! storage at a fixed distance from the thread pointer. Rust cannot request that yet, but assembly can: 32 bytes,
//! zero in every new thread.

use std::cell::Cell;
use std::ffi::c_void;

use crate::errno::Errno;

/// Where a thread is running.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Inside {
    /// In the program.
    Not = 0,
    /// In the library, in code that allocates nothing.
    Recording = 1,
    /// In the library, or in another one that it called.
    OwnBehalf = 2,
}

#[repr(C)]
pub(crate) struct ThreadSlot {
    /// The thread's state (see `thread`), made by the first allocation that is recorded.
    pub(crate) state: Cell<*mut c_void>,
    /// Whether the thread is inside the library: what is allocated then is not the program's.
    pub(crate) inside: Cell<Inside>,
    /// Whether it is looking up the next allocation functions, which may itself allocate.
    pub(crate) is_looking: Cell<bool>,
    /// The lane that the thread counts in; 0 for the shared one.
    pub(crate) lane: Cell<u32>,
    /// The block of the last call, if that call allocated it.
    pub(crate) last_block: Cell<usize>,
    /// Bytes until the next sample.
    pub(crate) countdown: Cell<i64>,
}

const _: () = assert!(size_of::<ThreadSlot>() == 32);

std::arch::global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".balign 16",
    ".globl flamelet_preload_slot",
    ".hidden flamelet_preload_slot",
    ".type flamelet_preload_slot, @object",
    ".size flamelet_preload_slot, 32",
    "flamelet_preload_slot:",
    ".zero 32",
    ".popsection",
);

/// Returns the slot of the running thread.
#[inline(always)]
pub(crate) fn slot() -> &'static ThreadSlot {
    let slot: *const ThreadSlot;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the thread pointer's first word is the pointer itself; the distance is in the global offset table.
    unsafe {
        std::arch::asm!(
            "mov {0}, qword ptr [rip + flamelet_preload_slot@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) slot, options(pure, readonly, nostack)
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads the thread pointer, and the distance from the global offset table.
    unsafe {
        std::arch::asm!(
            "mrs {0}, tpidr_el0",
            "adrp {1}, :gottprel:flamelet_preload_slot",
            "ldr {1}, [{1}, :gottprel_lo12:flamelet_preload_slot]",
            "add {0}, {0}, {1}",
            out(reg) slot, out(reg) _, options(pure, readonly, nostack)
        );
    }
    // SAFETY: zeroes are a valid slot, only this thread has it, and it lives as long as the thread.
    unsafe { &*slot }
}

/// Runs `work`, which calls into other libraries: what they allocate is not the program's.
pub(crate) fn on_own_behalf<T>(work: impl FnOnce() -> T) -> T {
    let _errno = Errno::keep();
    let slot = slot();
    let before = slot.inside.replace(Inside::OwnBehalf);
    let result = work();
    slot.inside.set(before);
    result
}
