//! A service that serves addresses, and the command that names them.

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flamelet_profile::pprof;
use flamelet_tests::profiles;
use flamelet_tests::programs::run_flamelet;

/// Works for at least a tenth of a second.
const LEAST_ROUNDS: u32 = 20_000;

#[inline(never)]
fn burn_without_a_name(time: Duration) -> u64 {
    let (start, mut hash, mut rounds) = (Instant::now(), 1u64, 0);
    // At least a few rounds: on a busy machine, the process may not run at all during that time.
    while rounds < LEAST_ROUNDS || start.elapsed() < time {
        rounds += 1;
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

/// A service in this process that serves raw profiles, until the runtime is dropped.
fn raw_service() -> (tokio::runtime::Runtime, SocketAddr) {
    let profiler = flamelet::Profiler::builder().symbolize(false).start().expect("started");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_io().build();
    let runtime = runtime.expect("a runtime");
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
    let address = listener.local_addr().expect("bound");
    runtime.spawn(async move { axum::serve(listener, flamelet::axum::router(profiler)).await });
    (runtime, address)
}

#[test]
fn the_command_names_what_it_gets_from_the_url_of_a_raw_service() {
    const DEADLINE: Duration = Duration::from_secs(60);
    let (_runtime, address) = raw_service();
    let url = format!("http://{address}/debug/pprof/profile?seconds=1");
    let top = |how: &str| {
        let answer = run_flamelet(["top", how, "--nodecount=0", &url]);
        assert_eq!(answer.status, Some(0), "{}", answer.stderr);
        answer.stdout
    };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                black_box(burn_without_a_name(Duration::from_millis(10)));
            }
        });
        let asked = std::panic::catch_unwind(|| {
            assert!(!top("--symbolize=none").contains("burn_without_a_name"), "it has addresses only");
            let start = Instant::now();
            // Try again if the process did not run during the second of the capture.
            while !top("--symbolize=auto").contains("burn_without_a_name") {
                assert!(start.elapsed() < DEADLINE, "still without its name");
            }
        });
        is_over.store(true, Ordering::Relaxed);
        asked.unwrap_or_else(|failure| std::panic::resume_unwind(failure));
    });
}
