//! `bench-collect HOST:PORT NAME SERVICES WINDOWS SECONDS END RATE`: made-up services push CPU profiles as Pyroscope's
//! agents do. Each of the services NAME-0, NAME-1 … pushes that many windows of that many seconds, the last of which ends at
//! END (Unix time), RATE profiles a second in all; 0 is as fast as the store accepts them. The first half of a service's
//! windows has the label `version="1"`, the other half `version="2"`.
//!
//! Prints the profiles, their bytes as sent, and the microseconds that sending took. All profiles exist before the first
//! is sent, so that only the store is measured.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bench_windows::SECOND;
use flamelet_remote::push::{PYROSCOPE_PATH, Protocol, Series};

/// Connections at the same time.
const SENDERS: usize = 4;
/// Windows that are different; services begin at different ones.
const DIFFERENT: u64 = 400;

struct Plan {
    address: String,
    name: String,
    services: u64,
    windows: u64,
    seconds: i64,
    end: i64,
    rate: u64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, name, numbers @ ..] = arguments.as_slice() else { usage() };
    let numbers: Vec<u64> = numbers.iter().filter_map(|number| number.parse().ok()).collect();
    let [services, windows, seconds, end, rate] = numbers[..] else { usage() };
    let (seconds, end) = (seconds as i64, end as i64);
    let plan = Plan { address: address.clone(), name: name.clone(), services, windows, seconds, end, rate };
    let bodies = bodies(&plan);
    let bytes: usize = bodies.iter().map(Vec::len).sum();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let (plan, bodies) = (&plan, &bodies);
            scope.spawn(move || send(plan, bodies, sender, start));
        }
    });
    println!("{} {bytes} {}", bodies.len(), start.elapsed().as_micros());
}

fn usage() -> ! {
    eprintln!("usage: bench-collect HOST:PORT NAME SERVICES WINDOWS SECONDS END RATE");
    std::process::exit(2);
}

/// Returns all requests, in the order of time.
fn bodies(plan: &Plan) -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    for window in 0..plan.windows {
        for service in 0..plan.services {
            let begin = plan.end - (plan.windows - window) as i64 * plan.seconds;
            let number = (window + service * 7) % DIFFERENT;
            let mut profile = bench_windows::window(number, begin * SECOND, plan.seconds * SECOND);
            profile.relabel_locations(|profile, id| {
                Some(bench_windows::names(profile.location(id).address))
            });
            let version = if window < plan.windows / 2 { "1" } else { "2" };
            let labels = [("version".to_owned(), version.to_owned())];
            let service = format!("{}-{service}", plan.name);
            let series = Series { name: "process_cpu", service: &service, labels: &labels };
            bodies.extend(Protocol::Pyroscope.bodies(&profile, &series).expect("a profile that can be sent"));
        }
    }
    bodies
}

/// Sends every [`SENDERS`]th request, each when its time has come.
fn send(plan: &Plan, bodies: &[Vec<u8>], sender: usize, start: Instant) {
    let mut stream = BufReader::new(TcpStream::connect(&plan.address).expect("the store listens"));
    for (at, body) in bodies.iter().enumerate().skip(sender).step_by(SENDERS) {
        if let Some(nanos) = (at as u64 * SECOND as u64).checked_div(plan.rate) {
            let due = start + Duration::from_nanos(nanos);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        let head = format!(
            "POST {PYROSCOPE_PATH} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/proto\r\nContent-Length: {}\r\n\r\n",
            plan.address,
            body.len()
        );
        stream.get_mut().write_all(&[head.as_bytes(), body].concat()).expect("sent");
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
