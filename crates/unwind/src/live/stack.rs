//! Reading the running thread's stack without any chance of a fault.
//!
//! Which memory is safe? The *home* stack of a thread: for the main thread up to the strings that the kernel put on
//! top of it, for others up to the thread's control block, which C libraries put on top of the stack they allocate.
//! Between the stack pointer and that top every page is checked once, by a system call that reads an address and
//! returns `EFAULT` instead of faulting; pages above the stack pointer of a running thread do not go away. Anything
//! not on the home stack is read through the kernel, word by word in effect, which is slower and just as safe. (The
//! main thread's control block is not on top of a stack: if it runs below that block, it is on a coroutine's or an
//! alternate stack, and between those and the block anything may come and go.)

use crate::memory::Memory;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: u64 = 4096;
/// Beyond this size stacks are read through the kernel.
const MAX_CHECKED: u64 = 64 << 20;
const WINDOW: usize = 256;

thread_local! {
    /// The home stack can be read from here to its top; 0 before the first check.
    static CHECKED_FROM: Cell<u64> = const { Cell::new(0) };
}

static MAIN_STACK_TOP: AtomicU64 = AtomicU64::new(0);
/// The control block of the program's first thread, once it was seen on its stack.
static FIRST_THREAD: AtomicU64 = AtomicU64::new(0);

/// The memory of the running thread, for [`crate::walk`].
pub(super) struct LiveStack {
    /// Words at this address and above can be read directly …
    low: u64,
    /// … if they begin fewer than this many bytes further on.
    room: u64,
    /// No word is read that does not end before this address.
    end: u64,
    window_start: u64,
    window_length: usize,
    /// The first `window_length` bytes were written.
    window: MaybeUninit<[u8; WINDOW]>,
}

impl LiveStack {
    /// Reads nothing directly until it is known what can be. (Not a constant, whose window would be copied.)
    #[inline(always)]
    fn unknown() -> Self {
        let window = MaybeUninit::uninit();
        Self { low: 0, room: 0, end: u64::MAX, window_start: 0, window_length: 0, window }
    }

    #[inline]
    pub(super) fn new(sp: u64) -> Self {
        Self::up_to(u64::MAX, sp)
    }

    /// Makes the same that reads only what lies below `end`.
    #[inline]
    pub(super) fn up_to(end: u64, sp: u64) -> Self {
        let mut stack = Self::unknown();
        stack.end = end;
        if let Some((low, high)) = home_stack(sp) {
            stack.set_home(low, high);
            fetch_ahead(low, high.min(end));
        }
        stack
    }

    /// Makes the same for a thread whose home stack is known to be readable in `home`, which [`known_home`] returned
    /// on this thread.
    #[inline]
    pub(super) fn on_home(sp: u64, home: &Range<u64>) -> Self {
        let mut stack = Self::unknown();
        stack.set_home(sp, home.end);
        stack
    }

    /// Allows direct reads in `low..high`.
    fn set_home(&mut self, low: u64, high: u64) {
        if let Some(room) = high.min(self.end).checked_sub(low).and_then(|size| size.checked_sub(7)) {
            (self.low, self.room) = (low, room);
        }
    }

    /// Handles anything but a direct read: another part of the home stack, or another stack.
    #[cold]
    fn read_elsewhere(&mut self, address: u64) -> Option<u64> {
        if self.end - 8 < address {
            return None;
        }
        if let Some(word) = self.in_window(address) {
            return Some(word);
        }
        if let Some((low, high)) = home_stack(address)
            && high - address >= 8
        {
            self.set_home(low, high);
            return self.read(address);
        }
        self.window_start = address;
        self.window_length = read_through_kernel(address, &mut self.window).min(WINDOW);
        self.in_window(address)
    }

