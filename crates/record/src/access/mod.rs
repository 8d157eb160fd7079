//! What the kernel permits, and plain explanations of why it refused.

pub(crate) mod tracefs;

use std::io;

use flamelet_unwind::perf_event::{EventAttr, config, event_kind, flag};

use crate::sys::event::{PerfEvent, Watch};
use crate::{Error, ErrorKind};

/// The highest `kernel.perf_event_paranoid` at which an ordinary user may record each thing.
pub(crate) mod level {
    /// The user side of the user's own processes.
    pub(crate) const USER_SIDE: i32 = 2;
    /// The kernel side of the user's own processes.
    pub(crate) const KERNEL_SIDE: i32 = 1;
    /// Every process.
    pub(crate) const EVERY_PROCESS: i32 = 0;
    /// Tracepoints.
    pub(crate) const TRACEPOINTS: i32 = -1;
}

/// Returns `kernel.perf_event_paranoid`, or `None` where there is no such setting.
pub(crate) fn paranoid() -> Option<i32> {
    setting("kernel/perf_event_paranoid")
}

/// Reads a number under `/proc/sys`.
pub(crate) fn setting(path: &str) -> Option<i32> {
    std::fs::read_to_string(format!("/proc/sys/{path}")).ok()?.trim().parse().ok()
}

/// Returns a line of `/proc/self/status`.
pub(crate) fn status(name: &str) -> Option<String> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// Returns whether a seccomp filter is in force for this process.
pub(crate) fn is_filtered() -> bool {
    status("Seccomp").as_deref() == Some("2")
}

/// The capabilities that matter to a recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capabilities(u64);

impl Capabilities {
    pub(crate) const SYS_PTRACE: u32 = 19;
    pub(crate) const SYS_ADMIN: u32 = 21;
    pub(crate) const IPC_LOCK: u32 = 14;
    pub(crate) const SYSLOG: u32 = 34;
    pub(crate) const PERFMON: u32 = 38;

    /// Returns the capabilities in effect for this process.
    pub(crate) fn own() -> Self {
        let mask = status("CapEff").and_then(|text| u64::from_str_radix(&text, 16).ok());
        Self(mask.unwrap_or(0))
    }

    pub(crate) fn has(self, number: u32) -> bool {
        self.0 >> number & 1 != 0
    }

    /// Returns whether they allow watching the kernel and other users' processes.
    pub(crate) fn may_watch_everything(self) -> bool {
        self.has(Self::PERFMON) || self.has(Self::SYS_ADMIN)
    }
}

/// Tries the least that a recording needs: this thread's own CPU clock, the user side only.
pub(crate) fn try_own_clock(with_kernel: bool) -> io::Result<()> {
    let user_only = if with_kernel { 0 } else { flag::EXCLUDE_KERNEL };
    let attr = EventAttr::new(event_kind::SOFTWARE, config::CPU_CLOCK)
        .with(flag::DISABLED | flag::EXCLUDE_HV | user_only);
    let first_cpu = crate::sys::machine::online_cpus().first().copied().unwrap_or(0);
    PerfEvent::open(&attr, Watch::Thread(0), first_cpu).map(drop)
}

/// Tries a tracepoint on this thread.
pub(crate) fn try_tracepoint(id: u64) -> io::Result<PerfEvent> {
    let attr = EventAttr::new(event_kind::TRACEPOINT, id).with(flag::DISABLED);
    let first_cpu = crate::sys::machine::online_cpus().first().copied().unwrap_or(0);
    PerfEvent::open(&attr, Watch::Thread(0), first_cpu)
}

/// Explains why a process could not be traced.
pub(crate) fn explain_ptrace(error: &io::Error) -> Error {
    let scope = setting("kernel/yama/ptrace_scope").unwrap_or(0);
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) if scope > 0 => Error::new(
            ErrorKind::Denied,
            format!(
                "ptrace is refused: kernel.yama.ptrace_scope={scope}; record a command instead of a process, or \
                 `sudo sysctl kernel.yama.ptrace_scope=0`"
            ),
        ),
        Some(libc::EPERM | libc::EACCES) => Error::new(
            ErrorKind::Denied,
            "ptrace is refused: the process belongs to another user, is already traced, or is in a sandbox; try \
             with sudo",
        ),
        Some(libc::ESRCH) => Error::new(ErrorKind::NotFound, "the process has ended"),
        _ => Error::new(ErrorKind::Unsupported, format!("ptrace failed: {error}")),
    }
}

