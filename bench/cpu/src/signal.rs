//! What one sample costs the thread it is taken in: signals sent to itself, against signals that do nothing.

use std::hint::black_box;
use std::time::Instant;

use crate::{profiler, work};

/// What lies between two signals, and so in the caches when the next one comes.
const BETWEEN: [(&str, usize, u64); 3] = [
    ("warm", 1, 0),
    // Work on half a megabyte: the handler as it runs in a busy program.
    ("place", 1 << 16, 20_000),
    // All of 64 MB touched: nothing of the profiler is in any cache.
    ("cold", 1 << 23, 0),
];

/// Prints the middle and the 99th percentile of each, above an empty signal, in nanoseconds.
pub(crate) fn sample(depth: u32, signals: u32) {
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGUSR1, nothing as *const () as libc::sighandler_t) };
    let capture = profiler::Capture::start_quiet();
    let mut figures = Vec::new();
    work::at_depth(depth, &mut || {
        for (name, words, steps) in BETWEEN {
            let count = if name == "cold" { signals / 20 } else { signals };
            figures.push(measured(name, words, steps, count.max(20)));
        }
    });
    capture.discard();
    println!("{{{}}}", figures.join(","));
}

fn measured(name: &str, words: usize, steps: u64, count: u32) -> String {
    let mut memory = vec![1u64; words];
    let (mut full, mut empty) = (Vec::new(), Vec::new());
    for turn in 0..count + 20 {
        for (signal, nanos) in [(libc::SIGPROF, &mut full), (libc::SIGUSR1, &mut empty)] {
            if steps > 0 {
                black_box(work::stir(&mut memory, steps));
            } else if words > 1 {
                memory.iter_mut().step_by(8).for_each(|word| *word += 1);
            }
            let taken = time_signal(signal);
            // The first ones build tables and claim memory; they are start-up, not samples.
            if turn >= 20 {
                nanos.push(taken);
            }
        }
    }
    black_box(memory);
    full.sort_unstable();
    empty.sort_unstable();
    let at = |of: &[u64], share: f64| of[((of.len() - 1) as f64 * share) as usize];
    let above = |share: f64| at(&full, share).saturating_sub(at(&empty, 0.5));
    let mean = |of: &[u64]| {
        let usual = &of[..of.len() - of.len() / 100];
        usual.iter().sum::<u64>() / usual.len() as u64
    };
    format!(
        "\"{name}\":{},\"{name}_mean\":{},\"{name}_p99\":{}",
        above(0.5),
        mean(&full).saturating_sub(mean(&empty)),
        above(0.99)
    )
}

extern "C" fn nothing(_: libc::c_int) {}

/// Sends this thread a signal as a timer would, and takes the time.
fn time_signal(signal: libc::c_int) -> u64 {
    /// What flamelet's timers carry: its mark, and a period of a nanosecond. The others do not look.
    const TAG: u64 = 0x00f1_a3e1 << 40 | 1;
    const SI_TIMER: i32 = -2;
    let mut info = [0u64; 16];
    info[1] = u64::from(SI_TIMER as u32);
    info[3] = TAG;
    let start = Instant::now();
    // SAFETY: a signal to this thread itself, which has a handler for it.
    unsafe {
        let (pid, tid) = (libc::getpid(), libc::syscall(libc::SYS_gettid));
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, signal, info.as_mut_ptr());
    }
    start.elapsed().as_nanos() as u64
}
