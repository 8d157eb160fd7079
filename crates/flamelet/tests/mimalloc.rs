//! `global_allocator!(mimalloc)`: mimalloc does the work, and the heap is visible.

flamelet::global_allocator!(mimalloc);

#[test]
fn who_holds_memory_is_known() {
    let profiler = flamelet::Profiler::builder().start().expect("started");
    let held: Vec<Vec<u8>> = (0..64).map(|_| std::hint::black_box(vec![1; 1 << 20])).collect();
    let heap = profiler.heap().expect("mimalloc is wrapped").in_use();
    let in_use = heap.total(3);
    drop(held);
    // 64 blocks of 1 MiB, each seen with a chance of 86 %: six standard deviations are 19 MiB.
    assert!((45 << 20..96 << 20).contains(&in_use), "{in_use}");
}
