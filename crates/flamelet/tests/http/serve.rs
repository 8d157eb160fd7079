//! `flamelet::serve`: the endpoints on a port of their own, without an HTTP server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::time::Instant;

use flamelet::http::Handler;
use flamelet::{ErrorKind, Profiler, Server};

use crate::pprof::{lacks_pprof, run_pprof};
use crate::service::{Answer, Burner, DEADLINE, again_until, names};

fn profiler() -> Profiler {
    Profiler::builder().name("under test").start().expect("started")
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).expect("a connection");
    stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
    stream
}

/// Sends `request` and reads all that comes back.
fn ask(mut stream: impl Read + Write, request: &str) -> Answer {
    stream.write_all(request.as_bytes()).expect("sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    Answer::parse(&bytes)
}

fn get(server: &Server, path: &str) -> Answer {
    ask(connect(server), &format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", server.address()))
}

fn wait_until(profiler: &Profiler, what: &str, is_so: impl Fn(&flamelet::Metrics) -> bool) {
    let start = Instant::now();
    while !is_so(&profiler.metrics()) {
        assert!(start.elapsed() < DEADLINE, "{what}: {:?}", profiler.metrics());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn one_line_serves_all_endpoints() {
    let server = flamelet::serve("127.0.0.1:0").expect("serves");
    let page = get(&server, "/debug/pprof/");
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert_eq!(page.header("content-length"), page.body.len().to_string());
    assert!(page.text().contains(&server.address()), "the commands to copy have the address");
    assert_eq!(get(&server, "/debug/pprof").status, 301);
    get(&server, "/nothing").assert_refused(404, "Unknown profile");
    get(&server, "/debug/pprof/profile?seconds=0").assert_refused(400, "from 1 to 600");
    let _burner = Burner::start();
    let ask = || get(&server, "/debug/pprof/profile?seconds=1").profile();
    again_until(ask, |profile| names(profile, "burn_cycles"));
    get(&server, "/debug/pprof/heap").profile();
}

#[test]
fn head_and_post_are_answered_as_under_axum() {
    let server = profiler().serve("127.0.0.1:0").expect("serves");
    let head =
        |path: &str| ask(connect(&server), &format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let known = head("/debug/pprof/cmdline");
    let length = get(&server, "/debug/pprof/cmdline").body.len().to_string();
    assert_eq!((known.status, known.body.len(), known.header("content-length")), (200, 0, length.as_str()));
    let unknown = head("/debug/pprof/profile?seconds=500");
    assert_eq!((unknown.status, unknown.body.len(), unknown.header("content-length")), (200, 0, ""));
    let post = |body: &str, more: &str| {
        let head = format!("POST /debug/pprof/symbol HTTP/1.1\r\nHost: localhost\r\n{more}");
        ask(connect(&server), &format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()))
    };
    assert!(post("0x1", "").text().starts_with("num_symbols: 1\n"));
    let continued = post("0x1", "Expect: 100-continue\r\n");
    assert!(continued.status == 100 || continued.status == 200, "{}", continued.status);
    ask(connect(&server), "POST /debug/pprof/symbol HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        .assert_refused(411, "Content-Length");
    ask(connect(&server), "POST /debug/pprof/symbol HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n")
        .assert_refused(413, "too long");
}

#[test]
fn what_is_not_http_is_refused() {
    let server = profiler().serve("127.0.0.1:0").expect("serves");
    ask(connect(&server), "nonsense\r\n\r\n").assert_refused(400, "METHOD ADDRESS");
    ask(connect(&server), "GET / HTTP/3\r\n\r\n").assert_refused(505, "HTTP/1.1");
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    ask(connect(&server), &long).assert_refused(431, "too long");
    // Half a request and a hang-up.
    drop(ask_nothing(&server, "GET /debug"));
    assert_eq!(get(&server, "/debug/pprof/cmdline").status, 200);
}

fn ask_nothing(server: &Server, request: &str) -> TcpStream {
    let mut stream = connect(server);
    stream.write_all(request.as_bytes()).expect("sent");
    stream
}

#[test]
fn authorization_hosts_and_other_sites_hold_here_too() {
    let handler = Handler::new(profiler()).authorize(|parts| parts.headers.contains_key("x-key"));
    let server = handler.serve("127.0.0.1:0").expect("serves");
    let with =
        |headers: &str| ask(connect(&server), &format!("GET /debug/pprof/cmdline HTTP/1.1\r\n{headers}\r\n"));
    with("Host: localhost\r\n").assert_refused(403, "does not allow you");
    assert_eq!(with("Host: localhost\r\nX-Key: 1\r\n").status, 200);
    assert_eq!(with("X-Key: 1\r\n").status, 200, "HTTP/1.0 clients send no host");
    for host in ["[::1]:6060", "127.0.0.1", "LOCALHOST:1"] {
        assert_eq!(with(&format!("Host: {host}\r\nX-Key: 1\r\n")).status, 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:6060", "a@b@c"] {
        with(&format!("Host: {host}\r\nX-Key: 1\r\n")).assert_refused(403, "localhost");
    }
    with("Host: localhost\r\nX-Key: 1\r\nSec-Fetch-Site: cross-site\r\n").assert_refused(403, "other sites");
    let named = Handler::new(profiler()).hosts(["proxy.internal"]).serve("127.0.0.1:0").expect("serves");
    let proxied = "GET /debug/pprof/cmdline HTTP/1.1\r\nHost: proxy.internal\r\n\r\n";
    assert_eq!(ask(connect(&named), proxied).status, 200);
}

#[test]
fn a_client_that_hangs_up_ends_its_capture() {
    let profiler = profiler();
    let server = profiler.serve("127.0.0.1:0").expect("serves");
    let request = "GET /debug/pprof/profile?seconds=600 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let client = ask_nothing(&server, request);
    wait_until(&profiler, "it runs", |metrics| metrics.captures_running == 1);
    assert_eq!(get(&server, "/debug/pprof/cmdline").status, 200, "others are answered meanwhile");
    drop(client);
    wait_until(&profiler, "it ended", |metrics| metrics.captures_running == 0);
    assert_eq!(profiler.metrics().captures_cancelled, 1);
}

#[test]
fn connections_are_bounded() {
    let profiler = Profiler::builder().max_captures(1).start().expect("started");
    let server = profiler.serve("127.0.0.1:0").expect("serves");
    let ask_beside_idle = || {
        let _idle: Vec<TcpStream> = (0..60).map(|_| ask_nothing(&server, "GET /")).collect();
        get(&server, "/debug/pprof/cmdline")
    };
    // Again where the machine stood still until the idle ones had no time left.
    let refused = again_until(ask_beside_idle, |answer| answer.status != 200);
    refused.assert_refused(503, "49 connections are open");
    again_until(|| get(&server, "/debug/pprof/cmdline").status, |status| *status == 200);
}

#[test]
fn a_shutdown_ends_captures_with_what_they_have() {
    let profiler = profiler();
    let server = profiler.serve("127.0.0.1:0").expect("serves");
    let capture = std::thread::scope(|scope| {
        let client = scope.spawn(|| get(&server, "/debug/pprof/profile?seconds=600"));
        let own = scope.spawn(|| profiler.cpu(std::time::Duration::from_secs(600)).run());
        wait_until(&profiler, "it runs", |metrics| metrics.captures_running == 1);
        // Its own capture does not count as a request, so there is nothing to wait for: it may start after this.
        profiler.shutdown();
        own.join().expect("no panic").expect("a profile");
        client.join().expect("no panic")
    });
    capture.profile();
    get(&server, "/debug/pprof/profile?seconds=1").assert_refused(503, "shutting down");
    assert_eq!(get(&server, "/debug/pprof/cmdline").status, 200);
    server.shutdown();
    let start = Instant::now();
    while TcpStream::connect(server.address()).is_ok() {
        assert!(start.elapsed() < DEADLINE, "it still listens");
    }
}

#[test]
fn unix_sockets_are_the_owners_and_replace_dead_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pprof.sock");
    let address = format!("unix:{}", path.display());
    drop(UnixListener::bind(&path).expect("a socket that is left behind"));
    let server = profiler().serve(&address).expect("serves");
    assert_eq!(server.address(), address);
    let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let stream = UnixStream::connect(&path).expect("a connection");
    let answer = ask(stream, "GET /debug/pprof/heap HTTP/1.1\r\nHost: anything\r\n\r\n");
    answer.profile();
    let second = profiler().serve(&address).expect_err("it is in use");
    assert_eq!(second.kind(), ErrorKind::Busy);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left beside it");
    server.shutdown();
    let start = Instant::now();
    while path.exists() {
        assert!(start.elapsed() < DEADLINE, "the socket is still there");
    }
}

#[test]
fn addresses_that_make_no_sense_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "kept").expect("written");
    for (address, reason) in [
        ("here", "ADDRESS:PORT or unix:PATH"),
        ("127.0.0.1", "ADDRESS:PORT or unix:PATH"),
        ("127.0.0.1:99999", "ADDRESS:PORT or unix:PATH"),
        ("unix:", "path of the socket is missing"),
        (&format!("unix:{}", file.display()), "not a socket"),
    ] {
        let error = profiler().serve(address).expect_err(address).to_string();
        assert!(error.contains(reason) && error.contains(address) && !error.contains('\n'), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "kept");
}

/// Runs once as a test and once more, with the variable, as a process that the first run starts.
#[test]
fn the_environment_says_where_if_asked() {
    let served = profiler().serve_env().expect("serves or does not");
    if std::env::var_os("FLAMELET_LISTEN").is_some() {
        let server = served.expect("it says so");
        assert_eq!(get(&server, "/debug/pprof/cmdline").status, 200);
        return;
    }
    assert!(served.is_none());
    let this = std::env::current_exe().expect("it has a name");
    let name = "serve::the_environment_says_where_if_asked";
    let run = |address: &str| {
        let output = Command::new(&this).args(["--exact", name]).env("FLAMELET_LISTEN", address).output();
        let output = output.expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (is_good, said) = run("127.0.0.1:0");
    assert!(is_good && said.contains("1 passed"), "{said}");
    let (is_good, said) = run("nonsense");
    assert!(!is_good && said.contains("FLAMELET_LISTEN: cannot listen on"), "{said}");
}

#[test]
fn go_reads_from_it() {
    if lacks_pprof() {
        return;
    }
    let server = profiler().serve("127.0.0.1:0").expect("serves");
    let _burner = Burner::start();
    let url = format!("http://{}/debug/pprof/profile?seconds=1", server.address());
    again_until(|| run_pprof(&["-top"], &url), |top| top.contains("burn_cycles"));
}
