//! A buffer that is full while it cannot be emptied: samples that do not fit are counted as lost, with the CPU time
//! that they stand for, and nothing is written to a file. A larger buffer, requested at run time, has room for them.
//!
//! One test in its own process, because the sampler keeps the largest buffer that it ever had.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "holds the loader's lock and sets a limit, by C functions")]

mod support;

use flamelet_capture::cpu::{self, Options};
use flamelet_profile::Quality;
use std::time::Duration;
use support::{Used, assert_seen, burn_red, burn_red_until_seen, sampled, thread_cpu, timer_slack};

const FREQUENCY: u32 = 1000;
const SMALL: usize = 16;
const LARGE: usize = 8192;

/// Uses CPU time while the collector waits for the loader's lock.
extern "C" fn burn_once(_: *mut libc::dl_phdr_info, _: libc::size_t, _: *mut libc::c_void) -> libc::c_int {
    burn_red(Duration::from_secs(1));
    1
}

struct Captured {
    quality: Quality,
    /// The CPU time that is in the profile.
    sampled: Duration,
    used: Used,
    /// Whether the profile reports time without samples for any reason other than a full buffer.
    is_unseen: bool,
    /// How many samples did not fit.
    refused: u64,
}

/// Makes a capture with a buffer of this size, which is filled as soon as possible.
fn capture(buffered_samples: usize) -> Captured {
    let mut options = Options::with_frequency(FREQUENCY);
    (options.buffered_samples, options.overhead_budget) = (buffered_samples, None);
    let before = cpu::status().lost;
    let session = cpu::start(&options).expect("starts");
    let start = thread_cpu();
    // SAFETY: the callback ignores its arguments.
    unsafe { libc::dl_iterate_phdr(Some(burn_once), std::ptr::null_mut()) };
    let after = burn_red_until_seen(Duration::ZERO, || sampled(&session.snapshot())).after;
    let used = Used { cpu: thread_cpu() - start, after };
    let profile = session.finish();
    let is_unseen = profile.comments().any(|comment| comment.contains("has no sample"));
    Captured {
        quality: profile.quality.expect("said"),
        sampled: sampled(&profile),
        used,
        is_unseen,
        refused: cpu::status().lost - before,
    }
}

/// Returns the result of `work` while no byte can be written to any file.
fn without_files<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the structure is written and read by the calls; without the signal writing is an error, not the end.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit), 0);
        let before = std::mem::replace(&mut limit.rlim_cur, 0);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        limit.rlim_cur = before;
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// The CPU time that is in the profile, or said to be missing.
fn accounted(captured: &Captured) -> Duration {
    let Quality { samples, lost, .. } = captured.quality;
    // What is lost is said in observations, each of which would have stood for as much as those that are there.
    captured.sampled.mul_f64((samples + lost) as f64 / samples.max(1) as f64)
}

#[test]
fn what_finds_no_room_is_counted_and_a_larger_buffer_has_room() {
    let slack = timer_slack(FREQUENCY);
    // On a busy machine the kernel's ticks may land on others so often that the buffer is not full after a second.
    let full = (0..20).map(|_| without_files(|| capture(SMALL))).find(|captured| captured.refused > 0);
    let full = full.expect("it is full at last");
    let Captured { quality, sampled, used, is_unseen, .. } = full;
    // What is lost is said in whole observations.
    let observation = sampled / u32::try_from(quality.samples.max(1)).expect("few");
    assert_seen("with a small buffer", accounted(&full), used, slack + observation);
    assert!(quality.lost > 0 && quality.samples > 0, "{quality:?}");
    assert!(!is_unseen, "all of it was refused: {quality:?}");
    assert!(quality.own_cpu_nanos > 0, "{quality:?}");

    let large = capture(LARGE);
    assert_eq!((large.refused, large.quality.lost), (0, 0), "there is room for all");
    assert_seen("with a large buffer", accounted(&large), large.used, slack);
}
