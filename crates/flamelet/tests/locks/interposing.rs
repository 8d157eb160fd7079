//! The function `syscall` of the program among others: before `main`, beside other libraries that define it, and in threads
//! that are cancelled.

use std::ffi::{c_int, c_long, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use crate::contention::{ROUNDS, alone, contend, find, profiler, this_thread, wait_until_asleep};

/// What was done before `main`; 1 while nothing was.
static BEFORE_MAIN: AtomicI32 = AtomicI32::new(1);

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = before_main;

/// Runs when the program is loaded: system calls, a lock that another thread waits for, and a join.
extern "C" fn before_main() {
    static LOCK: Mutex<u32> = Mutex::new(0);
    static WAITER: AtomicI32 = AtomicI32::new(0);
    // SAFETY: a call without arguments.
    let process = unsafe { libc::syscall(libc::SYS_getpid) };
    let Ok(mut held) = LOCK.lock() else { return };
    let waiter = std::thread::spawn(|| {
        WAITER.store(this_thread(), Ordering::SeqCst);
        LOCK.lock().is_ok_and(|locked| *locked == 1)
    });
    while WAITER.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    wait_until_asleep(WAITER.load(Ordering::SeqCst));
    *held = 1;
    drop(held);
    let has_seen_it = waiter.join().unwrap_or(false);
    let is_right = has_seen_it && process == c_long::from(std::process::id() as i32);
    BEFORE_MAIN.store(if is_right { 0 } else { 2 }, Ordering::SeqCst);
}

#[test]
fn calls_locks_and_joins_work_before_main() {
    assert_eq!(BEFORE_MAIN.load(Ordering::SeqCst), 0);
}

/// The functions of this program, or those of the C library, through which a cancelled thread is unwound.
mod c {
    use super::{c_int, c_long, c_void};

    unsafe extern "C-unwind" {
        pub(super) fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long) -> c_long;
        pub(super) fn pthread_join(thread: libc::pthread_t, value: *mut *mut c_void) -> c_int;
        pub(super) fn pthread_cancel(thread: libc::pthread_t) -> c_int;
        pub(super) fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
    }

    pub(super) const ASYNCHRONOUS: c_int = 1;
}

type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// Starts a thread that C code may unwind.
fn start(work: Start, argument: *mut c_void) -> libc::pthread_t {
    // SAFETY: the two types differ in whether the function may be unwound, which the C library does not care about.
    let work = unsafe { std::mem::transmute::<Start, extern "C" fn(*mut c_void) -> *mut c_void>(work) };
    // SAFETY: a number, for which 0 is a value.
    let mut thread = unsafe { std::mem::zeroed() };
    // SAFETY: the function takes any argument.
    let failed = unsafe { libc::pthread_create(&raw mut thread, std::ptr::null(), work, argument) };
    assert_eq!(failed, 0);
    thread
}

/// Cancels a thread as soon as it sleeps, and waits for its end.
fn cancel(thread: libc::pthread_t, id: &AtomicI32) {
    while id.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    wait_until_asleep(id.load(Ordering::SeqCst));
    let mut value = std::ptr::null_mut();
    // SAFETY: the thread is joined here, and nowhere else.
    unsafe {
        assert_eq!(c::pthread_cancel(thread), 0);
        assert_eq!(c::pthread_join(thread, &raw mut value), 0);
    }
    assert_eq!(value as isize, -1, "it was cancelled, and did not return");
}

static WORD: AtomicU32 = AtomicU32::new(0);

/// Waits by futex for ever. Nothing in it has a destructor.
unsafe extern "C-unwind" fn waits_for_ever(id: *mut c_void) -> *mut c_void {
    // SAFETY: the caller keeps the number until this thread has ended; the word lives as long as the program.
    unsafe {
        let mut before = 0;
        c::pthread_setcanceltype(c::ASYNCHRONOUS, &raw mut before);
        (*id.cast::<AtomicI32>()).store(this_thread(), Ordering::SeqCst);
        let operation = c_long::from(libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG);
        loop {
            c::syscall(libc::SYS_futex, WORD.as_ptr() as c_long, operation, 0, 0);
        }
    }
}

/// Joins a thread that never ends by itself, which is where a thread may be cancelled by default.
unsafe extern "C-unwind" fn joins_for_ever(both: *mut c_void) -> *mut c_void {
    // SAFETY: the caller keeps both until this thread has ended.
    unsafe {
        let (id, thread) = &*both.cast::<(AtomicI32, libc::pthread_t)>();
        id.store(this_thread(), Ordering::SeqCst);
        c::pthread_join(*thread, std::ptr::null_mut());
    }
    std::ptr::null_mut()
}

