//! The feature `jemalloc-for-c`: C code allocates from jemalloc, whose own sampling sees that.
//!
//! Features add up over a build, and other tests need the C library's own `malloc`: `cargo xtask gate jemalloc-for-c`
//! runs this one.

#![allow(unsafe_code, reason = "calls the functions of C")]
#![cfg(target_os = "linux")]

flamelet::global_allocator!(jemalloc, profiling);

use std::ffi::c_void;
use std::hint::black_box;

/// Blocks of 64 KiB that the test holds: 64 MiB in all. At 512 KiB between samples the standard deviation is 5.8 MiB, and
/// the range is six of them.
const BLOCKS: usize = 1024;
const SIZE: usize = 64 << 10;
const EXPECTED: std::ops::Range<i64> = 29 << 20..99 << 20;

/// Allocates as a C library does.
#[inline(never)]
fn c_library_holds_memory() -> Vec<*mut c_void> {
    // SAFETY: each block is freed by the caller.
    black_box((0..BLOCKS).map(|_| unsafe { libc::malloc(black_box(SIZE)) }).collect())
}

/// Bytes in use below a function.
fn in_use(heap: &flamelet::Profile, name: &str) -> i64 {
    let has = |stack| {
        heap.stack(stack).iter().any(|location| {
            let functions = heap.lines(*location).iter().filter_map(|line| line.function);
            functions.into_iter().any(|id| heap.string(heap.function(id).name).contains(name))
        })
    };
    heap.samples().filter(|sample| has(sample.stack)).map(|sample| sample.values[3]).sum()
}

#[test]
fn memory_of_c_is_seen_where_it_was_allocated() {
    let profiler = flamelet::Profiler::builder().heap_by_jemalloc().start().expect("started");
    let held = c_library_holds_memory();
    let heap = profiler.heap().expect("the tables").in_use();
    let seen = in_use(&heap, "c_library_holds_memory");
    assert!(EXPECTED.contains(&seen), "{seen} in C");
    assert!(!heap.comments().any(|comment| comment.contains("C code")), "nothing is missing");
    for block in held {
        // SAFETY: allocated above.
        unsafe { libc::free(block) };
    }
    let heap = profiler.heap().expect("the tables").in_use();
    assert_eq!(in_use(&heap, "c_library_holds_memory"), 0);
}
