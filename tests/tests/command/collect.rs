//! `flamelet collect`: scraped, pushed and ingested profiles, and the answers about them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flamelet_profile::{LabelSetId, ProfileBuilder, pprof};
use flamelet_test_support::Random;
use flamelet_tests::programs::{command, flamelet, repository, run_flamelet};
use serde_json::{Value, json};

pub(crate) const SECOND: i64 = 1_000_000_000;
const PATIENCE: Duration = Duration::from_secs(180);

pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_nanos()).expect("not far in the future")
}

/// A pprof file: one function with this many samples of 10 ms.
pub(crate) fn profile(time: i64, function: &str, samples: i64) -> Vec<u8> {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.set_period("cpu", "nanoseconds", 10_000_000);
    let frames = [builder.named_frame(function), builder.named_frame("main")];
    let stack = builder.stack(&frames);
    builder.sample(stack, LabelSetId::EMPTY, &[samples, samples * 10_000_000]);
    let header = builder.header_mut();
    (header.time_nanos, header.duration_nanos) = (time, SECOND);
    let mut bytes = Vec::new();
    pprof::write_gzip(&builder.finish(), &mut bytes).expect("written");
    bytes
}

/// Returns the path of a certificate or a key of the tests.
pub(crate) fn certificate(name: &str) -> PathBuf {
    repository().join("testdata/tls").join(name)
}

/// A running collector.
pub(crate) struct Collector {
    child: Child,
    scheme: String,
    pub(crate) address: String,
}

impl Collector {
    pub(crate) fn start(store: &Path, more: &[&str]) -> Self {
        let mut command = command(flamelet());
        command.args(["collect", "--store"]).arg(store).args(more);
        Self::run(&mut command)
    }

    pub(crate) fn start_tls(store: &Path, more: &[&str]) -> Self {
        let mut command = command(flamelet());
        command.args(["collect", "--store"]).arg(store).args(more);
        command.arg("--tls-cert").arg(certificate("server.pem"));
        command.arg("--tls-key").arg(certificate("server.key"));
        Self::run(&mut command)
    }

    /// Runs `flamelet collect` with arguments of its own on a free port.
    pub(crate) fn run(command: &mut Command) -> Self {
        Self::run_at(command, "127.0.0.1:0")
    }

    /// The same on another address.
    pub(crate) fn run_at(command: &mut Command, listen: &str) -> Self {
        command.args(["--listen", listen]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let (scheme, address) = line.trim().split_once("://").expect(&line);
        Self { child, scheme: scheme.to_owned(), address: address.to_owned() }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Sends a request, and returns the status and the body.
    pub(crate) fn send(&self, head: &str, body: &[u8]) -> (u16, Vec<u8>) {
        try_send(&self.address, head, body).expect("an answer")
    }

    pub(crate) fn call(&self, method: &str, request: &Value) -> Value {
        let head =
            format!("POST /querier.v1.QuerierService/{method} HTTP/1.1\r\nContent-Type: application/json");
        let (status, body) = self.send(&head, request.to_string().as_bytes());
        assert_eq!(status, 200, "{method}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).expect("JSON")
    }

    /// Ends it as a person or systemd does.
    pub(crate) fn end(mut self) {
        self.terminate();
        assert!(self.child.wait().expect("it ends").success());
    }

    /// Ends it, and returns its peak memory in bytes.
    pub(crate) fn end_with_peak(self) -> u64 {
        self.terminate();
        let (status, peak) = flamelet_tests::peak::wait(self.child.id());
        assert!(status.success(), "{status}");
        peak
    }

    fn terminate(&self) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        // SAFETY: it is our child and has not been waited for.
        #[allow(unsafe_code, reason = "std sends only SIGKILL")]
        let sent = unsafe { libc::kill(pid, libc::SIGTERM) };
        assert_eq!(sent, 0);
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("it ends");
    }
}

pub(crate) fn try_send(address: &str, head: &str, body: &[u8]) -> std::io::Result<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let head =
        format!("{head}\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    // What is refused before its body is read is answered, and then perhaps reset.
    let sent = stream.write_all(&[head.as_bytes(), body].concat());
    let mut answer = Vec::new();
    let received = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let status = String::from_utf8_lossy(&answer).split(' ').nth(1).and_then(|status| status.parse().ok());
    let (Some(end), Some(status)) = (end, status) else {
        sent?;
        received?;
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    };
    Ok((status, answer[end + 4..].to_vec()))
}

pub(crate) fn ingest(name: &str, time: i64) -> String {
    format!(
        "POST /ingest?name={name}&from={}&until={}&format=pprof HTTP/1.1",
        time / SECOND,
        time / SECOND + 1
    )
}

pub(crate) fn answer(arguments: &[&str]) -> String {
    let answer = run_flamelet(arguments);
    assert_eq!(answer.status, Some(0), "{arguments:?}: {}", answer.stderr);
    answer.stdout
}

/// Returns the total of the CPU samples of a service, as `flamelet` reports it; 0 if there are none.
fn samples(store: &str, service: &str) -> i64 {
    let out = Path::new(store).with_extension("pb.gz");
    let answer = run_flamelet([
        "proto",
        store,
        "--service",
        service,
        "--from",
        "-1h",
        "-o",
        out.to_str().expect("text"),
    ]);
    if answer.status != Some(0) {
        return 0;
    }
    pprof::read(&std::fs::read(out).expect("written"), &pprof::Limits::default()).expect("pprof").total(0)
}

/// A service that answers each request for a profile with a new one.
fn service() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve_profile(stream));
        }
    });
    address
}

