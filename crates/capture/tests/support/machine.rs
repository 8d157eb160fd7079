//! The clocks of this process, what others use of the machine, and tests whose figures need most of it.

use std::time::{Duration, Instant};

/// Runs `test`, whose figures are known, and again where it panics, up to five times in all: the kernel looks for due
/// samples once a tick, and its ticks may meet others again and again, so that what a thread used last is not seen.
///
/// What is wrong on most attempts fails: after failures of which others were not the reason, as many attempts and one
/// must be right. Those during which others used much of the machine do not count against it; and if that is all
/// there was, the test is skipped.
pub(crate) fn again_if_busy(test: impl Fn()) {
    const ATTEMPTS: usize = 5;
    const BUSY: f64 = 0.05;
    let (mut right, mut wrong) = (0, None);
    for attempt in 1..=ATTEMPTS {
        let (result, others) =
            beside_others(|| std::panic::catch_unwind(std::panic::AssertUnwindSafe(&test)));
        match result {
            Ok(()) => right += 1,
            Err(failure) if others < BUSY => {
                let times = wrong.map_or(1, |(_, times)| times + 1);
                wrong = Some((failure, times));
            }
            Err(_) => {}
        }
        if right > wrong.as_ref().map_or(0, |(_, times)| *times) {
            return;
        }
        let percent = others * 100.0;
        eprintln!(
            "AGAIN: attempt {attempt}, {right} right so far, others used {percent:.0} % of the machine"
        );
    }
    match wrong {
        Some((failure, _)) => std::panic::resume_unwind(failure),
        None => eprintln!("SKIP: others used 5 % of the machine or more in each of {ATTEMPTS} attempts"),
    }
}

/// What `work` gives, and the share of the machine that others used meanwhile.
fn beside_others<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let (start, all, own) = (Instant::now(), machine_cpu(), process_cpu());
    let result = work();
    let others = machine_cpu().saturating_sub(all).saturating_sub(process_cpu() - own);
    let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
    (result, others.as_secs_f64() / start.elapsed().as_secs_f64().max(1e-3) / cores as f64)
}

/// The CPU time of all processes, and what the host took.
fn machine_cpu() -> Duration {
    const IDLE: [usize; 2] = [3, 4];
    const EIGHT: usize = 8;
    let text = std::fs::read_to_string("/proc/stat").expect("/proc is there");
    let line = text.lines().next().expect("the sum of all CPUs comes first");
    let numbers =
        line.split_whitespace().skip(1).take(EIGHT).map(|word| word.parse::<u64>().expect("a number"));
    let ticks: u64 = numbers.enumerate().filter(|(at, _)| !IDLE.contains(at)).map(|(_, ticks)| ticks).sum();
    // SAFETY: asks for a constant of the system.
    let hertz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as u64;
    Duration::from_millis(ticks * 1000 / hertz)
}

fn cpu_time(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to the structure above.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The CPU time of this thread.
pub(crate) fn thread_cpu() -> Duration {
    cpu_time(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The CPU time of this process.
pub(crate) fn process_cpu() -> Duration {
    cpu_time(libc::CLOCK_PROCESS_CPUTIME_ID)
}
