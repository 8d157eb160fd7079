//! Programs that do everything at once while they are sampled: nothing may crash, hang or be disturbed.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "forks, signals and the loader, by C functions")]

mod support;

use flamelet_capture::cpu::{self, Options, Session};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::{
    ENOUGH, Used, assert_seen, burn_red, burn_red_until_seen, labelled, timer_slack, turn, under_load,
    until_sampled,
};

const MILLI: Duration = Duration::from_millis(1);

fn start(frequency: u32) -> Session {
    let mut options = Options::with_frequency(frequency);
    options.overhead_budget = None;
    cpu::start(&options).expect("starts")
}

#[test]
fn threads_by_the_thousand_come_and_go() {
    let _turn = turn();
    let session = start(999);
    for _ in 0..400 {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| burn_red(MILLI / 2));
            }
        });
    }
    // Threads that live until they are sampled have complete stacks.
    let work = |number: u32| {
        let number = number.to_string();
        let _scope = flamelet_capture::labels::scope([("number", number.clone())]);
        burn_red_until_seen(MILLI * 60, || labelled(&session.snapshot(), "number", &number))
    };
    let pair = |number: u32| {
        std::thread::scope(|scope| {
            let both = [2 * number, 2 * number + 1].map(|number| scope.spawn(move || work(number)));
            both.map(|thread| thread.join().expect("no panic")).into_iter().sum::<Used>()
        })
    };
    let used: Used = (0..8).map(pair).sum();
    let seen = support::by_label(&session.finish(), "number").values().sum();
    // A listing of threads may miss one while others end; its CPU time before the next listing is missing then.
    assert_seen("threads of 60 ms", seen, used, timer_slack(999) * 16 + used.cpu / 8);
}

#[test]
fn programs_started_while_sampling_run_undisturbed() {
    let _turn = turn();
    let session = start(999);
    under_load(|| {
        for _ in 0..60 {
            let output = std::process::Command::new("/bin/sh")
                .args(["-c", "i=0; while [ $i -lt 300 ]; do i=$((i+1)); done; echo $i"])
                .output()
                .expect("a shell");
            assert!(output.status.success(), "{:?}", output.status);
            assert_eq!(output.stdout, b"300\n");
        }
    });
    drop(session.finish());
}

#[test]
fn a_forked_child_that_does_not_exec_ends_in_peace() {
    let _turn = turn();
    let session = start(999);
    under_load(|| {
        for _ in 0..40 {
            assert!(flamelet_test_support::holds_in_child(|| {
                (0..2_000_000u64).fold(1u64, |hash, i| black_box((hash ^ i).wrapping_mul(31))) != 0
            }));
        }
    });
    drop(session.finish());
}

/// Makes a capture in the child, whatever the parent's other threads did at the fork.
fn profile_in_a_child() -> bool {
    let session = start(999);
    // On a busy machine it may take a while until a tick of the kernel lands on this thread.
    while cpu::status().samples < 3 {
        burn_red(MILLI * 20);
    }
    session.finish().sample_count() > 0
}

