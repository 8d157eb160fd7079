//! The clocks of this process, what others use of the machine, and tests whose figures need most of it.

use std::any::Any;
use std::fmt::Debug;
use std::ops::RangeBounds;
use std::time::{Duration, Instant};

/// Runs `test`, whose figures are known, and again where it panics, up to five times in all: the kernel looks for due
/// samples once a tick, and its ticks may meet others again and again, so that what a thread used last is not seen.
///
/// What is wrong on most attempts fails: after failures of which others were not the reason, as many attempts and one
/// must be right. Those during which others used much of the machine do not count against it, unless they are
/// [beyond chance](assert_figure); and if that is all there was, the test is skipped.
pub(crate) fn again_if_busy(test: impl Fn()) {
    const BUSY: f64 = 0.05;
    let verdict = verdict(|| {
        let (result, others) =
            beside_others(|| std::panic::catch_unwind(std::panic::AssertUnwindSafe(&test)));
        if result.is_err() {
            // `cargo xtask test` counts these.
            eprintln!("AGAIN: others used {:.0} % of the machine", others * 100.0);
        }
        (result, others >= BUSY)
    });
    match verdict {
        Verdict::Right => {}
        Verdict::Wrong(failure) => std::panic::resume_unwind(failure),
        Verdict::Excused => eprintln!("SKIP: others used 5 % of the machine or more in each attempt"),
    }
}

/// What several attempts come to.
#[derive(Debug)]
pub(crate) enum Verdict {
    Right,
    Wrong(Box<dyn Any + Send>),
    /// Others used so much of the machine that nothing is known.
    Excused,
}

/// Makes attempts until it is clear what they come to; each says whether the machine was busy with others.
pub(crate) fn verdict(attempt: impl Fn() -> (std::thread::Result<()>, bool)) -> Verdict {
    const ATTEMPTS: usize = 5;
    let (mut right, mut wrong, mut failure) = (0, 0, None);
    for number in 1..=ATTEMPTS {
        let (result, is_busy) = attempt();
        match result {
            Ok(()) => right += 1,
            Err(panic) if !is_busy || is_beyond_chance(&*panic) => {
                wrong += 1;
                failure = Some(panic);
            }
            Err(_) => {}
        }
        if right > wrong {
            return Verdict::Right;
        }
        eprintln!("attempt {number}: {right} right and {wrong} wrong so far, others are busy: {is_busy}");
    }
    failure.map_or(Verdict::Excused, Verdict::Wrong)
}

const BEYOND_CHANCE: &str = "beyond chance: ";

fn is_beyond_chance(panic: &(dyn Any + Send)) -> bool {
    panic.downcast_ref::<String>().is_some_and(|message| message.starts_with(BEYOND_CHANCE))
}

/// Panics when `figure` is not in `right`, as may happen on a busy machine. Not even `possible` is what no machine
/// excuses.
pub(crate) fn assert_figure(
    what: &str,
    figure: f64,
    right: impl RangeBounds<f64> + Debug,
    possible: impl RangeBounds<f64> + Debug,
) {
    assert!(possible.contains(&figure), "{BEYOND_CHANCE}{what}: {figure:.1}, not in {possible:?}");
    assert!(right.contains(&figure), "{what}: {figure:.1}, not in {right:?}");
}

/// Panics when something is not so that is so on the busiest machine.
pub(crate) fn assert_surely(is_so: bool, what: &str) {
    assert!(is_so, "{BEYOND_CHANCE}{what}");
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
