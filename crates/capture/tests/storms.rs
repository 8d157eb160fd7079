//! Programs that do everything at once while they are sampled: nothing may crash, hang or be disturbed.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "pipes, sleeps, signals and the loader, by C functions")]

mod support;

use flamelet_capture::cpu::{self, Options, Session};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::{Names, burn_blue, burn_red, percent, process_cpu, turn};

const MILLI: Duration = Duration::from_millis(1);

fn start(frequency: u32) -> Session {
    let mut options = Options::with_frequency(frequency);
    options.overhead_budget = None;
    cpu::start(&options).expect("starts")
}

/// Runs `work` while two threads use CPU time and are sampled.
fn under_load<T>(work: impl FnOnce() -> T) -> T {
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Even when `work` panics the others must end.
        let _over = Over(&is_over);
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    burn_blue(MILLI * 5);
                }
            });
        }
        work()
    })
}

#[test]
fn threads_by_the_thousand_come_and_go() {
    let _turn = turn();
    let names = Names::new();
    let session = start(999);
    for _ in 0..400 {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| burn_red(MILLI / 2));
            }
        });
    }
    // Threads that live longer than the time between two looks are seen whole.
    let begin = process_cpu();
    let before = names.inclusive(&session.snapshot(), "burn_red");
    for _ in 0..8 {
        std::thread::scope(|scope| {
            scope.spawn(|| burn_red(MILLI * 60));
            scope.spawn(|| burn_red(MILLI * 60));
        });
    }
    let used = process_cpu() - begin;
    let profile = session.finish();
    let share = percent(names.inclusive(&profile, "burn_red") - before, used);
    println!(
        "1,600 threads of 0.5 ms: {before:?} seen; threads of 60 ms: {share:.1} %, {:?}",
        profile.quality
    );
    assert!((85.0..115.0).contains(&share), "{share:.1} %");
}

#[test]
fn sleeps_and_reads_are_not_interrupted() {
    let _turn = turn();
    let session = start(999);
    under_load(|| {
        let mut ends = [0; 2];
        // SAFETY: makes a pipe; every call below uses its own buffers.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..400 {
                    burn_red(Duration::from_micros(500));
                    let time = libc::timespec { tv_sec: 0, tv_nsec: 500_000 };
                    // SAFETY: sleeps.
                    let result = unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
                    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
                }
            });
            scope.spawn(|| {
                for _ in 0..400 {
                    burn_red(Duration::from_micros(500));
                    let mut byte = 0u8;
                    // SAFETY: reads one byte into `byte`.
                    let result = unsafe { libc::read(ends[0], (&raw mut byte).cast(), 1) };
                    assert_eq!(result, 1, "{}", std::io::Error::last_os_error());
                }
            });
            for _ in 0..400 {
                std::thread::sleep(Duration::from_micros(700));
                // SAFETY: writes one byte.
                assert_eq!(unsafe { libc::write(ends[1], [1u8].as_ptr().cast(), 1) }, 1);
            }
        });
    });
    let profile = session.finish();
    assert!(profile.sample_count() > 0);
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
            // SAFETY: the child only computes and leaves.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    let hash = (0..2_000_000u64).fold(1u64, |hash, i| (hash ^ i).wrapping_mul(31));
                    libc::_exit(i32::from(black_box(hash) == 0));
                }
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
            }
        }
    });
    drop(session.finish());
}

#[test]
fn panics_unwind_while_sampling() {
    let _turn = turn();
    let session = start(999);
    let caught = under_load(|| {
        let start = Instant::now();
        let mut caught = 0;
        while start.elapsed() < MILLI * 700 {
            let result = std::panic::catch_unwind(|| {
                let values = black_box(vec![1; 10]);
                std::panic::resume_unwind(Box::new(black_box(values.len())));
            });
            caught += usize::from(result.is_err());
        }
        caught
    });
    let profile = session.finish();
    assert!(caught > 100);
    let quality = profile.quality.expect("said");
    // Where libgcc leaves a frame for a landing pad, the stack is between two frames for some instructions.
    assert!(quality.truncated * 10 <= quality.samples, "{quality:?}");
}

#[test]
fn libraries_come_and_go_while_sampling() {
    let _turn = turn();
    let session = start(999);
    let loads = under_load(|| {
        let names = [c"libm.so.6", c"libresolv.so.2", c"libanl.so.1", c"libutil.so.1", c"libnss_compat.so.2"];
        let start = Instant::now();
        let mut loads = 0;
        while start.elapsed() < Duration::from_secs(1) {
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
        burn_red(MILLI * 300);
        drop(session.finish());
        1
    }
    let _turn = turn();
    let names = Names::new();
    let session = start(999);
    // SAFETY: the callback ignores its arguments.
    unsafe { libc::dl_iterate_phdr(Some(burn_once), std::ptr::null_mut()) };
    let profile = session.finish();
    assert!(names.inclusive(&profile, "burn_red") > MILLI * 250);
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
    assert!(session.finish().sample_count() > 0);
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

#[test]
fn the_handler_fits_the_alternate_stack_of_a_thread() {
    const SIZE: usize = 8 << 10;
    const PAINT: u8 = 0xa5;
    let _turn = turn();
    let session = start(999);
    let thread = std::thread::spawn(|| {
        let mut space = vec![PAINT; SIZE].into_boxed_slice();
        // SAFETY: the stack outlives its use: the thread's former one is put back before it is read.
        unsafe {
            let stack = libc::stack_t { ss_sp: space.as_mut_ptr().cast(), ss_flags: 0, ss_size: SIZE };
            let mut before: libc::stack_t = std::mem::zeroed();
            assert_eq!(libc::sigaltstack(&raw const stack, &raw mut before), 0);
            burn_red(MILLI * 400);
            assert_eq!(libc::sigaltstack(&raw const before, std::ptr::null_mut()), 0);
        }
        SIZE - space.iter().take_while(|&&byte| byte == PAINT).count()
    });
    let used = thread.join().expect("no panic");
    drop(session.finish());
    println!("{used} bytes of the alternate stack were used, the kernel's part included");
    assert!(used > 0 && used < SIZE - 512, "{used} bytes");
}
