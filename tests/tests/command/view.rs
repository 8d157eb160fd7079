//! `flamelet view` and `flamelet demo`: what they print, keep and serve. The page itself is tested in `ui/tests`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};

use flamelet_tests::programs::{answer, command, flamelet, json_of, run_flamelet};
use flamelet_tests::{profiles, wire};
use serde_json::Value;

/// A viewer that runs until it is dropped.
struct Viewer {
    process: Child,
    address: String,
    /// The query of the printed URL, with the token.
    token: String,
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
        let (address, token) = line.split_once("/?token=").unwrap_or((line.trim_end_matches('/'), ""));
        let address = address.trim_start_matches("http://").to_owned();
        Self { process, address, token: token.to_owned() }
    }

    fn ask(&self, path: &str) -> Value {
        let answer = self.ask_as(&self.address, path);
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}\n{body}");
        serde_json::from_str(body).expect("JSON")
    }

    /// Returns the whole answer to a request for `host` with the token.
    fn ask_as(&self, host: &str, path: &str) -> String {
        self.ask_with(&format!("Host: {host}\r\nAuthorization: Bearer {}\r\n", self.token), path)
    }

    fn ask_with(&self, headers: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("the viewer listens");
        write!(stream, "GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n").expect("it reads");
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
        // The process is gone already if it failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the flat and cumulative values of each function in `flamelet top`.
fn top(path: &str) -> BTreeMap<String, (i64, i64)> {
    let report = json_of(["top", "--json", "--nodecount=0", "--nodefraction=0", path]);
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

/// `pprof -http`, for profiles that are merged and filtered first.
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

/// A viewer with `--host` accepts requests by address, but not by a host name that someone else points at it.
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
        // Every loopback address is this machine, but by default only one of them is listened on.
        assert!(TcpStream::connect(format!("127.0.0.2:{}", viewer.port())).is_ok(), "{words:?}");
    }
    for words in [&[path][..], &["--host", "localhost", path], &["--host", "127.0.0.1", path]] {
        let viewer = Viewer::start(words);
        assert!(viewer.address.starts_with("127.0.0.1:"), "{words:?}: {}", viewer.address);
        assert!(TcpStream::connect(format!("127.0.0.2:{}", viewer.port())).is_err(), "{words:?}");
    }
    // On a port that is in use. (Some kernel settings allow listening on addresses that the machine does not have.)
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port().to_string();
    let refused = run_flamelet(["view", "--no-browser", "--host", "127.0.0.1", "--port", &port, path]);
    assert_eq!((refused.status, refused.stdout.as_str()), (Some(2), ""), "{}", refused.stderr);
    assert!(refused.stderr.starts_with(&format!("flamelet: 127.0.0.1, port {port}: ")), "{}", refused.stderr);
}

#[test]
fn nobody_is_answered_without_the_token_that_was_printed() {
    let profile = profiles::committed("go-cpu");
    let path = profile.to_str().expect("UTF-8");
    for words in [&["view", "--no-browser", path][..], &["pprof", "-no_browser", "-http=localhost:0", path]] {
        let viewer = Viewer::run(words);
        let host = format!("Host: {}\r\n", viewer.address);
        for path in ["/", "/app.js", "/api/open", "/api/code?fn=main.main", "/api/open?token=00"] {
            let answer = viewer.ask_with(&host, path);
            assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("?token="), "{path}: {answer}");
        }
        assert!(viewer.ask_with(&host, &format!("/?token={}", viewer.token)).starts_with("HTTP/1.1 200"));
    }
}

/// A profile may name any file as its source.
#[test]
fn a_file_that_only_the_profile_names_is_not_shown() {
    let folder = profiles::scratch().join("viewer's sources");
    std::fs::create_dir_all(&folder).expect("a folder below target/");
    let secret = folder.join("secret.txt");
    std::fs::write(&secret, "s3cret\n").expect("written");
    let profile = profiles::written("names-a-secret.pb", || {
        let mut file = wire::ProfileFile::new(&[("samples", "count")]);
        let function = file.function("f", "f", secret.to_str().expect("UTF-8"), 1);
        let location = file.location(0, 0x1000, &[(function, 1, 0)]);
        file.sample(&[location], &[1], &[]);
        file.into_bytes()
    });
    let path = profile.to_str().expect("UTF-8");
    // The working folder is the package's, and the secret is not below it.
    let refused = Viewer::start(&[path]).ask("/api/code?fn=f");
    assert!(!refused.to_string().contains("s3cret"), "{refused}");
    assert!(
        refused["files"][0]["missing"].as_str().is_some_and(|why| why.contains("--source-path")),
        "{refused}"
    );
    let folder = folder.to_str().expect("UTF-8");
    let shown = Viewer::start(&["--source-path", folder, path]).ask("/api/code?fn=f");
    assert_eq!(shown["files"][0]["lines"][0]["text"], "s3cret");
    // Source files of this machine are only shown on this machine.
    let others = Viewer::start(&["--host", "0.0.0.0", "--source-path", folder, path]);
    assert!(others.ask_as(&others.address, "/api/code?fn=f").starts_with("HTTP/1.1 404"));
    let asked_for = ["--host", "0.0.0.0", "--serve-sources", "--source-path", folder, path];
    assert_eq!(Viewer::start(&asked_for).ask("/api/code?fn=f")["files"][0]["lines"][0]["text"], "s3cret");
}

