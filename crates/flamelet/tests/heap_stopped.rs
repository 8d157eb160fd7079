//! After `heap::stop()` the heap's endpoints answer 403, until sampling is started again. The one test of this process: it
//! has one heap.

#![cfg(target_os = "linux")]

use flamelet::Profiler;
use flamelet_capture::profile::pprof;

flamelet::global_allocator!();

fn answer(handler: &flamelet::http::Handler, path: &str) -> http::Response<Vec<u8>> {
    let request = http::Request::get(path).body("").expect("a request");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(handler.answer(request))
}

#[test]
fn the_heap_is_403_while_sampling_is_stopped() {
    let profiler = Profiler::builder().start().expect("started");
    let handler = flamelet::http::Handler::new(profiler.clone());
    let paths =
        ["/debug/pprof/heap", "/debug/pprof/peak", "/debug/pprof/growth?seconds=1", "/pprof/heap/report"];
    assert_eq!(answer(&handler, paths[0]).status(), 200);
    flamelet::heap::stop();
    for path in paths {
        let answer = answer(&handler, path);
        assert_eq!(answer.status(), 403, "{path}");
        let text = String::from_utf8(answer.into_body()).expect("text");
        assert!(text.contains("not active in this service"), "{text}");
        assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    }
    // Scrapers request this by default, and accept an empty one.
    let allocs = answer(&handler, "/debug/pprof/allocs");
    assert_eq!(allocs.status(), 200);
    let allocs = pprof::read(allocs.body(), &pprof::Limits::default()).expect("a profile");
    assert_eq!(allocs.sample_count(), 0);
    assert!(profiler.heap().is_ok(), "the program itself still gets what was sampled");
    drop(Profiler::builder().start().expect("started again"));
    assert_eq!(answer(&handler, paths[0]).status(), 200);
}
