//! Threads with deep stacks of small frames.

use std::hint::black_box;
use std::time::Instant;

use crate::spin;

/// With the frames of the thread's start, 37.
const DEPTH: u32 = 30;

/// Works on this many threads until `end`; returns how often.
pub(crate) fn turns(threads: usize, end: Instant) -> u64 {
    let workers: Vec<_> = (0..threads).map(|_| std::thread::spawn(move || turns_until(end))).collect();
    workers.into_iter().map(|worker| worker.join().expect("a worker")).sum()
}

fn turns_until(end: Instant) -> u64 {
    let mut turns = 0;
    while Instant::now() < end {
        black_box(descend(DEPTH, 20_000));
        turns += 1;
    }
    turns
}

#[inline(never)]
fn descend(depth: u32, work: u64) -> u64 {
    // A frame of a hundred bytes or so, as functions have them.
    let here = black_box([u64::from(depth); 12]);
    let below = if depth == 0 { spin(work) } else { descend(depth - 1, work) };
    black_box(below + here[3])
}
