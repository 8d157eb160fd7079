//! A service pushes over TLS: to a receiver whose certificate comes from an authority that it was told to trust, and to no
//! other.

use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flamelet::{History, Metrics, Profiler, Push};
use flamelet_tests::programs::{command, flamelet, repository};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

const DEADLINE: Duration = Duration::from_secs(180);
/// The variable with the address of the receiver, for the service that runs as a process of its own.
const RECEIVER: &str = "FLAMELET_TEST_RECEIVER";

fn testdata(name: &str) -> PathBuf {
    repository().join("testdata/tls").join(name)
}

/// A receiver with a certificate that only `testdata/tls/authority.pem` vouches for.
struct Receiver {
    url: String,
    requests: Arc<AtomicUsize>,
}

impl Receiver {
    fn start() -> Self {
        let chain = CertificateDer::pem_file_iter(testdata("server.pem")).expect("a file");
        let chain: Vec<_> = chain.map(|item| item.expect("a certificate")).collect();
        let key = PrivateKeyDer::from_pem_file(testdata("server.key")).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("versions").with_no_client_auth().with_single_cert(chain, key);
        let config = Arc::new(config.expect("a certificate"));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let requests = Arc::<AtomicUsize>::default();
        let counted = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, counted) = (config.clone(), counted.clone());
                std::thread::spawn(move || serve(stream, config, &counted));
            }
        });
        Self { url: format!("https://localhost:{port}"), requests }
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// Answers one request, if the client accepts the certificate.
fn serve(stream: TcpStream, config: Arc<ServerConfig>, requests: &AtomicUsize) -> Option<()> {
    let mut stream = StreamOwned::new(ServerConnection::new(config).ok()?, stream);
    let mut request = Vec::new();
    let (head, length) = loop {
        let mut some = [0; 4096];
        let count = stream.read(&mut some).ok().filter(|count| *count > 0)?;
        request.extend_from_slice(&some[..count]);
        if let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"))?;
            break (end + 4, length.trim().parse::<usize>().ok()?);
        }
    };
    let rest = (head + length).saturating_sub(request.len());
    stream.read_exact(&mut vec![0; rest]).ok()?;
    requests.fetch_add(1, Ordering::SeqCst);
    stream
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\nContent-Length: 0\r\n\r\n")
        .ok()?;
    stream.conn.send_close_notify();
    stream.flush().ok()
}

/// Runs a service until its pushes have come so far.
fn run(push: Push, folder: &Path, is_so: impl Fn(&Metrics) -> bool) {
    let history = History::new(folder).window(Duration::from_millis(300)).frequency(200);
    let profiler = Profiler::builder().name("night").overhead_budget(None).history(history).push(push);
    let profiler = profiler.start().expect("started");
    let patience = Instant::now();
    while !is_so(&profiler.metrics()) {
        assert!(patience.elapsed() < DEADLINE, "{:?}", profiler.metrics());
        let end = Instant::now() + Duration::from_millis(100);
        while Instant::now() < end {
            black_box((0..10_000u64).map(black_box).sum::<u64>());
        }
    }
}

#[test]
fn only_an_authority_that_was_named_is_trusted() {
    let (receiver, folder) = (Receiver::start(), tempfile::tempdir().expect("a folder"));
    let push = || Push::pyroscope(&receiver.url);
    run(push(), &folder.path().join("nobody"), |metrics| metrics.push_retries > 1);
    assert_eq!(receiver.requests(), 0, "no request without a good certificate");
    run(push().ca_file(testdata("authority.pem")), &folder.path().join("named"), |metrics| {
        metrics.pushed > 1
    });
    assert!(receiver.requests() > 1);
}

#[test]
fn the_collector_receives_over_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut collector = command(flamelet());
    collector.args(["collect", "--listen", "127.0.0.1:0", "--store"]).arg(folder.path().join("store"));
    collector.arg("--tls-cert").arg(testdata("server.pem")).arg("--tls-key").arg(testdata("server.key"));
    let mut collector = collector.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
    let mut url = String::new();
    BufReader::new(collector.stdout.take().expect("piped")).read_line(&mut url).expect("a line");
    let push = Push::pyroscope(url.trim()).ca_file(testdata("authority.pem"));
    run(push, &folder.path().join("history"), |metrics| metrics.pushed > 1);
    collector.kill().expect("killed");
    collector.wait().expect("it ends");
}

#[test]
fn a_file_that_names_no_authority_is_refused_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, contents) in [("missing.pem", None), ("empty.pem", Some("")), ("key.pem", Some("key"))] {
        let path = folder.path().join(name);
        match contents {
            Some("key") => drop(std::fs::copy(testdata("server.key"), &path).expect("copied")),
            Some(text) => std::fs::write(&path, text).expect("written"),
            None => {}
        }
        let history = History::new(folder.path().join("history"));
        let builder = Profiler::builder().name("night").history(history);
        let error =
            builder.push(Push::otlp("https://localhost:1").ca_file(&path)).start().expect_err("refused");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn the_variable_of_openssl_names_authorities() {
    // The variable counts for a whole process: this test runs itself again, as the service.
    if let Ok(url) = std::env::var(RECEIVER) {
        let folder = tempfile::tempdir().expect("a folder");
        run(Push::pyroscope(url), folder.path(), |metrics| metrics.pushed > 1);
        return;
    }
    let receiver = Receiver::start();
    let mut service = Command::new(std::env::current_exe().expect("this test"));
    service.args(["--exact", "the_variable_of_openssl_names_authorities"]).env(RECEIVER, &receiver.url);
    let output = service.env("SSL_CERT_FILE", testdata("authority.pem")).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(receiver.requests() > 1);
}
