//! Many captures for slow clients take a bounded amount of memory, and give it back.

#![cfg(target_os = "linux")]

mod example;

use example::Example;
use std::io::Read;
use std::net::TcpStream;

/// As many as the service takes at once.
const CLIENTS: usize = 16;
/// As on a machine of eight cores, however many this one has: glibc gives each thread a heap of its own, up to eight for
/// each core.
const HEAPS: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.arena_max=64");

/// Asks as a browser does, for a page, and leaves the answer unread.
fn send(example: &Example, path: &str) -> TcpStream {
    example.send(path, "Accept: text/html\r\n")
}

/// Resident memory that is no file's, in MiB.
fn memory(example: &Example) -> u64 {
    let path = format!("/proc/{}/status", example.process.id());
    let status = std::fs::read_to_string(path).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux 4.5 or later");
    let kib = line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
    kib / 1024
}

/// Sixteen captures at once; each answer is begun to be read when all have begun to arrive.
fn captures_at_once(example: &Example, path: &str) {
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| send(example, path)).collect();
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

#[test]
fn sixteen_captures_for_slow_clients_take_little_memory_and_give_it_back() {
    /// Ten rounds ended at 19 MiB more than before, and hardly grew after the fifth: what the allocator keeps of one profile
    /// at a time, and of the threads that wait. Symbol tables are not among it: the system gets them back at once.
    const MOST: u64 = 28;
    let example = Example::start(&[], &[HEAPS]);
    // Something to see in each CPU profile, and no longer than they take.
    let work = || send(&example, "/burn?ms=2000");
    let _first = work();
    // What is remembered between profiles, names above all, is there after the first.
    for path in ["/debug/pprof/profile?seconds=1", "/debug/pprof/heap"] {
        let mut answer = Vec::new();
        send(&example, path).read_to_end(&mut answer).expect("an answer");
    }
    let before = memory(&example);
    for round in 0..3 {
        let _work = work();
        captures_at_once(&example, "/debug/pprof/profile?seconds=1");
        captures_at_once(&example, "/debug/pprof/heap");
        println!("round {round}: {before} MiB before, {} MiB now", memory(&example));
    }
    let after = memory(&example);
    assert!(after <= before + MOST, "{before} MiB before, {after} MiB after");
}
