//! `global_allocator!(jemalloc, conf = "…")`: jemalloc reads this configuration before `main`.

flamelet::global_allocator!(jemalloc, conf = "prof:true,prof_active:false,lg_prof_sample:16");

#[test]
fn jemalloc_has_the_configuration() {
    // Without `prof:true`, jemalloc has no samples, and this is an error.
    let profiler = flamelet::Profiler::builder().heap_by_jemalloc().start().expect("started");
    let held: Vec<Vec<u8>> = (0..64).map(|_| std::hint::black_box(vec![1; 1 << 20])).collect();
    let heap = profiler.heap().expect("the heap");
    drop(held);
    assert!(heap.live_bytes() >= 32 << 20, "{}", heap.live_bytes());
}
