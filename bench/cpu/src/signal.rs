//! What one sample costs the thread it is taken in: signals sent to itself, against signals that do nothing.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::{DEPTH, profiler, work};

/// What lies between two signals, and so in the caches when the next one comes.
struct Between {
    name: &'static str,
    words: usize,
    /// Steps of work in no order; 0 touches every line of the words instead.
    steps: u64,
    /// One measured signal for so many that were asked for.
    fewer: u32,
}

const BETWEEN: [Between; 4] = [
    Between { name: "warm", words: 0, steps: 0, fewer: 1 },
    // Work on half a megabyte: the handler as it runs in a busy program.
    Between { name: "place", words: 1 << 16, steps: 20_000, fewer: 1 },
    // Eight megabytes touched: nothing of the profiler is in the caches of the core.
    Between { name: "cold", words: 1 << 20, steps: 0, fewer: 5 },
    // 64 MB touched: nothing of it is in any cache, nor in what the core remembers of its pages.
    Between { name: "memory", words: 1 << 23, steps: 0, fewer: 50 },
];

/// After so many signals the profiler gets the time to collect them.
const BURST: u32 = 200;
const REST: Duration = Duration::from_millis(60);
/// The first ones build tables and claim memory; they are start-up, not samples.
const START_UP: u32 = 20;
/// And those after a rest find what other processes left in the caches, whatever is to be measured.
const SETTLING: u32 = 5;

/// Prints the mean, the middle and the 99th percentile of each, above an empty signal, in nanoseconds.
pub(crate) fn sample(depth: u32, signals: u32) {
    let capture = profiler::Capture::start_quiet();
    install_nothing();
    let mut figures = Vec::new();
    work::at_depth(depth, &mut || {
        // From memory it takes long, and says the same at every depth.
        let wanted = if depth == DEPTH { &BETWEEN[..] } else { &BETWEEN[..3] };
        for between in wanted {
            figures.push(measured(between, (signals / between.fewer).max(20)));
        }
    });
    capture.discard();
    println!("{{{}}}", figures.join(","));
}

/// An empty handler that the kernel calls as it calls the profiler's: with the same flags, on the same stack.
fn install_nothing() {
    // SAFETY: plain C structures, zeroed and filled in; the handler has the type that SA_SIGINFO promises, and
    // may be called with fewer arguments.
    unsafe {
        let mut theirs: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPROF, std::ptr::null(), &raw mut theirs);
        theirs.sa_sigaction = nothing as *const () as usize;
        libc::sigaction(libc::SIGUSR1, &raw const theirs, std::ptr::null_mut());
    }
}

extern "C" fn nothing(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

fn measured(between: &Between, count: u32) -> String {
    let mut memory = vec![1u64; between.words];
    let (mut full, mut empty) = (Vec::new(), Vec::new());
    for turn in 0..count + START_UP {
        if turn % BURST == 0 {
            std::thread::sleep(REST);
        }
        for (signal, nanos) in [(libc::SIGPROF, &mut full), (libc::SIGUSR1, &mut empty)] {
            if between.steps > 0 {
                black_box(work::stir(&mut memory, between.steps));
            } else {
                memory.iter_mut().step_by(8).for_each(|word| *word += 1);
            }
            let switches = preemptions();
            let taken = time_signal(signal);
            // Another process' turn on this core is not the signal's time.
            if turn >= START_UP && turn % BURST >= SETTLING && preemptions() == switches {
                nanos.push(taken);
            }
        }
    }
    black_box(memory);
    full.sort_unstable();
    empty.sort_unstable();
    let at = |of: &[u64], share: f64| of[((of.len() - 1) as f64 * share) as usize];
    // Whatever else happens to a signal (a tick, the host) happens to an empty one too: like is compared with like.
    let above = |share: f64| at(&full, share).saturating_sub(at(&empty, share));
    let mean = |of: &[u64]| {
        let usual = &of[..of.len() - of.len() / 100];
        usual.iter().sum::<u64>() / usual.len() as u64
    };
    let name = between.name;
    format!(
        "\"{name}\":{},\"{name}_mean\":{},\"{name}_p99\":{},\"{name}_empty\":{}",
        above(0.5),
        mean(&full).saturating_sub(mean(&empty)),
        above(0.99),
        at(&empty, 0.5)
    )
}

/// How often this thread had to leave its core so far.
fn preemptions() -> i64 {
    // SAFETY: zero is a valid value of every field, and the kernel writes to them.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage.ru_nivcsw
    }
}

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
