//! The heap's endpoints, in a program that has flamelet's allocator.

use crate::service::{Answer, Service, again_until, names, types};
use flamelet::Profiler;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const GO: [&str; 4] =
    ["alloc_objects/count", "alloc_space/bytes", "inuse_objects/count", "inuse_space/bytes"];

#[inline(never)]
fn hold_memory(bytes: usize) -> Vec<Vec<u8>> {
    (0..bytes / (256 << 10)).map(|_| black_box(vec![1; 256 << 10])).collect()
}

/// The bytes of a column of the samples that have `function` in their stack.
fn bytes_of(profile: &flamelet::Profile, column: usize, function: &str) -> i64 {
    let has = |location: &flamelet_capture::profile::LocationId| {
        let lines = profile.lines(*location).iter().filter_map(|line| line.function);
        lines.into_iter().any(|id| profile.string(profile.function(id).name).contains(function))
    };
    let held = profile.samples().filter(|sample| profile.stack(sample.stack).iter().any(has));
    held.map(|sample| sample.values[column]).sum()
}

#[test]
fn heap_and_allocs_name_the_holders_of_memory() {
    let service = Service::start(Profiler::builder());
    let held = hold_memory(64 << 20);
    let answer = service.get("/debug/pprof/heap?gc=1");
    assert_eq!(answer.header("content-disposition"), "attachment; filename=\"heap\"");
    let heap = answer.profile();
    assert_eq!(types(&heap), GO);
    assert_eq!(heap.string(heap.header.default_sample_type), "inuse_space");
    let in_use = bytes_of(&heap, 3, "hold_memory");
    // 256 blocks, each seen with a chance of 39 %: six standard deviations are 47 %.
    assert!((34 << 20..94 << 20).contains(&in_use), "{in_use}");
    drop(held);
    let allocs = service.get("/debug/pprof/allocs").profile();
    assert_eq!(types(&allocs), GO);
    assert_eq!(allocs.string(allocs.header.default_sample_type), "alloc_space");
    assert!(bytes_of(&allocs, 1, "hold_memory") >= in_use);

    for (path, kind) in [
        ("/pprof/heap/report", "application/octet-stream"),
        ("/pprof/heap/flamegraph", "image/svg+xml"),
        ("/debug/pprof/freed", "application/octet-stream"),
        ("/debug/pprof/lifetime", "application/octet-stream"),
        ("/debug/pprof/temporary", "application/octet-stream"),
        ("/debug/pprof/peak", "application/octet-stream"),
    ] {
        let answer = service.get(path);
        assert_eq!((answer.status, answer.header("content-type")), (200, kind), "{path}");
    }
    // Other tests may have had the peak, but it was as high as what was held here.
    assert!(service.get("/debug/pprof/peak").profile().total(1) >= in_use);
    service.get("/debug/pprof/peak?seconds=1").assert_refused(400, "not supported for this profile type");
    let page = service.get_as("/debug/pprof/heap", "text/html");
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
}

#[test]
fn pictures_of_the_heap_end_in_the_function_that_needed_the_memory() {
    let service = Service::start(Profiler::builder());
    let held = hold_memory(64 << 20);
    for (path, kind) in [
        ("/pprof/heap/flamegraph", "image/svg+xml"),
        ("/debug/pprof/heap", "image/svg+xml"),
        ("/debug/pprof/heap", "text/html"),
        ("/debug/pprof/allocs", "image/svg+xml"),
    ] {
        let answer = service.get_as(path, kind);
        let picture = answer.text();
        assert!(picture.contains("hold_memory"), "{path} as {kind}");
        for passes_on in ["alloc::alloc::alloc", "__rust_alloc", "alloc::raw_vec::"] {
            assert!(!picture.contains(passes_on), "{passes_on} in {path} as {kind}");
        }
    }
    // The profile itself keeps them, and names them as uninteresting.
    let heap = service.get("/debug/pprof/heap").profile();
    assert!(bytes_of(&heap, 3, "alloc::alloc") > 0 || bytes_of(&heap, 3, "raw_vec") > 0);
    drop(held);
}

#[test]
fn looking_up_names_is_not_the_services_memory() {
    let service = Service::start(Profiler::builder());
    let anchor = hold_memory as *const () as usize;
    let answer = service.get(&format!("/debug/pprof/symbol?{anchor:#x}"));
    assert!(answer.text().contains("hold_memory"), "{}", answer.text());
    let allocs = service.get("/debug/pprof/allocs").profile();
    assert_eq!(bytes_of(&allocs, 1, "Symbols::frames"), 0);
}

#[test]
fn an_exceeded_budget_names_the_heaviest_function() {
    let keeps = flamelet::heap::budget().allocations(8).assert(|| hold_memory(1 << 20).len());
    assert_eq!(keeps, 4);
    let exceeded = std::panic::catch_unwind(|| {
        flamelet::heap::budget().bytes(1000).assert(|| drop(hold_memory(1 << 20)));
    });
    let message = exceeded.expect_err("exceeded");
    let message = message.downcast_ref::<String>().expect("text");
    assert!(message.contains("1000 allowed") && message.contains("hold_memory"), "{message}");
}

