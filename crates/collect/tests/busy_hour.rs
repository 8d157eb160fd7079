//! An hour with more than a million rows is merged and read in bounded memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flamelet_collect::{Collector, Offered, Options, Outside, Query, Reader, Request, Resource};
use flamelet_profile::{Budget, Error, LabelSetId, Limits, Profile, ProfileBuilder, Result, pprof};

/// Counts what is allocated.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[allow(unsafe_code, reason = "an allocator cannot be written without")]
// SAFETY: every call is passed on unchanged to the system's allocator; only numbers are kept in addition.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns what `work` returns, and how much memory it took at most.
fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let done = work();
    (done, PEAK.load(Ordering::Relaxed).saturating_sub(before))
}

struct Nowhere;

impl Outside for Nowhere {
    fn read(&self, _: &[u8], _: Limits) -> Result<Profile> {
        Err(Error::unreadable("not a profile"))
    }

    fn read_otlp(&self, _: &[u8], _: bool, _: Limits) -> Result<Vec<Resource>> {
        Err(Error::unreadable("not a message"))
    }

    fn fetch(&self, request: &Request<'_>) -> std::result::Result<Vec<u8>, String> {
        Err(format!("{}: not reachable", request.url))
    }

    fn resolve(&self, host: &str) -> std::result::Result<Vec<IpAddr>, String> {
        Err(format!("unknown host {host}"))
    }

    fn ask_name_server(&self, _: &[u8]) -> std::result::Result<Vec<u8>, String> {
        Err("no name server".to_owned())
    }

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
            let ((), used) = measured(|| collector.maintain());
            assert!(used < 320 * MIB, "after {} profiles, maintaining took {} MiB", at + 1, used / MIB);
        }
    }
    let blocks = std::fs::read_dir(folder.path().join("blocks/busy/2026-01-15T10")).expect("an hour").count();
    assert_eq!(blocks, 1, "a million rows are in one block");
    let reader = Reader::open(folder.path()).expect("opened");
    let query = Query::new("busy", "process_cpu", T0, T0 + HOUR);
    let (read, used) = measured(|| reader.profile(&query, &Budget::new(Limits::of_memory(128 << 20))));
    let (profile, notes) = read.expect("read");
    let profile = profile.expect("a profile");
    assert_eq!((profile.total(0), profile.total(1)), total);
    assert_eq!(notes, Vec::<String>::new());
    assert!(used < 128 * MIB, "reading took {} MiB", used / MIB);
}
