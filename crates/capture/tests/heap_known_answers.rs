//! The heap profiler's figures compared with the real allocations.

#![allow(unsafe_code, reason = "counts allocations, and allocates without a collection")]

mod heap_support;

use flamelet_capture::heap::{self, Alloc, Options, Snapshot, Windows};
use flamelet_capture::labels;
use heap_support::{Batch, Names, assert_close, turn};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts everything exactly.
struct Exact;

static OBJECTS: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Exact {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        OBJECTS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Alloc<Exact> = Alloc::new(Exact);

const MEAN: u64 = 16 << 10;

fn begin(mean: u64) {
    Options::new().mean(mean).start().expect("starts");
    heap::reset();
}

// (The functions below pass their result through `black_box`, so that no call in them is a tail call, which would
// remove them from the stack.)
fn bytes(size: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(black_box(size)))
}

#[inline(never)]
fn allocate_mixed() -> Vec<Vec<u8>> {
    let small = (0..200_000).map(|_| bytes(16));
    black_box(small.chain((0..100).map(|_| bytes(64 << 10))).collect())
}

#[test]
fn mixed_sizes_on_one_stack() {
    let _turn = turn();
    begin(MEAN);
    let before = OBJECTS.load(Ordering::Relaxed);
    let kept = allocate_mixed();
    let exact = OBJECTS.load(Ordering::Relaxed) - before;
    let profile = heap::snapshot().expect("a profile");
    drop(kept);
    let after = heap::snapshot().expect("a profile");
    let names = Names::load();
    let got = names.total(&profile, &["allocate_mixed"]);
    // The list that holds them is one more object, reallocated as it grows: the vectors alone have these sizes.
    let only_bytes = |size: &str| {
        names.total_where(&profile, &["allocate_mixed"], |labels| {
            labels.get("bytes").is_some_and(|label| label == size)
        })
    };
    let small = only_bytes("16");
    assert_close("small", small[0], small[1], &[Batch { count: 200_000, size: 16 }], MEAN);
    assert!(exact >= 200_100, "{exact}");
    assert!(got[0] >= small[0] && got[2] <= got[0] && got[3] <= got[1], "{got:?}");
    assert_eq!(small[0], small[2], "all of them were alive");
    assert_eq!(names.total(&after, &["allocate_mixed"])[2..], [0, 0]);
    let mean_of_profile = profile.header.period;
    assert_eq!(mean_of_profile, MEAN as i64);
}

#[inline(never)]
fn allocate_two_sizes(into: &mut Vec<Vec<u8>>) {
    for _ in 0..20_000 {
        into.push(bytes(40));
    }
    for _ in 0..500 {
        into.push(bytes(30_000));
    }
}

#[test]
fn a_sum_over_sizes_is_not_biased() {
    let _turn = turn();
    begin(MEAN);
    let mut kept = Vec::with_capacity(20_500);
    allocate_two_sizes(&mut kept);
    let profile = heap::snapshot().expect("a profile");
    let got = Names::load().total(&profile, &["allocate_two_sizes"]);
    let batches = [Batch { count: 20_000, size: 40 }, Batch { count: 500, size: 30_000 }];
    assert_close("allocated", got[0], got[1], &batches, MEAN);
    assert_close("in use", got[2], got[3], &batches, MEAN);
}

#[inline(never)]
fn leak_every_fourth() -> Vec<Vec<u8>> {
    let all = (0..40_000).map(|_| bytes(100)).enumerate();
    black_box(all.filter(|(at, _)| at % 4 == 0).map(|(_, kept)| kept).collect())
}

#[test]
fn leaks_are_what_is_in_use() {
    let _turn = turn();
    begin(MEAN);
    let kept = leak_every_fourth();
    let profile = heap::snapshot().expect("a profile");
    let got = Names::load().total_where(&profile, &["leak_every_fourth"], |labels| labels["bytes"] == "100");
    assert_close("allocated", got[0], got[1], &[Batch { count: 40_000, size: 100 }], MEAN);
    assert_close("leaked", got[2], got[3], &[Batch { count: 10_000, size: 100 }], MEAN);
    drop(kept);
}