#[test]
fn seconds_asks_for_what_changes_meanwhile() {
    let service = Service::start(Profiler::builder());
    let is_held = |(answer, _): &(Answer, usize)| names(&answer.profile(), "hold_during_capture");
    let hold = |path: &str| again_until(|| hold_while_asked(&service, path), is_held);
    let (before, _) = hold("/debug/pprof/heap?seconds=1");
    assert_eq!(before.header("content-disposition"), "attachment; filename=\"heap-delta\"");
    let (allocated, blocks) = hold("/debug/pprof/allocs?seconds=1");
    assert_eq!(allocated.header("content-disposition"), "attachment; filename=\"allocs-delta\"");
    let bytes = bytes_of(&allocated.profile(), 1, "hold_during_capture");
    // A sample stands for a millionth more than its block.
    let most = (blocks * BLOCK) as i64 / 100 * 101;
    assert!((BLOCK as i64..=most).contains(&bytes), "what was allocated meanwhile, not before: {bytes}");
    let (growth, _) = hold("/debug/pprof/growth?seconds=1");
    assert_eq!(types(&growth.profile()), ["growth_objects/count", "growth_space/bytes"]);
    // Growth between two snapshots does not show whether it is steady.
    let (two, _) = hold_while_asked(&service, "/debug/pprof/growth?seconds=1&windows=1");
    assert_eq!(steady(&two.profile(), "hold_during_capture"), Vec::<String>::new());
    // Held more in every window.
    let windows = || hold_while_asked(&service, "/debug/pprof/growth?seconds=2&windows=6").0.profile();
    again_until(windows, |windows| steady(windows, "hold_during_capture").contains(&"yes".to_owned()));
    service.get("/debug/pprof/growth?windows=0").assert_refused(400, "from 1 to 100");
    service.get("/debug/pprof/heap?windows=5").assert_refused(400, "only supported for growth");
}

/// The labels `steady` of what `function` held.
fn steady(profile: &flamelet::Profile, function: &str) -> Vec<String> {
    let held = profile.samples().filter(|sample| {
        profile.stack(sample.stack).iter().any(|location| {
            let lines = profile.lines(*location).iter().filter_map(|line| line.function);
            lines.into_iter().any(|id| profile.string(profile.function(id).name).contains(function))
        })
    });
    let labels = held.flat_map(|sample| profile.labels(sample.labels));
    let steady = labels.filter(|label| profile.string(label.key) == "steady");
    steady.map(|label| profile.string(label.text).to_owned()).collect()
}

#[test]
fn a_service_watches_its_own_growth() {
    let service = Service::start(Profiler::builder());
    let stop = AtomicBool::new(false);
    let watch = || {
        stop.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut held = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    held.push(hold_while_watched());
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
            let growth = service.profiler.heap_growth(Duration::from_millis(1500), 6);
            stop.store(true, Ordering::Relaxed);
            growth.expect("watched")
        })
    };
    again_until(watch, |growth| steady(growth, "hold_while_watched").contains(&"yes".to_owned()));
    let snapshot = service.profiler.heap().expect("a moment");
    assert_eq!(types(&snapshot.temporary()), ["freed_objects/count", "freed_space/bytes"]);
}

/// Sends a request, and allocates until there is an answer; returns it with the number of blocks.
fn hold_while_asked(service: &Service, path: &str) -> (Answer, usize) {
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| service.get(path));
        let mut held = Vec::new();
        while !asked.is_finished() {
            held.push(hold_during_capture());
            std::thread::sleep(Duration::from_millis(20));
        }
        (asked.join().expect("no panic"), held.len())
    })
}

/// So large that each block is sampled, but for one in ten million; none of it is touched.
const BLOCK: usize = 8 << 20;

#[inline(never)]
fn hold_during_capture() -> Vec<u8> {
    black_box(Vec::with_capacity(BLOCK))
}

/// The same for another test, which runs at the same time.
#[inline(never)]
fn hold_while_watched() -> Vec<u8> {
    black_box(Vec::with_capacity(black_box(BLOCK)))
}

#[test]
fn a_profiler_that_leaves_the_heap_alone_says_so() {
    let service = Service::start(Profiler::builder().without_heap());
    for path in ["/debug/pprof/heap", "/debug/pprof/growth?seconds=1", "/pprof/heap/report"] {
        service.get(path).assert_refused(403, "switched off in this service (`without_heap()`)");
    }
    let error = service.profiler.heap().expect_err("switched off").to_string();
    assert!(error.contains("without_heap()"), "{error}");
    let error = service.profiler.heap_growth(Duration::ZERO, 1).expect_err("switched off").to_string();
    assert!(error.contains("without_heap()"), "{error}");
}
