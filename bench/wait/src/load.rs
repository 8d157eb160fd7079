//! The load: requests on a number of connections, as fast as they are answered or at a rate.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const REQUEST: &[u8] = b"GET /work/7 HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Asks for `time`, on one thread; prints how many answers there were and how long they took. A `rate` of 0 is as fast as
/// possible; otherwise a latency counts from when the request was due.
pub(crate) fn run(address: SocketAddr, connections: u32, time: Duration, rate: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let start = Instant::now();
    let mut times: Vec<u64> = runtime.block_on(async {
        let (start, next) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let ask = |_| tokio::spawn(connection(address, start, time, rate, next.clone()));
        let tasks: Vec<_> = (0..connections).map(ask).collect();
        let mut times = Vec::new();
        for task in tasks {
            times.extend(task.await.expect("no panic"));
        }
        times
    });
    let seconds = start.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |part: f64| times.get((times.len() as f64 * part) as usize).copied().unwrap_or(0) as f64 / 1e3;
    println!(
        "{{\"requests\":{},\"seconds\":{seconds:.4},\"rate\":{:.1},\"p50_us\":{:.1},\"p99_us\":{:.1}}}",
        times.len(),
        times.len() as f64 / seconds,
        at(0.5),
        at(0.99),
    );
}

/// One connection; returns the nanoseconds of each answer.
async fn connection(
    address: SocketAddr,
    start: Instant,
    time: Duration,
    rate: u32,
    next: Arc<AtomicU64>,
) -> Vec<u64> {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.set_nodelay(true).expect("a socket");
    let (mut times, mut buffer) = (Vec::new(), vec![0; 16 << 10]);
    loop {
        let mut due = Instant::now();
        if rate > 0 {
            let number = next.fetch_add(1, Ordering::Relaxed);
            due = start + Duration::from_secs_f64(number as f64 / f64::from(rate));
            tokio::time::sleep_until(due.into()).await;
        }
        if start.elapsed() >= time {
            return times;
        }
        stream.write_all(REQUEST).await.expect("sent");
        read_answer(&mut stream, &mut buffer).await;
        times.push(due.elapsed().as_nanos() as u64);
    }
}

async fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) {
    let mut length = 0;
    loop {
        let read = stream.read(&mut buffer[length..]).await.expect("an answer");
        assert!(read > 0, "the service has closed the connection");
        length += read;
        if is_whole(&buffer[..length]) {
            return;
        }
    }
}

fn is_whole(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let head = std::str::from_utf8(&bytes[..end]).expect("text");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.and_then(|length| length.parse().ok()).expect("a length");
    bytes.len() >= end + 4 + length
}
