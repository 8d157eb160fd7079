//! A process has one heap: a second builder with other settings is refused, never ignored.

#![cfg(target_os = "linux")]

use flamelet::{ErrorKind, Profiler};

flamelet::global_allocator!();

#[test]
fn other_settings_for_the_heap_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("made/by/flamelet/heap.ledger");
    let first = Profiler::builder().heap_interval(4096).heap_recovery_file(&file).start().expect("started");
    assert!(file.is_file(), "its folder is made");
    let other = Profiler::builder().heap_interval(8192).start().expect_err("there is one heap");
    assert_eq!(other.kind(), ErrorKind::InvalidOption);
    assert!(other.to_string().contains("one byte in 4096"), "{other}");
    let other = Profiler::builder().heap_recovery_file(folder.path().join("b")).start();
    assert_eq!(other.expect_err("it has its file").kind(), ErrorKind::InvalidOption);
    // The same, or no settings at all, are fine.
    for builder in [Profiler::builder().heap_interval(4096), Profiler::builder()] {
        let second = builder.start().expect("nothing is different");
        assert_eq!(second.heap().expect("sampled").in_use().header.period, 4096);
    }
    drop(first);
}
