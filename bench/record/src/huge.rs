//! A tokio service whose tasks are polled under a frame of 122 KB: their buffers lie on the stack between two awaits.

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::spin;

const FRAME: usize = 122 << 10;

/// Works in a runtime of this many threads until `end`; returns how often.
pub(crate) fn turns(threads: usize, end: Instant) -> u64 {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_stack_size(4 << 20)
        .build()
        .expect("a runtime");
    let turns = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..threads * 4)
        .map(|_| {
            let turns = turns.clone();
            runtime.spawn(async move {
                while Instant::now() < end {
                    handle_request().await;
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    runtime.block_on(async {
        for task in tasks {
            task.await.expect("a task");
        }
    });
    turns.load(Ordering::Relaxed)
}

async fn handle_request() {
    for _ in 0..4 {
        parse_body();
        tokio::task::yield_now().await;
    }
}

#[inline(never)]
fn parse_body() {
    // Only its ends are touched: the frame is large, not the work.
    let mut buffer = MaybeUninit::<[u8; FRAME]>::uninit();
    let start = black_box(buffer.as_mut_ptr()).cast::<u8>();
    // SAFETY: the first byte of `buffer`.
    unsafe { start.write_volatile(1) };
    black_box(spin(10_000));
    // SAFETY: the byte that was written above.
    black_box(unsafe { start.read_volatile() });
}
