//! What each argument of a system call is.

use super::constants::{self, Constants};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentKind {
    /// Not printed.
    Skip,
    Descriptor,
    Path,
    Size,
    Number,
    Hexadecimal,
    Mode,
    /// The mode of a file, if the flags before it create one.
    ModeOfNew,
    /// A socket's address, whose length is the next argument.
    Address,
    Named(&'static Constants),
}

use ArgumentKind::{Address, Descriptor, Hexadecimal, Mode, ModeOfNew, Named, Number, Path, Size, Skip};

type Signature = (&'static [&'static str], &'static [ArgumentKind]);

const SIGNATURES: &[Signature] = &[
    (&["read", "write", "getdents64", "readahead"], &[Descriptor, Skip, Size]),
    (&["pread64", "pwrite64"], &[Descriptor, Skip, Size, Size]),
    (&["readv", "writev", "preadv", "pwritev", "vmsplice"], &[Descriptor, Skip, Number]),
    (&["close", "fstat", "fsync", "fdatasync", "fchdir", "dup", "syncfs", "fstatfs"], &[Descriptor]),
    (&["dup2", "dup3"], &[Descriptor, Number]),
    (&["openat"], &[Descriptor, Path, Named(&constants::OPEN), ModeOfNew]),
    (&["open"], &[Path, Named(&constants::OPEN), ModeOfNew]),
    (&["creat", "mkdir", "chmod"], &[Path, Mode]),
    (&["mkdirat", "fchmodat"], &[Descriptor, Path, Mode]),
    (&["openat2"], &[Descriptor, Path]),
    (&["newfstatat"], &[Descriptor, Path, Skip, Named(&constants::AT)]),
    (&["statx", "unlinkat"], &[Descriptor, Path, Named(&constants::AT)]),
    (&["access"], &[Path, Named(&constants::ACCESS)]),
    (&["faccessat", "faccessat2"], &[Descriptor, Path, Named(&constants::ACCESS)]),
    (&["readlinkat"], &[Descriptor, Path]),
    (
        &[
            "stat",
            "lstat",
            "chdir",
            "rmdir",
            "unlink",
            "readlink",
            "statfs",
            "execve",
            "chroot",
            "acct",
            "swapon",
            "getxattr",
            "lgetxattr",
            "utimes",
        ],
        &[Path],
    ),
    (&["execveat"], &[Descriptor, Path]),
    (&["truncate"], &[Path, Size]),
    (&["ftruncate"], &[Descriptor, Size]),
    (&["fallocate"], &[Descriptor, Hexadecimal, Size, Size]),
    (&["rename", "link", "symlink"], &[Path, Path]),
    (&["renameat", "renameat2", "linkat"], &[Descriptor, Path, Descriptor, Path]),
    (&["symlinkat"], &[Path, Descriptor, Path]),
    (&["chown", "lchown"], &[Path, Number, Number]),
    (&["inotify_add_watch"], &[Descriptor, Path, Hexadecimal]),
    (&["lseek"], &[Descriptor, Size, Named(&constants::WHENCE)]),
    (&["ioctl"], &[Descriptor, Hexadecimal]),
    (&["fcntl"], &[Descriptor, Named(&constants::CONTROL)]),
    (&["flock"], &[Descriptor, Number]),
    (&["fadvise64"], &[Descriptor, Size, Size, Number]),
    (&["sendfile"], &[Descriptor, Descriptor, Skip, Size]),
    (&["copy_file_range", "splice"], &[Descriptor, Skip, Descriptor, Skip, Size]),
    (&["mmap"], &[Skip, Size, Named(&constants::PROTECTION), Named(&constants::MAPPING), Descriptor, Size]),
    (&["munmap"], &[Skip, Size]),
    (&["mremap"], &[Skip, Size, Size]),
    (&["mprotect"], &[Skip, Size, Named(&constants::PROTECTION)]),
    (&["madvise"], &[Skip, Size, Named(&constants::ADVICE)]),
    (&["getrandom"], &[Skip, Size]),
    (&["memfd_create"], &[Path, Hexadecimal]),
    (&["socket"], &[Named(&constants::FAMILY), Named(&constants::SOCKET_TYPE), Number]),
    (&["connect", "bind"], &[Descriptor, Address]),
    (&["listen", "shutdown"], &[Descriptor, Number]),
    (&["accept", "accept4", "getsockname", "getpeername"], &[Descriptor]),
    (&["sendto", "recvfrom"], &[Descriptor, Skip, Size, Named(&constants::MESSAGE)]),
    (&["sendmsg", "recvmsg"], &[Descriptor, Skip, Named(&constants::MESSAGE)]),
    (&["setsockopt", "getsockopt"], &[Descriptor, Named(&constants::SOCKET_LEVEL), Number]),
    (&["epoll_ctl"], &[Descriptor, Named(&constants::EPOLL), Descriptor]),
    (&["epoll_wait", "epoll_pwait"], &[Descriptor, Skip, Number, Number]),
    (&["poll"], &[Skip, Number, Number]),
    (&["ppoll", "select", "pselect6"], &[Number]),
    (&["futex"], &[Hexadecimal, Named(&constants::FUTEX), Number]),
    (&["clone"], &[Named(&constants::CLONE)]),
    (&["wait4"], &[Number, Skip, Hexadecimal]),
    (&["kill", "tkill"], &[Number, Named(&constants::SIGNAL)]),
    (&["tgkill"], &[Number, Number, Named(&constants::SIGNAL)]),
    (&["rt_sigaction"], &[Named(&constants::SIGNAL)]),
    (&["clock_gettime", "clock_nanosleep", "clock_getres"], &[Named(&constants::CLOCK)]),
    (&["prctl", "arch_prctl", "prlimit64", "setpriority", "exit_group", "exit"], &[Number]),
    (&["io_uring_enter"], &[Descriptor, Number, Number]),
];

/// Returns what the arguments of a call are; nothing for calls that have none, or none worth printing.
pub(super) fn signature(call: &str) -> &'static [ArgumentKind] {
    let known = SIGNATURES.iter().find(|(calls, _)| calls.contains(&call));
    known.map_or(&[], |(_, kinds)| kinds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::calls;

    #[test]
    fn every_signature_is_of_a_call_that_exists_and_none_twice() {
        let mut names: Vec<&str> = SIGNATURES.iter().flat_map(|(calls, _)| *calls).copied().collect();
        assert!(SIGNATURES.iter().all(|(_, kinds)| kinds.len() <= 6));
        if cfg!(target_arch = "x86_64") {
            assert_eq!(names.iter().find(|name| calls::number(name).is_none()), None);
        }
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
