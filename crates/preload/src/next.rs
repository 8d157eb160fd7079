//! The allocation functions that would have been called without us.
//!
//! All of them are looked up on the first call, when the program has one thread. The look-up itself may allocate: its
//! requests are served from a small arena, whose blocks are never freed. Other threads never get blocks of the arena.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::errno::Errno;
use crate::slot::slot;

macro_rules! next_functions {
    ($($name:ident, $text:literal: fn($($argument:ident: $type:ty),*) -> $result:ty, while looking $served:expr;)*) => {
        /// The address of each function; 0 before the look-up.
        #[allow(non_upper_case_globals, reason = "the names of the functions")]
        mod addresses {
            use std::sync::atomic::AtomicUsize;
            $(pub(super) static $name: AtomicUsize = AtomicUsize::new(0);)*
        }

        $(
            /// Calls the next function of this name.
            ///
            /// # Safety
            /// As for the C function of this name.
            #[inline]
            pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
                let mut address = addresses::$name.load(Ordering::Relaxed);
                if address == 0 {
                    if is_looking() {
                        return $served;
                    }
                    address = look_up(&addresses::$name);
                }
                type Function = unsafe extern "C" fn($($type),*) -> $result;
                // SAFETY: the loader found the C function of this name, which has this type; and the caller keeps to
                // its terms.
                unsafe { std::mem::transmute::<usize, Function>(address)($($argument),*) }
            }
        )*

        const ALL: &[(&AtomicUsize, &CStr)] = &[$((&addresses::$name, $text)),*];
    };
}

next_functions! {
    malloc, c"malloc": fn(size: usize) -> *mut c_void, while looking from_arena(size);
    calloc, c"calloc": fn(count: usize, size: usize) -> *mut c_void,
        while looking from_arena(count.saturating_mul(size));
    realloc, c"realloc": fn(block: *mut c_void, size: usize) -> *mut c_void,
        while looking resized_in_arena(block, size);
    free, c"free": fn(block: *mut c_void) -> (), while looking leave(block);
    posix_memalign, c"posix_memalign": fn(block: *mut *mut c_void, alignment: usize, size: usize) -> c_int,
        while looking libc::ENOMEM;
    aligned_alloc, c"aligned_alloc": fn(alignment: usize, size: usize) -> *mut c_void,
        while looking ptr::null_mut();
    memalign, c"memalign": fn(alignment: usize, size: usize) -> *mut c_void, while looking ptr::null_mut();
    valloc, c"valloc": fn(size: usize) -> *mut c_void, while looking ptr::null_mut();
    pvalloc, c"pvalloc": fn(size: usize) -> *mut c_void, while looking ptr::null_mut();
    dlclose, c"dlclose": fn(library: *mut c_void) -> c_int, while looking -1;
}

/// Returns whether the next allocator is the C library's own, whose blocks are at least 16 bytes apart.
pub(crate) fn is_c_library() -> bool {
    // SAFETY: the pointers name C strings; `dladdr` writes to the structure only.
    unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, c"malloc".as_ptr());
        let mut information: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(next, &raw mut information) != 0
            && !information.dli_fname.is_null()
            && CStr::from_ptr(information.dli_fname).to_bytes().ends_with(b"/libc.so.6")
    }
}

/// Returns whether this thread is in a look-up.
#[cold]
pub(crate) fn is_looking() -> bool {
    slot().is_looking.get()
}

/// Looks up what is not known yet, and returns the address that is wanted.
#[cold]
fn look_up(wanted: &AtomicUsize) -> usize {
    let _errno = Errno::keep();
    let slot = slot();
    slot.is_looking.set(true);
    let mut found = [0; ALL.len()];
    for (found, (_, name)) in found.iter_mut().zip(ALL) {
        // SAFETY: the name is a C string.
        *found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) } as usize;
    }
    // Only now: until the last one is found, this thread allocates from the arena, whatever it calls.
    for (found, (address, _)) in found.into_iter().zip(ALL) {
        address.store(found, Ordering::Relaxed);
    }
    slot.is_looking.set(false);
    let address = wanted.load(Ordering::Relaxed);
    if address == 0 {
        // Only a program without a C library gets here, and such a program does not load us.
        std::process::abort();
    }
    address
}

const ARENA: usize = 16 << 10;
#[repr(align(16))]
struct Arena(UnsafeCell<[u8; ARENA]>);
// SAFETY: each part of it is handed out once.
unsafe impl Sync for Arena {}
static MEMORY: Arena = Arena(UnsafeCell::new([0; ARENA]));
static USED: AtomicUsize = AtomicUsize::new(0);

/// Returns zeroed memory for a look-up; null when there is not that much.
#[cold]
fn from_arena(size: usize) -> *mut c_void {
    if size > ARENA {
        return ptr::null_mut();
    }
    let size = size.max(1).next_multiple_of(16);
    let take = |used: usize| used.checked_add(size).filter(|&used| used <= ARENA);
    match USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
        // SAFETY: inside the arena.
        Ok(at) => unsafe { MEMORY.0.get().cast::<u8>().add(at).cast() },
        Err(_) => ptr::null_mut(),
    }
}

/// Returns a larger block for a look-up; null for a block that is not from the arena, as when there is no memory.
#[cold]
fn resized_in_arena(block: *mut c_void, size: usize) -> *mut c_void {
    if !block.is_null() && !is_from_arena(block) {
        return ptr::null_mut();
    }
    let resized = from_arena(size);
    if !block.is_null() && !resized.is_null() {
        copy_from_arena(block, resized, size);
    }
    resized
}

/// Ignores a free: the block is from the arena, or the loader made it before there was any malloc.
fn leave(_block: *mut c_void) {}

#[inline]
pub(crate) fn is_from_arena(block: *mut c_void) -> bool {
    (block as usize).wrapping_sub(MEMORY.0.get() as usize) < ARENA
}

/// Copies a block out of the arena, where blocks have no size of their own.
pub(crate) fn move_out_of_arena(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: any size may be requested.
    let moved = unsafe { malloc(size) };
    if !moved.is_null() {
        copy_from_arena(block, moved, size);
    }
    moved
}

fn copy_from_arena(block: *mut c_void, to: *mut c_void, size: usize) {
    let left = (MEMORY.0.get() as usize + ARENA) - block as usize;
    // SAFETY: no more is copied than the new block holds and the arena has; both may be in the arena.
    unsafe { ptr::copy(block.cast::<u8>(), to.cast::<u8>(), size.min(left)) };
}