fn serve_profile(mut stream: TcpStream) {
    let mut head = String::new();
    let mut reader = BufReader::new(stream.try_clone().expect("cloned"));
    reader.read_line(&mut head).expect("a request");
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
        line.clear();
    }
    let (status, body) = match head.contains("/debug/pprof/profile?seconds=1 ") {
        true => ("200 OK", profile(now(), "busy_work", 7)),
        false => ("403 Forbidden", b"no heap profiling".to_vec()),
    };
    // As a service that takes the time of its profile.
    std::thread::sleep(Duration::from_millis(100));
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let _ = stream.write_all(&[head.as_bytes(), &body].concat());
}

#[test]
fn a_service_is_scraped_and_its_profiles_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let path = store.to_str().expect("text");
    let scraped = format!("shop={}", service());
    let collector = Collector::start(&store, &["--scrape", &scraped, "--interval", "1s", "--flush", "1s"]);
    let begin = Instant::now();
    while samples(path, "shop") < 35 {
        assert!(begin.elapsed() < PATIENCE, "five profiles arrive");
    }
    let top = answer(&["top", path, "--service", "shop", "--from", "-1h"]);
    assert!(top.contains("busy_work"), "{top}");
    for verb in [&["top", "--json"][..], &["explain"], &["tree"], &["tags"]] {
        let arguments = [&verb[..1], &[path, "--from", "-1h"], &verb[1..]].concat();
        // One service need not be named.
        assert!(answer(&arguments).len() > 10, "{arguments:?}");
    }
    collector.end();
    let before = samples(path, "shop");
    assert_eq!(before % 7, 0);
    assert!(
        std::fs::read_dir(store.join("log")).expect("a folder").next().is_none(),
        "everything is in blocks"
    );
    let views = answer(&["collect", "sql", "duckdb", "--store", path]);
    assert!(views.contains("read_parquet('") && views.contains("/blocks/*/*/*/series.parquet')"), "{views}");
    assert!(answer(&["collect", "sql", "clickhouse", "--store", path]).contains("file('"));
    let before = format!("{path}?from=-2h");
    let changed = answer(&["diff", &before, path, "--service", "shop", "--from", "-1h", "--json"]);
    assert!(serde_json::from_str::<Value>(&changed).is_ok(), "{changed}");
}

