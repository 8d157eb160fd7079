//! jemalloc's own sampling, in the same tables; and its dumps. Runs with the feature `jemalloc`.

#![allow(unsafe_code, reason = "is an allocator on jemalloc's functions")]

mod heap_support;
#[path = "heap_support/linked_jemalloc.rs"]
mod linked_jemalloc;

use flamelet_capture::heap::jemalloc::{Feed, Jemalloc};
use flamelet_capture::heap::{self, Options, Snapshot};
use heap_support::{Batch, Names, assert_close, turn};
use std::hint::black_box;

const MEAN: u64 = 16 << 10;

fn filled(size: usize) -> Vec<u8> {
    black_box(vec![1; black_box(size)])
}

#[inline(never)]
fn keep_half() -> Vec<Vec<u8>> {
    let all = (0..40_000).map(|_| filled(100)).enumerate();
    black_box(all.filter(|(at, _)| at % 2 == 0).map(|(_, kept)| kept).collect())
}

fn start() -> Feed {
    let feed = Jemalloc::linked().start(&Options::new().mean(MEAN)).expect("starts");
    heap_support::take_the_first_sample();
    feed
}

#[test]
fn samples_come_through_the_hooks() {
    let _turn = turn();
    assert_eq!(start(), Feed::Hooks);
    heap::reset();
    let kept = keep_half();
    let snapshot = Snapshot::take().expect("a snapshot");
    let names = Names::load();
    let of = |profile: &_| names.total_where(profile, &["keep_half"], |labels| labels["bytes"] == "100");
    let got = of(&snapshot.heap());
    // jemalloc counts the 112 bytes that they occupy.
    assert_close("allocated", got[0], got[1], &[Batch { count: 40_000, size: 100 }], MEAN);
    assert_close("in use", got[2], got[3], &[Batch { count: 20_000, size: 100 }], MEAN);
    let freed = of(&snapshot.lifetime());
    assert_eq!(freed[1], got[1] - got[3]);
    let heap = snapshot.heap();
    assert!(heap.comments().any(|comment| comment.starts_with("flamelet: jemalloc: allocated ")));
    drop(kept);
    assert_eq!(of(&heap::snapshot().expect("a profile"))[2..], [0, 0]);
    Jemalloc::linked().stop().expect("stops");
    let before = heap::tracked_blocks();
    let unseen = keep_half();
    assert!(heap::tracked_blocks() <= before);
    drop(unseen);
}

#[test]
fn it_is_controlled_like_any_other_sampling() {
    let _turn = turn();
    start();
    assert!(heap::is_running());
    assert!(!Options::new().start_unless_running().expect("runs already"), "nothing is sampled twice");
    let late = Options::new().limit(1 << 40).start_unless_running().expect_err("too late for a limit");
    assert!(late.to_string().contains("already being sampled"), "{late}");
    let other = Options::new().mean(3).start_unless_running().expect_err("a process has one heap");
    assert!(other.to_string().contains("set_mean(3)"), "{other}");
    heap::set_mean(100_000).expect("another mean");
    assert_eq!(heap::snapshot().expect("a profile").header.period, 1 << 17, "as jemalloc samples");
    heap::stop();
    assert!(!heap::is_running());
    let before = heap::tracked_blocks();
    let unseen = keep_half();
    assert!(heap::tracked_blocks() <= before);
    drop(unseen);
}

#[inline(never)]
fn keep_for_a_dump() -> Vec<Vec<u8>> {
    black_box((0..40_000).map(|_| filled(112)).collect())
}

#[test]
fn a_dump_says_the_same() {
    let _turn = turn();
    start();
    let kept = keep_for_a_dump();
    let profile = Jemalloc::linked().dump().expect("a dump");
    // Dumps count usable bytes: the list of 960,000 takes 1 MiB.
    let batches = [Batch { count: 40_000, size: 112 }, Batch { count: 1, size: 1 << 20 }];
    let got = Names::load().total(&profile, &["keep_for_a_dump"]);
    assert_close("in use", got[2], got[3], &batches, MEAN);
    assert_eq!(profile.header.period, MEAN as i64);
    drop(kept);
    assert!(Jemalloc::linked().statistics().is_some_and(|statistics| statistics.allocated > 0));
}
