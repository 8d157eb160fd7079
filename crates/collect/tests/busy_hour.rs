//! An hour with more than a million rows is merged and read in bounded memory.

use std::time::Duration;

use flamelet_collect::{Collector, Offered, Options, Outside, Query, Reader};
use flamelet_profile::{Budget, LabelSetId, Limits, ProfileBuilder, pprof};
use flamelet_test_support::{CountingAllocator, most_allocated};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

struct Nowhere;

impl Outside for Nowhere {
    fn note(&self, message: &str) {
        panic!("unexpected: {message}");
    }
}

/// 15 January 2026, 10:00 UTC.
const T0: i64 = 1_768_471_200_000_000_000;
const HOUR: i64 = 3_600_000_000_000;
const CALLERS: usize = 240;
const LEAVES: usize = 250;
const PROFILES: i64 = 9;
const MIB: usize = 1 << 20;

/// Returns a profile of 60,000 stacks with two values, which are 120,000 rows.
fn profile(time: i64) -> Vec<u8> {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.header_mut().time_nanos = time;
    let leaves: Vec<_> = (0..LEAVES).map(|at| builder.named_frame(&format!("leaf{at}"))).collect();
    for at in 0..CALLERS {
        let caller = builder.named_frame(&format!("caller{at}"));
        for leaf in &leaves {
            let stack = builder.stack(&[*leaf, caller]);
            builder.sample(stack, LabelSetId::EMPTY, &[1, 10]);
        }
    }
    let mut bytes = Vec::new();
    pprof::write_gzip(&builder.finish(), &mut bytes).expect("written");
    bytes
}

#[test]
fn a_busy_hour_is_merged_and_read_in_bounded_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = Options::new(folder.path());
    options.keep = Duration::from_secs(100 * 365 * 86_400);
    let collector = Collector::open(options, Box::new(Nowhere)).expect("opened");
    let total = (PROFILES * (CALLERS * LEAVES) as i64, PROFILES * (CALLERS * LEAVES) as i64 * 10);
    for at in 0..PROFILES {
        let bytes = profile(T0 + at * 1000);
        let offered = Offered { service: "busy".into(), is_delta: true, bytes, ..Offered::default() };
        collector.accept(&offered).expect("accepted");
        if at % 3 == 2 {
            let ((), used) = most_allocated(|| collector.maintain());
            assert!(used < 320 * MIB, "after {} profiles, maintaining took {} MiB", at + 1, used / MIB);
        }
    }
    let blocks = std::fs::read_dir(folder.path().join("blocks/busy/2026-01-15T10")).expect("an hour").count();
    assert_eq!(blocks, 1, "a million rows are in one block");
    let reader = Reader::open(folder.path()).expect("opened");
    let query = Query::new("busy", "process_cpu", T0, T0 + HOUR);
    let (read, used) = most_allocated(|| reader.profile(&query, &Budget::new(Limits::of_memory(128 << 20))));
    let (profile, notes) = read.expect("read");
    let profile = profile.expect("a profile");
    assert_eq!((profile.total(0), profile.total(1)), total);
    assert_eq!(notes, Vec::<String>::new());
    assert!(used < 128 * MIB, "reading took {} MiB", used / MIB);
}
