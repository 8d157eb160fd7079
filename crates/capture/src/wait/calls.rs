//! Which system call a thread sits in, as the kernel says.

use crate::threads::Tid;

/// The number of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Call(i64);

impl Call {
    /// Returns the call that a thread of this process sits in; `None` if it runs, or the kernel does not say.
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
    fn what_the_kernel_says_is_read() {
        let futex = format!("{} 0x7f0000001000 0x80 0x0\n", libc::SYS_futex);
        assert_eq!(Call::parse(&futex).map(Call::name).as_deref(), Some("futex"));
        assert_eq!(Call::parse("9999 0x0").map(Call::name).as_deref(), Some("system call 9999"));
        for none in ["running\n", "-1 0x7ffd 0x7f00", "", "nonsense"] {
            assert_eq!(Call::parse(none), None, "{none:?}");
        }
    }
}
