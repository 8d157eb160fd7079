//! The function that stands in for the C library's `pthread_create`.

use super::slots;
use std::arch::naked_asm;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// What a thread runs.
type Start = extern "C" fn(*mut c_void) -> *mut c_void;
type Create = unsafe extern "C" fn(*mut c_void, *const c_void, Start, *mut c_void) -> c_int;

/// The function that the program would call without ours; null until it was looked up.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// A thread's own function and its argument.
#[derive(Clone, Copy)]
#[repr(C)]
struct Beginning {
    start: Start,
    argument: *mut c_void,
}

/// Starts a thread as the C library's function of this name does. While a timer engine runs, the thread makes its own timer
/// before it runs `start`.
///
/// # Safety
/// As for the C library's function: the pointers must be right for it.
pub unsafe fn pthread_create(
    thread: *mut c_void,
    attributes: *const c_void,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    slots::note_installed();
    let Some(next) = next() else { return libc::EAGAIN };
    if slots::is_arming() {
        // SAFETY: the caller's promise.
        if let Some(result) = unsafe { create_armed(next, thread, attributes, Beginning { start, argument }) }
        {
            return result;
        }
    }
    // SAFETY: the caller's promise.
    unsafe { next(thread, attributes, start, argument) }
}

/// Starts a thread in [`begin`]. `None` if there is no memory for that.
///
/// # Safety
/// The pointers must be right for `pthread_create`.
unsafe fn create_armed(
    next: Create,
    thread: *mut c_void,
    attributes: *const c_void,
    beginning: Beginning,
) -> Option<c_int> {
    // Not by Rust's allocator: this is not the service's memory.
    // SAFETY: the size of a structure; the result is checked.
    let memory = unsafe { libc::malloc(size_of::<Beginning>()) }.cast::<Beginning>();
    if memory.is_null() {
        return None;
    }
    // SAFETY: memory for this structure, aligned for any.
    unsafe { memory.write(beginning) };
    // SAFETY: the caller's promise; `begin` has the right type, and takes over the memory if the thread starts.
    let result = unsafe { next(thread, attributes, begin, memory.cast()) };
    if result != 0 {
        // SAFETY: no thread was started, so that the memory is still ours.
        unsafe { libc::free(memory.cast()) };
    }
    Some(result)
}

/// Looks up the next function of this name: the C library's, or another library's that comes before it. The program calls it
/// when it is loaded: later, the lookup might wait for a thread that loads a library, and that thread for the one that is to
/// be started.
pub extern "C" fn resolve_create() {
    // SAFETY: looks up a name; the result is checked before it is used.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr()) };
    NEXT.store(next, Ordering::Release);
}

/// Returns the next function of this name.
fn next() -> Option<Create> {
    if NEXT.load(Ordering::Acquire).is_null() {
        // A library starts a thread while it is loaded, before the program is.
        resolve_create();
    }
    let known = NEXT.load(Ordering::Acquire);
    // SAFETY: null, or what `dlsym` returned as the function of that name, which has this type.
    (!known.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, Create>(known) })
}

/// Makes the timer of this thread. Returns what the thread is to run.
extern "C" fn prepare(memory: *mut Beginning) -> Beginning {
    // SAFETY: `create_armed` has written it, and gives it to this thread.
    let beginning = unsafe { memory.read() };
    // SAFETY: allocated by `malloc`, and not used any more.
    unsafe { libc::free(memory.cast()) };
    slots::arm_this_thread();
    beginning
}

/// The first function of a thread: calls [`prepare`], and goes on in the thread's own function without leaving a frame
/// behind, so that stacks look as they do without it.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn begin(_: *mut c_void) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "sub rsp, 8",
        ".cfi_def_cfa_offset 16",
        "call {prepare}",
        "add rsp, 8",
        ".cfi_def_cfa_offset 8",
        "mov rdi, rdx",
        "jmp rax",
        ".cfi_endproc",
        prepare = sym prepare,
    )
}

/// The same for aarch64.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
extern "C" fn begin(_: *mut c_void) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset w30, -8",
        ".cfi_offset w29, -16",
        "mov x29, sp",
        "bl {prepare}",
        "mov x16, x0",
        "mov x0, x1",
        "ldp x29, x30, [sp], #16",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore w30",
        ".cfi_restore w29",
        "br x16",
        ".cfi_endproc",
        prepare = sym prepare,
    )
}
