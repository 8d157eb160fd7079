//! A buffer that is full while nobody can empty it: what finds no room is counted as lost, with the CPU time that it
//! stands for, and nothing is put into a file; and a larger buffer, asked for at run time, has room for it.
//!
//! One test in its own process, because the sampler keeps the largest buffer that it ever had.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "holds the loader's lock and sets a limit, by C functions")]

mod support;

use flamelet_capture::cpu::{self, Options};
use flamelet_profile::Quality;
use std::time::Duration;
use support::{again_if_busy, assert_figure, assert_surely, burn_red, percent, process_cpu};

const FREQUENCY: u32 = 1000;
const SMALL: usize = 16;
const LARGE: usize = 8192;

/// Uses CPU time while the collector waits for the loader's lock.
extern "C" fn burn_once(_: *mut libc::dl_phdr_info, _: libc::size_t, _: *mut libc::c_void) -> libc::c_int {
    burn_red(Duration::from_secs(1));
    1
}

/// A capture with so large a buffer, which is full as soon as it can be. Gives what its profile says, the CPU time
/// meanwhile, whether time is said to have no sample for any other reason, and how many signals found no room.
fn capture(buffered_samples: usize) -> (Quality, Duration, bool, u64) {
    let mut options = Options::with_frequency(FREQUENCY);
    (options.buffered_samples, options.overhead_budget) = (buffered_samples, None);
    let lost = cpu::status().lost;
    let session = cpu::start(&options).expect("starts");
    let start = process_cpu();
    // SAFETY: the callback ignores its arguments.
    unsafe { libc::dl_iterate_phdr(Some(burn_once), std::ptr::null_mut()) };
    let used = process_cpu() - start;
    let profile = session.finish();
    let is_unseen = profile.comments().any(|comment| comment.contains("has no sample"));
    (profile.quality.expect("said"), used, is_unseen, cpu::status().lost - lost)
}

/// What `work` gives when no byte can be written to any file.
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

/// The share of the CPU time that is in the profile, or said to be missing, in percent.
fn accounted(quality: Quality, used: Duration) -> f64 {
    let periods = u32::try_from(quality.samples + quality.lost).expect("few");
    percent(Duration::from_secs(1) / FREQUENCY * periods, used)
}

#[test]
fn what_finds_no_room_is_counted_and_a_larger_buffer_has_room() {
    again_if_busy(|| {
        let (quality, used, is_unseen, lost) = without_files(|| capture(SMALL));
        println!("{SMALL}: {quality:?} of {used:?}, {lost} signals");
        assert_figure("accounted for", accounted(quality, used), 85.0..110.0, 70.0..130.0);
        // A signal stands for all the time since the last tick of the kernel that found the thread.
        assert!(lost > 0 && quality.lost > quality.samples && quality.samples > 0, "{quality:?}");
        assert!(!is_unseen, "all of it was refused: {quality:?}");
        assert!(quality.own_cpu_nanos > 0, "{quality:?}");
    });
    again_if_busy(|| {
        let (quality, used, _, lost) = capture(LARGE);
        println!("{LARGE}: {quality:?} of {used:?}, {lost} signals");
        assert_surely(lost == 0, "there is room for all");
        assert_figure("accounted for", accounted(quality, used), 85.0..110.0, 70.0..130.0);
        assert!(quality.samples > quality.lost * 5, "{quality:?}");
    });
}
