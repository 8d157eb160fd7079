//! Heap budgets: exact counts, and a message that names the allocating function.

use flamelet_capture::heap::budget::{self, Budget, measure};
use flamelet_capture::heap::{Alloc, Options};
use std::hint::black_box;
use std::sync::Barrier;

#[global_allocator]
static ALLOCATOR: Alloc = Alloc::system();

fn bytes(size: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(black_box(size)))
}

#[test]
fn counts_are_exact() {
    let (kept, usage) = measure(|| {
        drop(bytes(1000));
        let (one, two) = (bytes(300), bytes(200));
        drop(two);
        one
    });
    assert_eq!((usage.allocations, usage.bytes, usage.peak, usage.kept), (3, 1500, 1000, 300));
    let ((), usage) = measure(|| drop(kept));
    assert_eq!((usage.allocations, usage.bytes, usage.peak, usage.kept), (0, 0, 0, -300));
    let (_, usage) = measure(|| {
        let mut grown = bytes(10);
        grown.reserve_exact(100);
        grown
    });
    assert_eq!((usage.allocations, usage.bytes, usage.kept), (2, 110, 100));
}

#[test]
fn counts_are_exact_while_sampling() {
    Options::new().mean(64).start().expect("starts");
    let work = || (0..1000).map(|_| bytes(100)).for_each(drop);
    work();
    let ((), usage) = measure(work);
    assert_eq!((usage.allocations, usage.bytes, usage.peak, usage.kept), (1000, 100_000, 100, 0));
    assert_eq!(usage.stacks.iter().map(|stack| stack.allocations).sum::<u64>(), 1000);
}

#[test]
fn other_threads_are_not_counted() {
    let (start, end) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            (0..100).map(|_| bytes(100)).for_each(drop);
            end.wait();
        });
        let (_, usage) = measure(|| {
            start.wait();
            end.wait();
            bytes(7)
        });
        assert_eq!((usage.allocations, usage.bytes), (1, 7));
    });
}

#[test]
fn one_inside_another_counts_for_both() {
    let ((_, inner), outer) = measure(|| {
        let before = bytes(50);
        let measured = measure(|| bytes(500));
        drop(before);
        measured
    });
    assert_eq!((inner.allocations, inner.bytes), (1, 500));
    assert!(outer.bytes >= 550 && outer.peak >= 550, "{outer:?}");
}

#[inline(never)]
fn heavy_function() -> Vec<u8> {
    bytes(4321)
}

#[test]
fn an_exceeded_budget_names_the_heaviest_stack() {
    assert_eq!(Budget::new().allocations(1).bytes(4321).peak(4321).assert(heavy_function).capacity(), 4321);
    budget::set_resolver(|frames| frames.iter().map(|frame| format!("frame {frame:#x}")).collect());
    let outcome = std::panic::catch_unwind(|| Budget::new().bytes(4000).assert(heavy_function));
    let message = *outcome.expect_err("too much").downcast::<String>().expect("a message");
    assert!(message.starts_with("heap budget exceeded: 4321 bytes, 4000 allowed\n"), "{message}");
    assert!(message.contains("4321 bytes in 1 allocations at\n    frame 0x"), "{message}");
    let (_, usage) = measure(heavy_function);
    // The frames are return addresses less one, so the one after the function's start is inside it.
    let start = heavy_function as *const () as u64;
    let nearest = usage.stacks[0].frames.iter().filter(|&&frame| frame >= start).min();
    assert!(nearest.is_some_and(|frame| frame - start < 256), "{:x?} lacks {start:#x}", usage.stacks[0]);
    assert_eq!(Budget::new().excess(&usage), None);
}

#[test]
fn a_panic_ends_the_counting() {
    let outcome = std::panic::catch_unwind(|| measure(|| std::panic::resume_unwind(Box::new(1))).1);
    assert!(outcome.is_err());
    let (_, usage) = measure(|| bytes(9));
    assert_eq!(usage.bytes, 9);
}

/// A failed allocation does not end the counting, however large it is.
#[test]
fn a_request_as_large_as_can_be() {
    let (_, usage) = measure(|| {
        assert!(Vec::<u8>::new().try_reserve(isize::MAX as usize).is_err());
        std::hint::black_box(vec![1_u8; 1000])
    });
    assert_eq!((usage.allocations, usage.bytes), (1, 1000));
}
