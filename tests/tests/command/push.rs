//! `flamelet push`, received by a server that keeps what it gets.

use std::io::{Read, Write};
use std::net::TcpListener;

use flamelet_profile::protobuf::{FieldValue, Fields};
use flamelet_tests::profiles;
use flamelet_tests::programs::run_flamelet;

/// Answers one request with this status, and returns its head and its body.
fn receive(listener: &TcpListener, status: &str) -> (String, Vec<u8>) {
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
            let body = "told so by the server";
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).expect("answered");
            return (head, bytes[end + 4..].to_vec());
        }
        let count = stream.read(&mut buffer).expect("a request");
        assert!(count > 0, "the request is whole");
        bytes.extend_from_slice(&buffer[..count]);
    }
}

fn push(status: &'static str) -> (flamelet_tests::programs::Answer, String, Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let server = std::thread::spawn(move || receive(&listener, status));
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
    let (head, body) = server.join().expect("no panic");
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
