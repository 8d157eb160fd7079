//! What is profiled: arithmetic over some memory, under a stack of chosen depth.

use std::hint::black_box;
use std::time::Duration;

use crate::clock;

/// Calls `work` under `depth` frames of its own.
#[inline(never)]
pub(crate) fn at_depth(depth: u32, work: &mut dyn FnMut()) {
    if depth == 0 {
        work();
    } else {
        at_depth(black_box(depth - 1), work);
    }
    black_box(depth);
}

/// Uses this much of the thread's CPU time.
pub(crate) fn burn(wanted: Duration) {
    let start = clock::thread();
    let mut memory = vec![0u64; 1 << 16];
    while clock::thread() - start < wanted {
        black_box(stir(&mut memory, 20_000));
    }
}

/// Steps through `memory` (a power of two long) in no order.
#[inline(never)]
pub(crate) fn stir(memory: &mut [u64], steps: u64) -> u64 {
    let mask = memory.len() - 1;
    let mut hash = 1u64;
    for step in 0..steps {
        hash = (hash ^ step).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        memory[(hash >> 40) as usize & mask] ^= hash;
    }
    hash
}

/// A fixed amount of work, about a third of a second; gives the process' CPU time for it.
pub(crate) fn fixed(depth: u32) -> Duration {
    let start = clock::process();
    at_depth(depth, &mut || {
        for _ in 0..8_000 {
            black_box((0..20_000u64).fold(black_box(1u64), |hash, step| (hash ^ step).wrapping_mul(31)));
        }
    });
    clock::process() - start
}
