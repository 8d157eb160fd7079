//! Collectors on one bucket, each in a network of its own, which is cut off from the bucket for a while.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use flamelet_test_support::S3Server;
use flamelet_tests::programs::{command, flamelet};

use crate::bucket::{STORE, samples, set_bucket, try_samples};
use crate::collect::{Collector, SECOND, ingest, now, profile};

const PATIENCE: Duration = Duration::from_secs(180);

fn ip(arguments: &[&str]) -> bool {
    let output = Command::new("ip").args(arguments).output().expect("ip starts");
    output.status.success()
}

/// A network with two links to this machine: one leads to the bucket, the other to those who send profiles. Its addresses are
/// reserved for tests of networks.
struct Network {
    name: String,
    number: usize,
}

impl Network {
    /// Makes a network, or says that none can be made here.
    fn new(number: usize) -> Option<Self> {
        let name = format!("flamelet-{}-{number}", std::process::id());
        if !ip(&["netns", "add", &name]) {
            flamelet_test_support::skip!("no network can be made here");
            return None;
        }
        let network = Self { name, number };
        assert!(ip(&["-n", &network.name, "link", "set", "lo", "up"]));
        for inside in ["bucket", "senders"] {
            let outside = network.link(inside);
            let [here, there] = [1, 2].map(|host| format!("{}/30", network.address(inside, host)));
            let name = &*network.name;
            for arguments in [
                &["link", "add", &outside, "type", "veth", "peer", "name", inside, "netns", name][..],
                &["addr", "add", &here, "dev", &outside],
                &["-n", name, "addr", "add", &there, "dev", inside],
                &["link", "set", &outside, "up"],
                &["-n", name, "link", "set", inside, "up"],
            ] {
                assert!(ip(arguments), "ip {arguments:?}");
            }
        }
        Some(network)
    }

    /// Returns the name of this machine's end of a link.
    fn link(&self, inside: &str) -> String {
        format!("fl{}{}{}", &inside[..1], std::process::id(), self.number)
    }

    /// Returns the address of this machine (1) or of the network (2) on a link.
    fn address(&self, inside: &str, host: usize) -> String {
        let link = 2 * self.number + usize::from(inside == "senders");
        format!("198.18.{}.{}", std::process::id() % 256, 4 * link + host)
    }

    /// Cuts the link to the bucket: what is sent is lost, and nobody is told.
    fn cut(&self) {
        assert!(ip(&["link", "set", &self.link("bucket"), "down"]));
    }

    fn heal(&self) {
        assert!(ip(&["link", "set", &self.link("bucket"), "up"]));
    }

    /// Starts a collector in the network.
    fn collector(&self, server: &S3Server, home: &Path) -> Collector {
        let listener = TcpListener::bind((self.address("bucket", 1), 0)).expect("an address of this machine");
        let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
        let bucket = server.address.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let bucket = TcpStream::connect(&bucket).expect("it listens");
                pass_on(&stream, &bucket).expect("a thread");
            }
        });
        let mut inside = command(Path::new("ip"));
        inside.args(["netns", "exec", &self.name]).arg(flamelet());
        set_bucket(&mut inside, &endpoint, home);
        inside.env("AWS_ALLOW_HTTP", "true").args(["collect", "--store", STORE, "--flush", "1s", "--log"]);
        inside.arg(home.join(&self.name));
        Collector::run_at(&mut inside, &format!("{}:0", self.address("senders", 2)))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Of a test that has failed.
        if let Ok(left) = Command::new("ip").args(["netns", "pids", &self.name]).output() {
            for pid in String::from_utf8_lossy(&left.stdout).split_whitespace() {
                let _ = Command::new("kill").args(["-9", pid]).status();
            }
        }
        ip(&["netns", "del", &self.name]);
        for inside in ["bucket", "senders"] {
            ip(&["link", "del", &self.link(inside)]);
        }
    }
}

/// Passes on what comes on one connection to the other one, in both directions.
fn pass_on(one: &TcpStream, other: &TcpStream) -> io::Result<()> {
    for (from, to) in [(one, other), (other, one)] {
        let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
        std::thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Write);
        });
    }
    Ok(())
}

#[test]
fn collectors_that_are_cut_off_lose_nothing_and_count_nothing_twice() {
    if Command::new("ip").arg("-V").output().is_err() {
        flamelet_test_support::skip!("ip is not installed");
        return;
    }
    let Some(server) = S3Server::start() else { return };
    let (Some(first), Some(second)) = (Network::new(0), Network::new(1)) else { return };
    let home = tempfile::tempdir().expect("a folder");
    let (one, other) = (first.collector(&server, home.path()), second.collector(&server, home.path()));
    // The hour is over, so its blocks are merged at once, by both. Profile number `n` has `10^n` samples, so each digit of
    // the total says how often one was counted.
    let time = now() / SECOND * SECOND - 3 * 3600 * SECOND;
    let send = |collector: &Collector, number: u32| {
        let time = time + i64::from(number) * SECOND;
        let body = profile(time, "busy_work", 10i64.pow(number));
        let (status, body) = collector.send(&ingest("shop%2Fa", time), &body);
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    };
    let endpoint = format!("http://{}", server.address);
    let wait_for = |numbers: &[u32]| {
        let begin = Instant::now();
        loop {
            // Nothing is there yet at first.
            let total = try_samples(&endpoint, home.path()).unwrap_or(0);
            let digit = |place: u32| total / 10i64.pow(place) % 10;
            assert!((0..7).all(|place| digit(place) <= 1), "counted twice: {total}");
            if numbers.iter().all(|number| digit(*number) == 1) {
                return total;
            }
            assert!(begin.elapsed() < PATIENCE, "{numbers:?} are not in the bucket: {total}");
        }
    };
    send(&one, 0);
    send(&other, 0);
    wait_for(&[0]);
    first.cut();
    // Both are acknowledged, although one of them is cut off.
    send(&one, 1);
    send(&one, 2);
    send(&other, 1);
    send(&other, 3);
    assert_eq!(wait_for(&[1, 3]), 1011, "what only the first one has is not in the bucket");
    first.heal();
    second.cut();
    send(&one, 4);
    send(&other, 4);
    send(&other, 5);
    assert_eq!(wait_for(&[2, 4]), 11111, "what only the second one has is not in the bucket");
    second.heal();
    wait_for(&[5]);
    one.end();
    other.end();
    assert_eq!(samples(&endpoint, home.path()), 111_111);
}
