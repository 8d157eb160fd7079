//! Accepts connections: a limited number, and none that waits forever for its request.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, Request, Response, header};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::answer::text;
use super::tls::{Certificate, HTTP2, is_tls};

/// What every connection of HTTP/2 begins with.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How often to check whether to stop.
const LOOK: Duration = Duration::from_millis(100);
/// How long to wait after a connection could not be accepted (there are too many open files), and for the rest of the
/// first bytes.
const PAUSE: Duration = Duration::from_millis(20);
/// How many times as long as one head may take a connection may stay without requests. (Those of HTTP/1 end after one.)
const IDLE: u32 = 6;
/// Answers are handed over in parts of this size: what was handed over counts as taken by the peer, which may be slow.
const PART: usize = 64 << 10;
/// Answers up to this size are not counted: a connection itself takes as much.
const SMALL: usize = 16 << 10;

/// What connections may take.
#[derive(Clone, Copy)]
pub(super) struct Connections {
    /// How many there may be; others wait.
    pub(super) most: usize,
    /// How long the head of a request may take, beginning with the connection or the answer before.
    pub(super) head: Duration,
    /// How long nothing may move on a connection with a request: its body may be long, and so may the work on it, but a
    /// peer that takes no answer keeps a place from others.
    pub(super) stuck: Duration,
    /// How many bytes of answers may wait for slow peers. Then there are no others but small ones.
    pub(super) unread: usize,
}

/// Serves until `is_over` returns true, over TLS if there is a certificate. `note` tells the user something.
pub(super) async fn listen(
    listener: TcpListener,
    router: Router,
    connections: Connections,
    certificate: Option<Certificate>,
    note: impl Fn(&str),
    is_over: impl Fn() -> bool,
) {
    let places = Arc::new(Semaphore::new(connections.most));
    let unread = UnreadBytes { waiting: Arc::default(), most: connections.unread };
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
        let (router, unread) = (router.clone(), unread.clone());
        let acceptor = certificate.as_ref().map(|certificate| certificate.acceptor(&note));
        tokio::spawn(async move {
            match acceptor {
                Some(acceptor) => serve_over_tls(stream, &acceptor, router, connections, unread).await,
                None => serve_plain(stream, router, connections, unread).await,
            };
            drop(place);
        });
    }
}

async fn serve_plain(
    stream: TcpStream,
    router: Router,
    connections: Connections,
    unread: UnreadBytes,
) -> Option<()> {
    let is_http2 = timeout(connections.head, is_http2(&stream)).await.ok()??;
    serve(TokioIo::new(stream), is_http2, router, connections, unread).await;
    Some(())
}

/// Serves a connection with TLS, whose handshake says which version of HTTP comes. A handshake that fails is its peer's
/// problem.
async fn serve_over_tls(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    router: Router,
    connections: Connections,
    unread: UnreadBytes,
) -> Option<()> {
    let handshake = async {
        match is_tls(&stream).await {
            Ok(true) => acceptor.accept(stream).await.ok(),
            _ => None,
        }
    };
    let stream = timeout(connections.head, handshake).await.ok()??;
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
    serve(TokioIo::new(stream), is_http2, router, connections, unread).await;
    Some(())
}

async fn serve<S>(stream: S, is_http2: bool, router: Router, connections: Connections, unread: UnreadBytes)
where
    S: Read + Write + Unpin + Send + 'static,
{
    let Connections { head, stuck, .. } = connections;
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head);
    // A peer that is gone does not answer a ping.
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(head * 3).keep_alive_timeout(head);
    let builder = if is_http2 { builder.http2_only() } else { builder.http1_only() };
    let (requests, service) = (Arc::new(ConnectionRequests::default()), TowerToHyperService::new(router));
    let counted = service_fn({
        let requests = requests.clone();
        move |mut request| {
            name_host(&mut request);
            let (running, answer) = (requests.clone().begin(), service.call(request));
            let unread = unread.clone();
            async move {
                let (answer, unread) = unread.count(answer.await?);
                let counted = |body| CountedBody { body, rest: Bytes::new(), unread, running };
                Ok::<_, Infallible>(answer.map(counted))
            }
        }
    });
    let mut connection = pin!(builder.serve_connection(stream, counted));
    let (mut before, mut still) = (0, Duration::ZERO);
    // A connection that fails is its peer's problem.
    while timeout(head * IDLE, connection.as_mut()).await.is_err() {
        let moved = requests.moved.load(Ordering::Relaxed);
        still = if moved == before { still + head * IDLE } else { Duration::ZERO };
        let is_idle = !still.is_zero() && requests.running.load(Ordering::Relaxed) == 0;
        if is_idle || still >= stuck {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(head, connection).await;
            return;
        }
        before = moved;
    }
}

