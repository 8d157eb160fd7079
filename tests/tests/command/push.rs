//! `flamelet push`, received by a server that keeps what it gets.

use std::io::{Read, Write};
use std::net::TcpListener;

use flamelet_profile::protobuf::{FieldValue, Fields, bytes_field};
use flamelet_profile::{LabelSetId, Limits, Profile, ProfileBuilder, pprof};
use flamelet_store::{Options, Writer};
use flamelet_tests::profiles;
use flamelet_tests::programs::run_flamelet;

/// What the server says.
const SAID: &str = "told so by the server";

/// Answers one request with this status, after `take` has got its head and its body.
fn receive(listener: &TcpListener, status: &str, take: impl FnOnce((String, Vec<u8>))) {
    let (mut stream, _) = listener.accept().expect("a connection");
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let head = end.map(|end| String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase());
        let length = head.as_ref().and_then(|head| {
            let line = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            line?.trim().parse::<usize>().ok()
        });
        if let (Some(end), Some(head), Some(length)) = (end, head, length)
            && bytes.len() >= end + 4 + length
        {
            let body = if status.starts_with("400") { "outside of the ingestion window" } else { SAID };
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Type: application/proto\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            take((head, bytes[end + 4..].to_vec()));
            stream.write_all(answer.as_bytes()).expect("answered");
            return;
        }
        let count = stream.read(&mut buffer).expect("a request");
        assert!(count > 0, "the request is whole");
        bytes.extend_from_slice(&buffer[..count]);
    }
}

fn push(status: &'static str) -> (flamelet_tests::programs::Answer, String, Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let (taken, requests) = std::sync::mpsc::channel();
    std::thread::spawn(move || receive(&listener, status, |request| taken.send(request).unwrap_or_default()));
    let cpu = profiles::committed("go-cpu").display().to_string();
    let answer = run_flamelet([
        "push",
        &cpu,
        "--to",
        &url,
        "--service",
        "checkout",
        "--label",
        "region=north",
        "--tenant",
        "one",
    ]);
    let (head, body) = requests.try_recv().expect("a request");
    (answer, head, body)
}

#[test]
fn a_profile_arrives_with_its_labels() {
    let (answer, head, body) = push("200 OK");
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    assert!(head.starts_with("post /push.v1.pusherservice/push "), "{head}");
    assert!(
        head.contains("content-type: application/proto") && head.contains("x-scope-orgid: one"),
        "{head}"
    );
    let (1, FieldValue::Bytes(series)) = Fields::new(&body).next().expect("read").expect("a series") else {
        panic!("a series")
    };
    let text = String::from_utf8_lossy(series);
    for part in ["service_name", "checkout", "region", "north", "__name__", "process_cpu"] {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn a_refusal_is_shown_in_one_line() {
    let (answer, ..) = push("422 Unprocessable Entity");
    assert_eq!(answer.status, Some(2));
    assert!(
        answer.stderr.contains("422") && answer.stderr.contains("told so by the server"),
        "{}",
        answer.stderr
    );
    let nowhere = run_flamelet(["push", "x", "--to", "localhost", "--service", "a"]);
    assert_eq!(nowhere.status, Some(2));
}

/// The types of CPU windows.
const CPU: &[(&str, &str)] = &[("samples", "count"), ("cpu", "nanoseconds")];

/// A window that was taken this many seconds after 1970 began.
fn window(seconds: i64, types: &[(&str, &str)], values: &[i64]) -> Profile {
    let mut builder = ProfileBuilder::new(types);
    let frame = builder.named_frame("work");
    let stack = builder.stack(&[frame]);
    builder.sample(stack, LabelSetId::EMPTY, values);
    builder.header_mut().time_nanos = seconds * 1_000_000_000;
    builder.finish()
}

/// A history of three minutes, with windows of the heap in addition to those of CPU time.
fn history() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::open(folder.path(), Options::default()).expect("a writer");
    for minute in 0..3 {
        let seconds = 1_794_700_800 + minute * 60;
        writer.append("cpu", &window(seconds, CPU, &[1, 10])).expect("written");
        let types = [("alloc_space", "bytes"), ("inuse_space", "bytes")];
        writer.append("heap", &window(seconds, &types, &[1000, 70 + minute])).expect("written");
    }
    folder
}

/// Pushes a source to a server that answers one request after another like this, and returns the bodies of all requests.
fn push_to(statuses: &[&'static str], source: &str) -> (flamelet_tests::programs::Answer, Vec<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let statuses = statuses.to_vec();
    let (taken, bodies) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for status in statuses {
            match status {
                "reset" => drop(listener.accept().expect("a connection")),
                status => receive(&listener, status, |body| taken.send(body).unwrap_or_default()),
            }
        }
    });
    let answer = run_flamelet(["push", source, "--to", &url, "--service", "checkout"]);
    // Each body is there before its request is answered.
    (answer, bodies.try_iter().map(|(_, body)| body).collect())
}