/// How to get around a seccomp filter.
pub(crate) const UNFILTER: &str =
    "run the container with --cap-add PERFMON or --security-opt seccomp=unconfined";

/// Explains why `what`, which needs `level`, could not be opened.
pub(crate) fn explain(error: &io::Error, what: &str, level: i32) -> Error {
    let refused = |message: String| Error::new(ErrorKind::Denied, format!("{what}: {message}"));
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => refused(why_refused(level)),
        Some(libc::ENOSYS) if is_filtered() => {
            refused(format!("a seccomp filter hides perf_event_open; {UNFILTER}"))
        }
        Some(libc::ENOSYS) => {
            let message = format!("{what}: this kernel has no perf_event_open (CONFIG_PERF_EVENTS)");
            Error::new(ErrorKind::Unsupported, message)
        }
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::EINVAL) => {
            let message = format!("{what}: this machine or kernel does not have it ({error})");
            Error::new(ErrorKind::Unsupported, message)
        }
        Some(libc::EMFILE | libc::ENFILE) => {
            let message = "too many open files (one per thread, CPU and event); raise `ulimit -n`";
            Error::new(ErrorKind::Io, format!("{what}: {message}"))
        }
        Some(libc::ESRCH) => Error::new(ErrorKind::NotFound, format!("{what}: the process has ended")),
        _ => Error::new(ErrorKind::Io, format!("{what}: {error}")),
    }
}

/// Explains why `watch`, which needs `level`, could not be watched. For another user's process, no kernel setting is
/// the reason.
pub(crate) fn explain_watch(error: &io::Error, watch: Watch, level: i32) -> Error {
    let what = match watch {
        Watch::Everything => "cannot record all processes",
        Watch::Thread(_) => "cannot record the process",
    };
    let is_refused = matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM));
    match watch {
        Watch::Thread(tid) if is_refused && is_of_another_user(tid) => Error::new(
            ErrorKind::Denied,
            format!("{what}: it belongs to another user; try with sudo, or give flamelet CAP_PERFMON"),
        ),
        _ => explain(error, what, level),
    }
}

fn is_of_another_user(tid: u32) -> bool {
    use std::os::unix::fs::MetadataExt;
    let owner = std::fs::metadata(format!("/proc/{tid}")).map(|about| about.uid());
    tid != 0 && owner.is_ok_and(|owner| owner != crate::sys::machine::effective_user())
}

fn why_refused(needed: i32) -> String {
    let may_nothing = try_own_clock(false).is_err();
    if may_nothing && is_filtered() {
        return format!("a seccomp filter forbids perf_event_open; {UNFILTER}");
    }
    by_level(paranoid(), needed, may_nothing)
}

/// What to do when the level is `now` and a lower one is `needed`.
fn by_level(now: Option<i32>, needed: i32, may_nothing: bool) -> String {
    match now {
        Some(level) if level > needed => format!(
            "kernel.perf_event_paranoid={level} forbids it; `sudo sysctl kernel.perf_event_paranoid={needed}`, or \
             CAP_PERFMON, allows it, and `flamelet doctor` says which level allows what"
        ),
        _ if may_nothing => "a Linux security module forbids perf_event_open".to_owned(),
        _ => "this user may not record it; try with sudo, or give flamelet CAP_PERFMON".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_advised_than_is_needed() {
        for needed in [level::USER_SIDE, level::KERNEL_SIDE, level::EVERY_PROCESS, level::TRACEPOINTS] {
            for now in -1..=4 {
                let advice = by_level(Some(now), needed, false);
                let is_named = advice.contains(&format!("sysctl kernel.perf_event_paranoid={needed}`"));
                assert_eq!(is_named, now > needed, "{advice}");
                assert_eq!(advice.contains("sysctl"), now > needed, "{advice}");
            }
        }
        assert!(by_level(Some(2), level::USER_SIDE, true).contains("security module"));
    }
}