    fn in_window(&self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(self.window_start)?).ok()?;
        // SAFETY: `window_length` is 0, or what `read_through_kernel` reported that the kernel wrote, from the start.
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
        // One comparison for both ends: addresses below `low` wrap around to beyond any stack.
        if address.wrapping_sub(self.low) >= self.room {
            return None;
        }
        // SAFETY: the word is on this thread's own stack, between its stack pointer and the stack's top, and
        // `home_stack` checked that those pages can be read, which they can for as long as the thread runs on them.
        Some(unsafe { read_directly(address) })
    }
}

/// Reads a word of the stack.
///
/// # Safety
/// It must be readable.
#[inline(always)]
pub(super) unsafe fn read_directly(address: u64) -> u64 {
    let word = address as *const Unaligned;
    // SAFETY: as the caller says. Volatile, because the stack is not this function's memory: the thread itself is
    // stopped, but other threads may write to what it lent them. Any word will do then, as long as it is read once.
    unsafe { word.read_volatile() }.0
}

/// A word at any alignment.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Unaligned(u64);

/// Prefetches the lines of the stack that hold its first frames: a walk reads them one after the other, and each
/// gives the place of the next one, so a walk would wait for every line that is in no cache.
#[inline]
fn fetch_ahead(low: u64, high: u64) {
    const LINE: u64 = 64;
    const LINES: u64 = 32;
    for line in (low..high.min(low + LINES * LINE)).step_by(LINE as usize) {
        fetch(line as *const u8);
    }
}

/// Prefetches the cache line at `place`. Any address will do. Async-signal-safe.
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

/// Returns the part of the home stack that was checked, when `sp` is on it: for a caller that would ask again and again.
/// It is valid on this thread, from the thread's stack pointer up.
#[cold]
pub(super) fn known_home(sp: u64) -> Option<Range<u64>> {
    home_stack(sp).map(|(sp, top)| sp & !(PAGE - 1)..top)
}

/// Returns the part of the home stack from `sp` up, when `sp` is on it.
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
    /// The last page, which no process has.
    const NOWHERE: u64 = !(PAGE - 1);
    let top = if top == 0 { main_stack_top() } else { top };
    if sp >= top || top - sp > MAX_CHECKED {
        return None;
    }
    let control_block = thread_pointer();
    let is_below = sp < control_block;
    // Where the check always succeeds (in an emulator, say) it means nothing.
    if (is_below && is_first_thread(control_block)) || is_readable(NOWHERE) {
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
    if !is_below {
        FIRST_THREAD.store(control_block, Ordering::Relaxed);
    }
    Some((sp, top))
}

/// Returns whether this is the thread that runs on the kernel's stack, not on one below its control block. Until it
/// was seen there, it is assumed to be the thread with the id of the process; in the child of a fork that may be
/// another one, which is then read through the kernel.
fn is_first_thread(control_block: u64) -> bool {
    match FIRST_THREAD.load(Ordering::Relaxed) {
        // SAFETY: system calls without arguments that cannot fail, and so leave `errno` alone.
        0 => unsafe { libc::syscall(libc::SYS_gettid) == libc::syscall(libc::SYS_getpid) },
        first => first == control_block,
    }
}

/// Returns the top of the main thread's stack, where the kernel puts the program's file name.
fn main_stack_top() -> u64 {
    // SAFETY: reads the auxiliary vector, which does not change, without a lock: async-signal-safe.
    let top = unsafe { libc::getauxval(libc::AT_EXECFN) };
    MAIN_STACK_TOP.store(top, Ordering::Relaxed);
    top
}

/// Returns whether eight bytes at `address` can be read. The kernel copies a signal set from there before it checks
/// the requested operation, which does not exist, so nothing happens in either case. Any other result (from a filter)
/// counts as unreadable.
fn is_readable(address: u64) -> bool {
    const NOTHING: libc::c_int = -1;
    let no_old_set = std::ptr::null_mut::<u64>();
    // SAFETY: errno belongs to this thread. The call cannot change anything: its first argument is invalid.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let result = libc::syscall(libc::SYS_rt_sigprocmask, NOTHING, address, no_old_set, 8usize);
        let is_readable = result == -1 && *errno == libc::EINVAL;
        *errno = before;
        is_readable
    }
}