#[test]
fn minutes_that_are_too_old_are_counted_and_the_others_are_sent() {
    let folder = history();
    let path = folder.path().to_str().expect("text");
    let (answer, _) = push_to(&["400 Bad Request", "400 Bad Request", "200 OK"], path);
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    assert!(answer.stderr.contains("Pushed 1 minutes"), "{}", answer.stderr);
    assert!(answer.stderr.contains("2 were too old for the receiver"), "{}", answer.stderr);
    assert!(answer.stderr.contains("Not pushed: heap"), "{}", answer.stderr);
    let (answer, _) = push_to(&["400 Bad Request"; 3], path);
    assert_eq!(answer.status, Some(2), "{}", answer.stderr);
    assert!(answer.stderr.contains("all 3 are too old"), "{}", answer.stderr);
}

#[test]
fn a_receiver_that_is_away_for_a_moment_is_asked_again() {
    let folder = history();
    let path = folder.path().to_str().expect("text");
    let statuses = ["reset", "503 Service Unavailable", "200 OK", "500 Oops", "200 OK", "200 OK"];
    let (answer, bodies) = push_to(&statuses, path);
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    assert!(answer.stderr.contains("trying again"), "{}", answer.stderr);
    assert!(answer.stderr.contains("Pushed 3 minutes"), "{}", answer.stderr);
    assert_eq!(bodies.len(), 5);
    // A repeated request is the same.
    assert_eq!((&bodies[0], &bodies[2]), (&bodies[1], &bodies[3]));
}

/// As where a machine starts without a clock, and gets the time later.
#[test]
fn half_a_century_without_windows_takes_no_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::open(folder.path(), Options::default()).expect("a writer");
    for seconds in [7, 61, 1_794_700_800] {
        writer.append("cpu", &window(seconds, CPU, &[1, 10])).expect("written");
    }
    drop(writer);
    let (answer, bodies) = push_to(&["200 OK"; 3], folder.path().to_str().expect("text"));
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    assert!(answer.stderr.contains("Pushed 3 minutes"), "{}", answer.stderr);
    assert_eq!(bodies.len(), 3);
}

#[test]
fn a_range_without_windows_says_what_there_is() {
    let folder = history();
    let path = folder.path().display();
    for (range, text) in [
        ("from=2001-01-01&to=2001-01-02", "no cpu window between 2001-01-01T00:00:00Z"),
        ("from=-1h&to=-2h", "no cpu window"),
        ("from=2200-01-01", "no cpu window"),
        ("kind=nonsense", "no nonsense window between any time"),
    ] {
        let (answer, bodies) = push_to(&[], &format!("{path}?{range}"));
        assert_eq!((answer.status, bodies.len()), (Some(2), 0), "{range}: {}", answer.stderr);
        let is_told = answer.stderr.contains(text) && answer.stderr.contains("the history covers 2026-11-15");
        assert!(is_told && answer.stderr.trim_end().lines().count() == 1, "{range}: {}", answer.stderr);
    }
}

#[test]
fn of_the_heap_only_the_memory_in_use_is_sent() {
    let folder = history();
    let (answer, bodies) = push_to(&["200 OK"; 3], &format!("{}?kind=heap", folder.path().display()));
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    assert!(answer.stderr.contains("Not pushed: cpu"), "{}", answer.stderr);
    for (minute, body) in bodies.iter().enumerate() {
        let sample = field(&field(body, 1), 2);
        let profile = pprof::read(&field(&sample, 1), &Limits::SERVICE).expect("pprof");
        let kinds: Vec<&str> = profile.sample_types().iter().map(|it| profile.string(it.kind)).collect();
        assert_eq!((kinds, profile.total(0)), (vec!["inuse_space"], 70 + minute as i64));
    }
}

fn field(message: &[u8], wanted: u32) -> Vec<u8> {
    let field = bytes_field(message, wanted).expect("a message");
    assert!(!field.is_empty(), "no field {wanted}");
    field.to_vec()
}