#[test]
fn profiles_are_pushed_and_queried_as_with_pyroscope() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let collector = Collector::start(&store, &[]);
    let file = folder.path().join("cpu.pb.gz");
    std::fs::write(&file, profile(now() - 60 * SECOND, "pushed_work", 5)).expect("written");
    let file = file.to_str().expect("text");
    for region in ["region=north", "region=south", "region=north"] {
        answer(&["push", file, "--to", &collector.url(), "--service", "checkout", "--label", region]);
    }
    let time = now() - 30 * SECOND;
    let (status, body) =
        collector.send(&ingest("cart%7Bregion%3Deast%7D", time), &profile(time, "ingested", 3));
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    let folded = ingest("cart", time).replace("pprof", "folded");
    assert_eq!(collector.send(&folded, b"main;folded_work 4\n").0, 200);

    let range = json!({ "start": (now() - 3600 * SECOND) / 1_000_000, "end": now() / 1_000_000 });
    let with = |more: Value| {
        let mut request = range.clone();
        let more = more.as_object().expect("an object").clone();
        request.as_object_mut().expect("an object").extend(more);
        request
    };
    let types = collector.call("ProfileTypes", &range).to_string();
    assert!(types.contains("process_cpu:cpu:nanoseconds:cpu:nanoseconds"), "{types}");
    let services = collector.call("LabelValues", &with(json!({ "name": "service_name" })));
    assert_eq!(services, json!({ "names": ["cart", "checkout"] }));
    let regions = with(json!({ "name": "region", "matchers": ["{service_name=\"checkout\"}"] }));
    assert_eq!(collector.call("LabelValues", &regions), json!({ "names": ["north", "south"] }));
    let cpu = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";
    let flame = |selector: &str| {
        let request = with(json!({ "profileTypeID": cpu, "labelSelector": selector }));
        collector.call("SelectMergeStacktraces", &request)["flamegraph"].clone()
    };
    assert_eq!(flame("{service_name=\"checkout\"}")["total"], "100000000", "what was sent twice counts once");
    assert_eq!(flame("{service_name=\"checkout\",region=\"south\"}")["total"], "50000000");
    assert_eq!(flame("{}")["total"], "170000000");
    assert!(flame("{service_name=\"cart\"}")["names"].to_string().contains("folded_work"));
    let grouped = with(
        json!({ "profileTypeID": cpu, "labelSelector": "{}", "groupBy": ["service_name"], "step": 3600 }),
    );
    let series = collector.call("SelectSeries", &grouped);
    assert_eq!(series["series"].as_array().map(Vec::len), Some(2), "{series}");

    // Another process reads the same folder.
    let reader = Collector::start(&store, &["--read-only"]);
    assert_eq!(reader.call("LabelValues", &with(json!({ "name": "service_name" }))), services);
    assert_eq!(reader.send(&ingest("cart", time), &profile(time, "x", 1)).0, 405);
    reader.end();
    collector.end();
}

#[test]
fn what_is_refused_is_refused_loudly() {
    let folder = tempfile::tempdir().expect("a folder");
    let tokens = folder.path().join("tokens");
    std::fs::write(&tokens, "# team\nsecret\n").expect("written");
    let config = folder.path().join("collect.yaml");
    std::fs::write(&config, "limits:\n  series: 1\n  body: 1MiB\n").expect("written");
    let more = ["--token-file", tokens.to_str().expect("text"), "--config", config.to_str().expect("text")];
    let collector = Collector::start(&folder.path().join("store"), &more);
    let time = now() - 30 * SECOND;
    let send =
        |head: &str, body: &[u8]| collector.send(&format!("{head}\r\nAuthorization: Bearer secret"), body);
    assert_eq!(collector.send(&ingest("cart", time), &profile(time, "x", 1)).0, 401);
    assert_eq!(collector.send("GET /ready HTTP/1.1", b"").0, 200, "probes need no token");
    assert_eq!(send(&ingest("cart", time), &profile(time, "x", 1)).0, 200);
    for (head, body, status, words) in [
        (ingest("cart%7Ba%3D1%7D", time), profile(time, "x", 1), 429, "limits.series"),
        (ingest("cart", time), vec![0; 2 << 20], 413, "limits.body"),
        (ingest("cart", time), b"\x1f\x8bxx".to_vec(), 400, "gzip"),
        ("POST /ingest HTTP/1.1".to_owned(), Vec::new(), 400, "name is missing"),
        ("POST /push.v1.PusherService/Push HTTP/1.1".to_owned(), Vec::new(), 415, "application/proto"),
        ("GET /nowhere HTTP/1.1".to_owned(), Vec::new(), 404, "not served"),
        (format!("{}\r\nOrigin: http://evil", ingest("cart", time)), Vec::new(), 403, "other sites"),
    ] {
        let (found, answer) = send(&head, &body);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(found == status && answer.contains(words), "{head}: {found} {answer}");
    }
    let (_, metrics) = send("GET /metrics HTTP/1.1", b"");
    assert!(String::from_utf8_lossy(&metrics).contains("flamelet_collect_profiles_accepted_total 1\n"));
    collector.end();
}