/// Copies from `address` what can be read up to the end of its page; returns the length.
#[cold]
fn read_through_kernel(address: u64, into: &mut MaybeUninit<[u8; WINDOW]>) -> usize {
    // Two requests, so that a page that cannot be read spoils only its own part.
    let in_page = (PAGE - address % PAGE).min(WINDOW as u64) as usize;
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: WINDOW };
    let part = |start: u64, length: usize| libc::iovec { iov_base: start as *mut _, iov_len: length };
    let remote = [part(address, in_page), part(address.wrapping_add(in_page as u64), WINDOW - in_page)];
    // SAFETY: the kernel writes at most `WINDOW` bytes to `into`, which has them, and checks the remote addresses
    // itself: it returns an error where there is nothing. errno belongs to this thread and is put back.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let pid = libc::syscall(libc::SYS_getpid) as libc::pid_t;
        let length = libc::process_vm_readv(pid, &raw const local, 1, remote.as_ptr(), 2, 0);
        *errno = before;
        usize::try_from(length).unwrap_or(0).min(WINDOW)
    }
}

/// Returns the address of this thread's control block. Async-signal-safe.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: on Linux the first word of the control block is its own address.
    unsafe {
        std::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    pointer
}

/// Returns the address of this thread's control block. Async-signal-safe.
#[cfg(target_arch = "aarch64")]
#[inline]
pub fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: reads a register that user space may read.
    unsafe {
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    pointer
}

/// Returns 0 for unknown on other machines, where every read goes through the kernel.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn thread_pointer() -> u64 {
    0
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;
    use std::hint::black_box;

    /// Returns whether words of this stack can be read, aligned and unaligned.
    fn reads_its_own_stack() -> bool {
        let words = black_box([0x1122_3344_5566_7788u64, 0x99aa_bbcc_ddee_ff00]);
        let address = words.as_ptr() as u64;
        let mut stack = LiveStack::new(address);
        stack.read(address) == Some(words[0])
            && stack.read(address + 8) == Some(words[1])
            && stack.read(address + 4) == Some(0xddee_ff00_1122_3344)
    }

    #[test]
    fn only_what_lies_below_the_end_is_read() {
        let words = black_box([1u64, 2, 3]);
        let [first, second, third] = words.each_ref().map(|word| std::ptr::from_ref(word) as u64);
        let mut stack = LiveStack::up_to(third, first);
        assert_eq!([first, second].map(|address| stack.read(address)), [Some(1), Some(2)]);
        assert_eq!([second + 1, third - 1, third, u64::MAX].map(|address| stack.read(address)), [None; 4]);
        // On a stack that is read through the kernel, too.
        let elsewhere: Box<[u64; 3]> = black_box(Box::new(words));
        let [first, second, third] = elsewhere.each_ref().map(|word| std::ptr::from_ref(word) as u64);
        let mut stack = LiveStack::up_to(third, first);
        assert_eq!([first, second, third].map(|address| stack.read(address)), [Some(1), Some(2), None]);
    }

    fn has_home_stack() -> bool {
        let here = black_box(0u64);
        home_stack(&raw const here as u64).is_some()
    }

    #[test]
    fn a_thread_has_a_home_stack() {
        assert!(has_home_stack() && reads_its_own_stack());
        assert!(!is_readable(!(PAGE - 1)) && !is_readable(8));
    }

    /// In the child of a fork this thread is the main one, on a stack that is not the main one.
    #[test]
    fn below_its_control_block_the_main_thread_has_none() {
        assert!(flamelet_test_support::holds_in_child(|| {
            CHECKED_FROM.set(0);
            !has_home_stack() && reads_its_own_stack()
        }));
    }

    #[test]
    fn where_pages_cannot_be_checked_there_is_none() {
        let thread = std::thread::spawn(|| {
            flamelet_test_support::deny_call(libc::SYS_rt_sigprocmask);
            (has_home_stack(), reads_its_own_stack())
        });
        assert_eq!(thread.join().expect("no panic"), (false, true));
    }
}
