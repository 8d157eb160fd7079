//! `flamelet view` and `flamelet demo`: what they print, keep and serve. The page itself is tested in `ui/tests`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use flamelet_tests::profiles;
use flamelet_tests::programs::{command, flamelet, run_flamelet};
use serde_json::Value;

/// A viewer that runs until it is dropped.
struct Viewer {
    process: Child,
    address: String,
}

impl Viewer {
    fn start(arguments: &[&str]) -> Self {
        Self::run(&[&["view", "--no-browser"], arguments].concat())
    }

    fn run(arguments: &[&str]) -> Self {
        let mut process = command(flamelet())
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("flamelet starts");
        let stdout = process.stdout.take().expect("it is a pipe");
        let line = BufReader::new(stdout).lines().next().expect("a line").expect("text");
        let address = line.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Self { process, address }
    }

    fn ask(&self, path: &str) -> Value {
        let answer = self.ask_as(&self.address, path);
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}\n{body}");
        serde_json::from_str(body).expect("JSON")
    }

    /// The whole answer to a request for `host`.
    fn ask_as(&self, host: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("the viewer listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        answer
    }

    fn port(&self) -> &str {
        self.address.rsplit_once(':').expect("an address has a port").1
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        // It has ended already if it failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What `flamelet top` counts for each function: flat and cumulative.
fn top(path: &str) -> BTreeMap<String, (i64, i64)> {
    let answer = run_flamelet(["top", "--json", "--nodecount=0", "--nodefraction=0", path]);
    let report: Value = serde_json::from_str(&answer.stdout).expect("JSON");
    let rows = report["rows"].as_array().expect("rows").iter();
    let row = |row: &Value| {
        let number = |key: &str| row[key].as_i64().expect("a number");
        (row["name"].as_str().expect("a name").to_owned(), (number("flat"), number("cum")))
    };
    rows.map(row).collect()
}

#[test]
fn the_page_counts_what_top_counts() {
    let profile = profiles::committed("go-cpu");
    let path = profile.to_str().expect("a plain path");
    let viewer = Viewer::start(&[path]);
    let table = viewer.ask("/api/functions?sort=flat");
    let column = |name: &str| table[name].as_array().expect("a column").clone();
    let (names, flat, cum) = (column("names"), column("flat"), column("cum"));
    let shown: BTreeMap<String, (i64, i64)> = column("name")
        .iter()
        .zip(flat.iter().zip(&cum))
        .map(|(name, (flat, cum))| {
            let name = names[name.as_u64().expect("a row") as usize].as_str().expect("a name");
            (name.to_owned(), (flat.as_i64().expect("a number"), cum.as_i64().expect("a number")))
        })
        .collect();
    assert_eq!(shown, top(path));
}

#[test]
fn a_folder_offers_its_files_and_two_files_are_compared() {
    let folder = profiles::scratch().join("shelf");
    std::fs::create_dir_all(&folder).expect("a folder below target/");
    for name in ["go-cpu", "go-heap"] {
        let from = profiles::committed(name);
        std::fs::copy(&from, folder.join(from.file_name().expect("a file"))).expect("a copy");
    }
    let viewer = Viewer::start(&[folder.to_str().expect("a plain path")]);
    let opened = viewer.ask("/api/open");
    assert!(opened["about"].is_null());
    let names: Vec<_> = opened["entries"].as_array().expect("entries").iter().map(|e| &e["name"]).collect();
    assert_eq!(names, ["go-cpu.pb.gz", "go-heap.pb.gz"]);
    assert_eq!(viewer.ask("/api/open?p=go-heap.pb.gz")["about"]["is_heap"], true);

    let cpu = profiles::committed("go-cpu");
    let cpu = cpu.to_str().expect("a plain path");
    let both = Viewer::start(&[cpu, cpu]);
    let about = &both.ask("/api/open?base=0")["about"];
    assert_eq!(
        (&about["is_diff"], &about["types"][1]["total"]),
        (&true.into(), &about["types"][1]["base_total"])
    );
}

/// pprof's own way to the page, for profiles that it merges and filters first.
#[test]
fn pprof_http_serves_the_same_page() {
    let profile = profiles::committed("go-cpu");
    let path = profile.to_str().expect("a plain path");
    let total =
        |viewer: &Viewer| viewer.ask("/api/open")["about"]["types"][1]["total"].as_i64().expect("a total");
    let once = total(&Viewer::start(&[path]));
    assert_eq!(total(&Viewer::run(&["pprof", "-no_browser", "-http=localhost:0", path])), once);
    assert_eq!(total(&Viewer::run(&["pprof", "-http", "127.0.0.1:0", "-no_browser", path, path])), 2 * once);
    let focused = total(&Viewer::run(&["pprof", "-no_browser", "-http=:", "-focus=main.sort", path]));
    assert!(0 < focused && focused < once, "{focused} of {once}");
    let first = |viewer: Viewer| viewer.ask("/api/open")["about"]["default_type"].clone();
    assert_eq!(first(Viewer::run(&["pprof", "-no_browser", "-http=:", path])), 1);
    assert_eq!(first(Viewer::run(&["pprof", "-no_browser", "-http=:", "-sample_index=samples", path])), 0);
}

/// Whoever listens for others is asked by an address, never by a name that somebody made to point here.
#[test]
fn it_listens_where_it_is_told_to() {
    let profile = profiles::committed("go-cpu");
    let path = profile.to_str().expect("UTF-8");
    let own: [&[&str]; 2] = [
        &["pprof", "-no_browser", "-http=0.0.0.0:0", path],
        &["view", "--no-browser", "--host", "0.0.0.0", path],
    ];
    for words in own {
        let viewer = Viewer::run(words);
        let asked = |host: &str| viewer.ask_as(&format!("{host}:{}", viewer.port()), "/api/open");
        assert!(asked("192.0.2.1").starts_with("HTTP/1.1 200"), "{words:?}");
        assert!(asked("rebound.example").starts_with("HTTP/1.1 403"), "{words:?}");
        // All of loopback is this machine, but only one of it is listened on by default.
        assert!(TcpStream::connect(format!("127.0.0.2:{}", viewer.port())).is_ok(), "{words:?}");
    }
    for words in [&[path][..], &["--host", "localhost", path], &["--host", "127.0.0.1", path]] {
        let viewer = Viewer::start(words);
        assert!(viewer.address.starts_with("127.0.0.1:"), "{words:?}: {}", viewer.address);
        assert!(TcpStream::connect(format!("127.0.0.2:{}", viewer.port())).is_err(), "{words:?}");
    }
    // Nobody's, by its standard.
    let refused = run_flamelet(["view", "--no-browser", "--host", "192.0.2.1", path]);
    assert_eq!((refused.status, refused.stdout.as_str()), (Some(2), ""), "{}", refused.stderr);
    assert!(refused.stderr.starts_with("flamelet: 192.0.2.1, port 0: "), "{}", refused.stderr);
}

/// The binary that pprof takes first is no profile to be shown beside the other.
#[test]
fn a_binary_may_stand_before_the_profile() {
    let profile = profiles::committed("go-cpu");
    let program = flamelet().to_str().expect("a plain path");
    let viewer = Viewer::start(&[program, profile.to_str().expect("a plain path")]);
    let opened = viewer.ask("/api/open");
    assert_eq!(opened["entries"].as_array().map(Vec::len), Some(1), "{opened}");
}

#[test]
fn an_empty_folder_is_told_of() {
    let folder = profiles::scratch().join("no profiles yet");
    std::fs::create_dir_all(&folder).expect("a folder below target/");
    let mut process = command(flamelet())
        .args(["view", "--no-browser"])
        .arg(&folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("flamelet starts");
    let stderr = process.stderr.take().expect("it is a pipe");
    let line = BufReader::new(stderr).lines().next().expect("a line").expect("text");
    process.kill().expect("it runs");
    process.wait().expect("it ends");
    assert!(line.contains("no profiles in") && line.contains("no profiles yet"), "{line}");
}

#[test]
fn what_cannot_be_opened_is_told_before_anything_is_served() {
    let missing = run_flamelet(["view", "--no-browser", "no-such-file.pb.gz"]);
    assert_eq!((missing.status, missing.stdout.as_str()), (Some(2), ""), "{}", missing.stderr);
    assert_eq!(missing.stderr.lines().count(), 1, "{}", missing.stderr);
    let readme = flamelet_tests::programs::repository().join("LICENSE-MIT");
    let other = run_flamelet(["view", "--no-browser", readme.to_str().expect("a plain path")]);
    assert_eq!((other.status, other.stdout.as_str()), (Some(2), ""), "{}", other.stderr);
}

#[test]
fn the_demo_profiles_itself_and_keeps_what_it_found() {
    let folder = profiles::scratch().join("demo");
    let folder = folder.to_str().expect("a plain path");
    let demo = run_flamelet(["demo", "--once", "--duration", "2", "--output", folder]);
    assert_eq!(demo.status, Some(0), "{}", demo.stderr);
    assert!(demo.stdout.contains("Type: cpu"), "{}", demo.stdout);
    assert!(demo.stderr.contains("requests meanwhile"), "{}", demo.stderr);
    let counted = top(&format!("{folder}/cpu.pb.gz"));
    for route in ["count_primes", "count_words"] {
        assert!(counted.keys().any(|name| name.contains(route)), "{route}: {:?}", counted.keys());
    }
    for (file, kind) in
        [("heap", "inuse_space"), ("heap-lifetimes", "freed_space"), ("heap-growth", "growth_space")]
    {
        let info = run_flamelet(["info", "--json", &format!("{folder}/{file}.pb.gz")]);
        assert!(info.stdout.contains(kind), "{file}: {}{}", info.stdout, info.stderr);
    }
    let page = std::fs::read_to_string(format!("{folder}/cpu.html")).expect("the page");
    assert!(page.contains("count_primes") && page.contains("flamelet-data"));
}
