//! Tenants in one bucket: each fills and reads only its own part of it.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use flamelet_collect::{Access, Options, Reader, Store, Tenants};
use flamelet_profile::{Budget, Limits, pprof};

use crate::memory::Bucket;
use crate::serving::{connect, while_serving_tenants};
use crate::support::{Noting, T0, cpu};

/// Tenants whose folders would be the same or inside each other if names were taken as they are.
const TENANTS: [(&str, &str); 4] = [("red", "r"), ("RED", "R"), ("red.x", "x"), ("a*b'(c)!", "s")];
const TOKENS: &str = "plain\nred r\nRED R\nred.x x\na*b'(c)! s\n";

/// What can be asked, with ranges that have everything.
const QUESTIONS: [&str; 8] = [
    "GET /",
    "GET /api/services?from=2026-01-01T00:00:00Z",
    "GET /api/labels?from=2026-01-01T00:00:00Z",
    "GET /api/top?from=2026-01-01T00:00:00Z&by=service",
    "GET /api/changes?from=2026-01-01T00:00:00Z",
    "GET /top?from=2026-01-01T00:00:00Z&by=service",
    "GET /changes?from=2026-01-01T00:00:00Z",
    "POST /querier.v1.QuerierService/LabelValues",
];

fn open(bucket: &Arc<Bucket>, disk: &tempfile::TempDir, is_read_only: bool) -> Arc<Tenants> {
    let mut options = Options::shared(disk.path());
    options.keep = Duration::from_secs(100 * 365 * 86_400);
    let outside = || Box::new(Noting::default()) as _;
    Arc::new(Tenants::open_shared(bucket.client(), options, is_read_only, outside).expect("opened"))
}

fn send(address: SocketAddr, request: &str, headers: &str, body: &[u8]) -> (String, String) {
    let mut stream = connect(address, &format!("{request} HTTP/1.1"));
    let head = format!("{headers}Content-Length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.split(' ').nth(1).unwrap_or_default().to_owned(), body.to_owned())
}

/// Returns the name of the service that a tenant has. No other has a part of it in its name.
fn service(number: usize) -> String {
    format!("of-number-{number}-only")
}

/// Asks everything as every tenant.
fn check(address: SocketAddr) {
    for question in QUESTIONS {
        let body: &[u8] = if question.starts_with("POST") {
            br#"{"start":"0","end":"99999999999999","name":"service_name"}"#
        } else {
            b""
        };
        for (number, (tenant, token)) in TENANTS.iter().enumerate() {
            let headers =
                format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\nAccept: */*\r\n");
            let (status, answer) = send(address, question, &headers, body);
            assert_eq!(status, "200", "{question} {tenant}: {answer}");
            let seen: Vec<usize> = (0..=TENANTS.len()).filter(|at| answer.contains(&service(*at))).collect();
            let wanted = if question.contains("labels") { Vec::new() } else { vec![number] };
            assert_eq!(seen, wanted, "{question} {tenant}: {answer}");
            let zones: Vec<usize> =
                (0..=TENANTS.len()).filter(|at| answer.contains(&format!("zone-{at}"))).collect();
            assert!(zones.is_empty() || zones == [number], "{question} {tenant}: {answer}");
            // Nobody can choose another's by saying so.
            let other = TENANTS[(number + 1) % TENANTS.len()].0;
            let (status, _) = send(address, question, &format!("{headers}X-Scope-OrgID: {other}\r\n"), body);
            assert_eq!(status, "403", "{question} {tenant} as {other}");
        }
        assert_eq!(send(address, question, "", body).0, "401", "{question}");
    }
}

#[test]
fn tenants_in_a_bucket_cannot_read_each_other() {
    let bucket = Arc::new(Bucket::default());
    let disk = tempfile::tempdir().expect("a folder");
    let tenants = open(&bucket, &disk, false);
    let access = || Access::parse(TOKENS).expect("tokens");
    while_serving_tenants(&tenants, access(), |address| {
        let tokens = TENANTS.map(|(_, token)| token).into_iter().chain(["plain"]);
        for (number, token) in tokens.enumerate() {
            let profile = pprof::encode(&cpu(T0, &[("main;work", 5)]));
            let name = format!("{}%7Bzone%3Dzone-{number}%7D", service(number));
            let request = format!("POST /ingest?name={name}&format=pprof&from=1768471200");
            let (status, body) =
                send(address, &request, &format!("Authorization: Bearer {token}\r\n"), &profile);
            assert_eq!(status, "200", "{body}");
        }
        // From the logs, and from the bucket.
        check(address);
        tenants.maintain();
        check(address);
    });
    tenants.close();
    for number in 0..TENANTS.len() {
        let paths = bucket.paths();
        let own: Vec<&String> = paths.iter().filter(|path| path.contains(&service(number))).collect();
        assert!(!own.is_empty() && own.iter().all(|path| path.starts_with("tenants/")), "{own:?}");
    }
    let folders = bucket.client().list("tenants").expect("listed").folders;
    assert_eq!(folders.len(), TENANTS.len(), "{folders:?}");
    // The reader of the whole bucket sees what is of no tenant, and of a part what is there.
    let main = Reader::open_shared(bucket.client()).expect("opened");
    assert_eq!(main.services(&Budget::new(Limits::SERVICE)).expect("read"), [service(TENANTS.len())]);

    // Another collector that only reads, and the same again after a restart.
    let nothing = tempfile::tempdir().expect("a folder");
    while_serving_tenants(&open(&bucket, &nothing, true), access(), check);
    assert_eq!(std::fs::read_dir(nothing.path()).expect("a folder").count(), 0, "readers write nothing");
    drop(tenants);
    while_serving_tenants(&open(&bucket, &disk, false), access(), check);
}
