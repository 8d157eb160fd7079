//! The functions that take the place of the C library's.
//!
//! Each entry saves its caller's registers before anything else can change them, in a few instructions of assembly,
//! and continues in Rust.

use std::arch::naked_asm;
use std::ffi::{c_int, c_void};

use crate::record::{self, Caller};
use crate::{next, slot, start, walker};

/// An exported function that adds the stack pointer, the frame pointer and the link register to its arguments.
macro_rules! entry {
    ($name:ident($($argument:ident: $type:ty),*) -> $result:ty, $target:path, $x86_64:literal, $aarch64:literal) => {
        /// Like the C function of this name; counted.
        ///
        /// # Safety
        /// As for the C function of this name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            #[cfg(target_arch = "x86_64")]
            naked_asm!($x86_64, "jmp {target}", target = sym $target);
            #[cfg(target_arch = "aarch64")]
            naked_asm!($aarch64, "b {target}", target = sym $target);
        }
    };
}

macro_rules! entry_of_one {
    ($name:ident($argument:ident: $type:ty), $target:path) => {
        entry!(
            $name($argument: $type) -> *mut c_void,
            $target,
            "mov rsi, rsp\nmov rdx, rbp",
            "mov x1, sp\nmov x2, x29\nmov x3, x30"
        );
    };
}

macro_rules! entry_of_two {
    ($name:ident($first:ident: $one:ty, $second:ident: $two:ty), $target:path) => {
        entry!(
            $name($first: $one, $second: $two) -> *mut c_void,
            $target,
            "mov rdx, rsp\nmov rcx, rbp",
            "mov x2, sp\nmov x3, x29\nmov x4, x30"
        );
    };
}

entry_of_one!(malloc(size: usize), counted_malloc);
entry_of_one!(valloc(size: usize), counted_valloc);
entry_of_one!(pvalloc(size: usize), counted_pvalloc);
entry_of_two!(calloc(count: usize, size: usize), counted_calloc);
entry_of_two!(realloc(block: *mut c_void, size: usize), counted_realloc);
entry_of_two!(aligned_alloc(alignment: usize, size: usize), counted_aligned_alloc);
entry_of_two!(memalign(alignment: usize, size: usize), counted_memalign);
entry!(
    posix_memalign(block: *mut *mut c_void, alignment: usize, size: usize) -> c_int,
    counted_posix_memalign,
    "mov rcx, rsp\nmov r8, rbp",
    "mov x3, sp\nmov x4, x29\nmov x5, x30"
);

#[inline]
fn counted(block: *mut c_void, size: usize, caller: Caller) -> *mut c_void {
    if !block.is_null() {
        record::allocated(block, size, caller);
    }
    block
}

extern "C" fn counted_malloc(size: usize, sp: u64, fp: u64, lr: u64) -> *mut c_void {
    // SAFETY: any size may be requested.
    counted(unsafe { next::malloc(size) }, size, Caller { sp, fp, lr })
}

extern "C" fn counted_calloc(count: usize, size: usize, sp: u64, fp: u64, lr: u64) -> *mut c_void {
    // SAFETY: any size may be requested.
    counted(unsafe { next::calloc(count, size) }, count.wrapping_mul(size), Caller { sp, fp, lr })
}

/// # Safety
/// `block` must be null or a block that was not freed.
unsafe extern "C" fn counted_realloc(
    block: *mut c_void,
    size: usize,
    sp: u64,
    fp: u64,
    lr: u64,
) -> *mut c_void {
    if next::is_from_arena(block) {
        return next::move_out_of_arena(block, size);
    }
    let taken = if block.is_null() { None } else { record::take(block) };
    // SAFETY: the caller's own terms.
    let moved = unsafe { next::realloc(block, size) };
    match taken {
        // A size of 0 frees; otherwise the block is where it was.
        Some(taken) if moved.is_null() && size != 0 => record::put_back(block, taken),
        Some(taken) => record::count_free(block, taken),
        None => {}
    }
    counted(moved, size, Caller { sp, fp, lr })
}

extern "C" fn counted_aligned_alloc(alignment: usize, size: usize, sp: u64, fp: u64, lr: u64) -> *mut c_void {
    // SAFETY: any size and alignment may be requested.
    counted(unsafe { next::aligned_alloc(alignment, size) }, size, Caller { sp, fp, lr })
}

extern "C" fn counted_memalign(alignment: usize, size: usize, sp: u64, fp: u64, lr: u64) -> *mut c_void {
    // SAFETY: any size and alignment may be requested.
    counted(unsafe { next::memalign(alignment, size) }, size, Caller { sp, fp, lr })
}

extern "C" fn counted_valloc(size: usize, sp: u64, fp: u64, lr: u64) -> *mut c_void {
    // SAFETY: any size may be requested.
    counted(unsafe { next::valloc(size) }, size, Caller { sp, fp, lr })
}

extern "C" fn counted_pvalloc(size: usize, sp: u64, fp: u64, lr: u64) -> *mut c_void {
    // SAFETY: any size may be requested.
    counted(unsafe { next::pvalloc(size) }, size, Caller { sp, fp, lr })
}

/// # Safety
/// `block` must be valid for a write.
unsafe extern "C" fn counted_posix_memalign(
    block: *mut *mut c_void,
    alignment: usize,
    size: usize,
    sp: u64,
    fp: u64,
    lr: u64,
) -> c_int {
    // SAFETY: the caller's own terms.
    unsafe {
        let error = next::posix_memalign(block, alignment, size);
        if error == 0 {
            counted(*block, size, Caller { sp, fp, lr });
        }
        error
    }
}

/// Like the C function of this name; counted.
///
/// # Safety
/// As for the C function of this name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn free(block: *mut c_void) {
    if block.is_null() || next::is_from_arena(block) {
        return;
    }
    if let Some(taken) = record::take(block) {
        record::count_free(block, taken);
    }
    // SAFETY: the caller's own terms.
    unsafe { next::free(block) };
}

/// Like the C function of this name. Another library may be loaded at the same addresses afterwards.
///
/// # Safety
/// As for the C function of this name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dlclose(library: *mut c_void) -> c_int {
    // SAFETY: the caller's own terms.
    let result = unsafe { next::dlclose(library) };
    if start::is_recording() {
        slot::on_own_behalf(walker::refresh);
    }
    result
}