#[inline(never)]
fn allocate_in_thread() -> Vec<Vec<u8>> {
    black_box((0..25_000).map(|_| bytes(200)).collect())
}

#[test]
fn many_threads_each_with_its_name() {
    let _turn = turn();
    begin(MEAN);
    let threads = ["north", "east", "south", "west"].map(|name| {
        std::thread::Builder::new().name(name.into()).spawn(allocate_in_thread).expect("a thread")
    });
    let kept = threads.map(|thread| thread.join().expect("no panic"));
    let profile = heap::snapshot().expect("a profile");
    let names = Names::load();
    for name in ["north", "east", "south", "west"] {
        let got = names.total_where(&profile, &["allocate_in_thread"], |labels| {
            labels["bytes"] == "200" && labels.get("thread").is_some_and(|thread| thread == name)
        });
        assert_close(name, got[2], got[3], &[Batch { count: 25_000, size: 200 }], MEAN);
    }
    drop(kept);
}

#[inline(never)]
fn produce(into: &std::sync::mpsc::SyncSender<Vec<u8>>) {
    for _ in 0..30_000 {
        into.send(bytes(300)).expect("a consumer");
    }
}

#[inline(never)]
fn consume(from: &std::sync::mpsc::Receiver<Vec<u8>>) {
    for received in from {
        black_box(received);
    }
}

#[test]
fn frees_on_another_thread_are_booked_where_it_was_allocated() {
    let _turn = turn();
    begin(MEAN);
    let (sender, receiver) = std::sync::mpsc::sync_channel(100);
    let consumer = std::thread::spawn(move || consume(&receiver));
    produce(&sender);
    drop(sender);
    consumer.join().expect("no panic");
    let snapshot = Snapshot::take().expect("a snapshot");
    let names = Names::load();
    let got = names.total_where(&snapshot.heap(), &["produce"], |labels| labels["bytes"] == "300");
    assert_close("allocated", got[0], got[1], &[Batch { count: 30_000, size: 300 }], MEAN);
    assert_eq!(got[2..], [0, 0]);
    // From the leaf: the consumer that freed it, the mark, the producer that allocated it.
    let freed = snapshot.freed();
    let got_freed = names.total_where(&freed, &["consume", "produce"], |labels| labels["bytes"] == "300");
    assert_eq!(got_freed[1], got[1]);
    // Objects are rounded in each row, and there is one row for each pair of stacks and lifetime class.
    let rows = freed.sample_count() as i64;
    assert!((got_freed[0] - got[0]).abs() <= rows, "{got_freed:?} for {got:?} in {rows} rows");
}

#[inline(never)]
fn shrink_a_large_block() -> Vec<u8> {
    let mut shrunk: Vec<u8> = Vec::with_capacity(3 << 20);
    shrunk.extend_from_slice(black_box(&[7; 100]));
    shrunk.shrink_to_fit();
    shrunk
}

/// A sampled block of a megabyte and more becomes a sampled small one: the large one is gone.
#[test]
fn a_large_block_that_shrinks_is_not_alive_twice() {
    let _turn = turn();
    begin(1);
    let kept: Vec<Vec<u8>> = (0..8).map(|_| shrink_a_large_block()).collect();
    let heap = Snapshot::take().expect("a snapshot").heap();
    let names = Names::load();
    let alive = |bytes: &str| {
        names.total_where(&heap, &["shrink_a_large_block"], |labels| labels["bytes"] == bytes)[2..].to_vec()
    };
    assert_eq!(alive("3145728"), [0, 0]);
    assert_eq!(alive("100"), [8, 800]);
    drop(kept);
}

#[inline(never)]
fn grow(to: usize) -> Vec<Batch> {
    let mut grown: Vec<u8> = Vec::new();
    let mut capacities = BTreeSet::new();
    while grown.len() < to {
        grown.push(1);
        capacities.insert(grown.capacity());
    }
    capacities.iter().map(|&size| Batch { count: 1, size: size as u64 }).collect()
}