#[test]
fn a_forked_child_can_profile_itself() {
    let _turn = turn();
    let over = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        // Captures that start, look at the loader's list and end, so that their locks are often held.
        for _ in 0..2 {
            scope.spawn(|| {
                while over.load(Ordering::Relaxed) == 0 {
                    let session = start(999);
                    drop(flamelet_unwind::Modules::of_this_process());
                    let _labels = flamelet_capture::labels::scope([("fork", "parent")]);
                    drop(session.finish());
                }
            });
        }
        let forked = std::panic::catch_unwind(|| {
            for _ in 0..20 {
                assert!(flamelet_test_support::holds_in_child(|| {
                    let _labels = flamelet_capture::labels::scope([("fork", "child")]);
                    profile_in_a_child()
                }));
            }
        });
        over.store(1, Ordering::Relaxed);
        forked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn panics_unwind_while_sampling() {
    let _turn = turn();
    let session = start(999);
    let before = cpu::status();
    under_load(|| {
        until_sampled(ENOUGH * 2, || {
            let result = std::panic::catch_unwind(|| {
                let values = black_box(vec![1; 10]);
                std::panic::resume_unwind(Box::new(black_box(values.len())));
            });
            assert!(result.is_err());
        });
    });
    let after = cpu::status();
    drop(session.finish());
    // Where libgcc leaves a frame for a landing pad, the stack is between two frames for some instructions.
    let (samples, truncated) = (after.samples - before.samples, after.truncated - before.truncated);
    println!("{truncated} of {samples} truncated");
    assert!(truncated * 4 <= samples, "{truncated} of {samples} truncated");
}

#[test]
fn libraries_come_and_go_while_sampling() {
    let _turn = turn();
    let session = start(999);
    let loads = under_load(|| {
        let names = [c"libm.so.6", c"libresolv.so.2", c"libanl.so.1", c"libutil.so.1", c"libnss_compat.so.2"];
        let (start, samples) = (Instant::now(), cpu::status().samples);
        let mut loads = 0;
        while start.elapsed() < Duration::from_secs(1) || cpu::status().samples == samples {
            for name in names {
                // SAFETY: loads and unloads libraries of the system.
                unsafe {
                    let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
                    if !handle.is_null() {
                        loads += 1;
                        libc::dlclose(handle);
                    }
                }
            }
        }
        loads
    });
    let profile = session.finish();
    println!("{loads} loads, {:?}", profile.quality);
    assert!(loads > 0, "not one of the libraries is there");
    assert!(profile.sample_count() > 0);
}

#[test]
fn the_loader_s_lock_can_be_held_while_sampling() {
    extern "C" fn burn_once(
        _: *mut libc::dl_phdr_info,
        _: libc::size_t,
        _: *mut libc::c_void,
    ) -> libc::c_int {
        // A whole capture starts and ends while this thread holds the lock, too.
        let session = start(499);
        let used = burn_red_until_seen(MILLI * 300, || support::sampled(&session.snapshot()));
        UNDER_THE_LOCK.set((used, support::sampled(&session.finish())));
        1
    }
    thread_local! {
        static UNDER_THE_LOCK: Cell<(Used, Duration)> = const { Cell::new((Used::NONE, Duration::ZERO)) };
    }
    let burn_under_the_lock = || {
        // SAFETY: the callback ignores its arguments.
        unsafe { libc::dl_iterate_phdr(Some(burn_once), std::ptr::null_mut()) };
        let (used, seen) = UNDER_THE_LOCK.get();
        assert_seen("under the lock", seen, used, timer_slack(499));
    };
    let _turn = turn();
    burn_under_the_lock();
    let session = start(999);
    burn_under_the_lock();
    assert!(session.finish().sample_count() > 0);
}

static OWN_SIGNALS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count_signal(_: libc::c_int) {
    OWN_SIGNALS.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn the_program_s_own_signals_arrive() {
    let _turn = turn();
    // SAFETY: the handler only counts.
    unsafe { libc::signal(libc::SIGUSR2, count_signal as *const () as libc::sighandler_t) };
    let session = start(999);
    let before = OWN_SIGNALS.load(Ordering::Relaxed);
    under_load(|| {
        for _ in 0..5000 {
            // SAFETY: raises a signal that is handled.
            unsafe { libc::raise(libc::SIGUSR2) };
        }
    });
    assert_eq!(OWN_SIGNALS.load(Ordering::Relaxed) - before, 5000);
    // They may be over before a tick of the kernel lands on this thread.
    until_sampled(1, || burn_red(MILLI * 20));
    assert!(session.finish().sample_count() > 0);
}

/// How often [`look_at_the_stack`] ran, and how often on its thread's alternate stack.
static LOOKED: AtomicUsize = AtomicUsize::new(0);
static ON_ALTERNATE: AtomicUsize = AtomicUsize::new(0);

/// A handler on its thread's stack that uses half the size of an alternate stack.
extern "C" fn look_at_the_stack(_: libc::c_int) {
    let mut used = [0u8; 4 << 10];
    let here = black_box(&mut used).as_ptr() as usize;
    // SAFETY: reads which stack the thread has for signals.
    let alternate = unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(std::ptr::null(), &raw mut stack);
        stack.ss_sp as usize..stack.ss_sp as usize + stack.ss_size
    };
    LOOKED.fetch_add(1, Ordering::Relaxed);
    ON_ALTERNATE.fetch_add(usize::from(alternate.contains(&here)), Ordering::Relaxed);
}

/// Signals of the program are blocked while a sample is taken: the alternate stack of a thread has no room for another
/// handler, often not even for the kernel's part of it.
#[test]
fn signals_from_other_threads_never_land_on_the_alternate_stack() {
    let _turn = turn();
    // SAFETY: the handler uses its own stack and atomics.
    unsafe { libc::signal(libc::SIGUSR1, look_at_the_stack as *const () as libc::sighandler_t) };
    let session = start(999);
    let (tell, told) = std::sync::mpsc::channel();
    let target = std::thread::spawn(move || {
        // SAFETY: names this thread.
        tell.send(unsafe { libc::pthread_self() }).expect("it waits");
        burn_red(MILLI * 1200)
    });
    let thread = told.recv().expect("it tells");
    while !target.is_finished() {
        // SAFETY: the thread was not joined.
        unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
    }
    target.join().expect("no panic");
    let (looked, on_alternate) = (LOOKED.load(Ordering::Relaxed), ON_ALTERNATE.load(Ordering::Relaxed));
    println!("{looked} signals during {} samples", session.finish().total(0));
    assert!(looked > 0);
    assert_eq!(on_alternate, 0, "of {looked}");
}

#[test]
fn captures_start_and_end_by_the_hundred() {
    let _turn = turn();
    under_load(|| {
        std::thread::scope(|scope| {
            for number in 1..=4u32 {
                scope.spawn(move || {
                    for round in 0..50 {
                        let session = start(number * 100 + round);
                        burn_red(MILLI * 2);
                        if round % 3 == 0 {
                            drop(session.snapshot());
                        }
                        drop(session.finish());
                    }
                });
            }
        });
    });
    let status = cpu::status();
    assert_eq!((status.readers, status.frequency, status.engine), (0, 0, None));
}

/// The bytes that the kernel put on an alternate stack before it called [`note_kernels_part`].
#[cfg(not(unoptimized))]
static KERNELS_PART: AtomicUsize = AtomicUsize::new(0);

#[cfg(not(unoptimized))]
extern "C" fn note_kernels_part(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel's, valid during the call.
    let stack = unsafe { (*context.cast::<libc::ucontext_t>()).uc_stack };
    KERNELS_PART.store(stack.ss_sp as usize + stack.ss_size - context as usize, Ordering::Relaxed);
}

/// Returns how much of an alternate stack a signal takes on this machine, which depends on the registers in use.
/// (`AT_MINSIGSTKSZ` is the most that it could be.)
#[cfg(not(unoptimized))]
fn kernels_part() -> usize {
    // SAFETY: a plain C structure; the handler has the type that SA_SIGINFO promises, and only notes a number.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note_kernels_part as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()), 0);
        libc::raise(libc::SIGUSR2);
    }
    KERNELS_PART.load(Ordering::Relaxed)
}

