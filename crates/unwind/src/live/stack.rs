//! Reading the running thread's stack without any chance of a fault.
//!
//! Which memory is safe? The *home* stack of a thread: for the main thread up to the strings that the kernel
//! put on top of it, for others up to the thread's control block, which C libraries put on top of the stack
//! they allocate. Between the stack pointer and that top every page is checked once, by a system call that
//! reads an address and answers `EFAULT` instead of faulting; pages above the stack pointer of a running
//! thread do not go away. Whatever is not on the home stack is read through the kernel, word by word in
//! effect, which is slower and just as safe.

use crate::memory::Memory;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: u64 = 4096;
/// Stacks larger than this are read through the kernel beyond it.
const MAX_CHECKED: u64 = 64 << 20;
const WINDOW: usize = 256;

thread_local! {
    /// The home stack can be read from here to its top; 0 before the first check.
    static CHECKED_FROM: Cell<u64> = const { Cell::new(0) };
}

static MAIN_STACK_TOP: AtomicU64 = AtomicU64::new(0);

/// The memory of the running thread, for [`crate::walk`].
pub(super) struct LiveStack {
    /// Words from here on can be read directly …
    low: u64,
    /// … that begin fewer than this many bytes further on.
    room: u64,
    window_start: u64,
    window_length: usize,
    /// The first `window_length` bytes were written.
    window: MaybeUninit<[u8; WINDOW]>,
}

impl LiveStack {
    #[inline]
    pub(super) fn new(sp: u64) -> Self {
        let mut stack =
            Self { low: 0, room: 0, window_start: 0, window_length: 0, window: MaybeUninit::uninit() };
        if let Some((low, high)) = home_stack(sp) {
            stack.set_home(low, high);
            fetch_ahead(low, high);
        }
        stack
    }

    /// Direct reads are safe in `low..high`.
    fn set_home(&mut self, low: u64, high: u64) {
        if let Some(room) = high.checked_sub(low).and_then(|size| size.checked_sub(7)) {
            (self.low, self.room) = (low, room);
        }
    }

    /// Anything but a direct read: another part of the home stack, or another stack.
    #[cold]
    fn read_elsewhere(&mut self, address: u64) -> Option<u64> {
        if let Some((low, high)) = home_stack(address)
            && high - address >= 8
        {
            self.set_home(low, high);
            return self.read(address);
        }
        if let Some(word) = self.in_window(address) {
            return Some(word);
        }
        self.window_start = address;
        self.window_length = read_through_kernel(address, &mut self.window).min(WINDOW);
        self.in_window(address)
    }

    fn in_window(&self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(self.window_start)?).ok()?;
        // SAFETY: `window_length` is 0, or what `read_through_kernel` said that the kernel wrote, from the start.
        let window =
            unsafe { std::slice::from_raw_parts(self.window.as_ptr().cast::<u8>(), self.window_length) };
        window.get(offset..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
    }
}

impl Memory for LiveStack {
    #[inline(always)]
    fn read(&mut self, address: u64) -> Option<u64> {
        match self.glance(address) {
            None => self.read_elsewhere(address),
            word => word,
        }
    }

    #[inline(always)]
    fn glance(&mut self, address: u64) -> Option<u64> {
        // One comparison for both ends: what lies below `low` wraps around to beyond any stack.
        if address.wrapping_sub(self.low) >= self.room {
            return None;
        }
        let word = address as *const u64;
        // SAFETY: the word lies on this thread's own stack, between its stack pointer and the stack's top,
        // and `home_stack` checked that those pages can be read, which they can for as long as the thread runs on
        // them. Nobody writes there at this moment: the thread that owns the stack is the one that runs this. It may
        // be unaligned.
        Some(unsafe { word.read_unaligned() })
    }
}

/// Asks for the lines of the stack that hold its first frames: a walk reads them one after the other, and each
/// tells where the next one is, so what is in no cache would be waited for line by line.
#[inline]
fn fetch_ahead(low: u64, high: u64) {
    const LINE: u64 = 64;
    const LINES: u64 = 32;
    for line in (low..high.min(low + LINES * LINE)).step_by(LINE as usize) {
        fetch(line as *const u8);
    }
}