/// Kills the collector at random moments, while profiles arrive and blocks are written every moment. Every profile that
/// was acknowledged is there once; one that was not may be there or not. `FLAMELET_COLLECT_KILLS` says how often.
#[test]
fn nothing_acknowledged_is_lost_when_it_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let path = store.to_str().expect("text");
    let mut random = Random::new(18);
    let (mut acknowledged, mut sent) = (0, 0);
    let kills = std::env::var("FLAMELET_COLLECT_KILLS").ok();
    let kills: i64 = kills.map_or(12, |text| text.parse().expect("a number"));
    for round in 0..kills {
        let collector = Collector::start(&store, &["--flush", "20ms"]);
        let address = collector.address.clone();
        let time = now() - 1800 * SECOND + round * SECOND;
        let sender = std::thread::spawn(move || {
            let (mut acknowledged, mut sent) = (0, 0);
            loop {
                sent += 1;
                // Each has its own time, so none is taken for another.
                let body = profile(time + sent * 1_000_000, "work", 1);
                match try_send(&address, &ingest("checkout", time), &body) {
                    Ok((200, _)) => acknowledged += 1,
                    _ => return (acknowledged, sent),
                }
            }
        });
        std::thread::sleep(Duration::from_millis(random.below(400) as u64));
        collector.kill();
        let (more, all) = sender.join().expect("no panic");
        acknowledged += more;
        sent += all;
        // What is there is read again and again, and grows: of many kills, each check is for several.
        if round % (kills / 50).max(1) == 0 || round + 1 == kills {
            let found = samples(path, "checkout");
            assert!(
                (acknowledged..=sent).contains(&found),
                "round {round}: {acknowledged} acknowledged, {found} found, {sent} sent"
            );
        }
    }
    assert!(acknowledged > 0, "some were acknowledged before a kill");
    let found = samples(path, "checkout");
    Collector::start(&store, &[]).end();
    assert_eq!(samples(path, "checkout"), found, "a restart changes nothing");
}

/// An API server that lists one pod, to whoever has the token.
fn api_server(target: &str, token: &'static str) -> String {
    let port = target.rsplit_once(':').expect("a port").1;
    let list = json!({ "metadata": {}, "items": [{
        "metadata": { "name": "shop-1", "namespace": "prod", "annotations": {
            "profiles.grafana.com/cpu.scrape": "true",
            "profiles.grafana.com/cpu.port_name": "http",
            "profiles.grafana.com/service_name": "annotated",
        } },
        "spec": { "containers": [{ "name": "web", "ports": [
            { "name": "http", "containerPort": port.parse::<u16>().expect("a port") },
            { "name": "other", "containerPort": 1 },
        ] }] },
        "status": { "podIP": "127.0.0.1", "phase": "Running" },
    }] });
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = String::new();
            let mut reader = BufReader::new(stream.try_clone().expect("cloned"));
            while reader.read_line(&mut head).is_ok_and(|count| count > 2) {}
            let is_good = head.starts_with("GET /api/v1/namespaces/prod/pods?limit=500 ")
                && head.to_lowercase().contains(&format!("authorization: bearer {token}\r\n"));
            let (status, body) =
                if is_good { ("200 OK", list.to_string()) } else { ("401 Unauthorized", head.clone()) };
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(&[head.as_bytes(), body.as_bytes()].concat());
        }
    });
    address
}

#[test]
fn pods_and_targets_in_files_are_found_and_relabelled() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let path = store.to_str().expect("text");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let target = service();
    let token = write("token", "letmein\n");
    let api = api_server(&target, "letmein");
    let lists = write("list.json", "[]").replace("list.json", "*.json");
    let config = format!(
        r"scrape_configs:
  - job_name: pods
    scrape_interval: 1s
    kubernetes_sd_configs:
      - role: pod
        api_server: http://{api}
        namespaces:
          names: [prod]
        authorization:
          credentials_file: {token}
    relabel_configs:
      - source_labels: [__meta_kubernetes_pod_name]
        target_label: pod
  - job_name: files
    scrape_interval: 1s
    profiles: [cpu]
    file_sd_configs:
      - files: ['{lists}']
        refresh_interval: 100ms
    relabel_configs:
      - source_labels: [team, job]
        separator: /
        target_label: service_name
"
    );
    let config = write("collect.yaml", &config);
    let collector = Collector::start(&store, &["--config", &config]);
    let begin = Instant::now();
    while samples(path, "annotated") < 7 {
        assert!(begin.elapsed() < PATIENCE, "the pod is scraped");
    }
    write("list.json", &json!([{ "targets": [target], "labels": { "team": "red" } }]).to_string());
    while samples(path, "red/files") < 7 {
        assert!(begin.elapsed() < PATIENCE, "the target of the file is scraped");
    }
    let range = json!({ "start": (now() - 3600 * SECOND) / 1_000_000, "end": now() / 1_000_000,
        "labelNames": ["service_name", "pod", "team", "job"], "matchers": ["{job=~\".+\"}"] });
    let series = collector.call("Series", &range).to_string();
    for words in ["shop-1", "red", "pods", "files"] {
        assert!(series.contains(&format!("\"{words}\"")), "{words}: {series}");
    }
    collector.end();
}

