//! The dumps of a jemalloc without hooks. Runs with the feature `jemalloc`, in a separate process, because hooks
//! cannot be removed.

#![allow(unsafe_code, reason = "is an allocator on jemalloc's functions")]

mod heap_support;
#[path = "heap_support/linked_jemalloc.rs"]
mod linked_jemalloc;

use flamelet_capture::heap::jemalloc::{Feed, Jemalloc};
use flamelet_capture::heap::{Options, is_running, snapshot};
use heap_support::{Batch, Names, assert_close};
use std::hint::black_box;
use std::path::Path;

const MEAN: u64 = 16 << 10;

#[inline(never)]
fn keep_for_a_dump() -> Vec<Vec<u8>> {
    black_box((0..40_000).map(|_| black_box(vec![1; black_box(112)])).collect())
}

/// One test for everything: jemalloc's settings apply to the whole process.
#[test]
fn dumps_say_who_holds_memory() {
    let jemalloc = Jemalloc::linked().without_hooks();
    // Dumps support neither a file nor a limit, which must be reported.
    let refused = jemalloc.start(&Options::new().limit(1 << 40)).expect_err("nothing would watch it");
    assert!(refused.to_string().contains("watch no limit"), "{refused}");
    assert!(!is_running());
    let feed = jemalloc.start(&Options::new().mean(MEAN)).expect("starts");
    assert_eq!(feed, Feed::Dumps);
    assert!(is_running());
    heap_support::take_the_first_sample();
    let kept = keep_for_a_dump();
    jemalloc.stop().expect("stops");

    let (names, profile) = (Names::load(), jemalloc.dump().expect("a dump"));
    // Dumps count usable bytes: the list of 960,000 takes 1 MiB.
    let batches = [Batch { count: 40_000, size: 112 }, Batch { count: 1, size: 1 << 20 }];
    let got = names.total(&profile, &["keep_for_a_dump"]);
    assert_close("in use", got[2], got[3], &batches, MEAN);
    assert!(profile.comments().any(|comment| comment.starts_with("flamelet: jemalloc: allocated ")));
    assert!(snapshot().expect("tables").samples().next().is_none(), "nothing came by the hooks");

    // With a file in a folder: the same numbers, and no file is left behind.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("dumps-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let by_file = jemalloc.dump_in(&folder).expect("a dump");
    assert_eq!(names.total(&by_file, &["keep_for_a_dump"]), got);
    assert_eq!(std::fs::read_dir(&folder).expect("readable").count(), 0);
    std::fs::remove_dir(&folder).expect("empty");

    // No place to write: one line that says what was tried and what would help.
    let error = jemalloc.dump_in(&folder).expect_err("the folder is gone").to_string();
    assert!(error.contains(&*folder.to_string_lossy()) && error.contains("TMPDIR"), "{error}");
    assert!(!error.contains('\n'), "{error}");
    drop(kept);
}
