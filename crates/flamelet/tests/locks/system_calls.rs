//! The program's own system calls behave as without flamelet.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use crate::contention::{ROUNDS, alone, contend, find, profiler, this_thread};

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn set_errno(value: i32) {
    // SAFETY: `errno` of this thread.
    unsafe { *libc::__errno_location() = value };
}

fn wait(word: &AtomicU32, expected: u32, timeout: Duration) -> i64 {
    let time = libc::timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the time live during the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, &raw const time) }
}

fn wake(word: &AtomicU32) -> i64 {
    // SAFETY: the word lives during the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) }
}

#[test]
fn results_and_errno_are_kept() {
    let _alone = alone();
    let _profiler = profiler();
    let word = AtomicU32::new(1);
    assert_eq!((wait(&word, 2, Duration::from_secs(60)), errno()), (-1, libc::EAGAIN));
    assert_eq!((wait(&word, 1, Duration::from_millis(1)), errno()), (-1, libc::ETIMEDOUT));
    set_errno(77);
    assert_eq!((wake(&word), errno()), (0, 77), "success leaves errno alone");
    // SAFETY: an operation that does not exist.
    let unknown = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), 99, 0) };
    assert_eq!((unknown, errno()), (-1, libc::ENOSYS));
    // SAFETY: an address that nothing is at.
    let bad = unsafe { libc::syscall(libc::SYS_futex, 8usize, libc::FUTEX_WAIT, 0, 0usize) };
    assert_eq!((bad, errno()), (-1, libc::EFAULT));
    // SAFETY: calls without arguments.
    let (own, parent) = unsafe { (libc::syscall(libc::SYS_getpid), libc::syscall(libc::SYS_getppid)) };
    assert_eq!(own, i64::from(std::process::id()));
    assert_eq!(parent, i64::from(std::os::unix::process::parent_id()));
}

/// The result of a join is the C library's, and so is the value of the thread.
#[test]
fn joins_are_those_of_the_c_library() {
    extern "C" fn thirteen(_: *mut libc::c_void) -> *mut libc::c_void {
        std::ptr::without_provenance_mut(13)
    }

    let _alone = alone();
    let _profiler = profiler();
    // SAFETY: this thread, which cannot wait for itself; and one that is started here and joined once.
    unsafe {
        let null = std::ptr::null_mut();
        assert_eq!(libc::pthread_join(libc::pthread_self(), std::ptr::null_mut()), libc::EDEADLK);
        let (mut thread, mut value) = (std::mem::zeroed(), null);
        assert_eq!(libc::pthread_create(&raw mut thread, std::ptr::null(), thirteen, null), 0);
        set_errno(77);
        assert_eq!(libc::pthread_join(thread, &raw mut value), 0);
        assert_eq!((value as usize, errno()), (13, 77));
    }
}

static IN_HANDLER: AtomicI32 = AtomicI32::new(0);

/// Waits itself, which must neither deadlock nor disturb the wait that it interrupts.
extern "C" fn on_signal(_: libc::c_int) {
    let before = errno();
    let word = AtomicU32::new(0);
    let waited = wait(&word, 0, Duration::from_millis(1));
    IN_HANDLER.store(if waited == -1 && errno() == libc::ETIMEDOUT { 1 } else { 2 }, Ordering::SeqCst);
    set_errno(before);
}

#[test]
fn a_signal_interrupts_a_wait_and_its_handler_may_wait() {
    let _alone = alone();
    let _profiler = profiler();
    // SAFETY: installs a handler, without SA_RESTART; nothing else in this program uses the signal.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
    }
    let thread = std::thread::spawn(|| {
        let word = AtomicU32::new(0);
        (wait(&word, 0, Duration::from_secs(120)), errno())
    });
    let pthread = std::os::unix::thread::JoinHandleExt::as_pthread_t(&thread);
    while !thread.is_finished() {
        // SAFETY: the thread is not joined yet.
        unsafe { libc::pthread_kill(pthread, libc::SIGUSR1) };
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(thread.join().expect("no panic"), (-1, libc::EINTR));
    assert_eq!(IN_HANDLER.load(Ordering::SeqCst), 1);
}