/// Asks for the cache line at `place`, to be used soon. Any address will do. Async-signal-safe.
#[inline(always)]
pub fn fetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which cannot fault.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// The part of the home stack from `sp` up, when `sp` is on it.
#[inline]
fn home_stack(sp: u64) -> Option<(u64, u64)> {
    let control_block = thread_pointer();
    let checked = CHECKED_FROM.get();
    let top = if sp < control_block { control_block } else { MAIN_STACK_TOP.load(Ordering::Relaxed) };
    if checked != 0 && checked <= sp && sp < top && (checked < control_block) == (sp < control_block) {
        return Some((sp, top));
    }
    check_home_stack(sp, top, checked)
}

/// Checks the pages from `sp` up to `top`, or to where the last check began.
#[cold]
fn check_home_stack(sp: u64, top: u64, checked: u64) -> Option<(u64, u64)> {
    let top = if top == 0 { main_stack_top() } else { top };
    if sp >= top || top - sp > MAX_CHECKED {
        return None;
    }
    let low = sp & !(PAGE - 1);
    let end = if sp < checked && checked < top { checked } else { top };
    let mut page = low;
    while page < end {
        if !is_readable(page) {
            return None;
        }
        page += PAGE;
    }
    CHECKED_FROM.set(low);
    Some((sp, top))
}

/// The kernel puts the program's file name on top of the main thread's stack.
fn main_stack_top() -> u64 {
    // SAFETY: reads the auxiliary vector, which does not change, without a lock: async-signal-safe.
    let top = unsafe { libc::getauxval(libc::AT_EXECFN) };
    MAIN_STACK_TOP.store(top, Ordering::Relaxed);
    top
}

/// Whether eight bytes at `address` can be read. The kernel copies a signal set from there before it looks
/// at what to do with it, and no such thing to do exists, so nothing happens in either case.
fn is_readable(address: u64) -> bool {
    const NOTHING: libc::c_int = -1;
    let no_old_set = std::ptr::null_mut::<u64>();
    // SAFETY: errno belongs to this thread. The call cannot change anything: its first argument is invalid.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::syscall(libc::SYS_rt_sigprocmask, NOTHING, address, no_old_set, 8usize);
        let is_readable = *errno != libc::EFAULT;
        *errno = before;
        is_readable
    }
}

/// Copies from `address` what can be read up to the end of its page; gives the length.
#[cold]
fn read_through_kernel(address: u64, into: &mut MaybeUninit<[u8; WINDOW]>) -> usize {
    // Two requests, so that a page that cannot be read spoils only its own part.
    let in_page = (PAGE - address % PAGE).min(WINDOW as u64) as usize;
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: WINDOW };
    let part = |start: u64, length: usize| libc::iovec { iov_base: start as *mut _, iov_len: length };
    let remote = [part(address, in_page), part(address.wrapping_add(in_page as u64), WINDOW - in_page)];
    // SAFETY: the kernel writes at most `WINDOW` bytes to `into`, which has them, and checks the remote addresses
    // itself: it answers an error where there is nothing. errno belongs to this thread and is put back.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let pid = libc::syscall(libc::SYS_getpid) as libc::pid_t;
        let length = libc::process_vm_readv(pid, &raw const local, 1, remote.as_ptr(), 2, 0);
        *errno = before;
        usize::try_from(length).unwrap_or(0).min(WINDOW)
    }
}

/// The address of this thread's control block.
#[cfg(target_arch = "x86_64")]
#[inline]
fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: on Linux the first word of the control block is its own address.
    unsafe {
        std::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    pointer
}

/// The address of this thread's control block.
#[cfg(target_arch = "aarch64")]
#[inline]
fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: reads a register that user space may read.
    unsafe {
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    pointer
}

/// Unknown on other machines, where every read goes through the kernel.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn thread_pointer() -> u64 {
    0
}
