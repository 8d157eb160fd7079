//! A program whose memory is known to the byte. It keeps flamelet's heap ledger in the given file, prints
//! `ready`, and waits to be killed.

use std::hint::black_box;
use std::io::Read;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

flamelet::global_allocator!();

fn bytes(size: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(black_box(size)))
}

/// Allocates half a million bytes and keeps them.
#[inline(never)]
fn hold_sessions() -> Vec<Vec<u8>> {
    black_box((0..50).map(|_| bytes(10_000)).collect())
}

/// Allocates five million bytes at a time and frees them.
#[inline(never)]
fn spike() {
    drop(black_box((0..50).map(|_| bytes(100_000)).collect::<Vec<_>>()));
}

/// Makes temporary allocations: freed before anything else is allocated.
#[inline(never)]
fn format_for_nothing() {
    for _ in 0..200 {
        drop(bytes(3_000));
    }
    black_box(());
}

#[inline(never)]
fn produce(into: &SyncSender<Vec<u8>>) {
    for _ in 0..100 {
        into.send(bytes(2_000)).expect("a consumer");
    }
    black_box(());
}

#[inline(never)]
fn consume(from: &Receiver<Vec<u8>>) {
    for received in from {
        drop(black_box(received));
    }
    black_box(());
}

fn main() {
    let file = std::env::args().nth(1).expect("usage: heap_workload FILE");
    // With a mean of one byte, every allocation is sampled.
    let profiler = flamelet::Profiler::builder().heap_interval(1).heap_recovery_file(file);
    let _profiler = profiler.start().expect("flamelet starts");
    let held = hold_sessions();
    spike();
    format_for_nothing();
    let (into, from) = sync_channel(200);
    produce(&into);
    drop(into);
    std::thread::spawn(move || consume(&from)).join().expect("no panic");
    println!("ready");
    let _ = std::io::stdin().read(&mut [0]);
    drop(held);
}
