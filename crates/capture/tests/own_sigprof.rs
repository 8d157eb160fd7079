//! A program that has a handler for SIGPROF already keeps it for its own signals.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "a signal handler")]

mod support;

use flamelet_capture::cpu::{self, Engine, Options};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::{burn_red, turn};

static RAISED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: libc::c_int) {
    RAISED.fetch_add(1, Ordering::Relaxed);
}

/// Uses CPU time until `session` has a sample: on a busy machine the kernel's ticks may land on other processes for a
/// long time.
fn burn_until_sampled(session: &cpu::Session) {
    let end = Instant::now() + Duration::from_secs(60);
    while session.snapshot().sample_count() == 0 {
        burn_red(Duration::from_millis(20));
        assert!(Instant::now() < end, "no sample");
    }
}

#[test]
fn signals_that_are_not_the_sampler_s_reach_the_program_s_handler() {
    let _turn = turn();
    RAISED.store(0, Ordering::Relaxed);
    // SAFETY: the handler only counts.
    unsafe { libc::signal(libc::SIGPROF, count as *const () as libc::sighandler_t) };
    let session = cpu::start(&Options::with_frequency(999)).expect("starts");
    for _ in 0..100 {
        burn_red(Duration::from_millis(3));
        // SAFETY: raises a signal that is handled.
        unsafe { libc::raise(libc::SIGPROF) };
    }
    burn_until_sampled(&session);
    drop(session.finish());
    assert_eq!(RAISED.load(Ordering::Relaxed), 100, "only the program's own signals, and all of them");
    // After the capture as well: late signals of the sampler must not end the process.
    burn_red(Duration::from_millis(50));
    // SAFETY: as above.
    unsafe { libc::raise(libc::SIGPROF) };
    assert_eq!(RAISED.load(Ordering::Relaxed), 101);
}

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// Installs `handler` for the signal, on the thread's own stack; returns the previous one.
fn install(handler: Handler) -> libc::sigaction {
    install_with(handler, 0, &[])
}

/// The same with more flags, and with other signals blocked while it runs.
fn install_with(handler: Handler, flags: libc::c_int, blocked: &[libc::c_int]) -> libc::sigaction {
    // SAFETY: plain C structures; the handler has the type that SA_SIGINFO promises.
    unsafe {
        let (mut new, mut before): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
        new.sa_sigaction = handler as usize;
        new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | flags;
        for &signal in blocked {
            assert_eq!(libc::sigaddset(&raw mut new.sa_mask, signal), 0);
        }
        assert_eq!(libc::sigaction(libc::SIGPROF, &raw const new, &raw mut before), 0);
        before
    }
}

extern "C" fn use_much_stack(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let mut frames = [0u64; 64 << 10 >> 3];
    std::hint::black_box(&mut frames);
    RAISED.fetch_add(1, Ordering::Relaxed);
}

/// A handler that keeps frames on the stack, as some profilers do. The alternate stack of a thread has 8 KB.
#[test]
fn a_large_handler_that_was_made_for_the_thread_s_stack_stays_there() {
    let _turn = turn();
    RAISED.store(0, Ordering::Relaxed);
    install(use_much_stack);
    let session = cpu::start(&Options::with_frequency(999)).expect("starts");
    for _ in 0..20 {
        burn_red(Duration::from_millis(3));
        // SAFETY: raises a signal that is handled.
        unsafe { libc::raise(libc::SIGPROF) };
    }
    assert_eq!(RAISED.load(Ordering::Relaxed), 20);
    // Samples are taken on that stack, too.
    burn_until_sampled(&session);
}

static CHAINED: AtomicUsize = AtomicUsize::new(0);
/// The handler that [`count_and_chain`] calls.
static NEXT: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count_and_chain(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    CHAINED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: what was there before is the sampler's handler, which is of this type.
    let next = unsafe { std::mem::transmute::<usize, Handler>(NEXT.load(Ordering::Relaxed)) };
    next(signal, info, context);
}

/// The program installs a handler that calls the sampler's; then the sampler is started again.
#[test]
fn handlers_that_call_each_other_do_not_do_so_for_ever() {
    let _turn = turn();
    RAISED.store(0, Ordering::Relaxed);
    install(use_much_stack);
    drop(cpu::start(&Options::with_frequency(99)).expect("starts"));
    let sampler_s = install(count_and_chain);
    assert_ne!(sampler_s.sa_flags & libc::SA_SIGINFO, 0);
    NEXT.store(sampler_s.sa_sigaction, Ordering::Relaxed);
    for round in 1..=3 {
        let session = cpu::start(&Options::with_frequency(999)).expect("starts");
        burn_red(Duration::from_millis(30));
        // SAFETY: raises a signal that is handled.
        unsafe { libc::raise(libc::SIGPROF) };
        let counts = (CHAINED.load(Ordering::Relaxed), RAISED.load(Ordering::Relaxed));
        assert_eq!(counts, (round, round), "each once a signal");
        drop(session.finish());
    }
}

/// The result of the last [`note_what_is_blocked`].
static BLOCKED: AtomicUsize = AtomicUsize::new(0);
const WATCHED: [libc::c_int; 4] = [libc::SIGPROF, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// A bit for each signal.
fn bits(signals: &[libc::c_int]) -> usize {
    signals.iter().fold(0, |bits, signal| bits | 1 << signal)
}

/// Which of [`WATCHED`] this thread blocks, once `more` are.
fn block(more: &[libc::c_int]) -> usize {
    // SAFETY: changes and reads the mask of the thread.
    unsafe {
        let (mut set, mut now): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        more.iter().for_each(|&signal| assert_eq!(libc::sigaddset(&raw mut set, signal), 0));
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut now);
        let is_blocked = |signal: &&libc::c_int| libc::sigismember(&raw const now, **signal) == 1;
        WATCHED.iter().filter(is_blocked).fold(0, |found, &signal| found | bits(&[signal]))
    }
}

