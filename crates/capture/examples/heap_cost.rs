//! What heap sampling costs: nanoseconds added to an allocation and its free, and microseconds a sample.
//!
//! `cargo run --release -p flamelet-capture --example heap_cost` (`--features jemalloc` for that one too); with the path of
//! a recovery file after `--`, samples only, and what they cost beside that file
//!
//! The same work runs through an allocator and through `Alloc` around it (off, at the default mean, and at an
//! eighth of it), interleaved; the best of many rounds is printed, and the lower decile.

#![allow(unsafe_code, reason = "calls allocators directly, to compare them in one process")]

use flamelet_capture::heap::{self, Alloc, Options};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::time::Instant;

static PLAIN: System = System;
static SAMPLED: Alloc = Alloc::system();

/// jemalloc as `tikv-jemallocator` calls it.
#[cfg(feature = "jemalloc")]
mod jemalloc {
    use std::alloc::{GlobalAlloc, Layout};

    pub(crate) struct Jemalloc;

    // SAFETY: passes everything on; small blocks of up to 16 bytes alignment only, which is what is measured.
    unsafe impl GlobalAlloc for Jemalloc {
        #[inline]
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            if layout.align() <= 16 {
                // SAFETY: the size is not zero.
                return unsafe { tikv_jemalloc_sys::malloc(layout.size()).cast() };
            }
            let flags = tikv_jemalloc_sys::MALLOCX_ALIGN(layout.align());
            // SAFETY: as above.
            unsafe { tikv_jemalloc_sys::mallocx(layout.size(), flags).cast() }
        }

        #[inline]
        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            let align = layout.align();
            let flags = if align <= 16 { 0 } else { tikv_jemalloc_sys::MALLOCX_ALIGN(align) };
            // SAFETY: the block has this size and alignment.
            unsafe { tikv_jemalloc_sys::sdallocx(block.cast(), layout.size(), flags) }
        }
    }
}

/// Many short rounds: on a busy machine some of them run undisturbed.
const ROUNDS: usize = 1500;
const PAIRS: usize = 10_000;
/// Enough that a thread has noticed a new mean.
const WARM_UP: usize = 6_000;

/// A working set of 64 blocks of mixed small sizes, one replaced at a time.
#[inline(never)]
fn replace_blocks<A: GlobalAlloc>(allocator: &A) -> f64 {
    let sizes = [16, 24, 32, 48, 64, 96, 128, 200];
    let layout = |at: usize| Layout::from_size_align(sizes[at % 8], 8).expect("a layout");
    // SAFETY: blocks are freed once, with the layout they were allocated with.
    unsafe {
        let mut blocks: Vec<*mut u8> = (0..64).map(|at| allocator.alloc(layout(at))).collect();
        let mut start = Instant::now();
        for at in 0..PAIRS + WARM_UP {
            if at == WARM_UP {
                start = Instant::now();
            }
            let slot = at % 64;
            allocator.dealloc(blocks[slot], layout(slot));
            blocks[slot] = black_box(allocator.alloc(black_box(layout(slot))));
        }
        let took = start.elapsed().as_nanos() as f64 / PAIRS as f64;
        for (at, block) in blocks.into_iter().enumerate() {
            allocator.dealloc(block, layout(at));
        }
        took
    }
}

/// Calls itself until the stack is deep.
#[inline(never)]
fn at_depth(depth: usize, work: &mut dyn FnMut()) {
    if depth == 0 {
        work();
    } else {
        at_depth(black_box(depth - 1), work);
    }
    black_box(depth);
}

/// The best, and the lower decile.
fn best_and_low(values: &mut [f64]) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[0], values[values.len() / 10])
}

fn pairs<A: GlobalAlloc, B: GlobalAlloc>(name: &'static str, plain: &A, sampled: &B) {
    let means =
        [("Alloc, off", None), ("Alloc, 512 KiB", Some(512 << 10)), ("Alloc, 64 KiB", Some(64 << 10))];
    let mut rows: Vec<(&str, Vec<f64>)> = vec![(name, Vec::new())];
    rows.extend(means.iter().map(|&(name, _)| (name, Vec::new())));
    for _ in 0..ROUNDS {
        rows[0].1.push(replace_blocks(plain));
        for (row, &(_, mean)) in means.iter().enumerate() {
            match mean {
                Some(mean) => Options::new().mean(mean).start().expect("starts"),
                None => heap::stop(),
            }
            rows[row + 1].1.push(replace_blocks(sampled));
        }
    }
    let (base_best, base) = best_and_low(&mut rows[0].1);
    for (name, values) in &mut rows {
        let (best, middle) = best_and_low(values);
        println!(
            "{name:<28} best {best:6.2} ns ({:+.2})   10% {middle:6.2} ns ({:+.2})",
            best - base_best,
            middle - base
        );
    }
}

fn one_sample(depth: usize, keeps_ends: bool) {
    Options::new().mean(1).keep_free_stacks(keeps_ends).start().expect("starts");
    let layout = Layout::from_size_align(64, 8).expect("a layout");
    let time = |allocator: &dyn GlobalAlloc| {
        let mut best = f64::MAX;
        at_depth(depth, &mut || {
            for _ in 0..5_000 {
                // SAFETY: freed at once with the same layout.
                unsafe { allocator.dealloc(black_box(allocator.alloc(layout)), layout) };
            }
            for _ in 0..50 {
                let start = Instant::now();
                for _ in 0..1000 {
                    // SAFETY: freed at once with the same layout.
                    unsafe { allocator.dealloc(black_box(allocator.alloc(layout)), layout) };
                }
                best = best.min(start.elapsed().as_nanos() as f64 / 1000.0);
            }
        });
        best
    };
    let (plain, sampled) = (time(&PLAIN), time(&SAMPLED));
    let what = if keeps_ends { "sample + free with its stack" } else { "sample + free" };
    println!("depth {depth:>3}: {what:<30} {:.2} us", (sampled - plain) / 1000.0);
}

fn samples() {
    for depth in [10, 40, 90] {
        one_sample(depth, false);
        one_sample(depth, true);
    }
}

fn main() {
    if let Some(file) = std::env::args_os().nth(1) {
        Options::new().file(file).start().expect("starts");
        return samples();
    }
    pairs("system", &PLAIN, &SAMPLED);
    #[cfg(feature = "jemalloc")]
    pairs("jemalloc", &jemalloc::Jemalloc, &Alloc::new(jemalloc::Jemalloc));
    samples();
    let start = Instant::now();
    let snapshot = heap::Snapshot::take().expect("a snapshot");
    let profile = snapshot.heap();
    println!("snapshot: {} us, {} samples", start.elapsed().as_micros(), profile.sample_count());
}
