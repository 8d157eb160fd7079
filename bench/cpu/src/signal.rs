//! What one sample costs the thread it is taken in: signals sent to itself, against signals that do nothing.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::{DEPTH, profiler, work};

/// The work between two signals, which is in the caches when the next one arrives.
struct Between {
    name: &'static str,
    words: usize,
    /// Steps of work in no order; 0 touches every line of the words instead.
    steps: u64,
    /// One measured signal for this many that were requested.
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

/// After this many signals the profiler gets the time to collect them.
const BURST: u32 = 200;
const REST: Duration = Duration::from_millis(60);
/// The first ones build tables and claim memory; they are start-up, not samples.
const START_UP: u32 = 20;
/// And those after a rest find what other processes left in the caches, whatever is to be measured.
const SETTLING: u32 = 5;

/// Prints the mean, the middle and the 99th percentile of each, above an empty signal, in nanoseconds.
pub(crate) fn sample(depth: u32, signals: u32) {
    let capture = profiler::Capture::start_quiet();
    let mut figures = Vec::new();
    work::at_depth(depth, &mut || {
        // From memory it takes long, and says the same at every depth.
        let wanted = if depth == DEPTH { &BETWEEN[..] } else { &BETWEEN[..3] };
        for between in wanted {
            figures.push(measured(between, (signals / between.fewer).max(2 * BURST)));
        }
    });
    capture.discard();
    println!("{{{}}}", figures.join(","));
}

/// What one sample takes of the thread it is taken in, the kernel's part included, with nothing of it in the caches.
pub(crate) fn cold(depth: u32) -> Duration {
    const SIGNALS: u32 = 2 * BURST;
    let capture = profiler::Capture::start_quiet();
    let mut nanos = 0;
    work::at_depth(depth, &mut || nanos = timed(&BETWEEN[2], SIGNALS)[0].mean());
    capture.discard();
    Duration::from_nanos(nanos)
}

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// A handler that the kernel calls as it calls the profiler's: with the same flags, on the same stack.
fn install_beside(signal: libc::c_int, handler: Handler) {
    // SAFETY: plain C structures, zeroed and filled in; the handler has the type that SA_SIGINFO promises.
    unsafe {
        let mut theirs: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPROF, std::ptr::null(), &raw mut theirs);
        theirs.sa_sigaction = handler as usize;
        libc::sigaction(signal, &raw const theirs, std::ptr::null_mut());
    }
}

extern "C" fn nothing(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

/// Takes as long as the profiler's does, and touches nothing.
extern "C" fn idle(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    spin(IDLE_STEPS.load(Ordering::Relaxed));
}

static IDLE_STEPS: AtomicU64 = AtomicU64::new(0);

fn spin(steps: u64) {
    black_box((0..steps).fold(black_box(1u64), |hash, step| (hash ^ step).wrapping_mul(31)));
}

/// Makes the idle handler take this long.
fn idle_for(nanos: u64) {
    const STEPS: u64 = 1_000_000;
    let start = Instant::now();
    spin(STEPS);
    let step = start.elapsed().as_nanos() as f64 / STEPS as f64;
    IDLE_STEPS.store((nanos as f64 / step) as u64, Ordering::Relaxed);
}

fn measured(between: &Between, count: u32) -> String {
    let [full, empty, idle] = &timed(between, count);
    let name = between.name;
    let has_idle = between.steps > 0;
    format!(
        "\"{name}\":{},\"{name}_mean\":{},\"{name}_empty\":{}{}",
        full.middle().saturating_sub(empty.middle()),
        full.mean().saturating_sub(empty.mean()),
        empty.middle(),
        if has_idle { format!(",\"{name}_p99\":{}", p99(full, empty, idle)) } else { String::new() }
    )
}

/// The times of the profiler's signal, of an empty and of an idle one, by turns.
fn timed(between: &Between, count: u32) -> [Signal; 3] {
    install_beside(libc::SIGUSR1, nothing);
    install_beside(libc::SIGUSR2, idle);
    let mut memory = vec![1u64; between.words];
    let mut signals =
        [libc::SIGPROF, libc::SIGUSR1, libc::SIGUSR2].map(|number| Signal { number, bursts: vec![] });
    // What is touched before the idle one would make the others colder than they are said to be.
    let used = if between.steps > 0 { 3 } else { 2 };
    for burst in 0..count.div_ceil(BURST) {
        std::thread::sleep(REST);
        if burst == 1 {
            idle_for(signals[0].middle().saturating_sub(signals[1].middle()));
            // It did not take as long as the others yet.
            signals[2].bursts.clear();
        }
        signals.iter_mut().for_each(|signal| signal.bursts.push(Vec::new()));
        for turn in 0..BURST {
            for signal in &mut signals[..used] {
                if between.steps > 0 {
                    black_box(work::stir(&mut memory, between.steps));
                } else {
                    memory.iter_mut().step_by(8).for_each(|word| *word += 1);
                }
                let switches = preemptions();
                let taken = time_signal(signal.number);
                // Another process' turn on this core is not the signal's time.
                if (burst > 0 || turn >= START_UP) && turn >= SETTLING && preemptions() == switches {
                    signal.bursts.last_mut().expect("just begun").push(taken);
                }
            }
        }
    }
    black_box(memory);
    signals
}

/// The 99th percentile above an empty signal. Whatever else happens to a signal (a tick, the host) happens to one that
/// idles for as long just as often: like is compared with like, burst by burst, since a machine is noisy by times.
fn p99(full: &Signal, empty: &Signal, idle: &Signal) -> i64 {
    let above = |times: &[u64], middle: u64| share_of(times, 0.99) as i64 - middle as i64;
    let (empty, idles) = (empty.middle(), idle.middle());
    // The idle ones began a burst later.
    let bursts = full.bursts.iter().rev().zip(idle.bursts.iter().rev());
    let mut all: Vec<i64> = bursts.map(|(full, idle)| above(full, empty) - above(idle, idles)).collect();
    all.sort_unstable();
    all[(all.len() - 1) / 2]
}

/// The times of one of the signals, by bursts.
struct Signal {
    number: libc::c_int,
    bursts: Vec<Vec<u64>>,
}

impl Signal {
    fn middle(&self) -> u64 {
        share_of(&self.bursts.concat(), 0.5)
    }

    /// Of all but the longest hundredth, in which the machine did something else.
    fn mean(&self) -> u64 {
        let mut all = self.bursts.concat();
        all.sort_unstable();
        all.truncate(all.len() - all.len() / 100);
        all.iter().sum::<u64>() / all.len() as u64
    }
}

/// The figure that this share of them do not exceed.
fn share_of(figures: &[u64], share: f64) -> u64 {
    let mut sorted = figures.to_vec();
    sorted.sort_unstable();
    sorted[((sorted.len() - 1) as f64 * share) as usize]
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