extern "C" fn note_what_is_blocked(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    BLOCKED.store(block(&[]), Ordering::Relaxed);
}

/// The program's handler runs with the same blocked signals as without the sampler: those of the thread, those it
/// requested, and its own signal unless SA_NODEFER was requested.
#[test]
fn the_program_s_handler_blocks_what_it_asked_for() {
    use libc::{SIGHUP, SIGPROF, SIGUSR1, SIGUSR2};
    let _turn = turn();
    let thread = std::thread::spawn(|| {
        block(&[SIGHUP]);
        for (flags, asked, expected) in [
            (0, &[SIGUSR1][..], &[SIGPROF, SIGHUP, SIGUSR1][..]),
            (libc::SA_NODEFER, &[], &[SIGHUP]),
            (0, &[SIGUSR1, SIGUSR2], &WATCHED),
        ] {
            install_with(note_what_is_blocked, flags, asked);
            let session = cpu::start(&Options::with_frequency(99)).expect("starts");
            // SAFETY: raises a signal that is handled.
            unsafe { libc::raise(SIGPROF) };
            assert_eq!(BLOCKED.load(Ordering::Relaxed), bits(expected), "{flags:#x} {asked:?}");
            assert_eq!(block(&[]), bits(&[SIGHUP]), "afterwards");
            drop(session);
        }
        // The kernel calls the program's other handler, which calls the sampler's, which calls the handler above.
        let sampler_s = install_with(count_and_chain, 0, &[SIGUSR2]);
        NEXT.store(sampler_s.sa_sigaction, Ordering::Relaxed);
        // SAFETY: raises a signal that is handled.
        unsafe { libc::raise(SIGPROF) };
        assert_eq!(
            BLOCKED.load(Ordering::Relaxed),
            bits(&[SIGPROF, SIGHUP, SIGUSR2]),
            "as the caller has it"
        );
    });
    thread.join().expect("no panic");
}

/// Sets the interval timer of CPU time; returns the previous value.
fn set_interval_timer(interval_micros: libc::suseconds_t) -> libc::itimerval {
    let time = libc::timeval { tv_sec: 0, tv_usec: interval_micros };
    let new = libc::itimerval { it_interval: time, it_value: time };
    let mut before = new;
    // SAFETY: both structures outlive the call.
    assert_eq!(unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const new, &raw mut before) }, 0);
    before
}

/// There is one such timer in a process.
#[test]
fn the_program_s_interval_timer_goes_on_after_a_capture_that_used_it() {
    const MICROS: libc::suseconds_t = 12_000;
    let _turn = turn();
    install(use_much_stack);
    set_interval_timer(MICROS);
    let mut options = Options::with_frequency(999);
    options.engine = Engine::Setitimer;
    let session = cpu::start(&options).expect("starts");
    burn_until_sampled(&session);
    drop(session.finish());
    RAISED.store(0, Ordering::Relaxed);
    let end = Instant::now() + Duration::from_secs(60);
    while RAISED.load(Ordering::Relaxed) < 5 && Instant::now() < end {
        burn_red(Duration::from_millis(20));
    }
    assert_eq!(set_interval_timer(0).it_interval.tv_usec, MICROS);
    assert!(RAISED.load(Ordering::Relaxed) >= 5, "its signals arrive");
}

/// Without the handler there are no samples, which must be reported.
#[test]
fn a_program_that_replaces_the_handler_is_reported() {
    const REMARK: &str = "the program replaced the handler of SIGPROF: samples are missing";
    let _turn = turn();
    let session = cpu::start(&Options::with_frequency(99)).expect("starts");
    let is_said = || session.snapshot().comments().any(|comment| comment == REMARK);
    assert!(!is_said());
    install(use_much_stack);
    let end = Instant::now() + Duration::from_secs(60);
    while !is_said() && Instant::now() < end {
        burn_red(Duration::from_millis(20));
    }
    assert!(is_said(), "{:?}", session.finish().comments().collect::<Vec<_>>());
}

/// A child has the files of the sampler's events, and keeps them open.
#[test]
fn perf_events_end_with_the_capture_even_if_a_child_lives() {
    let _turn = turn();
    // SAFETY: the handler only counts.
    unsafe { libc::signal(libc::SIGPROF, count as *const () as libc::sighandler_t) };
    let mut options = Options::with_frequency(999);
    options.engine = Engine::Perf;
    let session = cpu::start(&options).expect("starts");
    if cpu::status().engine != Some(Engine::Perf) {
        flamelet_test_support::skip!("perf_event_open is not allowed here");
        return;
    }
    let mut ends = [0; 2];
    // SAFETY: the child only waits for the parent to close its end of the pipe, and leaves.
    let child = unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        let child = libc::fork();
        if child == 0 {
            libc::close(ends[1]);
            libc::read(ends[0], [0u8].as_mut_ptr().cast(), 1);
            libc::_exit(0);
        }
        child
    };
    burn_until_sampled(&session);
    drop(session.finish());
    RAISED.store(0, Ordering::Relaxed);
    burn_red(Duration::from_millis(200));
    let raised = RAISED.load(Ordering::Relaxed);
    // SAFETY: closes both ends, and waits for the child.
    unsafe {
        libc::close(ends[1]);
        libc::close(ends[0]);
        assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child);
    }
    assert_eq!(raised, 0, "signals of an event that is over");
}