/// Uses CPU time on a thread whose alternate stack is the last `size` of 64 KB; returns how many bytes were used.
/// `None` if the kernel refuses a stack of that size.
#[cfg(not(unoptimized))]
fn bytes_used_of_an_alternate_stack(size: usize) -> Option<usize> {
    const ALL: usize = 64 << 10;
    const PAINT: u8 = 0xa5;
    let thread = std::thread::spawn(move || {
        let mut space = vec![PAINT; ALL].into_boxed_slice();
        // SAFETY: the stack outlives its use: the thread's former one is put back before it is read.
        unsafe {
            let start = space.as_mut_ptr().add(ALL - size);
            let stack = libc::stack_t { ss_sp: start.cast(), ss_flags: 0, ss_size: size };
            let mut before: libc::stack_t = std::mem::zeroed();
            if libc::sigaltstack(&raw const stack, &raw mut before) != 0 {
                return None;
            }
            let signals = || cpu::status().samples + cpu::status().lost;
            burn_red_until_seen(MILLI * 400, || Duration::from_nanos(signals()));
            assert_eq!(libc::sigaltstack(&raw const before, std::ptr::null_mut()), 0);
        }
        Some(ALL - space.iter().take_while(|&&byte| byte == PAINT).count())
    });
    thread.join().expect("no panic")
}

// Without optimization the handler runs on the thread's own stack.
#[cfg(not(unoptimized))]
#[test]
fn the_handler_fits_the_alternate_stack_of_a_thread() {
    let _turn = turn();
    // As the standard library does.
    // SAFETY: reads what the kernel told the process at its start.
    let size = (unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize).max(8 << 10);
    let session = start(999);
    let used = bytes_used_of_an_alternate_stack(size).expect("the kernel takes it");
    drop(session.finish());
    println!("{used} bytes of the alternate stack were used, the kernel's part included");
    assert!(used > 0 && used < size - 512, "{used} bytes");
}

// Without optimization the handler runs on the thread's own stack.
#[cfg(not(unoptimized))]
#[test]
fn an_alternate_stack_that_is_too_small_costs_samples_and_nothing_else() {
    /// Enough to inspect the signal, but not to take a sample.
    const REST: usize = 1200;
    let _turn = turn();
    let kernels_part = kernels_part();
    let size = kernels_part + REST;
    let lost = cpu::status().lost;
    let session = start(999);
    let used = bytes_used_of_an_alternate_stack(size);
    drop(session.finish());
    let Some(used) = used else {
        flamelet_test_support::skip!(
            "the kernel takes no alternate stack of {size} bytes, of which it uses {kernels_part}"
        );
        return;
    };
    assert!(used > 0 && used <= size, "{used} bytes of {size}");
    assert!(cpu::status().lost > lost, "{kernels_part} bytes for the kernel, {size} in all");
}
