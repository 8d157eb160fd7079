//! Which system call a thread is in, as the kernel says.

use crate::threads::Tid;

/// The number of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Call(i64);

impl Call {
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
        let known = NAMES.iter().find(|(number, _)| *number == self.0);
        known.map_or_else(|| format!("system call {}", self.0), |(_, name)| (*name).to_owned())
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

/// Reads the same line as [`Call::parse`]; `is_path` says of a descriptor whether it was opened by a path.
fn waits_for_file(text: &str, is_path: impl Fn(u64) -> bool) -> bool {
    let Some(Call(number)) = Call::parse(text) else { return false };
    let argument = || {
        let digits = text.split_whitespace().nth(1)?.trim_start_matches("0x");
        u64::from_str_radix(digits, 16).ok()
    };
    OF_PATHS.contains(&number) || (OF_DESCRIPTORS.contains(&number) && argument().is_some_and(is_path))
}

macro_rules! numbers {
    ($($(#[$attribute:meta])* $number:ident,)*) => {
        &[$($(#[$attribute])* (libc::$number as i64),)*]
    };
}

/// Calls that take a path, or a mapped file.
const OF_PATHS: &[i64] = numbers! {
    SYS_chdir,
    SYS_faccessat,
    SYS_linkat,
    SYS_mkdirat,
    SYS_msync,
    SYS_newfstatat,
    #[cfg(target_arch = "x86_64")]
    SYS_open,
    SYS_openat,
    SYS_openat2,
    SYS_readlinkat,
    SYS_renameat,
    SYS_renameat2,
    SYS_statfs,
    SYS_statx,
    SYS_symlinkat,
    SYS_sync,
    SYS_truncate,
    SYS_unlinkat,
    #[cfg(target_arch = "x86_64")]
    SYS_stat,
    #[cfg(target_arch = "x86_64")]
    SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    SYS_rename,
};

/// Calls whose first argument is the descriptor of what they wait for.
const OF_DESCRIPTORS: &[i64] = numbers! {
    SYS_close,
    SYS_copy_file_range,
    SYS_fallocate,
    SYS_fcntl,
    SYS_fdatasync,
    SYS_flock,
    SYS_fstat,
    SYS_fsync,
    SYS_ftruncate,
    SYS_getdents64,
    SYS_lseek,
    SYS_pread64,
    SYS_preadv,
    SYS_preadv2,
    SYS_pwrite64,
    SYS_pwritev,
    SYS_pwritev2,
    SYS_read,
    SYS_readv,
    SYS_sync_file_range,
    SYS_syncfs,
    SYS_write,
    SYS_writev,
};

macro_rules! names {
    ($($(#[$attribute:meta])* $name:ident = $number:ident,)*) => {
        &[$($(#[$attribute])* (libc::$number as i64, stringify!($name)),)*]
    };
}

/// The calls in which threads wait.
const NAMES: &[(i64, &str)] = names! {
    accept = SYS_accept,
    accept4 = SYS_accept4,
    clock_nanosleep = SYS_clock_nanosleep,
    connect = SYS_connect,
    epoll_pwait = SYS_epoll_pwait,
    epoll_pwait2 = SYS_epoll_pwait2,
    #[cfg(target_arch = "x86_64")]
    epoll_wait = SYS_epoll_wait,
    fallocate = SYS_fallocate,
    fcntl = SYS_fcntl,
    fdatasync = SYS_fdatasync,
    flock = SYS_flock,
    fsync = SYS_fsync,
    ftruncate = SYS_ftruncate,
    futex = SYS_futex,
    getdents64 = SYS_getdents64,
    io_getevents = SYS_io_getevents,
    io_uring_enter = SYS_io_uring_enter,
    madvise = SYS_madvise,
    msync = SYS_msync,
    munmap = SYS_munmap,
    nanosleep = SYS_nanosleep,
    openat = SYS_openat,
    #[cfg(target_arch = "x86_64")]
    pause = SYS_pause,
    #[cfg(target_arch = "x86_64")]
    poll = SYS_poll,
    ppoll = SYS_ppoll,
    pread64 = SYS_pread64,
    preadv = SYS_preadv,
    pselect6 = SYS_pselect6,
    pwrite64 = SYS_pwrite64,
    pwritev = SYS_pwritev,
    read = SYS_read,
    readv = SYS_readv,
    recvfrom = SYS_recvfrom,
    recvmmsg = SYS_recvmmsg,
    recvmsg = SYS_recvmsg,
    restart_syscall = SYS_restart_syscall,
    rt_sigsuspend = SYS_rt_sigsuspend,
    rt_sigtimedwait = SYS_rt_sigtimedwait,
    #[cfg(target_arch = "x86_64")]
    select = SYS_select,
    sendfile = SYS_sendfile,
    sendmmsg = SYS_sendmmsg,
    sendmsg = SYS_sendmsg,
    sendto = SYS_sendto,
    splice = SYS_splice,
    sync_file_range = SYS_sync_file_range,
    unlinkat = SYS_unlinkat,
    wait4 = SYS_wait4,
    waitid = SYS_waitid,
    write = SYS_write,
    writev = SYS_writev,
};

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
        assert_eq!(Call::parse(&futex).map(Call::name).as_deref(), Some("futex"));
        assert_eq!(Call::parse("9999 0x0").map(Call::name).as_deref(), Some("system call 9999"));
        for none in ["running\n", "-1 0x7ffd 0x7f00", "", "nonsense"] {
            assert_eq!(Call::parse(none), None, "{none:?}");
        }
    }
}
