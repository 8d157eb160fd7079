//! A service without flamelet's allocator: requests for heap profiles are answered as documented.

use flamelet::{ErrorKind, Profiler};
use flamelet_capture::profile::pprof;

fn answer(handler: &flamelet::http::Handler, path: &str) -> http::Response<Vec<u8>> {
    let request = http::Request::get(path).body("").expect("a request");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(handler.answer(request))
}

/// One test for all: only the first profiler of a process can set the files of the heap.
#[test]
fn heap_is_403_and_scrapers_are_content() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let with_file = Profiler::builder().heap_recovery_file(folder.path().join("heap"));
    assert_eq!(with_file.start().expect_err("no allocator").kind(), ErrorKind::NotEnabled);

    let profiler = Profiler::builder().start().expect("started");
    let handler = flamelet::http::Handler::new(profiler.clone());
    for path in ["/debug/pprof/heap", "/debug/pprof/peak", "/pprof/heap/report", "/pprof/heap/flamegraph"] {
        let answer = answer(&handler, path);
        assert_eq!(answer.status(), 403, "{path}");
        assert_eq!(answer.headers()["x-go-pprof"], "1");
        let text = String::from_utf8(answer.into_body()).expect("text");
        assert!(text.contains("flamelet::global_allocator!()"), "{text}");
    }
    // Scrapers use both forms for every service.
    for path in ["/debug/pprof/allocs", "/debug/pprof/allocs?seconds=1"] {
        let answer = answer(&handler, path);
        assert_eq!(answer.status(), 200, "{path}");
        let profile = pprof::read(answer.body(), &pprof::Limits::default()).expect("a profile");
        assert_eq!((profile.sample_types().len(), profile.sample_count()), (4, 0));
        assert_eq!(profile.string(profile.header.default_sample_type), "alloc_space");
    }
    // Also while the maximum number of captures runs.
    let profiler = Profiler::builder().max_captures(1).start().expect("started");
    let handler = flamelet::http::Handler::new(profiler.clone());
    let request = http::Request::get("/debug/pprof/profile?seconds=600").body("").expect("a request");
    let running = handler.answer(request);
    assert_eq!(profiler.metrics().captures_running, 1);
    assert_eq!(answer(&handler, "/debug/pprof/profile").status(), 503);
    assert_eq!(answer(&handler, "/debug/pprof/allocs").status(), 200);
    drop(running);
    assert_eq!(profiler.heap().expect_err("no allocator").kind(), ErrorKind::NotEnabled);
}
