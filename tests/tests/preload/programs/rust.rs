//! Allocations through Rust's own functions, with known counts.

use std::hint::black_box;

#[inline(never)]
fn boxes(count: usize) -> Vec<Box<[u8; 100]>> {
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        all.push(black_box(Box::new([1; 100])));
    }
    all
}

#[inline(never)]
fn doubling(items: u64) -> Vec<u64> {
    let mut all = Vec::new();
    for item in 0..items {
        all.push(item);
    }
    black_box(all)
}

#[inline(never)]
fn sampled_sizes(turns: usize) {
    for turn in 0..turns {
        black_box(Vec::<u8>::with_capacity(black_box(if turn % 10 == 0 { 5000 } else { 50 })));
    }
}

fn main() {
    if let Some(turns) = std::env::args().nth(1) {
        return sampled_sizes(turns.parse().expect("a number"));
    }
    let kept = boxes(1000);
    std::mem::forget(kept.into_iter().take(400).collect::<Vec<_>>());
    drop(doubling(1024));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| drop(boxes(500)));
        }
    });
}