/// Adds the header that says which host is asked. HTTP/2 has it in the address.
fn name_host(request: &mut Request<Incoming>) {
    let host = request.uri().authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok());
    if let Some(host) = host.filter(|_| !request.headers().contains_key(header::HOST)) {
        request.headers_mut().insert(header::HOST, host);
    }
}

/// The requests of a connection. One that has none for a while gives up its place, even if its peer answers pings.
#[derive(Default)]
struct ConnectionRequests {
    /// Requests that began, and parts of answers that were taken.
    moved: AtomicUsize,
    running: AtomicUsize,
}

impl ConnectionRequests {
    fn begin(self: Arc<Self>) -> RequestInWork {
        self.moved.fetch_add(1, Ordering::Relaxed);
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

/// The bytes of answers that wait for slow peers, on all connections.
#[derive(Clone)]
struct UnreadBytes {
    waiting: Arc<AtomicUsize>,
    most: usize,
}

impl UnreadBytes {
    /// Counts an answer, which becomes a refusal if too much is waiting already. A single one may have any size.
    fn count(&self, answer: Response<Body>) -> (Response<Body>, Option<UnreadAnswer>) {
        let size = usize::try_from(answer.body().size_hint().lower()).unwrap_or(usize::MAX);
        if size <= SMALL {
            return (answer, None);
        }
        let more = |waiting: usize| {
            let sum = waiting.saturating_add(size);
            (waiting == 0 || sum <= self.most).then_some(sum)
        };
        match self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => (answer, Some(UnreadAnswer { all: self.waiting.clone(), size })),
            Err(_) => {
                let why = "too many answers wait for slow clients; ask again later\n";
                (text(503, why.to_owned()), None)
            }
        }
    }
}

/// An answer that counts as waiting.
struct UnreadAnswer {
    all: Arc<AtomicUsize>,
    size: usize,
}

impl Drop for UnreadAnswer {
    fn drop(&mut self) {
        self.all.fetch_sub(self.size, Ordering::Relaxed);
    }
}

/// The bytes of an answer, which counts until the last of them was sent.
struct UnreadPart {
    bytes: Bytes,
    _answer: Option<UnreadAnswer>,
}

impl AsRef<[u8]> for UnreadPart {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The body of an answer; its request lasts until it is sent.
struct CountedBody {
    body: Body,
    /// What the body has produced and the connection has not taken.
    rest: Bytes,
    unread: Option<UnreadAnswer>,
    running: RequestInWork,
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)).transpose()? {
                Some(frame) => frame.into_data(),
                None => return Poll::Ready(None),
            };
            match frame {
                Ok(bytes) => {
                    let _answer = self.unread.take();
                    self.rest = Bytes::from_owner(UnreadPart { bytes, _answer });
                }
                Err(other) => return Poll::Ready(Some(Ok(other))),
            }
        }
        self.running.0.moved.fetch_add(1, Ordering::Relaxed);
        let length = self.rest.len().min(PART);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut sum = SizeHint::new();
        sum.set_lower(hint.lower().saturating_add(rest));
        if let Some(upper) = hint.upper() {
            sum.set_upper(upper.saturating_add(rest));
        }
        sum
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
    use super::super::tls::HANDSHAKE;
    use super::*;
    use axum::routing::get;
    use std::io::{ErrorKind, Read as _, Write as _};
    use std::net::SocketAddr;
    use std::sync::atomic::AtomicBool;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::CertificateDer;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

    /// More than the system takes for a peer that reads nothing.
    const LARGE: usize = 64 << 20;
    const ASK_FOR_LARGE: &[u8] = b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

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

    /// Serves with four places while `work` runs, which gets the address.
    fn serve_while(certificate: Option<Certificate>, work: impl FnOnce(SocketAddr)) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        listener.set_nonblocking(true).expect("set");
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = is_over.clone();
        let server = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let listener = TcpListener::from_std(listener).expect("a listener");
                let large = || async { vec![b'a'; LARGE] };
                let router = Router::new().route("/large", get(large)).fallback(|| async { "answered" });
                let (head, stuck) = (Duration::from_millis(300), Duration::from_secs(2));
                let connections = Connections { most: 4, head, stuck, unread: LARGE };
                let is_over = move || stop.load(Ordering::SeqCst);
                listen(listener, router, connections, certificate, |_| {}, is_over).await;
            });
        });
        work(address);
        is_over.store(true, Ordering::SeqCst);
        server.join().expect("no panic");
    }

    fn connect(address: SocketAddr, begin: &[u8]) -> std::net::TcpStream {
        let mut stream = std::net::TcpStream::connect(address).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("set");
        stream.write_all(begin).expect("sent");
        stream
    }

    /// Waits until the server closes a connection.
    fn ends(stream: &mut impl std::io::Read) {
        let ended = stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        let is_end = matches!(ended, Ok(_) | Err(ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof));
        assert!(is_end, "{ended:?}");
    }

    #[test]
    fn connections_that_say_nothing_make_room_for_others() {
        serve_while(None, |address| {
            // This one answers pings and asks for nothing.
            let idle = connect(address, &[&PREFACE[..], &frame(SETTINGS, 0, &[])].concat());
            let begins = [&b""[..], b"P", b"GET / HTTP/1.1\r\nHost: local"];
            let mut slow = begins.map(|begin| connect(address, begin));
            // There is no place for it until one of the others is closed.
            let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            let mut answer = String::new();
            connect(address, request).read_to_string(&mut answer).expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("answered"), "{answer}");
            slow.iter_mut().for_each(ends);
            assert!(ends_although_it_answers_pings(idle), "a connection without requests keeps its place");
        });
    }

    #[test]
    fn connections_that_take_no_answer_make_room_for_others() {
        const HEADERS: u8 = 1;
        const WHOLE: u8 = 5;
        serve_while(None, |address| {
            // Nothing may be sent to it: its window has no bytes.
            let settings = frame(SETTINGS, 0, &[0, 4, 0, 0, 0, 0]);
            let mut request = frame(HEADERS, WHOLE, b"\x82\x84\x86\x41\x09localhost");
            request[8] = 1;
            let stream = connect(address, &[&PREFACE[..], &settings, &request].concat());
            assert!(ends_although_it_answers_pings(stream), "it keeps its place");
        });
    }

    #[test]
    fn a_slow_peer_gets_all_of_a_large_answer_while_others_get_only_small_ones() {
        serve_while(None, |address| {
            let begin = |request: &[u8]| {
                let mut stream = connect(address, request);
                let mut head = [0; 12];
                stream.read_exact(&mut head).expect("an answer");
                (stream, String::from_utf8_lossy(&head).into_owned())
            };
            let (mut slow, head) = begin(ASK_FOR_LARGE);
            assert_eq!(head, "HTTP/1.1 200");
            assert_eq!(begin(ASK_FOR_LARGE).1, "HTTP/1.1 503", "one of them waits already");
            assert_eq!(begin(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").1, "HTTP/1.1 200");
            let (mut part, mut length) = (vec![0; LARGE / 128], 0);
            loop {
                match slow.read(&mut part).expect("it is not cut off") {
                    0 => break,
                    read => length += read,
                }
                if length < LARGE / 10 * 9 {
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
            assert!(length > LARGE, "{length}");
            assert_eq!(begin(ASK_FOR_LARGE).1, "HTTP/1.1 200", "nothing waits any more");
        });
    }

    fn testdata(name: &str) -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tls").join(name)
    }

    /// Returns a connection whose handshake is over, and which says nothing then.
    fn silent(address: SocketAddr, protocol: &[u8]) -> StreamOwned<ClientConnection, std::net::TcpStream> {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(testdata("authority.pem")).expect("a certificate");
        roots.add(authority).expect("an authority");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().expect("known versions");
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = "localhost".try_into().expect("a name");
        let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
        let mut stream = connect(address, b"");
        while client.is_handshaking() {
            client.complete_io(&mut stream).expect("a handshake");
        }
        assert_eq!(client.alpn_protocol(), Some(protocol));
        StreamOwned::new(client, stream)
    }

    #[test]
    fn handshakes_that_do_not_go_on_make_room_for_others() {
        let certificate = Certificate::read(&testdata("server.pem"), &testdata("server.key"));
        serve_while(Some(certificate.expect("a certificate")), |address| {
            let begins = [&b""[..], &[HANDSHAKE], &[HANDSHAKE, 3, 1, 2, 0], &[HANDSHAKE, 3, 1, 2, 0, 1, 0]];
            let mut slow = begins.map(|begin| connect(address, begin));
            // There is no place for it until one of the others is closed.
            let mut answer = String::new();
            connect(address, b"GET / HTTP/1.1\r\n\r\n").read_to_string(&mut answer).expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
            slow.iter_mut().for_each(ends);
            [HTTP2, b"http/1.1"].iter().for_each(|protocol| ends(&mut silent(address, protocol)));
        });
    }
}
