//! A program that has a handler for SIGPROF already keeps it for its own signals.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "a signal handler")]

mod support;

use flamelet_capture::cpu::{self, Options};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::burn_red;

static RAISED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: libc::c_int) {
    RAISED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn signals_that_are_not_the_sampler_s_reach_the_program_s_handler() {
    // SAFETY: the handler only counts.
    unsafe { libc::signal(libc::SIGPROF, count as *const () as libc::sighandler_t) };
    let session = cpu::start(&Options::with_frequency(999)).expect("starts");
    for _ in 0..100 {
        burn_red(Duration::from_millis(3));
        // SAFETY: raises a signal that is handled.
        unsafe { libc::raise(libc::SIGPROF) };
    }
    let profile = session.finish();
    assert_eq!(RAISED.load(Ordering::Relaxed), 100, "only the program's own signals, and all of them");
    assert!(profile.total(1) > 200_000_000);
    // After the capture as well: late signals of the sampler must not end the process.
    burn_red(Duration::from_millis(50));
    // SAFETY: as above.
    unsafe { libc::raise(libc::SIGPROF) };
    assert_eq!(RAISED.load(Ordering::Relaxed), 101);
}