#[inline(never)]
fn waits_after_cancellations(lock: &Mutex<u32>) {
    *lock.lock().expect("no panic") += 1;
    std::hint::black_box(());
}

#[test]
fn threads_are_cancelled_while_they_wait() {
    let _alone = alone();
    let profiler = profiler();
    for _ in 0..100 {
        let id = AtomicI32::new(0);
        cancel(start(waits_for_ever, (&raw const id).cast_mut().cast()), &id);
    }
    let id = AtomicI32::new(0);
    let endless = start(waits_for_ever, (&raw const id).cast_mut().cast());
    let both = (AtomicI32::new(0), endless);
    cancel(start(joins_for_ever, (&raw const both).cast_mut().cast()), &both.0);
    cancel(endless, &id);
    // Their waits are not counted, and those of others still are.
    assert_eq!(find(&profiler.block().expect("installed"), "waits_for_ever").count, 0);
    let lock = Mutex::new(0);
    let hold = |meanwhile: &dyn Fn()| {
        let held = lock.lock().expect("no panic");
        meanwhile();
        drop(held);
    };
    contend(hold, || waits_after_cancellations(&lock));
    let found = find(&profiler.block().expect("installed"), "waits_after_cancellations");
    assert_eq!(found.count, i64::from(ROUNDS), "{found:?}");
}

/// What a library that is loaded before all others has as `syscall`.
#[cfg(not(target_feature = "crt-static"))]
const OTHER_INTERPOSER: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>

static long calls;

long other_interposers_calls(void) { return __atomic_load_n(&calls, __ATOMIC_SEQ_CST); }

long syscall(long number, ...) {
    static long (*next)(long, ...);
    long a[6];
    va_list all;
    va_start(all, number);
    for (int at = 0; at < 6; at++) a[at] = va_arg(all, long);
    va_end(all);
    if (!next) next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    __atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST);
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
"#;

/// Set for the program that is run with the other library: this one, with the test below only.
#[cfg(not(target_feature = "crt-static"))]
const INTERPOSED: &str = "FLAMELET_TEST_INTERPOSED";

#[inline(never)]
#[cfg(not(target_feature = "crt-static"))]
fn waits_interposed(lock: &Mutex<u32>) {
    *lock.lock().expect("no panic") += 1;
    std::hint::black_box(());
}

/// Both see every call, also before a profiler was started.
#[cfg(not(target_feature = "crt-static"))]
fn check_interposed() {
    // SAFETY: looks up a name, and the function that has it is called as it is defined.
    let calls = unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, c"other_interposers_calls".as_ptr());
        assert!(!found.is_null(), "the other library is loaded");
        std::mem::transmute::<*mut c_void, extern "C" fn() -> c_long>(found)
    };
    let before = calls();
    // SAFETY: a call without arguments.
    unsafe { libc::syscall(libc::SYS_getpid) };
    assert_eq!(calls() - before, 1, "before a profiler was started");
    let profiler = profiler();
    let lock = Mutex::new(0);
    let hold = |meanwhile: &dyn Fn()| {
        let held = lock.lock().expect("no panic");
        meanwhile();
        drop(held);
    };
    let before = calls();
    contend(hold, || waits_interposed(&lock));
    assert!(calls() - before >= 2 * c_long::from(ROUNDS), "waits and wakes reach the other library");
    let found = find(&profiler.block().expect("installed"), "waits_interposed");
    assert_eq!(found.count, i64::from(ROUNDS), "{found:?}");
}

#[test]
#[cfg(not(target_feature = "crt-static"))]
fn another_library_that_defines_syscall_sees_all_calls_too() {
    use std::process::Command;

    if std::env::var_os(INTERPOSED).is_some() {
        return check_interposed();
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (source, library) = (folder.path().join("other.c"), folder.path().join("libother.so"));
    std::fs::write(&source, OTHER_INTERPOSER).expect("our own folder");
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(compiled.is_ok_and(|status| status.success()), "a C compiler");
    let answer = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "interposing::another_library_that_defines_syscall_sees_all_calls_too"])
        .env("LD_PRELOAD", &library)
        .env(INTERPOSED, "1")
        .output()
        .expect("this program");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stdout));
    assert!(String::from_utf8_lossy(&answer.stdout).contains("1 passed"), "{answer:?}");
}
