//! A program that writes heap profiles of itself: `heap_moments leak|cache|scattered|packed FOLDER`. What it remembers grows
//! for ever, or is bounded; what it frees leaves holes between live blocks, or is nothing.

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

/// Allocates 160 MB in small blocks and keeps one of `every`: the pages between live blocks cannot be returned.
#[inline(never)]
fn keep_one_of(every: usize) -> Vec<Vec<u8>> {
    let mut blocks: Vec<Vec<u8>> = (0..160_000).map(|_| black_box(vec![1; black_box(1000)])).collect();
    let mut number = 0;
    blocks.retain(|_| {
        number += 1;
        number % every == 0
    });
    blocks
}

fn main() {
    let mut words = std::env::args().skip(1);
    let (Some(kind), Some(folder)) = (words.next(), words.next()) else { usage() };
    let interval = if matches!(&*kind, "leak" | "cache") { 1 } else { 64 << 10 };
    let profiler = flamelet::Profiler::builder().heap_interval(interval).start().expect("flamelet starts");
    let write = |number: usize| {
        let profile = profiler.heap().expect("a heap").in_use();
        let path = Path::new(&folder).join(format!("heap-{number}.pb.gz"));
        flamelet::write_pprof(&profile, std::fs::File::create(path).expect("a file")).expect("written");
    };
    let moments = |most: usize| {
        let mut kept = Vec::with_capacity(10_000);
        for turn in 0..6 {
            remember(&mut kept, turn, most);
            write(turn);
        }
        black_box(kept);
    };
    let holes = |every: usize| {
        let kept = keep_one_of(every);
        write(0);
        black_box(kept);
    };
    match &*kind {
        "leak" => moments(usize::MAX),
        "cache" => moments(90),
        "scattered" => holes(8),
        "packed" => holes(1),
        _ => usage(),
    }
}

fn usage() -> ! {
    eprintln!("usage: heap_moments leak|cache|scattered|packed FOLDER");
    std::process::exit(2);
}
