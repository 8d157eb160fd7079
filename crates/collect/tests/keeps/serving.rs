//! A collector that is asked while others send.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flamelet_collect::{Access, Tenants, serve};

use crate::support::{Nowhere, Site};

/// Serves a new folder while `work` runs.
fn while_serving(work: impl FnOnce(SocketAddr)) {
    let site = Site::new();
    let tenants = Arc::new(Tenants::open(site.options(), false, || Box::new(Nowhere)).expect("opened"));
    while_serving_tenants(&tenants, Access::default(), work);
}

/// Serves what these tenants have while `work` runs.
pub(crate) fn while_serving_tenants(tenants: &Arc<Tenants>, access: Access, work: impl FnOnce(SocketAddr)) {
    let tenants = tenants.clone();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let is_over = Arc::new(AtomicBool::new(false));
    let stop = is_over.clone();
    let server = std::thread::spawn(move || {
        serve(listener, tenants, access, None, move || stop.load(Ordering::SeqCst)).expect("served");
    });
    work(address);
    is_over.store(true, Ordering::SeqCst);
    server.join().expect("no panic");
}

pub(crate) fn connect(address: SocketAddr, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(120))).expect("set");
    stream.write_all(format!("{head}\r\nHost: localhost\r\nConnection: close\r\n").as_bytes()).expect("sent");
    stream
}

#[test]
fn slow_senders_do_not_keep_those_who_ask_waiting() {
    while_serving(|address| {
        // More than have a place; each says that a body comes, and waits.
        let send = || {
            let mut sender = connect(address, "POST /ingest?name=slow&format=pprof HTTP/1.1");
            sender.write_all(b"Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n").expect("sent");
            sender
        };
        // A sender that has a place is told to continue.
        let mut first = send();
        let mut line = [0; 12];
        first.read_exact(&mut line).expect("a line");
        assert_eq!(&line, b"HTTP/1.1 100", "the first sender has a place");
        let _others: Vec<TcpStream> = (1..40).map(|_| send()).collect();
        let mut asking = connect(address, "GET / HTTP/1.1");
        asking.write_all(b"\r\n").expect("sent");
        let mut answer = String::new();
        asking.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    });
}

#[test]
fn requests_that_are_refused_are_counted() {
    while_serving(|address| {
        let ask = |head: &str, body: &str| {
            let mut stream = connect(address, head);
            let length = body.len();
            stream.write_all(format!("Content-Length: {length}\r\n\r\n{body}").as_bytes()).expect("sent");
            answer_to(stream)
        };
        // Without a name, with a body that no receiver reads, and a question, which is none of a sender.
        let refused = [
            "POST /ingest HTTP/1.1",
            "POST /push.v1.PusherService/Push HTTP/1.1\r\nContent-Type: application/json",
            "GET /api/top?by=nothing HTTP/1.1",
        ];
        for head in refused {
            assert!(ask(head, "{").starts_with("HTTP/1.1 400"), "{head}");
        }
        let metrics = ask("GET /metrics HTTP/1.1", "");
        assert!(metrics.contains("\nflamelet_collect_requests_refused_total 2\n"), "{metrics}");
        assert!(metrics.contains("\nflamelet_collect_profiles_refused_total 0\n"), "{metrics}");
    });
}

fn answer_to(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn strangers_take_no_places_and_probes_need_none() {
    let site = Site::new();
    let tenants = Arc::new(Tenants::open(site.options(), false, || Box::new(Nowhere)).expect("opened"));
    let access = Access::parse("secret\n").expect("a token");
    while_serving_tenants(&tenants, access, |address| {
        let begin = |request: &str, more: &str| {
            let mut stream = connect(address, &format!("{request} HTTP/1.1"));
            stream.write_all(format!("{more}\r\n").as_bytes()).expect("sent");
            stream
        };
        // All places for questions are taken: each has a place when it is told to continue.
        let token = "Authorization: Bearer secret\r\n";
        let slow = format!("{token}Content-Length: 1000\r\nExpect: 100-continue\r\n");
        let asking: Vec<TcpStream> =
            (0..32).map(|_| begin("POST /querier.v1.QuerierService/LabelNames", &slow)).collect();
        for mut one in &asking {
            let mut line = [0; 12];
            one.read_exact(&mut line).expect("an answer");
            assert_eq!(&line, b"HTTP/1.1 100");
        }
        let probe = answer_to(begin("GET /ready", ""));
        assert!(probe.starts_with("HTTP/1.1 200") && probe.ends_with("ready\n"), "{probe}");
        let stranger = answer_to(begin("GET /api/services", ""));
        assert!(stranger.starts_with("HTTP/1.1 401"), "{stranger}");
        drop(asking);
        // What they announce is not waited for.
        let probes: Vec<TcpStream> =
            (0..40).map(|_| begin("GET /ready", "Content-Length: 1000\r\n")).collect();
        let asked = answer_to(begin("GET /api/services", token));
        assert!(asked.starts_with("HTTP/1.1 200"), "{asked}");
        for probe in probes {
            let probe = answer_to(probe);
            assert!(probe.starts_with("HTTP/1.1 200"), "{probe}");
        }
    });
}
