//! `global_allocator!(jemalloc)`: jemalloc does the work, and the heap is visible.

flamelet::global_allocator!(jemalloc);

#[test]
fn who_holds_memory_is_known() {
    let profiler = flamelet::Profiler::builder().start().expect("started");
    let held: Vec<Vec<u8>> = (0..64).map(|_| std::hint::black_box(vec![1; 1 << 20])).collect();
    let heap = profiler.heap().expect("jemalloc is wrapped").in_use();
    let in_use = heap.total(3);
    drop(held);
    assert!(heap.comments().any(|line| line.contains("jemalloc: allocated ")), "its statistics are there");
    // 64 blocks of 1 MiB, each seen with a chance of 86 %: six standard deviations are 19 MiB.
    assert!((45 << 20..96 << 20).contains(&in_use), "{in_use}");
}

/// Two versions of tikv-jemalloc-sys cannot be linked into one program: flamelet takes the one that the service has.
#[test]
fn a_service_keeps_its_version_of_jemalloc() {
    for (manifest, name) in
        [("Cargo.toml", "tikv-jemallocator"), ("../capture/Cargo.toml", "tikv-jemalloc-sys")]
    {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(manifest);
        let text = std::fs::read_to_string(path).expect("a manifest");
        let line = text.lines().find(|line| line.starts_with(&format!("{name} = "))).expect("a dependency");
        assert!(line.contains("version = \">=0.5.4, <0.8\""), "{line}");
    }
}
