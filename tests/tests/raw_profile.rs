//! A service that serves addresses, and the command that names them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use flamelet_profile::pprof;
use flamelet_tests::profiles;
use flamelet_tests::programs::run_flamelet;

#[inline(never)]
fn burn_without_a_name(time: Duration) -> u64 {
    let (start, mut hash) = (Instant::now(), 1u64);
    while start.elapsed() < time {
        hash = (0..1000).fold(hash, |hash, step| black_box(hash ^ step).wrapping_mul(31));
    }
    hash
}

#[test]
fn the_command_names_what_the_service_left_raw() {
    let profiler = flamelet::Profiler::builder().symbolize(false).start().expect("started");
    let capture = profiler.start().expect("a capture");
    black_box(burn_without_a_name(Duration::from_millis(500)));
    let raw = profiles::scratch().join("raw.pb.gz");
    let named = profiles::scratch().join("named.pb.gz");
    let mut bytes = Vec::new();
    pprof::write_gzip(&capture.finish(), &mut bytes).expect("written");
    std::fs::write(&raw, bytes).expect("written");

    let top = |path: &std::path::Path| {
        run_flamelet(["top".as_ref(), "--symbolize=none".as_ref(), path.as_os_str()]).stdout
    };
    assert!(!top(&raw).contains("burn_without_a_name"), "it has addresses only");
    let words = ["symbolize".as_ref(), raw.as_os_str(), "-o".as_ref(), named.as_os_str()];
    let answer = run_flamelet(words);
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    let shown = top(&named);
    assert!(shown.contains("burn_without_a_name"), "{shown}");
}