#[test]
fn growth_by_realloc_counts_every_size() {
    let _turn = turn();
    begin(1024);
    let mut batches = Vec::new();
    for _ in 0..40 {
        batches.extend(grow(5 << 20));
    }
    let profile = heap::snapshot().expect("a profile");
    let got = Names::load().total_where(&profile, &["4grow"], |labels| labels["bytes"] != "384");
    // `grow` also keeps a set of capacities, of nodes and a list: small compared with the vectors.
    let own: Vec<Batch> = batches.clone();
    let total: u64 = own.iter().map(|batch| batch.size).sum();
    let slack = 40 * 24 * 2_000;
    assert!((got[1] - total as i64).unsigned_abs() < slack + total / 100, "{} of {total}", got[1]);
    assert_eq!(got[2..], [0, 0], "all of it was freed");
}

#[inline(never)]
fn allocate_while_the_mean_changes(kept: &mut Vec<Vec<u8>>) {
    for at in 0..80_000 {
        if at % 20_000 == 10_000 {
            heap::set_mean(if at % 40_000 == 10_000 { 2048 } else { MEAN }).expect("a mean");
        }
        kept.push(bytes(64));
    }
}

#[test]
fn the_mean_may_change_at_any_time() {
    let _turn = turn();
    begin(MEAN);
    let mut kept = Vec::with_capacity(80_000);
    allocate_while_the_mean_changes(&mut kept);
    let profile = heap::snapshot().expect("a profile");
    let got = Names::load().total_where(&profile, &["while_the_mean"], |labels| labels["bytes"] == "64");
    // As if all of it had the larger mean: the real deviation is smaller.
    assert_close("in use", got[2], got[3], &[Batch { count: 80_000, size: 64 }], MEAN);
    drop(kept);
    let profile = heap::snapshot().expect("a profile");
    assert_eq!(Names::load().total(&profile, &["while_the_mean"])[2..], [0, 0]);
}

#[inline(never)]
fn allocate_labelled() -> Vec<Vec<u8>> {
    black_box((0..20_000).map(|_| bytes(128)).collect())
}

#[test]
fn labels_of_the_thread_travel_with_the_sample() {
    let _turn = turn();
    begin(MEAN);
    let kept = {
        let _scope = labels::scope([("tenant", "acme")]);
        allocate_labelled()
    };
    let others = allocate_labelled();
    let profile = heap::snapshot().expect("a profile");
    let names = Names::load();
    let of = |tenant: Option<&str>| {
        names.total_where(&profile, &["allocate_labelled"], |labels| {
            labels["bytes"] == "128" && labels.get("tenant").map(String::as_str) == tenant
        })
    };
    for (what, got) in [("acme", of(Some("acme"))), ("none", of(None))] {
        assert_close(what, got[2], got[3], &[Batch { count: 20_000, size: 128 }], MEAN);
    }
    drop((kept, others));
}

#[inline(never)]
fn make_temporary() {
    for _ in 0..20_000 {
        drop(bytes(250));
    }
}

#[inline(never)]
fn make_pairs() {
    for _ in 0..20_000 {
        let (one, two) = (bytes(251), bytes(252));
        drop(one);
        drop(two);
    }
}

#[test]
fn temporary_objects_are_distinguished_from_others() {
    let _turn = turn();
    begin(MEAN);
    make_temporary();
    make_pairs();
    let profile = heap::lifetime().expect("a profile");
    let names = Names::load();
    let is_temporary =
        |labels: &std::collections::BTreeMap<String, String>| labels["lifetime"] == "temporary";
    let of = |name: &str, size: &str| {
        names.total_where(&profile, &[name], |labels| is_temporary(labels) && labels["bytes"] == size)
    };
    let got = of("make_temporary", "250");
    assert_close("temporary", got[0], got[1], &[Batch { count: 20_000, size: 250 }], MEAN);
    assert_eq!(of("make_pairs", "251"), [0, 0]);
    // The second of a pair is freed with no allocation since its own.
    let got = of("make_pairs", "252");
    assert_close("second", got[0], got[1], &[Batch { count: 20_000, size: 252 }], MEAN);
}

