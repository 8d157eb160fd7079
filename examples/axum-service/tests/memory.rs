//! Many captures for slow clients take a bounded amount of memory, and give it back.

#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(180);
/// As many as the service takes at once.
const CLIENTS: usize = 16;

/// The example, running until the test ends.
struct Example {
    process: Child,
    address: String,
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Example {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_axum-service"))
            .args(["--listen", "127.0.0.1:0"])
            // As on a machine of eight cores, however many this one has: glibc gives each thread a heap of its own, up
            // to eight for each core.
            .env("GLIBC_TUNABLES", "glibc.malloc.arena_max=64")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let address = line.strip_prefix("listening on http://").and_then(|rest| rest.split('/').next());
        Self { address: address.expect("an address").to_owned(), process }
    }

    /// Asks as a browser does, for a page, and leaves the answer unread.
    fn send(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: text/html\r\n", self.address);
        stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).expect("sent");
        stream
    }

    /// Resident memory that is no file's, in MiB.
    fn memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(path).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux 4.5 or later");
        let kib = line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
        kib / 1024
    }

    /// Sixteen captures at once; each answer is begun to be read when all have begun to arrive.
    fn round(&self, path: &str) {
        let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| self.send(path)).collect();
        let first = clients.iter_mut().map(|client| {
            let mut start = [0; 16];
            client.read_exact(&mut start).expect("an answer");
            start
        });
        let first: Vec<[u8; 16]> = first.collect();
        for (mut client, start) in clients.into_iter().zip(first) {
            assert!(start.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&start));
            let mut body = Vec::new();
            client.read_to_end(&mut body).expect("the rest");
            assert!(body.len() > 100_000, "a page: {}", body.len());
        }
    }
}

#[test]
fn sixteen_captures_for_slow_clients_take_little_memory_and_give_it_back() {
    /// Made by the thread of each capture, sixteen profiles left 20 MiB behind; made one after another, 7.
    const MOST: u64 = 16;
    let example = Example::start();
    let _work = example.send("/burn?ms=60000");
    // What is remembered between profiles, names above all, is there after the first.
    for path in ["/debug/pprof/profile?seconds=1", "/debug/pprof/heap"] {
        let mut answer = Vec::new();
        example.send(path).read_to_end(&mut answer).expect("an answer");
    }
    let before = example.memory();
    for round in 0..3 {
        example.round("/debug/pprof/profile?seconds=1");
        example.round("/debug/pprof/heap");
        println!("round {round}: {before} MiB before, {} MiB now", example.memory());
    }
    let after = example.memory();
    assert!(after <= before + MOST, "{before} MiB before, {after} MiB after");
}
