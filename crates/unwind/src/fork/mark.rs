//! What tells a process from its parent and its children, even if they have the same number.
//!
//! In namespaces of their own, a process and its child may both be number 1. So forks are counted, from parent to child. A
//! `clone` that does not go through the C library runs no handlers; but the kernel fills a page with zeros in every child.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Counts, from parent to child, the forks that were noticed.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A word that is one more than `FORKS`, until a fork makes it 0. Null where there is none.
static WIPED: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

const PAGE: usize = 4096;

/// Prepares the page, if the kernel can (from 4.14 on).
pub(super) fn prepare() {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping touches nothing that exists; it is large enough and aligned for the word.
    unsafe {
        let page = libc::mmap(ptr::null_mut(), PAGE, protection, flags, -1, 0);
        if page == libc::MAP_FAILED {
            return;
        }
        let word = page.cast::<AtomicU32>();
        // Some emulators agree to any advice and follow none.
        let is_advice_checked = libc::madvise(page, PAGE, -1) != 0;
        let is_wiped = is_advice_checked && libc::madvise(page, PAGE, libc::MADV_WIPEONFORK) == 0;
        word.write(AtomicU32::new(forks() + 1));
        let null = ptr::null_mut();
        // Another thread may have come first.
        if !is_wiped || WIPED.compare_exchange(null, word, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            libc::munmap(page, PAGE);
        }
    }
}

fn wiped() -> Option<&'static AtomicU32> {
    // SAFETY: null, or the word in the page of `prepare`, which stays.
    unsafe { WIPED.load(Ordering::Acquire).as_ref() }
}

/// In the child of a fork: counts it, unless it was noticed already. Async-signal-safe.
pub(super) fn count_fork() {
    match wiped() {
        Some(word) => _ = checked_forks(word),
        None => _ = FORKS.fetch_add(1, Ordering::Relaxed),
    }
}

/// Returns the number of forks, after counting one that was not noticed. All threads that come here at once in a child get
/// the same number.
fn checked_forks(word: &AtomicU32) -> u32 {
    let counted = word.load(Ordering::Relaxed);
    if counted != 0 {
        return counted - 1;
    }
    let forks = forks() + 1;
    match word.compare_exchange(0, forks + 1, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {
            FORKS.store(forks, Ordering::Relaxed);
            forks
        }
        Err(counted) => counted - 1,
    }
}

/// Returns a number that is different in a child whose fork was noticed: by the handlers of a fork, or by `process`.
/// Async-signal-safe.
#[inline]
pub fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Returns what no parent and no child of this process has: its number, and how many forks there were. Never 0.
/// Async-signal-safe.
pub(super) fn process() -> u64 {
    let forks = wiped().map_or_else(forks, checked_forks);
    u64::from(forks) << 32 | u64::from(number().unsigned_abs())
}

/// Returns whether `process` is of a process with this number of forks.
pub(super) fn has_forks(process: u64, forks: u32) -> bool {
    process >> 32 == u64::from(forks)
}

/// Returns the number of this process.
fn number() -> i32 {
    #[cfg(test)]
    if tests::NUMBERED.load(Ordering::Relaxed) != 0 {
        return tests::NUMBERED.load(Ordering::Relaxed);
    }
    // SAFETY: cannot fail.
    unsafe { libc::getpid() }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use flamelet_test_support::holds_in_child;
    use std::sync::atomic::AtomicI32;

    /// The number that the child of a test believes to have; 0 for its own.
    pub(super) static NUMBERED: AtomicI32 = AtomicI32::new(0);

    /// Returns whether `check` holds in a child with the number of its parent, as in a namespace of its own: of a fork, and
    /// of a clone without the handlers of a fork.
    pub(in crate::fork) fn holds_in_children_with_the_same_number(check: impl Fn() -> bool) -> bool {
        crate::fork::register();
        let parent = number();
        let check = || {
            NUMBERED.store(parent, Ordering::Relaxed);
            check()
        };
        let holds = holds_in_child(check);
        if wiped().is_none() {
            flamelet_test_support::skip!("this kernel does not wipe pages at a fork");
            return holds;
        }
        holds && holds_in_clone(check)
    }

    fn holds_in_clone(check: impl Fn() -> bool) -> bool {
        // SAFETY: like a fork, without its handlers; the child only runs `check`, which does not allocate, and exits.
        unsafe {
            let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as i32;
            if child == 0 {
                libc::alarm(120);
                libc::_exit(i32::from(!check()));
            }
            let mut status = -1;
            libc::waitpid(child, &raw mut status, 0) == child && status == 0
        }
    }

    #[test]
    fn a_child_with_the_number_of_its_parent_is_another_process() {
        crate::fork::register();
        let (own, forks) = (process(), forks());
        assert!(has_forks(own, forks) && own == process());
        assert!(holds_in_children_with_the_same_number(|| {
            let child = process();
            child != own && child == process() && !has_forks(child, forks)
        }));
        assert_eq!(own, process());
    }
}
