//! What requests spend their time on, with 1, 100 and 1,000 of them in flight over HTTP: the four parts add up to the wall time, and
//! the one that each route is made for is the largest.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "a limit of the process")]

mod example;

use std::time::{Duration, Instant};

use example::{DEADLINE, Example};
use flamelet_tests::programs::run_flamelet;
use tokio::net::TcpStream;

/// A route, how many milliseconds its requests ask for, and the part in which they spend their time.
type Planted = (&'static str, u64, &'static str);

const ROUTES: [Planted; 4] = [
    ("/await", 200, "awaiting_ns"),
    ("/queue", 1, "awaiting_ns"),
    ("/lock", 1, "blocked_ns"),
    ("/blocking", 1, "blocked_ns"),
];

const PARTS: [&str; 4] = ["cpu_ns", "blocked_ns", "awaiting_ns", "runnable_ns"];

/// Lets this process, and those that it starts, have as many files open as the system allows; returns how many.
fn allow_files() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes to the structure above, and reads it.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
    }
    limit.rlim_cur
}

/// Sends so many requests at once, each on a connection of its own; returns how long they took together.
async fn send(address: &str, path: &str, in_flight: u64) -> Duration {
    let mut connections = Vec::new();
    for _ in 0..in_flight {
        connections.push(TcpStream::connect(address).await.expect("a connection"));
    }
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let asked: Vec<_> =
        connections.into_iter().map(|stream| tokio::spawn(ask(stream, head.clone()))).collect();
    let mut sum = Duration::ZERO;
    for answer in asked {
        sum += answer.await.expect("no panic");
    }
    sum
}

/// Sends a request and reads the answer; returns how long that took.
async fn ask(stream: TcpStream, head: String) -> Duration {
    let start = Instant::now();
    let mut unsent = head.as_bytes();
    while !unsent.is_empty() {
        stream.writable().await.expect("open");
        unsent = &unsent[stream.try_write(unsent).unwrap_or(0)..];
    }
    let mut answer = Vec::new();
    loop {
        stream.readable().await.expect("open");
        let mut bytes = [0; 1024];
        match stream.try_read(&mut bytes) {
            Ok(0) => break,
            Ok(length) => answer.extend_from_slice(&bytes[..length]),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}"),
        }
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", String::from_utf8_lossy(&answer));
    start.elapsed()
}

/// The numbers of a route in what `flamelet requests --json` prints, which has a line for each.
fn numbers<const COUNT: usize>(json: &str, route: &str, names: [&str; COUNT]) -> [u64; COUNT] {
    let start = format!("{{\"route\": \"{route}\", \"method\": \"GET\", ");
    let line =
        json.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("{route}: {json}"));
    names.map(|name| {
        let (_, rest) = line.split_once(&format!("\"{name}\": ")).expect("the number is there");
        rest.split([',', '}']).next().and_then(|digits| digits.parse().ok()).expect("a number")
    })
}

/// Checks one route; returns whether the planted part is the largest.
fn is_as_planted((route, millis, planted): Planted, in_flight: u64) -> bool {
    let rounds = if in_flight == 1 { 5 } else { 1 };
    let example = Example::start(&[], &[]);
    let url = example.url("");
    let address = url.strip_prefix("http://").expect("an address");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let measured = runtime.block_on(async {
        let mut sum = Duration::ZERO;
        for _ in 0..rounds {
            sum += send(address, &format!("{route}?ms={millis}"), in_flight).await;
        }
        sum
    });
    let printed = run_flamelet(["requests", &url, "--json"]);
    assert_eq!(printed.status, Some(0), "{}", printed.stderr);
    let [count, wall] = numbers(&printed.stdout, route, ["count", "wall_ns"]);
    let parts = numbers(&printed.stdout, route, PARTS);
    println!("{route}, {in_flight} in flight: {wall} ns of {measured:?}, {PARTS:?}: {parts:?}");
    assert_eq!((count, parts.iter().sum()), (rounds * in_flight, wall), "{}", printed.stdout);
    let least = Duration::from_millis(count * millis);
    let wall = Duration::from_nanos(wall);
    assert!(least <= wall && wall <= measured, "{route}: {wall:?} is not in {least:?}..{measured:?}");
    let largest = PARTS.into_iter().zip(parts).max_by_key(|(_, nanos)| *nanos);
    largest.is_some_and(|(part, _)| part == planted)
}

#[test]
fn parts_add_up_and_the_planted_one_is_the_largest() {
    // Those of the example that are no connections.
    const OTHER_FILES: u64 = 100;
    let most = allow_files().saturating_sub(OTHER_FILES).max(1);
    let start = Instant::now();
    for in_flight in [1, 100, 1000] {
        for route in ROUTES {
            // Again where the machine had other things to do.
            while !is_as_planted(route, in_flight.min(most)) {
                assert!(start.elapsed() < DEADLINE, "{route:?} with {in_flight} in flight");
            }
        }
    }
}
