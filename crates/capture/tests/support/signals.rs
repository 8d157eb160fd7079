//! Programs that block signals and take them one by one, as daemons do, started by a test.

#![allow(unsafe_code, reason = "signals, by C functions")]

use std::io::Read;
use std::os::fd::FromRawFd;
use std::process::Command;
use std::time::Duration;

/// The environment variable that tells a started program what to do.
const MODE: &str = "FLAMELET_SIGNALS_TEST_CHILD";
/// How often each signal is sent.
const TIMES: usize = 1000;
/// Signals that end a process which neither handles nor blocks them.
const SIGNALS: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGUSR1, libc::SIGHUP];

/// How a daemon takes its signals.
pub(crate) const WAYS: [&str; 2] = ["sigwait", "signalfd"];

/// Runs the test `child` of this program in a process of its own, once for each of [`WAYS`].
pub(crate) fn assert_survives(mode: &str) {
    for way in WAYS {
        let output = Command::new(std::env::current_exe().expect("a program"))
            .args(["child", "--exact", "--nocapture", "--test-threads=1"])
            .env(MODE, format!("{mode} {way}"))
            .output()
            .expect("the program starts again");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{mode}, {way}: {:?}\n{said}", output.status);
        assert!(said.contains("took all signals"), "{mode}, {way}: {said}");
    }
}

/// In the test `child`: a process in which only the profiler that `start` returns has threads, because threads of the
/// test would take the signals.
pub(crate) fn be_a_daemon<T>(start: impl FnOnce(&str) -> T) {
    let Ok(asked) = std::env::var(MODE) else { return };
    let (mode, way) = asked.rsplit_once(' ').expect("a mode and a way");
    // SAFETY: the fork allocates, which the C library allows, and leaves by `_exit`.
    match unsafe { libc::fork() } {
        0 => {
            let result =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| take_all(mode, way, start)));
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(i32::from(result.is_err())) }
        }
        fork => {
            let mut status = 0;
            // SAFETY: waits for the process made above.
            assert_eq!(unsafe { libc::waitpid(fork, &raw mut status, 0) }, fork);
            let killed_by = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
            assert_eq!(status, 0, "the daemon was ended by the signal {killed_by:?}");
        }
    }
}

/// The profiler starts first; then the program blocks signals, and takes each that is sent to it.
fn take_all<T>(mode: &str, way: &str, start: impl FnOnce(&str) -> T) {
    let threads = || std::fs::read_dir("/proc/self/task").expect("/proc is there").count();
    assert_eq!(threads(), 1, "another thread would take the signals");
    let profiler = start(mode);
    assert!(threads() > 1, "the profiler has no thread");
    let blocked = block();
    let mut take = taker(way, blocked);
    for _ in 0..TIMES {
        for signal in SIGNALS {
            // SAFETY: sends a signal to this process, which blocks it.
            assert_eq!(unsafe { libc::kill(libc::getpid(), signal) }, 0);
            assert_eq!(take(), signal);
        }
    }
    // The C library notifies all threads by a signal of its own, and waits for them.
    // SAFETY: changes nothing.
    assert_eq!(unsafe { libc::setuid(libc::getuid()) }, 0);
    drop(profiler);
    eprintln!("took all signals");
}

/// Blocks the signals on this thread.
fn block() -> libc::sigset_t {
    // SAFETY: a set is filled, and applied to this thread.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in SIGNALS {
            libc::sigaddset(&raw mut set, signal);
        }
        assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()), 0);
        set
    }
}

/// Takes the next signal; -1 when none comes.
fn taker(way: &str, set: libc::sigset_t) -> Box<dyn FnMut() -> libc::c_int> {
    match way {
        // With a deadline, in case another thread took the signal.
        "sigwait" => Box::new(move || {
            let patience = libc::timespec { tv_sec: 60, tv_nsec: 0 };
            loop {
                // SAFETY: waits for a signal of the set.
                match unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const patience) }
                {
                    -1 if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
                    signal => return signal,
                }
            }
        }),
        "signalfd" => {
            // SAFETY: a new descriptor, used only here.
            let mut file = unsafe {
                let descriptor = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC);
                assert!(descriptor >= 0, "{}", std::io::Error::last_os_error());
                std::fs::File::from_raw_fd(descriptor)
            };
            end_after(Duration::from_secs(300));
            Box::new(move || {
                let mut info = [0; size_of::<libc::signalfd_siginfo>()];
                file.read_exact(&mut info).expect("a signal");
                info.first_chunk().map_or(-1, |number| i32::from_ne_bytes(*number))
            })
        }
        other => panic!("no way of the name {other}"),
    }
}

/// Ends this process by SIGALRM if it still runs then.
fn end_after(patience: Duration) {
    // SAFETY: only requests a signal.
    unsafe { libc::alarm(patience.as_secs() as libc::c_uint) };
}