#[test]
fn mistakes_in_the_configuration_have_a_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("collect.yaml");
    let check = |text: &str| {
        std::fs::write(&config, text).expect("written");
        run_flamelet(["collect", "--config", config.to_str().expect("text"), "--check"])
    };
    let good =
        check("store: x\nscrape_configs:\n  - job_name: a\n    static_configs:\n      - targets: [h:1]\n");
    assert_eq!(good.status, Some(0), "{}", good.stderr);
    assert!(good.stderr.contains("1 target,"), "{}", good.stderr);
    assert!(!Path::new("x").exists(), "--check makes nothing");
    let bad = check("store: x\nflush: soon\n");
    assert_eq!(bad.status, Some(2));
    assert!(bad.stderr.contains("collect.yaml:2:8: \"soon\" is not a length of time"), "{}", bad.stderr);
    let tokens = check("store: x\ntoken_file: /nowhere/tokens\n");
    let words = "collect.yaml:2:13: /nowhere/tokens: ";
    assert!(tokens.status == Some(2) && tokens.stderr.contains(words), "{}", tokens.stderr);
    assert_eq!(tokens.stderr.trim().lines().count(), 1, "{}", tokens.stderr);
    let none = run_flamelet(["collect"]);
    assert!(none.status == Some(2) && none.stderr.contains("--store DIR"), "{}", none.stderr);
    let wrong = run_flamelet(["collect", "--store", "x", "--scrape", "nowhere"]);
    assert!(wrong.status == Some(2) && wrong.stderr.contains("NAME=HOST:PORT"), "{}", wrong.stderr);
}

/// The files of deploy/ and the examples of docs/fleet.md are what the command reads.
#[test]
fn configurations_that_we_show_are_good() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder");
    let folder = tempfile::tempdir().expect("a folder");
    let document = std::fs::read_to_string(root.join("docs/fleet.md")).expect("the document");
    let mut shown =
        vec![root.join("deploy/fleet/collect.yaml"), root.join("deploy/kubernetes/collector/collect.yaml")];
    for (at, example) in document.split("```yaml\n").skip(1).enumerate() {
        let path = folder.path().join(format!("{at}.yaml"));
        std::fs::write(&path, example.split("```").next().unwrap_or_default()).expect("written");
        shown.push(path);
    }
    assert!(shown.len() > 3, "the document has examples");
    // In place of the one that the document names, which is not there.
    let tokens = folder.path().join("tokens");
    std::fs::write(&tokens, "token\n").expect("written");
    for path in shown {
        let (path, tokens) = (path.to_str().expect("text"), tokens.to_str().expect("text"));
        let answer =
            run_flamelet(["collect", "--config", path, "--store", "x", "--token-file", tokens, "--check"]);
        assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    }
}

#[test]
fn a_service_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let path = store.to_str().expect("text");
    let collector = Collector::start(&store, &[]);
    let time = now() - 30 * SECOND;
    for service in ["cart", "checkout"] {
        assert_eq!(collector.send(&ingest(service, time), &profile(time, "x", 1)).0, 200);
    }
    collector.end();
    for (arguments, words) in [
        (&["tree", path, "--from", "-1h"][..], "select a service with --service: cart, checkout"),
        (&["top", path, "--service", "shop"], "there is no service \"shop\"; there are cart, checkout"),
        (&["top", path, "--service", "cart", "--profile", "heap"], "cart has no memory profile"),
        (&["top", path, "--service", "cart", "--profile", "heap"], "; it has process_cpu (--profile NAME)"),
        (&["top", path, "--service", "cart", "--to", "-1h"], "there are profiles from"),
        (&["collect", "sql", "duckdb", "--store", "/"], "not the folder of a collector"),
    ] {
        let answer = run_flamelet(arguments);
        assert!(
            answer.status == Some(2) && answer.stderr.contains(words),
            "{arguments:?}: {}",
            answer.stderr
        );
        assert_eq!(answer.stderr.trim().lines().count(), 1, "{}", answer.stderr);
    }
}
