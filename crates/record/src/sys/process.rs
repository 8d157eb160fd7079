//! Other processes: waiting for them to end, and starting one that waits to be watched.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::JoinHandle;
use std::time::Duration;

/// Returns a descriptor that becomes readable when the process `pid` ends.
pub(crate) fn open_pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes integers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call just returned this descriptor, and it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Returns the CPU time of a child that has ended and was not waited for yet, and of all processes below it that were
/// waited for.
pub(crate) fn cpu_time_of_ended(pid: u32) -> Option<Duration> {
    // SAFETY: zeroes are valid in these plain structures.
    let (mut about, mut used): (libc::siginfo_t, libc::rusage) = unsafe { std::mem::zeroed() };
    let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the kernel fills in the two structures. (The C library's function has no place for the second.)
    let status =
        unsafe { libc::syscall(libc::SYS_waitid, libc::P_PID, pid, &raw mut about, how, &raw mut used) };
    // SAFETY: filled in, or zero as before if the child still runs.
    let has_ended = status == 0 && unsafe { about.si_pid() } != 0;
    let time = |of: libc::timeval| {
        Duration::new(of.tv_sec.try_into().unwrap_or(0), 1000 * u32::try_from(of.tv_usec).unwrap_or(0))
    };
    has_ended.then(|| time(used.ru_utime) + time(used.ru_stime))
}

/// Sends a signal to the process `pid`, or to the group `-pid`. Does nothing if it has ended meanwhile.
pub(crate) fn kill(pid: i32, signal: i32) {
    // SAFETY: takes integers only.
    unsafe { libc::kill(pid, signal) };
}

/// Returns the process group of `pid`.
pub(crate) fn group_of(pid: i32) -> Option<i32> {
    // SAFETY: takes an integer only.
    let group = unsafe { libc::getpgid(pid) };
    (group >= 0).then_some(group)
}

/// Returns whether this process is in the foreground of its terminal.
pub(crate) fn is_in_foreground() -> bool {
    let Ok(terminal) = std::fs::File::open("/dev/tty") else { return false };
    // SAFETY: the descriptor is open during the call; the other takes nothing.
    unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) == libc::getpgrp() }
}

/// Finds the file of a program, as a shell would.
pub(crate) fn find_program(name: &OsStr) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0)
    };
    let path = Path::new(name);
    if path.components().count() > 1 {
        return path.exists().then(|| path.to_owned());
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    std::env::split_paths(&folders).map(|folder| folder.join(path)).find(is_program)
}

/// A command that was forked and waits before its `exec`, so that events can be opened on it.
pub(crate) struct Waiting {
    program: String,
    pid: u32,
    go: io::PipeWriter,
    spawning: JoinHandle<io::Result<Child>>,
}

impl Waiting {
    /// Forks for `command`. If `shielded`, it gets a process group of its own, so that Ctrl-C at the terminal reaches
    /// only the recorder.
    pub(crate) fn fork(mut command: Command, shielded: bool) -> io::Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let (mut told, tell) = io::pipe()?;
        let (wait, go) = io::pipe()?;
        if shielded {
            command.process_group(0);
        }
        let (tell_fd, wait_fd, go_fd) = (tell.as_raw_fd(), wait.as_raw_fd(), go.as_raw_fd());
        let barrier = move || {
            // The writing end is closed here, else the child would wait for itself if the recorder died.
            // SAFETY: only async-signal-safe calls between fork and exec, on descriptors that the fork
            // copied and that the parent keeps open until `spawn` has returned.
            unsafe {
                libc::close(go_fd);
                let pid = libc::getpid().to_ne_bytes();
                let mut byte = 0u8;
                if libc::write(tell_fd, pid.as_ptr().cast(), pid.len()) != pid.len() as isize {
                    return Err(io::Error::last_os_error());
                }
                match libc::read(wait_fd, (&raw mut byte).cast(), 1) {
                    1 => Ok(()),
                    _ => Err(io::Error::from_raw_os_error(libc::ECANCELED)),
                }
            }
        };
        // SAFETY: the closure makes only calls that are allowed between fork and exec, see its own comment.
        unsafe { command.pre_exec(barrier) };
        // `spawn` returns only after the exec, so it waits on a thread of its own.
        let spawning = std::thread::Builder::new().name("flamelet-spawn".to_owned()).spawn(move || {
            let spawned = command.spawn();
            drop((tell, wait));
            spawned
        })?;
        let mut pid = [0u8; 4];
        if told.read_exact(&mut pid).is_err() {
            return match spawning.join() {
                Ok(Err(error)) => Err(error),
                _ => Err(io::Error::other("the command could not be started")),
            };
        }
        Ok(Self { program, pid: u32::from_ne_bytes(pid), go, spawning })
    }

    /// Returns the program that it will run.
    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets the command run.
    pub(crate) fn release(mut self) -> io::Result<Child> {
        self.go.write_all(&[1])?;
        drop(self.go);
        self.spawning.join().unwrap_or_else(|_| Err(io::Error::other("the starting thread failed")))
    }
}