extern "C" fn does_nothing(_: libc::c_int) {}

#[inline(never)]
fn waits_for_the_word_to_change(word: &AtomicU32) -> (i64, i32) {
    let no_end: *const libc::timespec = std::ptr::null();
    // SAFETY: the word lives during the call.
    let result = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, 0, no_end) };
    std::hint::black_box((result, errno()))
}

/// As when the stack of a thread is taken while it waits for a lock that others get: the kernel compares the value again, which has
/// changed, and answers as if there had been no wait.
#[test]
fn a_wait_that_a_signal_interrupts_counts_even_if_the_value_has_changed_meanwhile() {
    let _alone = alone();
    let profiler = profiler();
    // SAFETY: installs a handler; nothing else in this program uses the signal.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = does_nothing as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()), 0);
    }
    let (word, waiter) = (AtomicU32::new(0), AtomicI32::new(0));
    let truth = contend(
        |meanwhile| {
            word.store(0, Ordering::SeqCst);
            meanwhile();
            word.store(1, Ordering::SeqCst);
            // SAFETY: sends a signal that has a handler.
            let sent = unsafe {
                let (process, thread) = (libc::getpid(), waiter.load(Ordering::SeqCst));
                libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR2)
            };
            assert_eq!(sent, 0);
        },
        || {
            waiter.store(this_thread(), Ordering::SeqCst);
            assert_eq!(waits_for_the_word_to_change(&word), (-1, libc::EAGAIN));
        },
    );
    let found = find(&profiler.block().expect("a profile"), "waits_for_the_word_to_change");
    assert_eq!(found.count, i64::from(ROUNDS), "{found:?}");
    assert!(found.delay >= truth.at_least && found.delay <= truth.waited, "{found:?} {truth:?}");
}

#[test]
fn a_child_of_a_fork_waits_and_counts() {
    let _alone = alone();
    let _profiler = profiler();
    // A waiter of the parent that does not exist in the child.
    let word = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while word.load(Ordering::SeqCst) == 0 {
                wait(&word, 0, Duration::from_secs(1));
            }
        });
        // SAFETY: the child uses only memory that no other thread was changing, and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: a child that hangs ends.
            unsafe { libc::alarm(120) };
            let before = flamelet_capture::wait::locks::snapshot();
            let own = AtomicU32::new(0);
            let is_right = wait(&own, 0, Duration::from_millis(1)) == -1 && errno() == libc::ETIMEDOUT;
            let counted = flamelet_capture::wait::locks::snapshot().since(&before).iter().count();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(if is_right && counted == 1 { 0 } else { 1 }) };
        }
        let mut status = -1;
        // SAFETY: waits for the child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        word.store(1, Ordering::SeqCst);
        wake(&word);
        assert_eq!(status, 0);
    });
}

/// Many threads, many locks, profiles all the time: nothing hangs, and every increment arrives.
#[test]
fn a_storm_of_locks_loses_nothing() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 20_000;
    let _alone = alone();
    let profiler = profiler();
    let locks: Vec<Mutex<u64>> = (0..4).map(|_| Mutex::new(0)).collect();
    let others: Vec<parking_lot::Mutex<u64>> = (0..4).map(|_| parking_lot::Mutex::new(0)).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (locks, others) = (&locks, &others);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let at = (round + thread) as usize % 4;
                        *locks[at].lock().expect("no panic") += 1;
                        *others[at].lock() += 1;
                    }
                })
            })
            .collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            profiler.block().expect("installed");
        }
    });
    let total: u64 = locks.iter().map(|lock| *lock.lock().expect("no panic")).sum();
    let others: u64 = others.iter().map(|lock| *lock.lock()).sum();
    assert_eq!((total, others), (THREADS * ROUNDS, THREADS * ROUNDS));
    // The same once more with few samples, as in production.
    flamelet::locks::set_rate(Duration::from_micros(100)).expect("installed");
    let lock = Mutex::new(0);
    contend(
        |meanwhile| {
            let held = lock.lock().expect("no panic");
            meanwhile();
            drop(held);
        },
        || *lock.lock().expect("no panic") += 1,
    );
}
