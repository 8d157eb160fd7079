//! What an allocation and its free cost, in CPU time of the thread that makes them.

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::mode::{Mode, Work};
use crate::{clock, stack};

/// Long enough that a round at 512 KiB holds several samples: their cost is to be in every round.
const PAIRS: usize = 50_000;
/// Enough that a thread has noticed a new mean.
const WARM_UP: usize = 6_000;
const SIZES: [usize; 8] = [16, 24, 32, 48, 64, 96, 128, 200];

struct Pairs {
    threads: usize,
    time: Duration,
}

/// Prints the best round, the lower decile and the middle of all threads, in nanoseconds a pair.
pub(crate) fn run(mode: Mode, threads: usize, time: Duration) {
    let mut rounds = mode.with(Pairs { threads, time });
    rounds.sort_by(f64::total_cmp);
    let at = |share: f64| rounds[((rounds.len() - 1) as f64 * share) as usize];
    println!(
        "{{\"best\":{:.3},\"low\":{:.3},\"middle\":{:.3},\"rounds\":{},\"rss_kb\":{},\"depth\":{}}}",
        rounds[0],
        at(0.1),
        at(0.5),
        rounds.len(),
        clock::resident_kilobytes("VmHWM:"),
        deepest_stack()
    );
}

/// The frames of the deepest stack that flamelet has seen, allocators' frames left out; 0 where it does not run.
fn deepest_stack() -> usize {
    let profile = flamelet_capture::heap::snapshot().ok();
    let deepest = profile.map(|profile| profile.samples().map(|sample| profile.stack(sample.stack).len()).max());
    deepest.flatten().unwrap_or(0)
}

impl Work for Pairs {
    type Output = Vec<f64>;

    fn run<A: GlobalAlloc + Sync>(self, allocator: &'static A) -> Vec<f64> {
        let together = Barrier::new(self.threads);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads)
                .map(|number| {
                    let (together, time) = (&together, self.time);
                    scope.spawn(move || {
                        together.wait();
                        let mut rounds = Vec::new();
                        stack::under(number, &mut || rounds = rounds_for(allocator, time));
                        rounds
                    })
                })
                .collect();
            workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect()
        })
    }
}

fn rounds_for<A: GlobalAlloc>(allocator: &A, time: Duration) -> Vec<f64> {
    let start = Instant::now();
    let mut rounds = Vec::new();
    replace_blocks(allocator, WARM_UP);
    while rounds.is_empty() || start.elapsed() < time {
        rounds.push(replace_blocks(allocator, PAIRS));
    }
    rounds
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
