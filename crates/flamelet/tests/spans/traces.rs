//! The samples of one trace.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::routing::get;

use super::*;

const REQUEST_TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

#[inline(never)]
fn work_of_handler() {
    burn_cycles(Duration::from_millis(50));
}

async fn handler() {
    let _span = tracing::info_span!("handler").entered();
    work_of_handler();
}

fn ask(address: SocketAddr, header: &str) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
    write!(stream, "GET /work HTTP/1.1\r\nHost: localhost\r\n{header}Connection: close\r\n\r\n")
        .expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
}

#[test]
fn a_request_carries_the_trace_of_its_header() {
    let (profiler, runtime) = (profiler(), runtime());
    let app = Router::new().route("/work", get(handler)).layer(flamelet::axum::layer(&profiler));
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
    let address = listener.local_addr().expect("bound");
    runtime.spawn(async move { axum::serve(listener, app).await });
    let is_over = AtomicBool::new(false);
    let ids = [REQUEST_TRACE, "ffffffffffffffffffffffffffffffff"];
    let headers = [
        format!("traceparent: 00-{}-{SPAN}-01\r\n", ids[0]),
        format!("traceparent: 00-{}-{SPAN}-01\r\n", ids[1]),
        // Not what the specification allows: no trace.
        format!("traceparent: 00-{}-{SPAN}-01\r\ntraceparent: 00-{}-{SPAN}-01\r\n", ids[0], ids[1]),
        "traceparent: 00-zz\r\n".to_owned(),
    ];
    let profile = std::thread::scope(|scope| {
        for header in &headers {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    ask(address, header);
                }
            });
        }
        let profile = until(|| {
            let profile = profiler.cpu(Duration::from_secs(1)).run().expect("a profile");
            let all = ids.iter().all(|id| carries(&profile, "work_of_handler", "trace_id", id));
            let without = profile.samples().any(|sample| {
                functions(&profile, &sample).any(|name| name.contains("work_of_handler"))
                    && label(&profile, &sample, "trace_id").is_none()
            });
            (all && without).then_some(profile)
        });
        is_over.store(true, Ordering::Relaxed);
        profile
    });
    for sample in
        profile.samples().filter(|sample| label(&profile, sample, "trace_id") == Some(REQUEST_TRACE))
    {
        assert_eq!(label(&profile, &sample, "span_id"), Some(SPAN));
        assert_eq!(label(&profile, &sample, "route"), Some("/work"));
    }
    assert!(carries(&profile, "work_of_handler", "span", "handler"));
}

#[test]
fn a_span_carries_the_trace_of_the_current_context() {
    let profiler = profiler();
    let ids = TraceIds::from_traceparent(&format!("00-{}-{SPAN}-01", "ab".repeat(16))).expect("valid");
    until(|| {
        let capture = profiler.cpu(DEADLINE).start().expect("started");
        super::TRACE.set(Some(ids));
        let span = tracing::info_span!("of_a_trace").entered();
        super::TRACE.set(None);
        burn_cycles(Duration::from_millis(100));
        drop(span);
        carries(&capture.finish(), "burn_cycles", "trace_id", &"ab".repeat(16)).then_some(())
    });
}

/// A storm of traces does not fill the tables that count since the start.
#[test]
fn ids_are_not_in_what_counts_since_the_start() {
    let (profiler, runtime) = (profiler(), runtime());
    for number in 1..=200u8 {
        let ids = TraceIds::new([number; 16], [number; 8]).expect("not zero");
        let labels = flamelet::labels::LabelSet::new(ids.labels()).with([("storm", "traces")]);
        let sleep = async { tokio::time::sleep(Duration::from_micros(100)).await };
        let work = flamelet::labels::LabelFuture::with_labels(sleep, labels);
        runtime.block_on(runtime.spawn(flamelet::task("storm", work))).expect("no panic");
    }
    let awaits = profiler.awaits();
    assert!(awaits.samples().any(|sample| label(&awaits, &sample, "storm").is_some()), "they were seen");
    assert!(awaits.samples().all(|sample| label(&awaits, &sample, "trace_id").is_none()));
}
