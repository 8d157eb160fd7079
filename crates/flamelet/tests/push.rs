//! A service pushes its history over real connections, to receivers with every fault: all of it arrives.

#[path = "support/requests.rs"]
mod requests;

use flamelet::{ErrorKind, History, Profile, Profiler, ProfilerBuilder, Push};
use flamelet_capture::profile::{Budget, Limits, pprof};
use flamelet_store::{Query, Reader};
use requests::{Request, field, read_request};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(180);

/// What the receiver does with a request.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Closes the connection without reading.
    Reset,
    /// Reads a part of the request.
    ResetHalfWay,
    Status(u16),
    /// Takes the request and closes the connection without an answer.
    TakenThenReset,
    /// Takes the request and says nothing until the client gives up.
    TakenThenSilent,
    /// Takes the request, and answers byte by byte.
    TakenSlowly,
    /// Takes the request, and answers with garbage.
    TakenThenGarbage,
    /// Takes the request, and answers without end.
    TakenThenEndless,
}

#[derive(Clone, Default)]
struct Receiver {
    taken: Arc<Mutex<Vec<Request>>>,
    /// What to do with the next requests; every other one is answered well.
    faults: Arc<Mutex<Vec<Fault>>>,
}

impl Receiver {
    /// Starts to listen, and returns the address.
    fn start(&self, answer: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let receiver = self.clone();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let fault =
                    (number % 2 == 0).then(|| receiver.faults.lock().expect("no panic").pop()).flatten();
                let receiver = receiver.clone();
                std::thread::spawn(move || receiver.serve(stream, fault, answer));
            }
        });
        address
    }

    fn serve(&self, mut stream: TcpStream, fault: Option<Fault>, answer: &[u8]) {
        match fault {
            Some(Fault::Reset) => return,
            Some(Fault::ResetHalfWay) => {
                let _ = stream.read(&mut [0; 100]);
                return;
            }
            _ => {}
        }
        let Some(request) = read_request(&mut stream) else { return };
        let status = match fault {
            Some(Fault::Status(status)) => status,
            _ => 200,
        };
        if status == 200 {
            self.taken.lock().expect("no panic").push(request);
        }
        let head =
            format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", answer.len());
        let whole = [head.as_bytes(), answer].concat();
        // The client may have given up.
        let _ = match fault {
            Some(Fault::TakenThenReset) => Ok(()),
            Some(Fault::TakenThenSilent) => stream.read(&mut [0; 1]).map(drop),
            Some(Fault::TakenSlowly) => whole.chunks(1).try_for_each(|byte| stream.write_all(byte)),
            Some(Fault::TakenThenGarbage) => stream.write_all(&[0xff; 5000]),
            Some(Fault::TakenThenEndless) => stream
                .write_all(b"HTTP/1.1 200 X\r\n\r\n")
                .and_then(|()| std::iter::repeat(()).try_for_each(|()| stream.write_all(&[b'x'; 4096]))),
            _ => stream.write_all(&whole),
        };
    }

    fn taken(&self) -> Vec<Request> {
        self.taken.lock().expect("no panic").clone()
    }
}

