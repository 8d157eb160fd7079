//! Which signals a thread blocks, as the kernel stores them: one word, a bit each, on 64-bit Linux.
//! Async-signal-safe.

use std::ops::BitOr;

/// A set of signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SignalMask(u64);

impl SignalMask {
    pub(super) const NONE: Self = Self(0);

    /// All asynchronous signals, including those of the C library. Not those that the running instruction
    /// or `abort` raises, which would kill the process if they were blocked; nor those that the kernel does not let a
    /// thread block.
    pub(super) const ASYNCHRONOUS: Self = {
        let synchronous = [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGFPE,
            libc::SIGILL,
            libc::SIGTRAP,
            libc::SIGSYS,
            libc::SIGABRT,
            libc::SIGKILL,
            libc::SIGSTOP,
        ];
        let (mut mask, mut at) = (u64::MAX, 0);
        while at < synchronous.len() {
            mask &= !Self::of(synchronous[at]).0;
            at += 1;
        }
        Self(mask)
    };

    pub(super) const fn of(signal: libc::c_int) -> Self {
        Self(1 << (signal - 1))
    }

    /// Returns what is in `set`. Only the first word of the C library's type: the kernel writes no more.
    pub(super) fn in_set(set: &libc::sigset_t) -> Self {
        // SAFETY: the type has at least that word, and its alignment.
        Self(unsafe { std::ptr::from_ref(set).cast::<u64>().read() })
    }

    /// Converts to the C library's type. (Its own functions would leave out the signals that it uses itself.)
    pub(super) fn to_set(self) -> libc::sigset_t {
        // SAFETY: plain words, the first of which is the mask.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            (&raw mut set).cast::<u64>().write(self.0);
            set
        }
    }

    /// Returns what the running thread blocks.
    pub(super) fn of_this_thread() -> Self {
        let mut now = 0;
        // SAFETY: writes one word.
        unsafe { change(std::ptr::null(), &raw mut now) };
        Self(now)
    }

    /// Makes this the mask of the running thread.
    pub(super) fn apply(self) {
        // SAFETY: reads one word.
        unsafe { change(&raw const self.0, std::ptr::null_mut()) };
    }
}

impl BitOr for SignalMask {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The system call, which cannot fail with these arguments, and so leaves `errno` alone.
unsafe fn change(new: *const u64, old: *mut u64) {
    // SAFETY: the caller passes null or a word for each.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, new, old, size_of::<u64>()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_what_the_c_library_says() {
        let set = SignalMask::ASYNCHRONOUS.to_set();
        // SAFETY: looks into a set that is whole.
        let has = |signal| unsafe { libc::sigismember(&raw const set, signal) } == 1;
        assert!([libc::SIGPROF, libc::SIGCHLD, libc::SIGTERM, libc::SIGRTMAX()].into_iter().all(has));
        assert!(![libc::SIGSEGV, libc::SIGABRT, libc::SIGSYS, libc::SIGKILL].into_iter().any(has));
        assert_eq!(SignalMask::in_set(&set), SignalMask::ASYNCHRONOUS);
    }

    #[test]
    fn a_thread_blocks_what_is_applied() {
        let before = SignalMask::of_this_thread();
        let more = before | SignalMask::of(libc::SIGUSR1);
        more.apply();
        assert_eq!(SignalMask::of_this_thread(), more);
        before.apply();
        assert_eq!(SignalMask::of_this_thread(), before);
    }
}
