//! Accepts connections: a limited number, and none that waits forever for its request.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// What every connection of HTTP/2 begins with.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How often it is asked whether to stop.
const LOOK: Duration = Duration::from_millis(100);
/// How long to wait after a connection could not be accepted (there are too many open files), and for the rest of the
/// first bytes.
const PAUSE: Duration = Duration::from_millis(20);
/// How many times as long as a head a connection may be without requests. (Those of HTTP/1 end after one head.)
const IDLE: u32 = 6;

/// What connections may take.
#[derive(Clone, Copy)]
pub(super) struct Connections {
    /// How many there may be; others wait.
    pub(super) most: usize,
    /// How long the head of a request may take, beginning with the connection or the answer before.
    pub(super) head: Duration,
}

/// Serves until `is_over` returns true.
pub(super) async fn listen(
    listener: TcpListener,
    router: Router,
    connections: Connections,
    is_over: impl Fn() -> bool,
) {
    let places = Arc::new(Semaphore::new(connections.most));
    while !is_over() {
        let Ok(Ok(place)) = timeout(LOOK, places.clone().acquire_owned()).await else { continue };
        let stream = match timeout(LOOK, listener.accept()).await {
            Ok(Ok((stream, _))) => stream,
            Ok(Err(_)) => {
                sleep(PAUSE).await;
                continue;
            }
            Err(_) => continue,
        };
        let router = router.clone();
        tokio::spawn(async move {
            serve(stream, router, connections.head).await;
            drop(place);
        });
    }
}

async fn serve(stream: TcpStream, router: Router, head: Duration) {
    let Ok(Some(is_http2)) = timeout(head, is_http2(&stream)).await else { return };
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head);
    // A peer that is gone does not answer a ping.
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(head * 3).keep_alive_timeout(head);
    let builder = if is_http2 { builder.http2_only() } else { builder.http1_only() };
    let (requests, service) = (Arc::new(ConnectionRequests::default()), TowerToHyperService::new(router));
    let counted = service_fn({
        let requests = requests.clone();
        move |request| {
            let (running, answer) = (requests.clone().begin(), service.call(request));
            async move {
                let answer = answer.await;
                answer.map(|answer| answer.map(|body| CountedBody { body, _running: running }))
            }
        }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), counted));
    let mut before = 0;
    // A connection that fails is its peer's problem.
    while timeout(head * IDLE, connection.as_mut()).await.is_err() {
        let begun = requests.begun.load(Ordering::Relaxed);
        if begun == before && requests.running.load(Ordering::Relaxed) == 0 {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(head, connection).await;
            return;
        }
        before = begun;
    }
}

/// The requests of a connection. One that has none for a while gives up its place, even if its peer answers pings.
#[derive(Default)]
struct ConnectionRequests {
    begun: AtomicUsize,
    running: AtomicUsize,
}

impl ConnectionRequests {
    fn begin(self: Arc<Self>) -> RequestInWork {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.running.fetch_add(1, Ordering::Relaxed);
        RequestInWork(self)
    }
}

/// A request whose answer is not sent yet.
struct RequestInWork(Arc<ConnectionRequests>);

impl Drop for RequestInWork {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of an answer; its request lasts until it is sent.
struct CountedBody {
    body: Body,
    _running: RequestInWork,
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns whether a connection begins as HTTP/2 does; `None` if it ends before. (The builder would wait for these bytes
/// without a limit.)
async fn is_http2(stream: &TcpStream) -> Option<bool> {
    let mut bytes = [0; PREFACE.len()];
    loop {
        let length = stream.peek(&mut bytes).await.ok().filter(|length| *length > 0)?;
        match bytes[..length] == PREFACE[..length] {
            true if length < PREFACE.len() => sleep(PAUSE).await,
            is_http2 => return Some(is_http2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// Types of frames of HTTP/2.
    const SETTINGS: u8 = 4;
    const PING: u8 = 6;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        [&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, 0][..], payload].concat()
    }

    fn ends_although_it_answers_pings(mut stream: std::net::TcpStream) -> bool {
        const ACK: u8 = 1;
        let mut pings = 0;
        let mut head = [0; 9];
        while stream.read_exact(&mut head).is_ok() {
            let mut payload = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
            if stream.read_exact(&mut payload).is_err() {
                return true;
            }
            if head[3] == PING && head[4] != ACK {
                pings += 1;
                // The server may have closed it meanwhile.
                let _ = stream.write_all(&frame(PING, ACK, &payload));
            }
            if pings > 30 {
                return false;
            }
        }
        true
    }

    #[test]
    fn connections_that_say_nothing_make_room_for_others() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        listener.set_nonblocking(true).expect("set");
        let (is_over, over) =
            (Arc::new(std::sync::atomic::AtomicBool::new(false)), std::sync::atomic::Ordering::SeqCst);
        let stop = is_over.clone();
        let server = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let listener = TcpListener::from_std(listener).expect("a listener");
                let router = Router::new().fallback(|| async { "answered" });
                let connections = Connections { most: 4, head: Duration::from_millis(300) };
                listen(listener, router, connections, move || stop.load(over)).await;
            });
        });
        let connect = |begin: &[u8]| {
            let mut stream = std::net::TcpStream::connect(address).expect("connected");
            stream.set_read_timeout(Some(Duration::from_secs(120))).expect("set");
            stream.write_all(begin).expect("sent");
            stream
        };
        // This one answers pings and asks for nothing.
        let idle = connect(&[&PREFACE[..], &frame(SETTINGS, 0, &[])].concat());
        let mut slow = [&b""[..], b"P", b"GET / HTTP/1.1\r\nHost: local"].map(connect);
        // There is no place for it until one of the others is closed.
        let mut asking = connect(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let mut answer = String::new();
        asking.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("answered"), "{answer}");
        for stream in &mut slow {
            let ended = stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
            assert!(matches!(ended, Ok(_) | Err(std::io::ErrorKind::ConnectionReset)), "{ended:?}");
        }
        assert!(ends_although_it_answers_pings(idle), "a connection without requests keeps its place");
        is_over.store(true, over);
        server.join().expect("no panic");
    }
}
