//! A service under test, work for it to do, and a minimal client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flamelet::http::Handler;
use flamelet::{Profile, Profiler, ProfilerBuilder};
use flamelet_capture::profile::pprof;

/// How long to wait for something that must happen.
pub(crate) const DEADLINE: Duration = Duration::from_secs(180);

/// Returns the result of `ask`, repeated until it is good: the process may not run at all during the second of a capture,
/// which is empty then.
#[track_caller]
pub(crate) fn again_until<T: std::fmt::Debug>(ask: impl Fn() -> T, is_good: impl Fn(&T) -> bool) -> T {
    let start = Instant::now();
    loop {
        let got = ask();
        if is_good(&got) {
            return got;
        }
        let shown = || format!("{got:?}").chars().take(4000).collect::<String>();
        assert!(start.elapsed() < DEADLINE, "still not as it should be: {}", shown());
    }
}

/// An axum server on its own port, which ends with the test.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    pub(crate) profiler: Profiler,
    _runtime: tokio::runtime::Runtime,
}

impl Service {
    /// With flamelet's router and nothing else.
    pub(crate) fn start(builder: ProfilerBuilder) -> Self {
        Self::with_router(builder, flamelet::axum::router)
    }

    /// With a handler that was changed.
    pub(crate) fn with_handler(builder: ProfilerBuilder, change: impl FnOnce(Handler) -> Handler) -> Self {
        Self::with_router(builder, |profiler| flamelet::axum::router_with(change(Handler::new(profiler))))
    }

    /// With a router made of the profiler.
    pub(crate) fn with_router(
        builder: ProfilerBuilder,
        router: impl FnOnce(Profiler) -> axum::Router,
    ) -> Self {
        let profiler = builder.name("under test").start().expect("the profiler starts");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("bound");
        let router = router(profiler.clone());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { address, profiler, _runtime: runtime }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    /// The profile at `path` that has [`burn_cycles`] in it.
    #[track_caller]
    pub(crate) fn profile_of_burner(&self, path: &str) -> Profile {
        again_until(|| self.get(path).profile(), |profile| names(profile, "burn_cycles"))
    }

    /// What `GET path` answers to a client that accepts `kinds`.
    pub(crate) fn get_as(&self, path: &str, kinds: &str) -> Answer {
        self.ask("GET", path, &[("Accept", kinds)], "")
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = self.send(method, path, headers, body);
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        Answer::parse(&bytes)
    }

    /// What `GET path` answers to exactly these headers, `Host` among them.
    pub(crate) fn ask_as(&self, headers: &[(&str, &str)], path: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{lines}\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        Answer::parse(&bytes)
    }

    /// Asks, and leaves the connection to the caller.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        request += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).expect("sent");
        stream
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Waits until `is_so` of the profiler's metrics.
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&flamelet::Metrics) -> bool) {
        let start = Instant::now();
        while !is_so(&self.profiler.metrics()) {
            assert!(start.elapsed() < DEADLINE, "{what}: {:?}", self.profiler.metrics());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a whole head");
        let head = std::str::from_utf8(&bytes[..end]).expect("a head of text");
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status line");
        let header = |line: &str| {
            let (name, value) = line.split_once(':').expect("a header");
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        Self {
            status: status.parse().expect("a number"),
            headers: lines.map(header).collect(),
            body: bytes[end + 4..].to_vec(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    /// The profile that a program gets: gzipped pprof.
    #[track_caller]
    pub(crate) fn profile(&self) -> Profile {
        assert_eq!(self.status, 200, "{}", String::from_utf8_lossy(&self.body));
        assert_eq!(self.body.get(..2), Some(&[0x1f, 0x8b][..]), "gzipped");
        pprof::read(&self.body, &pprof::Limits::default()).expect("a profile")
    }

    /// A refusal in Go's form.
    #[track_caller]
    pub(crate) fn assert_refused(&self, status: u16, text: &str) {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        assert_eq!(self.header("content-type"), "text/plain; charset=utf-8");
        assert_eq!(self.header("x-content-type-options"), "nosniff");
        assert_eq!(self.header("x-go-pprof"), "1");
        assert_eq!(self.header("content-disposition"), "");
        assert!(self.text().contains(text), "{:?} has no {text:?}", self.text());
        assert_eq!(self.text().lines().count(), 1, "{:?}", self.text());
        assert!(self.text().ends_with('\n'));
    }
}

/// A thread that burns CPU time in [`burn_cycles`] until it is dropped.
pub(crate) struct Burner {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Burner {
    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = stop.clone();
        let (started, has_started) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("burner".into());
        let burn = move || {
            started.send(()).unwrap_or_default();
            burn_cycles(&theirs);
        };
        let thread = thread.spawn(burn).expect("a thread");
        has_started.recv().expect("it runs");
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic");
        }
    }
}

#[inline(never)]
fn burn_cycles(stop: &AtomicBool) {
    let mut state = 1u64;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..10_000 {
            state = std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

/// Whether any function of `profile` has `name` in its own.
pub(crate) fn names(profile: &Profile, name: &str) -> bool {
    profile.functions().iter().any(|function| profile.string(function.name).contains(name))
}

/// The sample types as `kind/unit`.
pub(crate) fn types(profile: &Profile) -> Vec<String> {
    let text = |id| profile.string(id).to_owned();
    profile.sample_types().iter().map(|value| format!("{}/{}", text(value.kind), text(value.unit))).collect()
}
