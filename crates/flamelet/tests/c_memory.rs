//! `global_allocator!(malloc)`: what C code allocates is visible, and every function of C does what it promises.

#![allow(unsafe_code, reason = "calls the functions of C")]
#![cfg(all(target_os = "linux", target_env = "gnu", not(target_feature = "crt-static")))]

flamelet::global_allocator!(malloc);

use std::ffi::{CStr, c_void};
use std::hint::black_box;
use std::sync::Mutex;

/// Sampling applies to the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Blocks of 64 KiB that a test holds: 64 MiB in all, and at 512 KiB between samples at least 45 MiB are seen in nearly
/// all runs (six standard deviations are 35 MiB at most, so the range is generous).
const BLOCKS: usize = 1024;
const SIZE: usize = 64 << 10;
const EXPECTED: std::ops::Range<i64> = 29 << 20..99 << 20;

/// Allocates as a C library does.
#[inline(never)]
fn c_library_holds_memory() -> Vec<*mut c_void> {
    // SAFETY: each block is freed by the caller.
    black_box((0..BLOCKS).map(|_| unsafe { libc::malloc(black_box(SIZE)) }).collect())
}

#[inline(never)]
fn rust_holds_memory() -> Vec<Vec<u8>> {
    black_box((0..BLOCKS).map(|_| black_box(vec![1; SIZE])).collect())
}

/// Bytes in use below a function.
fn in_use(profiler: &flamelet::Profiler, name: &str) -> i64 {
    let profile = profiler.heap().expect("malloc is wrapped").in_use();
    let has = |stack| {
        profile.stack(stack).iter().any(|location| {
            let lines = profile.lines(*location);
            let functions = lines.iter().filter_map(|line| line.function);
            functions.into_iter().any(|id| profile.string(profile.function(id).name).contains(name))
        })
    };
    profile.samples().filter(|sample| has(sample.stack)).map(|sample| sample.values[3]).sum()
}

fn profiler() -> flamelet::Profiler {
    flamelet::Profiler::builder().start().expect("started")
}

#[test]
fn memory_of_c_and_of_rust_is_seen_where_it_was_allocated() {
    let _alone = ALONE.lock();
    let profiler = profiler();
    let (c, rust) = (c_library_holds_memory(), rust_holds_memory());
    let seen = in_use(&profiler, "c_library_holds_memory");
    assert!(EXPECTED.contains(&seen), "{seen} in C");
    let seen = in_use(&profiler, "rust_holds_memory");
    assert!(EXPECTED.contains(&seen), "{seen} in Rust");
    let heap = profiler.heap().expect("malloc is wrapped").in_use();
    assert!(!heap.comments().any(|comment| comment.contains("C code")));
    for block in c {
        // SAFETY: allocated above.
        unsafe { libc::free(block) };
    }
    drop(rust);
    assert_eq!(in_use(&profiler, "holds_memory"), 0);
}

/// Every block is sampled: one byte in one.
fn every_block(work: impl FnOnce()) {
    let _alone = ALONE.lock();
    let _profiler = profiler();
    flamelet::heap::set_mean(1).expect("heap profiling runs");
    work();
    flamelet::heap::set_mean(flamelet::heap::DEFAULT_MEAN).expect("heap profiling runs");
}

unsafe extern "C" {
    fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void;
    fn valloc(size: usize) -> *mut c_void;
    fn pvalloc(size: usize) -> *mut c_void;
}

