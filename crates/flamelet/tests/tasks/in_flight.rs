//! The four parts of requests with 1, 100 and 1,000 of them in flight.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::routing::get;
use tokio::sync::Semaphore;
use tower_service::Service;

use super::*;
use crate::requests::{number, thread_cpu};

/// How long an await lasts: much longer than it takes to poll a thousand tasks.
const LONG: Duration = Duration::from_millis(300);
/// What each request of the other routes does, for all threads together.
const SHORT: Duration = Duration::from_millis(1);

async fn awaits() {
    tokio::time::sleep(LONG).await;
}

async fn queues() {
    static PERMITS: Semaphore = Semaphore::const_new(1);
    let _permit = PERMITS.acquire().await.expect("open");
    tokio::time::sleep(SHORT).await;
}

async fn locks() {
    static LOCK: Mutex<()> = Mutex::new(());
    let _held = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::sleep(SHORT);
}

async fn blocks() {
    std::thread::sleep(SHORT);
}

async fn burns() {
    let start = thread_cpu();
    while thread_cpu() - start < SHORT {
        std::hint::black_box((0..1000u64).fold(0, |sum, number| std::hint::black_box(sum ^ number)));
    }
}

/// A route, and the parts in which its requests spend their time. Where they keep threads busy, others wait for a thread.
const ROUTES: [(&str, &str, &str); 5] = [
    ("/awaits", "awaiting_ns", "awaiting_ns"),
    ("/queues", "awaiting_ns", "awaiting_ns"),
    ("/locks", "blocked_ns", "runnable_ns"),
    ("/blocks", "blocked_ns", "runnable_ns"),
    ("/burns", "cpu_ns", "runnable_ns"),
];

const PARTS: [&str; 4] = ["cpu_ns", "blocked_ns", "awaiting_ns", "runnable_ns"];

/// Sends `rounds` times `in_flight` requests at once to a route; returns how long they took together, as they have
/// measured it.
async fn send(router: &Router, route: &'static str, in_flight: u32, rounds: u32) -> Duration {
    let mut sum = Duration::ZERO;
    for _ in 0..rounds {
        let mut requests = tokio::task::JoinSet::new();
        for _ in 0..in_flight {
            let mut router = router.clone();
            requests.spawn(async move {
                let request = Request::get(route).body(Body::empty()).expect("a request");
                let start = Instant::now();
                let answer = router.call(request).await.expect("never fails");
                assert_eq!(answer.status(), 200);
                start.elapsed()
            });
        }
        while let Some(took) = requests.join_next().await {
            sum += took.expect("no panic");
        }
    }
    sum
}

/// Checks one route; returns whether the planted part dominates, and the wall time is what the requests have measured.
fn is_as_planted((route, planted, when_busy): (&'static str, &str, &str), in_flight: u32) -> bool {
    let (profiler, runtime) = (profiler(), runtime());
    let router = Router::new()
        .route("/awaits", get(awaits))
        .route("/queues", get(queues))
        .route("/locks", get(locks))
        .route("/blocks", get(blocks))
        .route("/burns", get(burns))
        .layer(flamelet::axum::layer(&profiler));
    let rounds = if in_flight == 1 { 5 } else { 1 };
    let measured = runtime.block_on(send(&router, route, in_flight, rounds)).as_nanos() as u64;
    let json = profiler.requests_json();
    let [wall, count] = ["wall_ns", "count"].map(|name| number(&json, route, name));
    let parts = PARTS.map(|part| (part, number(&json, route, part)));
    let sum: u64 = parts.iter().map(|(_, nanos)| nanos).sum();
    assert_eq!((sum, count), (wall, u64::from(in_flight * rounds)), "{route}: {json}");
    assert!(wall <= measured, "{route}: {wall} ns of {measured} ns");
    let (largest, _) = parts.into_iter().max_by_key(|(_, nanos)| *nanos).expect("four parts");
    // Routing comes before the layer, and how long it takes depends on the machine.
    let routing = count * Duration::from_micros(200).as_nanos() as u64;
    let is_whole = measured - wall <= measured * 3 / 100 + routing;
    println!("{route}, {in_flight} in flight: {wall} ns of {measured} ns, {parts:?}");
    let expected = if in_flight == 1 { [planted, planted] } else { [planted, when_busy] };
    // Time without the CPU in the middle of work counts as blocked. Where other programs want the CPU, that may be most.
    let is_work = route == "/burns" && number(&json, route, "cpu_ns") >= count * SHORT.as_nanos() as u64;
    is_whole && (is_work || expected.contains(&largest))
}

#[test]
fn parts_add_up_and_the_planted_one_dominates() {
    let start = Instant::now();
    for in_flight in [1, 100, 1000] {
        for route in ROUTES {
            // Again where the machine had other things to do.
            while !is_as_planted(route, in_flight) {
                assert!(start.elapsed() < DEADLINE, "{route:?} with {in_flight} in flight");
            }
        }
    }
}
