//! `global_allocator!(jemalloc, profiling)`: jemalloc samples by itself.

flamelet::global_allocator!(jemalloc, profiling);

/// 64 blocks of 1 MiB, each seen with a chance of 86 %: six standard deviations are 19 MiB.
const EXPECTED: std::ops::Range<u64> = 45 << 20..96 << 20;

#[inline(never)]
fn hold_memory() -> Vec<Vec<u8>> {
    std::hint::black_box((0..64).map(|_| std::hint::black_box(vec![1; 1 << 20])).collect())
}

fn names(profile: &flamelet::Profile, name: &str) -> bool {
    profile.functions().iter().any(|function| profile.string(function.name).contains(name))
}

/// Both ways in one test, since jemalloc's settings apply to the whole process. Dumps first, because hooks cannot be
/// removed.
#[test]
fn jemallocs_own_samples_become_profiles() {
    let jemalloc = flamelet::heap::jemalloc::Jemalloc::linked();
    let by_dumps = flamelet::Profiler::builder().heap_by(jemalloc.without_hooks()).start().expect("started");
    let before = by_dumps.heap().expect("a dump");
    let held = hold_memory();
    let after = by_dumps.heap().expect("a dump");
    let in_use = after.in_use();
    assert!(names(&in_use, "hold_memory"));
    assert!(EXPECTED.contains(&after.live_bytes()), "{}", after.live_bytes());
    let since = after.since(&before).total(3) as u64;
    assert!(EXPECTED.contains(&since), "{since}");
    let peak = after.peak();
    assert!(peak.sample_count() == 0 && peak.comments().any(|comment| comment.contains("do not say")));
    drop(held);

    let by_hooks = flamelet::Profiler::builder().heap_by_jemalloc().start().expect("started");
    let held = hold_memory();
    let heap = by_hooks.heap().expect("the tables");
    assert!(names(&heap.in_use(), "hold_memory"));
    assert!(EXPECTED.contains(&heap.live_bytes()), "{}", heap.live_bytes());
    let in_use = heap.in_use();
    let about_c: Vec<&str> = in_use.comments().filter(|comment| comment.contains("C code")).collect();
    assert!(
        matches!(about_c[..], [comment] if comment.contains("`jemalloc-for-c`")),
        "C code allocates from the C library, and the profile says so: {about_c:?}"
    );
    drop(held);
    let heap = by_hooks.heap().expect("the tables");
    assert!(names(&heap.peak(), "hold_memory") && names(&heap.freed(), "hold_memory"));
}
