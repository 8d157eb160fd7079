//! The allocation functions that would have been called without us.
//!
//! They are looked up on the first call. The look-up itself may allocate: it is served from a small arena, whose
//! blocks are never given back.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

macro_rules! next_functions {
    ($($name:ident, $text:literal: fn($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            /// The next function of this name.
            ///
            /// # Safety
            /// As the C function of this name.
            #[inline]
            pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
                static ADDRESS: AtomicUsize = AtomicUsize::new(0);
                let address = match ADDRESS.load(Ordering::Relaxed) {
                    0 => look_up(&ADDRESS, $text),
                    address => address,
                };
                type Function = unsafe extern "C" fn($($type),*) -> $result;
                // SAFETY: the loader says that the C function of this name, which has this type, is there; and
                // the caller keeps to its terms.
                unsafe { std::mem::transmute::<usize, Function>(address)($($argument),*) }
            }
        )*
    };
}

next_functions! {
    malloc, c"malloc": fn(size: usize) -> *mut c_void;
    calloc, c"calloc": fn(count: usize, size: usize) -> *mut c_void;
    realloc, c"realloc": fn(block: *mut c_void, size: usize) -> *mut c_void;
    free, c"free": fn(block: *mut c_void) -> ();
    posix_memalign, c"posix_memalign": fn(block: *mut *mut c_void, alignment: usize, size: usize) -> c_int;
    aligned_alloc, c"aligned_alloc": fn(alignment: usize, size: usize) -> *mut c_void;
    memalign, c"memalign": fn(alignment: usize, size: usize) -> *mut c_void;
    valloc, c"valloc": fn(size: usize) -> *mut c_void;
    pvalloc, c"pvalloc": fn(size: usize) -> *mut c_void;
    dlclose, c"dlclose": fn(library: *mut c_void) -> c_int;
}

/// Whether the next allocator is the C library's own, whose blocks are 16 bytes apart at least.
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

#[cold]
fn look_up(address: &AtomicUsize, name: &CStr) -> usize {
    LOOKING.store(true, Ordering::Relaxed);
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) } as usize;
    LOOKING.store(false, Ordering::Relaxed);
    if found == 0 {
        // Only a program without a C library gets here, and such a one does not load us.
        std::process::abort();
    }
    address.store(found, Ordering::Relaxed);
    found
}

/// Whether a look-up runs. Programs have one thread when they allocate for the first time.
static LOOKING: AtomicBool = AtomicBool::new(false);

const ARENA: usize = 16 << 10;
#[repr(align(16))]
struct Arena(UnsafeCell<[u8; ARENA]>);
// SAFETY: parts of it are handed out once each.
unsafe impl Sync for Arena {}
static MEMORY: Arena = Arena(UnsafeCell::new([0; ARENA]));
static USED: AtomicUsize = AtomicUsize::new(0);

/// Zeroed memory while a look-up runs; `None` when none does.
#[inline]
pub(crate) fn while_looking(size: usize) -> Option<*mut c_void> {
    if !LOOKING.load(Ordering::Relaxed) {
        return None;
    }
    let size = size.max(1).next_multiple_of(16);
    let at = USED.fetch_add(size, Ordering::Relaxed);
    if at + size > ARENA {
        return Some(std::ptr::null_mut());
    }
    // SAFETY: inside of the arena.
    Some(unsafe { MEMORY.0.get().cast::<u8>().add(at).cast() })
}

/// Whether a block is from the arena.
#[inline]
pub(crate) fn is_from_arena(block: *mut c_void) -> bool {
    (block as usize).wrapping_sub(MEMORY.0.get() as usize) < ARENA
}

/// A copy of a block of the arena, which has no size of its own.
pub(crate) fn move_out_of_arena(block: *mut c_void, size: usize) -> *mut c_void {
    let left = (MEMORY.0.get() as usize + ARENA) - block as usize;
    // SAFETY: no more is copied than the new block holds and the arena has.
    unsafe {
        let moved = malloc(size);
        if !moved.is_null() {
            std::ptr::copy_nonoverlapping(block.cast::<u8>(), moved.cast::<u8>(), size.min(left));
        }
        moved
    }
}