#[test]
fn blocks_have_their_contents_and_their_alignment_sampled_or_not() {
    let try_all = || {
        for size in [0, 1, 15, 16, 4095, 4096, 4097, 100_000, 3 << 20] {
            // SAFETY: blocks are used within their sizes and freed once.
            unsafe {
                let zeroed = libc::calloc(size, 1).cast::<u8>();
                assert!((0..size).all(|at| *zeroed.add(at) == 0), "{size}");
                (0..size).for_each(|at| *zeroed.add(at) = at as u8);
                let longer = libc::realloc(zeroed.cast(), size * 2 + 1).cast::<u8>();
                assert!((0..size).all(|at| *longer.add(at) == at as u8), "{size}");
                let shorter = libc::realloc(longer.cast(), size / 2 + 1).cast::<u8>();
                assert!((0..size / 2).all(|at| *shorter.add(at) == at as u8), "{size}");
                let array = reallocarray(shorter.cast(), size + 1, 2).cast::<u8>();
                assert!((0..size / 2).all(|at| *array.add(at) == at as u8), "{size}");
                assert!(libc::realloc(array.cast(), 0).is_null());
                for alignment in [8, 16, 64, 4096, 65536] {
                    let mut block = std::ptr::null_mut();
                    assert_eq!(libc::posix_memalign(&mut block, alignment, size), 0);
                    assert!((block as usize).is_multiple_of(alignment));
                    libc::free(block);
                    let block = libc::aligned_alloc(alignment, size);
                    assert!((block as usize).is_multiple_of(alignment));
                    libc::free(block);
                }
                for block in [valloc(size), pvalloc(size)] {
                    assert!((block as usize).is_multiple_of(4096));
                    libc::free(block);
                }
            }
        }
    };
    try_all();
    every_block(try_all);
}

#[test]
fn requests_that_cannot_be_met_fail_as_the_c_library_says() {
    every_block(|| {
        let errno = || std::io::Error::last_os_error().raw_os_error();
        // SAFETY: nothing is allocated, and the block that is kept is freed.
        unsafe {
            for size in [usize::MAX, isize::MAX as usize, isize::MAX as usize + 1] {
                assert!(libc::malloc(black_box(size)).is_null());
                assert_eq!(errno(), Some(libc::ENOMEM));
                assert!(libc::calloc(black_box(size), 3).is_null());
            }
            let kept = libc::strdup(c"kept".as_ptr());
            assert!(libc::realloc(kept.cast(), black_box(usize::MAX)).is_null());
            assert!(reallocarray(kept.cast(), usize::MAX, 2).is_null());
            assert_eq!(CStr::from_ptr(kept), c"kept");
            libc::free(kept.cast());
            let mut block = std::ptr::null_mut();
            assert_eq!(libc::posix_memalign(&mut block, 3, 8), libc::EINVAL);
            assert_eq!(libc::posix_memalign(&mut block, 0, 8), libc::EINVAL);
            assert_eq!(libc::posix_memalign(&mut block, 64, usize::MAX), libc::ENOMEM);
            libc::free(std::ptr::null_mut());
        }
    });
}

#[test]
fn success_leaves_errno_alone() {
    every_block(|| {
        // SAFETY: this thread's errno; blocks are freed once.
        unsafe {
            *libc::__errno_location() = libc::EXDEV;
            let block = libc::malloc(black_box(100));
            let block = libc::realloc(block, black_box(200_000));
            libc::free(block);
            libc::free(libc::calloc(black_box(10), 10));
            assert_eq!(*libc::__errno_location(), libc::EXDEV);
        }
    });
}

#[test]
fn threads_and_forks_go_on() {
    every_block(|| {
        let threads: Vec<_> = (0..8)
            .map(|at| {
                std::thread::spawn(move || {
                    let mut held: Vec<Vec<u8>> = Vec::new();
                    for round in 0..2000 {
                        held.push(vec![at as u8; round % 700]);
                        if round % 3 == 0 {
                            held.swap_remove(round % held.len());
                        }
                    }
                    assert!(held.iter().all(|block| block.iter().all(|byte| *byte == at as u8)));
                })
            })
            .collect();
        for _ in 0..20 {
            // SAFETY: the child only allocates, which the C library allows after a fork, and leaves.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    let block = libc::malloc(black_box(1000));
                    let block = libc::realloc(block, 100_000);
                    libc::free(block);
                    libc::_exit(7);
                }
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &mut status, 0), child);
                assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status:#x}");
            }
        }
        threads.into_iter().for_each(|thread| thread.join().expect("its blocks are its own"));
    });
}
