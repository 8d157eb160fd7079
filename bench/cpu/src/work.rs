//! What is profiled: arithmetic over some memory, under a stack of chosen depth.

use std::fs::File;
use std::hint::black_box;
use std::io::Read;
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

/// What a thread does with its CPU time.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Arithmetic over half a megabyte.
    Arithmetic,
    /// Nearly nothing but system calls.
    Calls,
}

/// Uses this much of the thread's CPU time; returns what it was.
pub(crate) fn burn(kind: Kind, wanted: Duration) -> Duration {
    let start = clock::thread();
    let mut memory = vec![0u64; 1 << 16];
    let zeros = File::open("/dev/zero").expect("/dev/zero");
    loop {
        match kind {
            Kind::Arithmetic => {
                black_box(stir(&mut memory, 20_000));
            }
            Kind::Calls => {
                let mut bytes = [0u8; 4096];
                (0..100).for_each(|_| (&zeros).read_exact(&mut bytes).expect("zeros"));
                black_box(bytes);
            }
        }
        let used = clock::thread() - start;
        if used >= wanted {
            return used;
        }
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
