//! Servers of others that run for a test.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::DEADLINE;

/// A server of another project, which ends with the test.
pub(super) struct Server {
    pub(super) child: Child,
    pub(super) url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts a server that listens at a port of loopback, and waits until it answers a path. Returns `None` if it ends.
    pub(super) fn start(command: &mut Command, port: u16, path: &str) -> Option<Self> {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut server = Self { child, url: format!("http://127.0.0.1:{port}") };
        let patience = Instant::now();
        while server.get(path).is_none_or(|(status, _)| status != 200) {
            if server.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return None;
            }
            assert!(patience.elapsed() < DEADLINE, "{command:?} does not become ready");
            std::thread::sleep(Duration::from_millis(200));
        }
        Some(server)
    }

    /// Asks for a path. Returns the status and the body.
    pub(super) fn get(&self, path: &str) -> Option<(u16, String)> {
        ask(&self.url, &format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n"))
    }
}

/// Posts JSON. Returns the status and the answer.
pub(super) fn post(url: &str, path: &str, body: &str) -> Option<(u16, Value)> {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n");
    let (status, answer) = ask(url, &format!("{head}Content-Length: {length}\r\n\r\n{body}"))?;
    Some((status, serde_json::from_str(&answer).unwrap_or(Value::String(answer))))
}

/// Sends a request of HTTP/1.0, in which no body comes in pieces. Returns the status and the body.
fn ask(url: &str, request: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(url.strip_prefix("http://")?).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

/// Returns ports that were free a moment before; listeners at the same time make them differ.
pub(super) fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    listeners.each_ref().map(|listener| listener.local_addr().expect("bound").port())
}
