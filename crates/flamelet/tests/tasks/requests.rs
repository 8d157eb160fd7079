//! The anatomy of requests: four parts that add up, and the planted one dominates.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use axum::Router;
use axum::routing::get;

use super::*;

/// The CPU time that the handlers themselves have measured.
static BURNT: AtomicU64 = AtomicU64::new(0);
static BURNT_INSIDE: AtomicU64 = AtomicU64::new(0);

async fn awaits() {
    tokio::time::sleep(WAIT).await;
}

async fn blocks() {
    std::thread::sleep(WAIT);
}

/// Burns in a task of its own, inside of the request's.
async fn nests() {
    flamelet::task("inside of a request", burn(&BURNT_INSIDE)).await;
}

async fn burns() {
    burn(&BURNT).await;
}

async fn burn(burnt: &AtomicU64) {
    let start = thread_cpu();
    while thread_cpu() - start < WAIT {
        std::hint::black_box((0..1000u64).fold(0, |sum, number| std::hint::black_box(sum ^ number)));
    }
    burnt.fetch_add((thread_cpu() - start).as_nanos() as u64, Ordering::Relaxed);
}

async fn fails() -> axum::http::StatusCode {
    axum::http::StatusCode::INTERNAL_SERVER_ERROR
}

#[allow(unsafe_code, reason = "reads a clock")]
pub(crate) fn thread_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to the `timespec` above.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Sends a request and returns the body of the answer.
fn ask(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text.split_once("\r\n\r\n").expect("a head").1.to_owned()
}

/// A number of a route, out of the JSON that is one line for each route.
#[track_caller]
pub(crate) fn number(json: &str, route: &str, name: &str) -> u64 {
    let start = format!("{{\"route\": \"{route}\", ");
    let line =
        json.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("{route}: {json}"));
    let (_, rest) = line.split_once(&format!("\"{name}\": ")).expect("the number is there");
    rest.split([',', '}']).next().and_then(|digits| digits.parse().ok()).expect("a number")
}

#[test]
fn four_parts_add_up_and_the_planted_one_dominates() {
    let (profiler, runtime) = (profiler(), runtime());
    let app = Router::new()
        .route("/awaits/{id}", get(awaits))
        .route("/blocks", get(blocks))
        .route("/burns", get(burns))
        .route("/nests", get(nests))
        .route("/fails", get(fails))
        .layer(flamelet::axum::layer(&profiler))
        .merge(flamelet::axum::router(profiler.clone()));
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
    let address = listener.local_addr().expect("bound");
    runtime.spawn(async move { axum::serve(listener, app).await });
    std::thread::scope(|scope| {
        for client in 0..4 {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    ask(address, &format!("/awaits/{client}-{round}"));
                    ask(address, "/blocks");
                    ask(address, "/burns");
                    ask(address, "/nests");
                    ask(address, "/fails");
                    ask(address, &format!("/nothing/{client}-{round}"));
                }
            });
        }
    });
    let json = ask(address, "/debug/pprof/requests");
    assert_eq!(json, profiler.requests_json());
    let requests = u64::from(4 * ROUNDS);
    for route in ["/awaits/{id}", "/blocks", "/burns", "/nests", "/fails"] {
        assert_eq!(number(&json, route, "count"), requests, "{route}: {json}");
        let parts =
            ["cpu_ns", "blocked_ns", "awaiting_ns", "runnable_ns"].map(|part| number(&json, route, part));
        assert_eq!(number(&json, route, "wall_ns"), parts.iter().sum::<u64>(), "{route}: {json}");
    }
    let least = WAIT.as_nanos() as u64 * requests;
    // The timer runs from some moment of the poll that makes it.
    let awaiting = ["awaiting_ns", "cpu_ns", "blocked_ns"].map(|part| number(&json, "/awaits/{id}", part));
    assert!(awaiting[0] > 0 && awaiting.iter().sum::<u64>() >= least, "{json}");
    assert!(number(&json, "/blocks", "blocked_ns") >= least, "{json}");
    assert_eq!(number(&json, "/blocks", "awaiting_ns"), 0, "{json}");
    for (route, burnt) in [("/burns", &BURNT), ("/nests", &BURNT_INSIDE)] {
        let burnt = burnt.load(Ordering::Relaxed);
        assert!(burnt >= least && number(&json, route, "cpu_ns") >= burnt, "{burnt}: {json}");
    }
    assert_eq!(number(&json, "/fails", "errors"), requests, "{json}");
    assert!(!json.contains("/nothing/"), "paths are no routes: {json}");
    // Each part leads to its profile.
    let awaits = profiler.awaits();
    let is_part = |name: &str, value: &str| has_label(&awaits, "requests::awaits", name, value);
    assert!(is_part("part", "awaiting") && is_part("route", "/awaits/{id}"), "{awaits:?}");
}

type Answer = Result<axum::http::Response<()>, std::convert::Infallible>;
type Answering = std::pin::Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A service that does the same with each request.
struct Always(fn() -> Answering);

impl tower_service::Service<axum::http::Request<()>> for Always {
    type Response = axum::http::Response<()>;
    type Error = std::convert::Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: axum::http::Request<()>) -> Answering {
        (self.0)()
    }
}

/// Begins a request to a service under the layer.
fn begin(
    profiler: &Profiler,
    route: fn(&axum::http::Extensions) -> Option<&str>,
    answer: fn() -> Answering,
) -> flamelet::requests::Answering<Answering> {
    use tower_layer::Layer;
    use tower_service::Service;

    let layer = flamelet::requests::RequestLayer::new(profiler, route);
    layer.layer(Always(answer)).call(axum::http::Request::new(()))
}

/// A request whose client hangs up is counted as such, and not among the others.
#[test]
fn a_request_that_is_dropped_is_cancelled() {
    let profiler = profiler();
    let answering = begin(&profiler, |_| Some("/never"), || Box::pin(std::future::pending()));
    assert!(flamelet::tasks::all().iter().any(|task| task.name == "GET /never"));
    drop(answering);
    let json = profiler.requests_json();
    assert_eq!((number(&json, "/never", "count"), number(&json, "/never", "cancelled")), (0, 1));
    assert!(!flamelet::tasks::all().iter().any(|task| task.name == "GET /never"));
}

/// The client of a request whose handler panics gets no answer, but it has not gone away.
#[test]
fn a_request_that_panics_is_an_error_with_its_time() {
    let profiler = profiler();
    let panics = || -> Answering {
        Box::pin(async {
            burn(&AtomicU64::new(0)).await;
            panic!("as planned")
        })
    };
    let mut answering = Box::pin(begin(&profiler, |_| Some("/panics"), panics));
    let polled = std::thread::spawn(move || {
        let mut context = Context::from_waker(Waker::noop());
        drop(answering.as_mut().poll(&mut context));
    });
    assert!(polled.join().is_err());
    let json = profiler.requests_json();
    let counts = ["count", "errors", "cancelled"].map(|what| number(&json, "/panics", what));
    assert_eq!(counts, [1, 1, 0], "{json}");
    let parts = ["wall_ns", "cpu_ns"].map(|part| number(&json, "/panics", part));
    assert!(parts.iter().all(|part| *part >= WAIT.as_nanos() as u64), "until it panicked: {json}");
    assert!(!flamelet::tasks::all().iter().any(|task| task.name == "GET /panics"));
}
