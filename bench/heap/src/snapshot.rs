//! What a profile of a large live heap costs, and how long that stops a thread that allocates.

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::mode::{Mode, Work};
use crate::{clock, stack};

const STACKS: usize = 256;
const BLOCK: usize = 2048;
/// How long the allocating thread runs before, so that its usual worst is known.
const BEFORE: Duration = Duration::from_millis(300);

struct Snapshot {
    mode: Mode,
    mebibytes: usize,
}

/// Fills the heap from 256 stacks and takes an encoded profile of it.
pub(crate) fn run(mode: Mode, mebibytes: usize) {
    mode.with(Snapshot { mode, mebibytes });
}

/// How a mode's profile is had: encoded, with names where that is the crate's own way.
enum Source {
    Nothing,
    Flamelet(flamelet::Profiler),
    JemallocPprof,
    PprofAlloc,
    Dhat(dhat::Profiler),
}

impl Source {
    fn start(mode: Mode) -> Self {
        match mode {
            Mode::Dhat => {
                let file = std::env::temp_dir().join(format!("bench-heap-{}.json", std::process::id()));
                Self::Dhat(dhat::Profiler::builder().file_name(file).build())
            }
            Mode::JemallocPprof => Self::JemallocPprof,
            Mode::PprofAlloc => Self::PprofAlloc,
            Mode::System | Mode::Jemalloc | Mode::Mimalloc => Self::Nothing,
            _ => {
                drop(mode.start(512 << 10));
                let profiler = flamelet::Profiler::builder().name("bench").without_heap().start();
                Self::Flamelet(profiler.expect("flamelet starts"))
            }
        }
    }

    /// The size of the encoded profile.
    fn take(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Flamelet(profiler) => {
                let mut profile = flamelet_capture::heap::snapshot().expect("a snapshot");
                profiler.symbolize(&mut profile);
                let mut bytes = Vec::new();
                flamelet_profile::pprof::write_gzip(&profile, &mut bytes).expect("encoded");
                bytes.len()
            }
            Self::JemallocPprof => {
                let control = jemalloc_pprof::PROF_CTL.as_ref().expect("jemalloc is started with prof:true");
                control.blocking_lock().dump_pprof().expect("a dump").len()
            }
            Self::PprofAlloc => pprof_alloc::generate_pprof().expect("a profile").len(),
            Self::Dhat(profiler) => {
                drop(profiler);
                let file = std::env::temp_dir().join(format!("bench-heap-{}.json", std::process::id()));
                let bytes = std::fs::metadata(&file).map_or(0, |file| file.len());
                let _ = std::fs::remove_file(file);
                bytes as usize
            }
        }
    }
}

impl Work for Snapshot {
    type Output = ();

    fn run<A: GlobalAlloc + Sync, P: GlobalAlloc + Sync>(self, allocator: &'static A, _: Option<&'static P>) {
        let source = Source::start(self.mode);
        fill(allocator, self.mebibytes);
        let stop = AtomicBool::new(false);
        let (anonymous, file) = (Highest::of("RssAnon:"), Highest::of("RssFile:"));
        std::thread::scope(|scope| {
            let usual = scope.spawn(|| longest_pair(allocator, &stop));
            std::thread::sleep(BEFORE);
            stop.store(true, Ordering::Relaxed);
            let usual = usual.join().expect("a worker");
            stop.store(false, Ordering::Relaxed);
            clock::forget_peak();
            let resident = clock::resident_kilobytes("VmRSS:");
            anonymous.begin();
            file.begin();
            let worst = scope.spawn(|| longest_pair(allocator, &stop));
            let watch = scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    anonymous.look();
                    file.look();
                    std::thread::sleep(Duration::from_micros(300));
                }
            });
            let (start, cpu) = (Instant::now(), clock::thread());
            let bytes = source.take();
            let (wall, cpu) = (start.elapsed(), clock::thread() - cpu);
            stop.store(true, Ordering::Relaxed);
            let worst = worst.join().expect("a worker");
            watch.join().expect("a watcher");
            println!(
                "{{\"wall_us\":{},\"cpu_us\":{},\"added_kb\":{},\"anonymous_kb\":{},\"file_kb\":{},\"bytes\":{bytes},\"pause_us\":{},\"usual_us\":{},\
                 \"rss_kb\":{resident},\"process_cpu_us\":{}}}",
                wall.as_micros(),
                cpu.as_micros(),
                clock::resident_kilobytes("VmHWM:").saturating_sub(resident),
                anonymous.added(),
                file.added(),
                worst.as_micros(),
                usual.as_micros(),
                clock::process().as_micros(),
            );
        });
    }
}

/// The highest that was seen of a field of `/proc/self/status`. (The kernel keeps the highest of the sum only.)
struct Highest {
    field: &'static str,
    at_first: AtomicU64,
    highest: AtomicU64,
}

impl Highest {
    fn of(field: &'static str) -> Self {
        Self { field, at_first: AtomicU64::new(0), highest: AtomicU64::new(0) }
    }

    fn begin(&self) {
        let now = clock::resident_kilobytes(self.field);
        self.at_first.store(now, Ordering::Relaxed);
        self.highest.store(now, Ordering::Relaxed);
    }

    fn look(&self) {
        self.highest.fetch_max(clock::resident_kilobytes(self.field), Ordering::Relaxed);
    }

    fn added(&self) -> u64 {
        self.highest.load(Ordering::Relaxed) - self.at_first.load(Ordering::Relaxed)
    }
}

/// Blocks that stay, from many stacks. Never freed: the process ends.
fn fill<A: GlobalAlloc>(allocator: &A, mebibytes: usize) {
    let layout = Layout::from_size_align(BLOCK, 8).expect("a layout");
    let each = (mebibytes << 20) / BLOCK / STACKS;
    for number in 0..STACKS {
        stack::under(number, &mut || {
            for _ in 0..each {
                // SAFETY: the layout is not empty.
                black_box(unsafe { allocator.alloc(layout) });
            }
        });
    }
}

/// Allocates and frees until told to stop; the longest that one pair took, apart from waiting for a CPU.
fn longest_pair<A: GlobalAlloc>(allocator: &A, stop: &AtomicBool) -> Duration {
    const SUSPICIOUS: Duration = Duration::from_micros(20);
    let layout = Layout::from_size_align(96, 8).expect("a layout");
    let mut longest = Duration::ZERO;
    let mut waited = clock::waited_for_cpu();
    let mut last = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        // SAFETY: freed at once with the same layout.
        unsafe { allocator.dealloc(black_box(allocator.alloc(layout)), layout) };
        // Each turn begins where the last one ended, so that every wait for a CPU is in one of them.
        let now = Instant::now();
        let took = now - last;
        last = now;
        if took > SUSPICIOUS {
            let waited_by_now = clock::waited_for_cpu();
            longest = longest.max(took.saturating_sub(waited_by_now - waited));
            waited = waited_by_now;
            last = Instant::now();
        } else {
            longest = longest.max(took);
        }
    }
    longest
}
