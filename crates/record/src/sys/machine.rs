//! Facts about this machine, user and process.

use std::io;
use std::time::Duration;

pub(crate) fn page_size() -> usize {
    // SAFETY: takes a constant, returns an integer.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

pub(crate) fn effective_user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Returns the nanoseconds of the clock that records are stamped with.
pub(crate) fn monotonic_nanos() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// Returns the CPU time that this thread has used.
pub(crate) fn thread_cpu_nanos() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec to a valid place.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the soft and the hard limit of a resource.
fn limit(resource: libc::__rlimit_resource_t) -> Option<(u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes one rlimit to a valid place.
    let result = unsafe { libc::getrlimit(resource, &raw mut limit) };
    (result == 0).then_some((limit.rlim_cur, limit.rlim_max))
}

/// Returns how many bytes this process may lock in memory; `None` if unknown.
pub(crate) fn lockable_bytes() -> Option<u64> {
    limit(libc::RLIMIT_MEMLOCK).map(|(soft, _)| soft)
}

/// Raises the limit of open files as far as possible: each event takes one for each thread and CPU.
pub(crate) fn raise_file_limit() {
    if let Some((soft, hard)) = limit(libc::RLIMIT_NOFILE)
        && soft < hard
    {
        let raised = libc::rlimit { rlim_cur: hard, rlim_max: hard };
        // SAFETY: the call reads one rlimit. If it fails, fewer threads can be attached to, which is reported.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
    }
}

/// Mounts the trace file system at its usual place.
pub(crate) fn mount_tracefs(at: &std::path::Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let target = std::ffi::CString::new(at.as_os_str().as_bytes())?;
    let kind = c"tracefs";
    // SAFETY: all strings end in a zero byte and live during the call; no data is passed.
    let result = unsafe { libc::mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits until one of `fds` can be read or was hung up, or `timeout` passes. Returns the state of each; negative
/// descriptors are skipped.
pub(crate) fn poll(fds: &[i32], timeout: Duration) -> io::Result<Vec<Readiness>> {
    let mut entries: Vec<libc::pollfd> =
        fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    let milliseconds = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the pointer and the length are those of the vector, which lives during the call.
    let result = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, milliseconds) };
    if result < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::Interrupted => Ok(vec![Readiness::default(); fds.len()]),
            _ => Err(error),
        };
    }
    let readiness = |entry: &libc::pollfd| Readiness {
        readable: entry.revents & libc::POLLIN != 0,
        hung_up: entry.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0,
    };
    Ok(entries.iter().map(readiness).collect())
}

/// The state of one descriptor after [`poll`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readiness {
    pub(crate) readable: bool,
    pub(crate) hung_up: bool,
}

/// Waits for the same descriptors again and again, at a lower cost than [`poll`]. Edge-triggered: data that was ready
/// before and was not read is not reported again.
#[derive(Debug)]
pub(crate) struct Waiter {
    epoll: std::os::fd::OwnedFd,
}

impl Waiter {
    /// Waits for `fds`, at most 64.
    pub(crate) fn new(fds: &[i32]) -> io::Result<Self> {
        use std::os::fd::{AsRawFd, FromRawFd};
        // SAFETY: takes an integer only.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call just returned this descriptor, and it has no other owner.
        let epoll = unsafe { std::os::fd::OwnedFd::from_raw_fd(epoll) };
        for (at, &fd) in fds.iter().enumerate() {
            let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
            let mut event = libc::epoll_event { events, u64: 1 << at };
            // SAFETY: the kernel reads one event, which lives during the call.
            let added =
                unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) };
            if added < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self { epoll })
    }

    /// Waits and returns the readable descriptors, a bit each in the order they were given.
    pub(crate) fn wait(&self) -> io::Result<u64> {
        use std::os::fd::AsRawFd;
        const FOREVER: libc::c_int = -1;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
        let room = events.len() as libc::c_int;
        // SAFETY: the kernel writes at most as many events as the array has.
        let ready = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), room, FOREVER) };
        if ready < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(0) } else { Err(error) };
        }
        Ok(events[..ready as usize].iter().fold(0, |all, event| all | event.u64))
    }
}

/// An event that another thread can signal to end a [`poll`].
#[derive(Debug)]
pub(crate) struct Bell {
    fd: std::os::fd::OwnedFd,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        use std::os::fd::FromRawFd;
        // SAFETY: takes integers only.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call just returned this descriptor, and it has no other owner.
        Ok(Self { fd: unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) } })
    }

    pub(crate) fn fd(&self) -> i32 {
        use std::os::fd::AsRawFd;
        self.fd.as_raw_fd()
    }

    /// Ends every poll of [`Bell::fd`], now and from now on; a [`Waiter`] only once.
    pub(crate) fn ring(&self) {
        let one = 1u64;
        // SAFETY: eight bytes are read from a u64.
        unsafe { libc::write(self.fd(), (&raw const one).cast(), 8) };
    }
}

pub(crate) fn online_cpus() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = parse_cpus(&text);
    if !cpus.is_empty() {
        return cpus;
    }
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    (0..count as u32).collect()
}

/// Parses a list such as `0-3,8`.
fn parse_cpus(text: &str) -> Vec<u32> {
    let ranges = text.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    });
    ranges.filter(|range| *range.end() < 1 << 16).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(parse_cpus("0-1\n"), [0, 1]);
        assert_eq!(parse_cpus("0,2-3,7\n"), [0, 2, 3, 7]);
        assert!(parse_cpus("").is_empty());
        assert!(parse_cpus("0-99999999999").is_empty());
    }
}
