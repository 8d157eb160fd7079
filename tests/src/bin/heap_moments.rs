//! A program that writes heap profiles of itself at several moments: `heap_moments leak|cache FOLDER`. What it remembers
//! grows for ever, or is bounded.

use std::hint::black_box;
use std::path::Path;

flamelet::global_allocator!();

/// Adds a megabyte, and forgets the oldest if there is a bound.
#[inline(never)]
fn remember(kept: &mut Vec<Vec<u8>>, turn: usize, most: usize) {
    // Not every turn adds as much as the others: real programs do not either.
    for _ in 0..100 - turn % 3 {
        kept.push(black_box(vec![1; black_box(10_000)]));
    }
    let over = kept.len().saturating_sub(most);
    kept.drain(..over);
}

fn main() {
    let mut words = std::env::args().skip(1);
    let (Some(kind), Some(folder)) = (words.next(), words.next()) else {
        eprintln!("usage: heap_moments leak|cache FOLDER");
        std::process::exit(2);
    };
    let profiler = flamelet::Profiler::builder().heap_interval(1).start().expect("flamelet starts");
    let most = if kind == "leak" { usize::MAX } else { 90 };
    let mut kept = Vec::with_capacity(10_000);
    for turn in 0..6 {
        remember(&mut kept, turn, most);
        let profile = profiler.heap().expect("a heap").in_use();
        let file =
            std::fs::File::create(Path::new(&folder).join(format!("heap-{turn}.pb.gz"))).expect("a file");
        flamelet::write_pprof(&profile, file).expect("written");
    }
    black_box(kept);
}