/// The debug information of the profiled binary names its source files, in any folder.
#[test]
fn a_source_file_that_the_binary_names_is_shown() {
    let folder = profiles::scratch().join("confirmed sources");
    std::fs::create_dir_all(&folder).expect("a folder below target/");
    let (source, binary) = (folder.join("hot.c"), folder.join("hot"));
    std::fs::write(&source, "int hot(int x) { return x; }\nint main(void) { return hot(0); }\n")
        .expect("written");
    let built = answer(
        command("cc".as_ref())
            .args(["-g", "-O0", "-no-pie", "-Wl,--build-id", "-o"])
            .args([&binary, &source]),
    );
    assert_eq!(built.status, Some(0), "{}", built.stderr);
    let listing = answer(command("nm".as_ref()).arg(&binary)).stdout;
    let line = listing.lines().find(|line| line.ends_with(" T hot")).expect("the function");
    let address = u64::from_str_radix(line.split(' ').next().expect("an address"), 16).expect("hexadecimal");
    let notes = answer(command("readelf".as_ref()).arg("-n").arg(&binary)).stdout;
    let id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).expect("an id").to_owned();
    let viewer = |name: &str, build_id: &str| {
        let profile = profiles::written(name, || {
            let mut file = wire::ProfileFile::new(&[("samples", "count")]);
            let start = address & !0xfff;
            let path = |path: &std::path::Path| path.to_str().expect("UTF-8").to_owned();
            let mapping = file.mapping(start, start + 0x1000, start & 0xf_ffff, &path(&binary), build_id);
            let function = file.function("hot", "hot", &path(&source), 1);
            let location = file.location(mapping, address + 4, &[(function, 1, 0)]);
            file.sample(&[location], &[1], &[]);
            file.into_bytes()
        });
        Viewer::start(&[profile.to_str().expect("UTF-8")]).ask("/api/code?fn=hot")
    };
    let shown = viewer("confirmed.pb", &id);
    assert_eq!(shown["files"][0]["lines"][0]["text"], "int hot(int x) { return x; }", "{shown}");
    let other = viewer("another-build.pb", "0102030405060708");
    assert_eq!(other["files"][0]["lines"][0]["text"], "", "{other}");
}

#[test]
fn what_is_mine_is_the_users_own() {
    let demo = profiles::committed("demo-cpu");
    let demo = demo.to_str().expect("a plain path");
    let owner_of_tokio = |mine: &[&str]| {
        let flame = Viewer::start(&[mine, &[demo]].concat()).ask("/api/flame?fold=all");
        let column = |name: &str| flame[name].as_array().expect("a column").clone();
        let (names, owners, kinds) = (column("names"), column("owner"), column("owner_kinds"));
        let owners = owners.iter().map(|kind| kinds[kind.as_u64().expect("a row") as usize].clone());
        let tokio = names
            .iter()
            .zip(owners)
            .filter(|(name, _)| name.as_str().expect("a name").starts_with("tokio::"));
        let kinds: BTreeSet<String> =
            tokio.map(|(_, kind)| kind.as_str().expect("a word").to_owned()).collect();
        kinds.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(owner_of_tokio(&[]), ["runtime"]);
    assert_eq!(owner_of_tokio(&["--mine", "^tokio::"]), ["yours"]);
}

/// A binary before the profile, as for pprof, is not treated as another profile.
#[test]
fn a_binary_may_stand_before_the_profile() {
    let profile = profiles::committed("go-cpu");
    let program = flamelet().to_str().expect("a plain path");
    let viewer = Viewer::start(&[program, profile.to_str().expect("a plain path")]);
    let opened = viewer.ask("/api/open");
    assert_eq!(opened["entries"].as_array().map(Vec::len), Some(1), "{opened}");
}

#[test]
fn an_empty_folder_is_noted() {
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
fn what_cannot_be_opened_is_reported_before_anything_is_served() {
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
    // Other users of this machine cannot guess the path of its endpoints.
    let secret = demo.stderr.split_once("http://127.0.0.1:").and_then(|(_, rest)| rest.split('/').nth(1));
    assert!(secret.is_some_and(|secret| secret.len() == 32), "{}", demo.stderr);
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
