//! `bench-collect HOST:PORT NAME SERVICES WINDOWS SECONDS END RATE`: made-up services push CPU profiles as Pyroscope's
//! agents do. Each of the services NAME-0, NAME-1 … pushes that many windows of that many seconds, the last of which ends at
//! END (Unix time), RATE profiles a second in all; 0 is as fast as the store accepts them. The first half of a service's
//! windows has the label `version="1"`, the other half `version="2"`.
//!
//! Prints the profiles, their bytes as sent, and the microseconds that sending took. All windows are packed before the first
//! is sent, so that only the store is measured.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bench_windows::SECOND;
use flamelet_profile::pprof;
use flamelet_profile::protobuf::MessageWriter;
use flamelet_remote::push::PYROSCOPE_PATH;
use flate2::{Compression, GzBuilder};

/// Connections at the same time.
const SENDERS: usize = 4;
/// Windows that are different; services begin at different ones.
const DIFFERENT: u64 = 400;
/// The fields of a profile that say when it begins, and how long it is.
const TIME: u32 = 9;
const DURATION: u32 = 10;

struct Plan {
    address: String,
    name: String,
    services: u64,
    windows: u64,
    seconds: i64,
    end: i64,
    rate: u64,
}

/// Packed windows without their times: to pack each profile takes longer than to send it, and all of them have no room.
type Packed = BTreeMap<u64, Vec<u8>>;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, name, numbers @ ..] = arguments.as_slice() else { usage() };
    let numbers: Vec<u64> = numbers.iter().filter_map(|number| number.parse().ok()).collect();
    let [services, windows, seconds, end, rate] = numbers[..] else { usage() };
    let (seconds, end) = (seconds as i64, end as i64);
    let plan = Plan { address: address.clone(), name: name.clone(), services, windows, seconds, end, rate };
    let packed = pack(&plan);
    let (bytes, start) = (AtomicUsize::new(0), Instant::now());
    std::thread::scope(|scope| {
        for sender in 0..SENDERS as u64 {
            let (plan, packed, bytes) = (&plan, &packed, &bytes);
            scope.spawn(move || send(plan, packed, sender, start, bytes));
        }
    });
    println!("{} {} {}", services * windows, bytes.into_inner(), start.elapsed().as_micros());
}

fn usage() -> ! {
    eprintln!("usage: bench-collect HOST:PORT NAME SERVICES WINDOWS SECONDS END RATE");
    std::process::exit(2);
}

/// Returns the number of the window that a service has in its place.
fn number(window: u64, service: u64) -> u64 {
    (window + service * 7) % DIFFERENT
}

/// Packs the windows that are needed, with all cores.
fn pack(plan: &Plan) -> Packed {
    let needed = (0..plan.windows).flat_map(|window| (0..plan.services).map(move |one| number(window, one)));
    let needed: Vec<u64> = needed.collect::<std::collections::BTreeSet<u64>>().into_iter().collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let shares = needed.chunks(needed.len().div_ceil(cores).max(1));
        let packers: Vec<_> = shares
            .map(|share| scope.spawn(|| share.iter().map(|&number| (number, window(number))).collect()))
            .collect();
        packers.into_iter().flat_map(|packer| -> Vec<_> { packer.join().expect("packed") }).collect()
    })
}

/// Returns a window with the names of its functions and without its time.
fn window(number: u64) -> Vec<u8> {
    let mut profile = bench_windows::window(number, 0, 0);
    profile.relabel_locations(|profile, id| Some(bench_windows::names(profile.location(id).address)));
    gzip(&pprof::encode(&profile), Compression::new(5))
}

fn gzip(message: &[u8], level: Compression) -> Vec<u8> {
    let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), level);
    gzip.write_all(message).expect("memory");
    gzip.finish().expect("memory")
}

/// Returns the request of a window. Its time follows the rest in a part of its own: both formats, gzip and protobuf, allow
/// that.
fn body(plan: &Plan, packed: &Packed, window: u64, service: u64) -> Vec<u8> {
    let begin = plan.end - (plan.windows - window) as i64 * plan.seconds;
    let mut time = MessageWriter::default();
    time.int(TIME, begin * SECOND);
    time.int(DURATION, plan.seconds * SECOND);
    let time = gzip(time.as_bytes(), Compression::none());
    let profile = [packed[&number(window, service)].as_slice(), &time].concat();
    let name = format!("{}-{service}", plan.name);
    let version = if window < plan.windows / 2 { "1" } else { "2" };
    let labels =
        [("__delta__", "false"), ("__name__", "process_cpu"), ("service_name", &name), ("version", version)];
    let mut request = MessageWriter::with_capacity(profile.len() + 256);
    request.message(1, |series| {
        for (name, value) in labels {
            series.message(1, |label| {
                label.bytes(1, name.as_bytes());
                label.bytes(2, value.as_bytes());
            });
        }
        series.message(2, |sample| {
            sample.bytes(1, &profile);
            // A UUID, as agents have.
            let load: u16 = plan.name.bytes().map(u16::from).sum();
            let id = format!("{begin:08x}-{load:04x}-4000-8000-{service:012x}");
            sample.bytes(2, id.as_bytes());
        });
    });
    request.into_bytes()
}

/// Sends every [`SENDERS`]th profile in the order of time, each when its time has come.
fn send(plan: &Plan, packed: &Packed, sender: u64, start: Instant, bytes: &AtomicUsize) {
    let mut stream = BufReader::new(TcpStream::connect(&plan.address).expect("the store listens"));
    for at in (sender..plan.windows * plan.services).step_by(SENDERS) {
        let body = body(plan, packed, at / plan.services, at % plan.services);
        if let Some(nanos) = (at * SECOND as u64).checked_div(plan.rate) {
            let due = start + Duration::from_nanos(nanos);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        let head = format!(
            "POST {PYROSCOPE_PATH} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/proto\r\nContent-Length: {}\r\n\r\n",
            plan.address,
            body.len()
        );
        stream.get_mut().write_all(&[head.as_bytes(), &body].concat()).expect("sent");
        bytes.fetch_add(body.len(), Ordering::Relaxed);
        accepted(&mut stream);
    }
}

/// Reads an answer, which must be 200.
fn accepted(stream: &mut BufReader<TcpStream>) {
    let (mut status, mut length) = (String::new(), 0);
    stream.read_line(&mut status).expect("an answer");
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).expect("a header");
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().expect("a length");
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("a body");
    assert!(status.contains(" 200 "), "{status} {}", String::from_utf8_lossy(&body));
}