#[inline(never)]
fn fill_for_the_peak(count: usize) -> Vec<Vec<u8>> {
    black_box((0..count).map(|_| bytes(1000)).collect())
}

#[test]
fn the_peak_is_the_live_set_at_its_highest() {
    let _turn = turn();
    begin(1024);
    let high = fill_for_the_peak(20_000);
    drop(high);
    let low = fill_for_the_peak(500);
    let snapshot = Snapshot::take().expect("a snapshot");
    let names = Names::load();
    let at_peak = |profile: &flamelet_profile::Profile| {
        names.total_where(profile, &["for_the_peak"], |labels| labels["bytes"] == "1000")
    };
    let peak = at_peak(&snapshot.peak());
    assert_close("peak", peak[0], peak[1], &[Batch { count: 20_000, size: 1000 }], 1024);
    let now = at_peak(&snapshot.heap());
    assert_close("now", now[2], now[3], &[Batch { count: 500, size: 1000 }], 1024);
    drop(low);
}

#[inline(never)]
fn leak_steadily() -> Vec<Vec<u8>> {
    black_box((0..2_000).map(|_| bytes(500)).collect())
}

#[inline(never)]
fn breathe(high: bool) -> Vec<Vec<u8>> {
    black_box((0..if high { 6_000 } else { 1_000 }).map(|_| bytes(400)).collect())
}

#[test]
fn differences_and_steady_growth() {
    let _turn = turn();
    begin(1024);
    let mut windows = Windows::new(8);
    let mut kept = Vec::with_capacity(16);
    let first = Snapshot::take().expect("a snapshot");
    for round in 0..8 {
        kept.push(leak_steadily());
        let breath = breathe(round % 2 == 0);
        windows.observe().expect("a snapshot");
        drop(breath);
    }
    let last = Snapshot::take().expect("a snapshot");
    let names = Names::load();
    let of = |profile: &_, name: &str, size: &str| {
        names.total_where(profile, &[name], |labels| labels["bytes"] == size)
    };
    let suspects = windows.suspects().expect("windows");
    let leak = of(&suspects, "leak_steadily", "500");
    // The first window already had one round of it.
    assert_close("suspect", leak[0], leak[1], &[Batch { count: 14_000, size: 500 }], 1024);
    assert_eq!(of(&suspects, "breathe", "400"), [0, 0]);
    let delta = of(&last.since(&first), "leak_steadily", "500");
    assert_close("delta", delta[2], delta[3], &[Batch { count: 16_000, size: 500 }], 1024);
    let grown = of(&last.growth(&first), "leak_steadily", "500");
    assert_eq!(grown, delta[2..]);
    drop(kept);
    let freed = Snapshot::take().expect("a snapshot").since(&last);
    let freed = of(&freed, "leak_steadily", "500");
    assert_eq!((freed[0], freed[1]), (0, 0));
    assert_eq!(freed[3], -delta[3]);
}

#[inline(never)]
fn allocate_before_reset() -> Vec<Vec<u8>> {
    black_box((0..2_000).map(|_| bytes(700)).collect())
}

#[test]
fn reset_and_stop_forget_and_pause() {
    let _turn = turn();
    begin(512);
    let names = Names::load();
    let old = allocate_before_reset();
    heap::reset();
    let all = |profile: &flamelet_profile::Profile| names.total(profile, &["before_reset"]);
    assert_eq!(all(&heap::snapshot().expect("a profile")), [0; 4]);
    // Blocks freed after the reset must not make the count negative.
    drop(old);
    assert_eq!(all(&heap::snapshot().expect("a profile")), [0; 4]);
    assert_eq!(all(&heap::freed().expect("a profile")), [0; 2]);
    heap::stop();
    assert!(!heap::is_running());
    // A thread may still be counting down a part of its old distance: it learns of the end within 256 KiB.
    drop((0..400).map(|_| bytes(1 << 10)).collect::<Vec<_>>());
    let unseen = allocate_before_reset();
    assert_eq!(all(&heap::snapshot().expect("a profile")), [0; 4]);
    drop(unseen);
}
