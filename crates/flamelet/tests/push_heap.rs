//! Memory, as receivers get it: what is in use at a moment, and what was allocated in a time. Neither is counted twice.

#[path = "support/requests.rs"]
mod requests;

use flamelet::{History, Profile, Profiler, Push};
use flamelet_capture::profile::{Budget, Limits, pprof};
use flamelet_store::{Query, Reader};
use requests::{Request, field, read_request};
use std::hint::black_box;
use std::io::Write;
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

flamelet::global_allocator!();

const DEADLINE: Duration = Duration::from_secs(180);

/// Starts a receiver that takes everything.
fn receiver() -> (String, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, taken) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let Some(request) = read_request(&mut stream) else { continue };
            let _ = sender.send(request);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    (address, taken)
}

fn kinds(profile: &Profile) -> Vec<String> {
    profile.sample_types().iter().map(|value| profile.string(value.kind).to_owned()).collect()
}

#[test]
fn memory_is_sent_so_that_it_adds_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let (address, taken) = receiver();
    let history = History::new(folder.path()).window(Duration::from_millis(100));
    let profiler = Profiler::builder().name("night").overhead_budget(None).history(history);
    let profiler = profiler.push(Push::pyroscope(&address)).start().expect("started");
    let patience = Instant::now();
    let mut held = Vec::new();
    let (mut in_use, mut allocated): (Vec<Profile>, Vec<Profile>) = Default::default();
    let mut take = |request: Request| {
        let series = field(&request.body, 1);
        let is_memory = String::from_utf8_lossy(&series).contains("memory");
        let profile = pprof::read(&field(&field(&series, 2), 1), &Limits::SERVICE).expect("pprof");
        match kinds(&profile) {
            kinds if !is_memory => assert!(kinds.iter().all(|kind| !kind.contains("space")), "{kinds:?}"),
            kinds if kinds == ["inuse_objects", "inuse_space"] => in_use.push(profile),
            kinds if kinds == ["alloc_objects", "alloc_space"] => allocated.push(profile),
            kinds => panic!("{kinds:?}"),
        }
        in_use.len() >= 3 && allocated.len() >= 3
    };
    loop {
        assert!(patience.elapsed() < DEADLINE, "no memory was sent");
        held.push(black_box(vec![7u8; 1 << 20]));
        if taken.recv_timeout(Duration::from_millis(10)).is_ok_and(&mut take) {
            break;
        }
    }
    drop(profiler);
    let reader = Reader::open(folder.path()).expect("opened");
    let mut end = i64::MIN;
    for profile in &allocated {
        let (start, length) = (profile.header.time_nanos, profile.header.duration_nanos);
        assert!(start >= end, "no allocation is in two windows");
        end = start + length;
        let query = Query::new("allocs", start, end);
        let (on_disk, _) = reader.profile(&query, &Budget::new(Limits::SERVICE)).expect("read");
        let on_disk = on_disk.expect("there");
        let column = kinds(&on_disk).iter().position(|kind| kind == "alloc_space").expect("there");
        assert_eq!(profile.total(1), on_disk.total(column));
    }
    // What is held is in each moment that follows, and not only its growth.
    assert!(in_use.iter().all(|profile| profile.total(1) > 0));
    drop(held);
}
