//! Which system call a thread is in, as the kernel says.

use crate::threads::Tid;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SystemCall(i64);

impl SystemCall {
    /// Returns the call that a thread of this process is in; `None` if it runs, or the kernel does not say.
    pub(super) fn of(thread: Tid) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).ok()?)
    }

    /// Reads `202 0x7f… …`; a thread that runs has a word there, one that was stopped outside of a call -1.
    fn parse(text: &str) -> Option<Self> {
        let number = text.split_whitespace().next()?.parse().ok()?;
        (number >= 0).then_some(Self(number))
    }

    /// Returns its name, or its number for those in which threads rarely wait.
    pub(super) fn name(self) -> String {
        let name = |known: &KnownCall| known.name.trim_start_matches("SYS_").to_owned();
        self.known().map_or_else(|| format!("system call {}", self.0), name)
    }

    fn known(self) -> Option<&'static KnownCall> {
        KNOWN.iter().chain(KNOWN_HERE).find(|known| known.number == self.0)
    }
}

/// Returns whether a thread of this process is in a call that waits for a file: one that was opened by a path, so no socket
/// and no pipe without a name.
pub(super) fn is_at_file(thread: Tid) -> bool {
    let target = |file: u64| std::fs::read_link(format!("/proc/self/fd/{file}")).ok();
    let is_path = |file| target(file).is_some_and(|path| path.is_absolute());
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall"));
    text.is_ok_and(|text| waits_for_file(&text, is_path))
}

/// Reads the same line as [`SystemCall::parse`]; `is_path` says of a descriptor whether it was opened by a path.
fn waits_for_file(text: &str, is_path: impl Fn(u64) -> bool) -> bool {
    let Some(call) = SystemCall::parse(text) else { return false };
    let argument = || {
        let digits = text.split_whitespace().nth(1)?.trim_start_matches("0x");
        u64::from_str_radix(digits, 16).ok()
    };
    match call.known().map(|known| known.target) {
        Some(CallTarget::Path) => true,
        Some(CallTarget::Descriptor) => argument().is_some_and(is_path),
        Some(CallTarget::Other) | None => false,
    }
}

/// What a call waits for.
#[derive(Clone, Copy)]
enum CallTarget {
    /// A file that it names, or a mapped one.
    Path,
    /// What its first argument, a descriptor, stands for.
    Descriptor,
    Other,
}

struct KnownCall {
    number: libc::c_long,
    name: &'static str,
    target: CallTarget,
}

macro_rules! known_calls {
    ($($target:ident: $($name:ident)*;)*) => {
        &[$($(
            KnownCall { number: libc::$name, name: stringify!($name), target: CallTarget::$target },
        )*)*]
    };
}

const KNOWN: &[KnownCall] = known_calls! {
    Path:
        SYS_chdir SYS_faccessat SYS_linkat SYS_mkdirat SYS_msync SYS_newfstatat SYS_openat SYS_openat2 SYS_readlinkat
        SYS_renameat SYS_renameat2 SYS_statfs SYS_statx SYS_symlinkat SYS_sync SYS_truncate SYS_unlinkat;
    Descriptor:
        SYS_close SYS_copy_file_range SYS_fallocate SYS_fcntl SYS_fdatasync SYS_flock SYS_fstat SYS_fsync
        SYS_ftruncate SYS_getdents64 SYS_lseek SYS_pread64 SYS_preadv SYS_preadv2 SYS_pwrite64 SYS_pwritev
        SYS_pwritev2 SYS_read SYS_readv SYS_sync_file_range SYS_syncfs SYS_write SYS_writev;
    Other:
        SYS_accept SYS_accept4 SYS_clock_nanosleep SYS_connect SYS_epoll_pwait SYS_epoll_pwait2 SYS_futex
        SYS_io_getevents SYS_io_uring_enter SYS_madvise SYS_munmap SYS_nanosleep SYS_ppoll SYS_pselect6 SYS_recvfrom
        SYS_recvmmsg SYS_recvmsg SYS_restart_syscall SYS_rt_sigsuspend SYS_rt_sigtimedwait SYS_sendfile SYS_sendmmsg
        SYS_sendmsg SYS_sendto SYS_splice SYS_wait4 SYS_waitid;
};

/// Calls that newer machines do not have.
#[cfg(target_arch = "x86_64")]
const KNOWN_HERE: &[KnownCall] = known_calls! {
    Path: SYS_lstat SYS_open SYS_rename SYS_stat SYS_unlink;
    Other: SYS_epoll_wait SYS_pause SYS_poll SYS_select;
};
#[cfg(not(target_arch = "x86_64"))]
const KNOWN_HERE: &[KnownCall] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_what_has_a_path() {
        let at = |number: libc::c_long, argument: &str| {
            waits_for_file(&format!("{number} {argument} 0x0\n"), |descriptor| descriptor == 0x1f)
        };
        assert!(at(libc::SYS_read, "0x1f") && at(libc::SYS_fsync, "0x1f") && at(libc::SYS_openat, "0x3"));
        assert!(!at(libc::SYS_read, "0x3"), "a socket");
        assert!(!at(libc::SYS_futex, "0x1f") && !at(libc::SYS_read, "nonsense"));
        assert!(!waits_for_file("running", |_| true) && !waits_for_file("-1 0x1f", |_| true));
    }

    #[test]
    fn what_the_kernel_says_is_read() {
        let futex = format!("{} 0x7f0000001000 0x80 0x0\n", libc::SYS_futex);
        assert_eq!(SystemCall::parse(&futex).map(SystemCall::name).as_deref(), Some("futex"));
        assert_eq!(SystemCall::parse("9999 0x0").map(SystemCall::name).as_deref(), Some("system call 9999"));
        for none in ["running\n", "-1 0x7ffd 0x7f00", "", "nonsense"] {
            assert_eq!(SystemCall::parse(none), None, "{none:?}");
        }
    }
}
