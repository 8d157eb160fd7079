//! Names of flags and other constants.

/// How the names of one argument are used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// The value is one of them.
    One,
    /// The value is a sum of flags.
    Flags,
}

/// The names of one argument.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Constants {
    pub(super) style: Style,
    /// The bits of the flags that are a number.
    pub(super) choice: u64,
    pub(super) names: &'static [(i32, &'static str)],
}

const fn one(names: &'static [(i32, &'static str)]) -> Constants {
    Constants { style: Style::One, choice: 0, names }
}

const fn flags(choice: u64, names: &'static [(i32, &'static str)]) -> Constants {
    Constants { style: Style::Flags, choice, names }
}

macro_rules! named {
    ($($name:ident)*) => { &[$((libc::$name as i32, stringify!($name))),*] };
}

pub(super) static OPEN: Constants = flags(
    3,
    named!(O_RDONLY O_WRONLY O_RDWR O_CREAT O_EXCL O_NOCTTY O_TRUNC O_APPEND O_NONBLOCK O_SYNC O_DSYNC O_DIRECT
           O_TMPFILE O_DIRECTORY O_NOFOLLOW O_CLOEXEC O_NOATIME O_PATH),
);
pub(super) static PROTECTION: Constants = flags(0, named!(PROT_NONE PROT_READ PROT_WRITE PROT_EXEC));
pub(super) static MAPPING: Constants = flags(
    3,
    named!(MAP_SHARED MAP_PRIVATE MAP_SHARED_VALIDATE MAP_FIXED_NOREPLACE MAP_FIXED MAP_ANONYMOUS MAP_GROWSDOWN
           MAP_DENYWRITE MAP_LOCKED MAP_NORESERVE MAP_POPULATE MAP_NONBLOCK MAP_STACK MAP_HUGETLB),
);
pub(super) static ADVICE: Constants = one(named!(
    MADV_NORMAL MADV_RANDOM MADV_SEQUENTIAL MADV_WILLNEED MADV_DONTNEED MADV_FREE MADV_HUGEPAGE MADV_NOHUGEPAGE
    MADV_DONTDUMP MADV_DONTFORK
));
pub(super) static WHENCE: Constants = one(named!(SEEK_SET SEEK_CUR SEEK_END SEEK_DATA SEEK_HOLE));
pub(super) static AT: Constants =
    flags(0, named!(AT_SYMLINK_NOFOLLOW AT_REMOVEDIR AT_SYMLINK_FOLLOW AT_NO_AUTOMOUNT AT_EMPTY_PATH));
pub(super) static ACCESS: Constants = flags(0, named!(F_OK X_OK W_OK R_OK));
pub(super) static FAMILY: Constants = one(named!(AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET AF_VSOCK));
pub(super) static SOCKET_TYPE: Constants =
    flags(0xf, named!(SOCK_STREAM SOCK_DGRAM SOCK_RAW SOCK_SEQPACKET SOCK_NONBLOCK SOCK_CLOEXEC));
pub(super) static SOCKET_LEVEL: Constants =
    one(named!(SOL_SOCKET IPPROTO_TCP IPPROTO_IP IPPROTO_IPV6 IPPROTO_UDP));
pub(super) static MESSAGE: Constants = flags(
    0,
    named!(MSG_OOB MSG_PEEK MSG_DONTWAIT MSG_WAITALL MSG_NOSIGNAL MSG_TRUNC MSG_CTRUNC MSG_MORE MSG_ERRQUEUE
           MSG_CMSG_CLOEXEC),
);
pub(super) static CONTROL: Constants = one(named!(
    F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK F_SETLKW F_DUPFD_CLOEXEC F_GETPIPE_SZ F_SETPIPE_SZ
    F_ADD_SEALS F_GET_SEALS
));
pub(super) static EPOLL: Constants = one(named!(EPOLL_CTL_ADD EPOLL_CTL_DEL EPOLL_CTL_MOD));
pub(super) static FUTEX: Constants = flags(
    0x7f,
    named!(FUTEX_WAIT FUTEX_WAKE FUTEX_REQUEUE FUTEX_CMP_REQUEUE FUTEX_WAKE_OP FUTEX_LOCK_PI FUTEX_UNLOCK_PI
           FUTEX_WAIT_BITSET FUTEX_WAKE_BITSET FUTEX_PRIVATE_FLAG FUTEX_CLOCK_REALTIME),
);
pub(super) static CLONE: Constants = flags(
    0xff,
    named!(SIGCHLD CLONE_VM CLONE_FS CLONE_FILES CLONE_SIGHAND CLONE_PTRACE CLONE_VFORK CLONE_PARENT CLONE_THREAD
           CLONE_NEWNS CLONE_SYSVSEM CLONE_SETTLS CLONE_PARENT_SETTID CLONE_CHILD_CLEARTID CLONE_CHILD_SETTID),
);
pub(super) static CLOCK: Constants = one(named!(
    CLOCK_REALTIME CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID CLOCK_THREAD_CPUTIME_ID CLOCK_BOOTTIME
));
pub(super) static SIGNAL: Constants = one(named!(
    SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE SIGALRM SIGTERM
    SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF SIGWINCH SIGIO SIGPWR SIGSYS
));
