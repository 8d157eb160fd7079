//! What an allocation and its free cost, in CPU time of the thread that makes them.

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::mode::{Mode, Work};
use crate::{clock, stack};

/// The pairs of a turn: so many that at 512 KiB it holds several samples, whose cost is to be in every turn …
const PAIRS: usize = 50_000;
/// … and, where each is sampled, so few that the turn is as short as the others.
const SAMPLED_PAIRS: usize = 1_000;
/// Enough that a thread has noticed a new mean.
const WARM_UP: usize = 6_000;
const SIZES: [usize; 8] = [16, 24, 32, 48, 64, 96, 128, 200];

#[derive(Clone, Copy)]
struct Pairs {
    threads: usize,
    time: Duration,
    /// In a turn.
    pairs: usize,
}

/// A short turn, in nanoseconds a pair.
#[derive(Clone, Copy)]
struct Turn {
    profiled: f64,
    /// By the same allocator without the profiler, right after it, so that both find the machine equally fast.
    plain: Option<f64>,
}

impl Turn {
    fn in_all(self) -> f64 {
        self.profiled + self.plain.unwrap_or(0.0)
    }

    fn added(self) -> Option<f64> {
        Some(self.profiled - self.plain?)
    }
}

/// Prints the lower decile of all threads' turns, and what the profiler adds, in nanoseconds a pair: the middle of the
/// quickest quarter, during which nothing else had the core.
pub(crate) fn run(mode: Mode, threads: usize, time: Duration, mean: u64) {
    let pairs = if mean == 1 { SAMPLED_PAIRS } else { PAIRS };
    let mut turns = mode.with(Pairs { threads, time, pairs });
    turns.sort_by(|one, other| one.in_all().total_cmp(&other.in_all()));
    let low = turns[(turns.len() - 1) / 10].profiled;
    let mut added: Vec<f64> =
        turns[..turns.len().div_ceil(4)].iter().filter_map(|turn| turn.added()).collect();
    added.sort_by(f64::total_cmp);
    let added = added.get(added.len() / 2);
    println!(
        "{{\"low\":{low:.3},\"added\":{},\"turns\":{},\"rss_kb\":{},\"depth\":{}}}",
        added.map_or("null".to_owned(), |added| format!("{added:.3}")),
        turns.len(),
        clock::resident_kilobytes("VmHWM:"),
        deepest_stack()
    );
}

/// The frames of the deepest stack that flamelet has seen, allocators' frames left out; 0 where it does not run.
fn deepest_stack() -> usize {
    let profile = flamelet_capture::heap::snapshot().ok();
    let deepest =
        profile.map(|profile| profile.samples().map(|sample| profile.stack(sample.stack).len()).max());
    deepest.flatten().unwrap_or(0)
}

impl Work for Pairs {
    type Output = Vec<Turn>;

    fn run<A: GlobalAlloc + Sync, P: GlobalAlloc + Sync>(
        self,
        allocator: &'static A,
        plain: Option<&'static P>,
    ) -> Vec<Turn> {
        let together = Barrier::new(self.threads);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads)
                .map(|number| {
                    let together = &together;
                    scope.spawn(move || {
                        together.wait();
                        let mut turns = Vec::new();
                        stack::under(number, &mut || turns = self.turns(allocator, plain));
                        turns
                    })
                })
                .collect();
            workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect()
        })
    }
}

impl Pairs {
    fn turns<A: GlobalAlloc, P: GlobalAlloc>(self, allocator: &A, plain: Option<&P>) -> Vec<Turn> {
        let start = Instant::now();
        let mut turns = Vec::new();
        replace_blocks(allocator, WARM_UP);
        while turns.is_empty() || start.elapsed() < self.time {
            let profiled = replace_blocks(allocator, self.pairs);
            turns.push(Turn { profiled, plain: plain.map(|plain| replace_blocks(plain, self.pairs)) });
        }
        turns
    }
}

/// A working set of 64 blocks of mixed small sizes, one replaced at a time.
#[inline(never)]
fn replace_blocks<A: GlobalAlloc>(allocator: &A, pairs: usize) -> f64 {
    let layout = |at: usize| Layout::from_size_align(SIZES[at % SIZES.len()], 8).expect("a layout");
    // SAFETY: blocks are freed once, with the layout they were allocated with.
    unsafe {
        let mut blocks: [*mut u8; 64] = std::array::from_fn(|at| allocator.alloc(layout(at)));
        let start = clock::thread();
        for at in 0..pairs {
            let slot = at % blocks.len();
            allocator.dealloc(blocks[slot], layout(slot));
            blocks[slot] = black_box(allocator.alloc(black_box(layout(slot))));
        }
        let took = (clock::thread() - start).as_nanos() as f64 / pairs as f64;
        for (at, block) in blocks.into_iter().enumerate() {
            allocator.dealloc(block, layout(at));
        }
        took
    }
}