#[inline(never)]
fn spin_and_push(duration: Duration) {
    let end = Instant::now() + duration;
    let mut state = 1u64;
    while Instant::now() < end {
        for _ in 0..10_000 {
            state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

/// Returns a builder whose profiler sends everything before it ends, however slow the machine is.
fn profiler_of_the_night() -> ProfilerBuilder {
    Profiler::builder().name("night").overhead_budget(None).shutdown_timeout(DEADLINE)
}

fn history(folder: &std::path::Path) -> History {
    History::new(folder).window(Duration::from_millis(200)).frequency(200)
}

/// Returns the total of all that is in a history.
fn total_on_disk(folder: &std::path::Path) -> i64 {
    let query = Query::new("cpu", i64::MIN, i64::MAX);
    let read = Reader::open(folder).and_then(|reader| reader.profile(&query, &Budget::new(Limits::SERVICE)));
    read.expect("read").0.map_or(0, |profile| profile.total(1))
}

#[track_caller]
fn spin_until(is_so: impl Fn() -> bool) {
    let patience = Instant::now();
    while !is_so() {
        assert!(patience.elapsed() < DEADLINE, "it did not happen");
        spin_and_push(Duration::from_millis(100));
    }
}

#[test]
fn everything_arrives_whatever_the_receiver_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let receiver = Receiver::default();
    *receiver.faults.lock().expect("no panic") = vec![
        Fault::TakenThenEndless,
        Fault::TakenThenGarbage,
        Fault::TakenSlowly,
        Fault::TakenThenReset,
        Fault::Status(500),
        Fault::TakenThenSilent,
        Fault::Status(429),
        Fault::ResetHalfWay,
        Fault::Reset,
    ];
    let address = receiver.start(b"");
    let push = Push::pyroscope(&address).tenant("team").label("zone", "b").timeout(Duration::from_secs(2));
    let profiler = profiler_of_the_night().label("region", "north");
    let profiler = profiler.history(history(folder.path())).push(push).start().expect("started");
    spin_until(|| {
        let metrics = profiler.metrics();
        let is_over = receiver.faults.lock().expect("no panic").is_empty();
        is_over && metrics.pushed >= 15
    });
    let metrics = profiler.metrics();
    assert!(metrics.push_retries >= 5, "{metrics:?}");
    assert_eq!(metrics.push_dropped, 0);
    // The end sends the last window, too.
    drop(profiler);
    let mut unique: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut names = String::new();
    for request in receiver.taken() {
        assert_eq!(request.path, "/push.v1.PusherService/Push");
        assert_eq!(request.headers["x-scope-orgid"], "team");
        assert_eq!(request.headers["content-type"], "application/proto");
        let sample = field(&field(&request.body, 1), 2);
        let known = unique.insert(field(&sample, 2), request.body.clone());
        assert!(known.is_none_or(|known| known == request.body), "a repeated request is the same");
        let profile = pprof::read(&field(&sample, 1), &Limits::SERVICE).expect("pprof");
        names.extend(profile.functions().iter().map(|function| profile.string(function.name)));
    }
    assert!(names.contains("spin_and_push"), "profiles are sent with names");
    let labels = String::from_utf8_lossy(&field(unique.values().next().expect("one"), 1)).into_owned();
    for label in ["__name__", "process_cpu", "service_name", "night", "zone", "__delta__"] {
        assert!(labels.contains(label), "{label}");
    }
    let arrived: i64 = unique.values().map(|body| profile_of(body).total(1)).sum();
    assert_eq!(arrived, total_on_disk(folder.path()), "what is on the disk has arrived, once");
}

fn profile_of(body: &[u8]) -> Profile {
    pprof::read(&field(&field(&field(body, 1), 2), 1), &Limits::SERVICE).expect("pprof")
}

#[test]
fn parca_and_otlp_get_the_same_windows() {
    let folder = tempfile::tempdir().expect("a folder");
    let (parca, otlp) = (Receiver::default(), Receiver::default());
    let parca_address = parca.start(b"\0\0\0\0\0\x80\0\0\0\x0fgrpc-status: 0\r\n");
    let otlp_address = otlp.start(b"");
    let profiler = profiler_of_the_night()
        .history(history(folder.path()))
        .push(Push::parca(parca_address).token("secret"))
        .push(Push::otlp(otlp_address))
        .start()
        .expect("started");
    spin_until(|| profiler.metrics().pushed >= 10);
    drop(profiler);
    let on_disk = total_on_disk(folder.path());
    let mut total = 0;
    for request in parca.taken() {
        assert_eq!(request.headers["authorization"], "Bearer secret");
        assert_eq!(request.headers["content-type"], "application/grpc-web+proto");
        let raw = field(&field(&field(&request.body[5..], 2), 2), 1);
        total += pprof::read(&raw, &Limits::SERVICE).expect("pprof").total(1);
    }
    assert_eq!(total, on_disk);
    for request in otlp.taken() {
        assert_eq!(request.path, "/v1development/profiles");
        assert_eq!(request.headers["content-encoding"], "gzip");
    }
    assert_eq!(otlp.taken().len(), parca.taken().len());
}

#[test]
fn two_receivers_at_one_address_get_everything_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let receiver = Receiver::default();
    let address = receiver.start(b"");
    let push = |tenant: &str| Push::pyroscope(&address).tenant(tenant);
    let profiler = || profiler_of_the_night().history(history(folder.path()));
    let twice = profiler().push(push("north")).push(push("north").token("other")).start();
    let error = twice.expect_err("the same receiver");
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(error.to_string().contains("is named twice"), "{error}");
    // The same tenant twice, but with labels that distinguish the series.
    let zoned = push("north").label("zone", "b");
    let profiler = profiler().push(push("north")).push(push("south")).push(zoned).start().expect("started");
    spin_until(|| profiler.metrics().pushed >= 15);
    drop(profiler);
    let on_disk = total_on_disk(folder.path());
    let total = |is_theirs: &dyn Fn(&Request) -> bool| {
        let taken = receiver.taken();
        taken.iter().filter(|request| is_theirs(request)).map(|it| profile_of(&it.body).total(1)).sum::<i64>()
    };
    let is_zoned = |request: &Request| String::from_utf8_lossy(&request.body).contains("zone");
    let is_of = |request: &Request, tenant: &str| request.headers["x-scope-orgid"] == tenant;
    assert_eq!(total(&|request| is_of(request, "south")), on_disk);
    assert_eq!(total(&|request| is_of(request, "north") && is_zoned(request)), on_disk);
    assert_eq!(total(&|request| is_of(request, "north") && !is_zoned(request)), on_disk);
}

#[test]
fn a_login_page_is_not_a_receiver() {
    let folder = tempfile::tempdir().expect("a folder");
    let receiver = Receiver::default();
    // A page without a content type, as the answer to each request.
    let address = receiver.start(b"<html>sign in</html>");
    let profiler = profiler_of_the_night().history(history(folder.path()));
    let profiler = profiler.push(Push::pyroscope(&address)).start().expect("started");
    spin_until(|| profiler.metrics().push_retries >= 2);
    let metrics = profiler.metrics();
    assert_eq!((metrics.pushed, metrics.push_dropped), (0, 0), "nothing counts as sent");
}

#[test]
fn a_push_that_cannot_work_is_refused_at_the_start() {
    let without = Profiler::builder().push(Push::pyroscope("http://localhost:1")).start();
    let error = without.expect_err("no history");
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(error.to_string().contains(".history("), "{error}");
    let folder = tempfile::tempdir().expect("a folder");
    for bad in ["localhost:4040", "http://", "http://a b", "ftp://a"] {
        let started = Profiler::builder().history(history(folder.path())).push(Push::otlp(bad)).start();
        assert_eq!(started.expect_err(bad).kind(), ErrorKind::InvalidOption);
    }
}
