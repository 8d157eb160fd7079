//! What people ask a fleet: what changed, who uses how much, and the pages of a collector.

use std::path::Path;

use flamelet_profile::{LabelSetId, Line, ProfileBuilder, pprof};
use flamelet_tests::programs::run_flamelet;
use serde_json::Value;

use crate::collect::{Collector, SECOND, ingest, now};

/// A CPU profile of 10 s: ten functions with 1000 samples each, and one more.
fn profile(time: i64, slow: i64) -> Vec<u8> {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.set_period("cpu", "nanoseconds", 10_000_000);
    let header = builder.header_mut();
    (header.time_nanos, header.duration_nanos) = (time, 10 * SECOND);
    let names = (0..10).map(|at| (format!("shop::f{at}"), 1000)).chain([("shop::slow".to_owned(), slow)]);
    for (name, count) in names {
        let function = Some(builder.named_function(&name, "src/shop.rs"));
        let leaf = builder.location(None, 0, &[Line { function, line: 42, column: 0 }]);
        let frames = [leaf, builder.named_frame("shop::main")];
        let stack = builder.stack(&frames);
        builder.sample(stack, LabelSetId::EMPTY, &[count, count * 10_000_000]);
    }
    let mut bytes = Vec::new();
    pprof::write_gzip(&builder.finish(), &mut bytes).expect("written");
    bytes
}

/// Sends twelve profiles of a version, a minute apart.
fn deploy(collector: &Collector, service: &str, version: &str, from: i64, slow: i64) {
    for minute in 0..12 {
        let time = from + minute * 60 * SECOND;
        let head = ingest(&format!("{service}%7Bversion%3D{version}%7D"), time);
        let (status, body) = collector.send(&head, &profile(time, slow + minute % 3));
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    }
}

fn json(text: &[u8]) -> Value {
    serde_json::from_slice(text).expect("JSON")
}

fn changes(store: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    let store = store.to_str().expect("text");
    let arguments = [&["collect", "changes", "--store", store], more].concat();
    let answer = run_flamelet(arguments);
    (answer.status, answer.stdout, answer.stderr)
}

#[test]
fn a_deploy_that_is_slower_is_found_and_services_have_their_cores() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let collector = Collector::start(&store, &[]);
    let from = now() - 3000 * SECOND;
    deploy(&collector, "checkout", "1", from, 1000);
    deploy(&collector, "checkout", "2", from + 1200 * SECOND, 1600);
    deploy(&collector, "cart", "1", from, 1000);
    deploy(&collector, "cart", "2", from + 1200 * SECOND, 1000);

    let (status, text, stderr) = changes(&store, &[]);
    assert_eq!(status, Some(1), "{text}{stderr}");
    let line = text.lines().find(|line| line.contains("shop::slow")).expect(&text);
    assert!(line.contains("at src/shop.rs:42") && line.contains("% sure"), "{line}");
    assert!(text.contains("1 -> 2 (since ") && text.contains("nothing slower"), "{text}");
    let (status, text, _) = changes(&store, &["--service", "cart", "--json"]);
    assert_eq!((status, &json(text.as_bytes())["regressed"]), (Some(0), &Value::Bool(false)));
    let (status, _, stderr) = changes(&store, &["--service", "nobody"]);
    assert!(status == Some(2) && stderr.contains("there is no service \"nobody\"; there are cart, checkout"));
    assert_eq!(changes(&store, &["--from", "-1h", "--to", "-2h"]).0, Some(2));
    assert_eq!(changes(folder.path(), &[]).0, Some(2), "not a collector's folder");

    let (status, body) = collector.send("GET /api/changes?service=checkout&from=-2h HTTP/1.1", b"");
    let answer = json(&body);
    assert_eq!((status, &answer["regressed"]), (200, &Value::Bool(true)));
    let row = &answer["services"][0]["deploys"][0]["slower"][0];
    assert_eq!((&row["function"], &row["line"]), (&Value::from("shop::slow"), &Value::from(42)), "{answer}");
    assert_eq!(collector.send("GET /api/changes?from=soon HTTP/1.1", b"").0, 400);
    assert_eq!(collector.send("GET /api/nothing HTTP/1.1", b"").0, 404);

    let path = store.to_str().expect("text");
    let top = |more: &[&str]| {
        let answer = run_flamelet([&["top", path], more].concat());
        assert_eq!(answer.status, Some(0), "{more:?}: {}", answer.stderr);
        answer.stdout
    };
    let text = top(&[]);
    let services: Vec<&str> =
        text.lines().filter_map(|line| line.split_whitespace().nth(2)?.strip_suffix(':')).collect();
    assert_eq!(services[services.len() - 2..], ["checkout", "cart"], "{text}");
    let answer = json(top(&["--json", "--price", "0.5"]).as_bytes());
    let cores = answer["cores"].as_f64().expect("a number");
    assert!(cores > 0.0 && is_near(&answer["cost_per_month"], cores * 0.5 * 730.0), "{answer}");
    let answer = json(top(&["--json", "--by", "crate"]).as_bytes());
    assert_eq!((&answer["by"], &answer["groups"][0]["services"]), (&"crate".into(), &2.into()), "{answer}");
    assert!(top(&["--service", "cart"]).contains("shop::f3"), "one service has its functions");
    // Two versions, as CI compares them.
    let of = |version: &str| format!("{path}?select={{version=\"{version}\"}}");
    let (old, new) = (of("1"), of("2"));
    for (service, status) in [("checkout", Some(1)), ("cart", Some(0))] {
        let checked = run_flamelet(["check", &old, &new, "--service", service, "--from", "-2h"]);
        assert_eq!(checked.status, status, "{}{}", checked.stdout, checked.stderr);
        assert_eq!(checked.stdout.contains("shop::slow:"), service == "checkout", "{}", checked.stdout);
    }
    let cores = |source: &str| {
        let answer = json(run_flamelet(["top", source, "--json"]).stdout.as_bytes());
        answer["services"][0]["cpu_seconds"].as_f64().expect("seconds")
    };
    assert!(cores(&new) > cores(&old), "{} and {}", cores(&new), cores(&old));
    for (arguments, words) in [
        (&["top", &of("3"), "--service", "cart"][..], "no process_cpu profile with these labels"),
        (&["top", &format!("{path}?select={{version"), "--service", "cart"], "the closing brace is missing"),
        (&["push", &old, "--service", "cart", "--to", "http://127.0.0.1:1"], "'select' is for reports"),
    ] {
        let answer = run_flamelet(arguments);
        assert_eq!(answer.status, Some(2), "{arguments:?}: {}", answer.stdout);
        assert!(answer.stderr.contains(words) && answer.stderr.lines().count() == 1, "{}", answer.stderr);
    }
    let refused = run_flamelet(["top", path, "--service", "cart", "--price", "1"]);
    assert!(refused.status == Some(2) && refused.stderr.contains("--price"), "{}", refused.stderr);
    collector.end();
}

/// The own CPU time of `shop::slow` in a version, in seconds.
fn slow_seconds(slow: i64) -> f64 {
    (0..12).map(|minute| (slow + minute % 3) as f64 * 0.01).sum()
}

fn get(collector: &Collector, path: &str) -> Value {
    let (status, body) = collector.send(&format!("GET {path} HTTP/1.1"), b"");
    assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&body));
    json(&body)
}

fn is_near(value: &Value, wanted: f64) -> bool {
    value.as_f64().is_some_and(|value| (value - wanted).abs() < 1e-6 * wanted.abs().max(1.0))
}

#[test]
fn a_fleet_is_asked_over_http_also_where_it_is_only_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let writing = Collector::start(&store, &["--price", "0.5"]);
    let from = now() - 3000 * SECOND;
    deploy(&writing, "checkout", "1", from, 1000);
    deploy(&writing, "checkout", "2", from + 1200 * SECOND, 1200);
    deploy(&writing, "cart", "1", from, 1000);
    let reading = Collector::start(&store, &["--read-only", "--price", "0.5"]);
    for collector in [&writing, &reading] {
        let answer = get(collector, "/api/services?from=-2h&parts=30");
        let names: Vec<&Value> = answer["services"].as_array().expect("a list").iter().collect();
        assert_eq!((&names[0]["service"], &names[1]["service"]), (&"checkout".into(), &"cart".into()));
        let wanted = 12.0 * 100.0 + slow_seconds(1000);
        assert!(is_near(&names[1]["cpu_seconds"], wanted), "{answer}");
        let values: Vec<i64> =
            names[1]["values"].as_array().expect("a list").iter().filter_map(Value::as_i64).collect();
        assert_eq!((values.len(), values.iter().sum::<i64>()), (30, (wanted * 1e9).round() as i64));
        let only = get(collector, "/api/services?from=-2h&select=%7Bversion%3D%222%22%7D");
        assert!(is_near(&only["services"][0]["cpu_seconds"], 1200.0 + slow_seconds(1200)), "{only}");
        assert_eq!(only["services"][1]["cpu_seconds"], 0.0, "{only}");

        let labels = get(collector, "/api/labels?service=checkout");
        assert_eq!(labels["labels"]["version"], serde_json::json!(["1", "2"]), "{labels}");

        let top = get(collector, "/api/top?from=-2h&rows=500");
        let row = |name: &str| {
            let rows = top["groups"].as_array().expect("a list");
            rows.iter().find(|row| row["name"] == name).cloned().unwrap_or_default()
        };
        let slow = row("shop::slow");
        let wanted = 2.0 * slow_seconds(1000) + slow_seconds(1200);
        assert_eq!(
            (&top["by"], &slow["services"], &slow["owner"]),
            (&"function".into(), &2.into(), &"yours".into())
        );
        assert!(is_near(&slow["cpu_seconds"], wanted), "{slow}");
        let cores = slow["cores"].as_f64().expect("a number");
        assert!(is_near(&slow["cost_per_month"], cores * 0.5 * 730.0), "{slow}");
        let dearer = get(collector, "/api/top?from=-2h&by=crate&price=1");
        assert_eq!(
            (&dearer["by"], &dearer["groups"][0]["name"]),
            (&"crate".into(), &"shop".into()),
            "{dearer}"
        );
        assert!(is_near(&dearer["cost_per_month"], dearer["cores"].as_f64().expect("a number") * 730.0));

        let versions = "/api/diff?service=checkout&from=-2h&label=version&base=1&new=2";
        let diff = get(collector, versions);
        let row = diff["rows"].as_array().expect("a list").iter().find(|row| row["name"] == "shop::slow");
        let row = row.expect("it is listed");
        let nanos = |slow: i64| Value::from((slow_seconds(slow) * 1e9).round() as i64);
        assert_eq!((&row["base_flat"], &row["new_flat"]), (&nanos(1000), &nanos(1200)), "{row}");
        assert_eq!(diff["new"]["select"], "{version=\"2\"}", "{diff}");
        // The same two as ranges: each version has its own time.
        let moment = |seconds: i64| flamelet_profile::moment::format(from + seconds * SECOND);
        let ranges = format!(
            "/api/diff?service=checkout&base_from={}&base_to={}&from={}&rows=1",
            moment(-1),
            moment(1100),
            moment(1100)
        );
        let diff = get(collector, &ranges);
        assert_eq!(diff["rows"].as_array().map(Vec::len), Some(1), "{diff}");
        assert_eq!(
            (&diff["base_total"], &diff["unit"]),
            (&Value::from(1_320_120_000_000i64), &"nanoseconds".into())
        );

        for (path, status, words) in [
            ("/api/top?form=-1h", 400, "unknown parameter \"form\"; there are by,"),
            ("/api/top?by=colour", 400, "unknown grouping \"colour\""),
            ("/api/top?price=-1", 400, "price must be a number"),
            ("/api/top?rows=0", 400, "rows must be a number from 1"),
            ("/api/services?select=%7Bx", 400, "closing brace"),
            ("/api/services?from=-1h&to=-2h", 400, "the range is empty"),
            ("/api/diff", 400, "say which service"),
            ("/api/diff?service=checkout&label=version&base=1", 400, "belong together"),
            ("/api/diff?service=nobody", 404, "there is no profile process_cpu of nobody"),
            ("/api/", 404, "not served"),
            ("/ingest", 405, "POST"),
        ] {
            let (found, body) = collector.send(&format!("GET {path} HTTP/1.1"), b"");
            let line = String::from_utf8_lossy(&body).into_owned();
            assert!(found == status && line.contains(words), "{path}: {found} {line}");
        }
        assert_eq!(collector.send("POST /api/top HTTP/1.1", b"").0, 405);
    }
    reading.end();
    writing.end();
}

#[test]
fn a_watch_runs_by_itself_and_has_metrics() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let collector = Collector::start(&store, &["--flush", "1s"]);
    let from = now() - 3000 * SECOND;
    deploy(&collector, "checkout", "1", from, 1000);
    deploy(&collector, "checkout", "2", from + 1200 * SECOND, 1200);
    deploy(&collector, "cart%22", "1", from, 1000);
    deploy(&collector, "cart%22", "2", from + 1200 * SECOND, 1000);
    assert_eq!(collector.send("GET /api/watch HTTP/1.1", b"").0, 404, "nobody asked for it");
    collector.end();
    let watching = Collector::start(&store, &["--read-only", "--watch", "1h"]);
    let answer = loop {
        let answer = get(&watching, "/api/watch");
        if answer["runs"] != 0 {
            break answer;
        }
        std::thread::yield_now();
    };
    assert_eq!((&answer["every_seconds"], &answer["failures"]), (&3600.into(), &0.into()), "{answer}");
    assert_eq!((&answer["error"], &answer["regressed"]), (&Value::Null, &true.into()), "{answer}");
    let slower = &answer["services"][1]["deploys"][0]["slower"][0]["function"];
    assert_eq!(slower, "shop::slow", "{answer}");
    let (_, metrics) = watching.send("GET /metrics HTTP/1.1", b"");
    let metrics = String::from_utf8_lossy(&metrics).into_owned();
    for line in [
        "flamelet_collect_watch_runs_total 1",
        "flamelet_collect_watch_failures_total 0",
        "flamelet_collect_slower_functions{service_name=\"cart\\\"\"} 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
    let line = metrics.lines().find(|line| line.contains("{service_name=\"checkout\"}")).expect("its line");
    assert!(!line.ends_with(" 0"), "{line}");
    watching.end();
}

#[test]
fn a_browser_gets_the_services_and_others_a_list() {
    let folder = tempfile::tempdir().expect("a folder");
    let collector = Collector::start(&folder.path().join("store"), &[]);
    deploy(&collector, "%3Cb%3Ecart", "1", now() - 1200 * SECOND, 1000);
    let (status, body) = collector.send("GET / HTTP/1.1", b"");
    assert_eq!(
        (status, &*String::from_utf8_lossy(&body)),
        (200, "flamelet collect: 1 services\n  <b>cart\n")
    );
    let (status, body) = collector.send("GET / HTTP/1.1\r\nAccept: text/html,*/*", b"");
    let html = String::from_utf8_lossy(&body).into_owned();
    assert!(status == 200 && html.contains(">&lt;b&gt;cart</a>") && html.contains("<rect "), "{html}");
    assert!(html.contains("href=\"view/#/?s=%3Cb%3Ecart&amp;p=range%3A"), "{html}");
    // Whatever is in names, labels and addresses stays text.
    for path in [
        "/top?by=service&select=%7Bversion!%3D%22%3Cscript%3E%22%7D&price=1",
        "/changes?service=%3Cscript%3E",
        "/changes?service=%3Cb%3Ecart",
        "/?select=%7Bversion!%3D%22%3Cscript%3E%22%7D&from=-2h",
    ] {
        let (status, body) = collector.send(&format!("GET {path} HTTP/1.1\r\nAccept: text/html"), b"");
        let html = String::from_utf8_lossy(&body).into_owned();
        assert!(status == 200 && html.contains("</html>"), "{path}: {status} {html}");
        assert!(!html.contains("<script>") && !html.contains("<b>"), "{path}: {html}");
    }
    let (status, body) = collector.send("GET /view/api/labels?s=%3Cb%3Ecart HTTP/1.1", b"");
    assert_eq!((status, json(&body)), (200, serde_json::json!([{ "name": "version", "values": ["1"] }])));
    let (status, body) = collector.send("GET /view/api/open HTTP/1.1", b"");
    assert_eq!((status, &json(&body)["services"][0]), (200, &"<b>cart".into()));
    let (_, page) = collector.send("GET /top HTTP/1.1\r\nAccept: text/html", b"");
    let page = String::from_utf8_lossy(&page).into_owned();
    assert!(page.contains("<option value=\"{version=&quot;1&quot;}\">"), "labels are offered: {page}");
    // A page of another site may link here, and nothing else.
    let other = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode";
    assert_eq!(collector.send(&format!("GET /view/ HTTP/1.1\r\n{other}: navigate"), b"").0, 200);
    assert_eq!(collector.send(&format!("GET /view/ HTTP/1.1\r\n{other}: cors"), b"").0, 403);
    assert_eq!(collector.send(&format!("GET /view/api/open HTTP/1.1\r\n{other}: navigate"), b"").0, 403);
    // A site that has pointed its own name at this machine (the first of two names counts).
    for path in ["/", "/view/", "/metrics"] {
        let rebound = format!("GET {path} HTTP/1.1\r\nHost: evil.example");
        assert_eq!(collector.send(&rebound, b"").0, 403, "{path}");
    }
    collector.end();
}

#[test]
fn a_browser_sees_what_its_token_is_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = |name: &str, lines: &str| {
        let tokens = folder.path().join(name);
        std::fs::write(&tokens, lines).expect("written");
        let store = folder.path().join(format!("store-of-{name}"));
        Collector::start(&store, &["--token-file", tokens.to_str().expect("text")])
    };
    let text = |collector: &Collector, path: &str, token: &str| {
        // The header Host of these requests has no port.
        let cookie = format!("flamelet-collect-80={token}");
        let head = format!("GET {path} HTTP/1.1\r\nAccept: text/html\r\nCookie: {cookie}");
        let (status, body) = collector.send(&head, b"");
        (status, String::from_utf8_lossy(&body).into_owned())
    };
    let send = |collector: &Collector, service: &str, token: &str| {
        let time = now() - 60 * SECOND;
        let name = format!("{service}%7Bversion%3D1%7D");
        let head = format!("{}\r\nAuthorization: Bearer {token}", ingest(&name, time));
        assert_eq!(collector.send(&head, &profile(time, 1000)).0, 200, "{service}");
    };

    let one = start("one", "secret\n");
    send(&one, "cart", "secret");
    assert_eq!(one.send("GET /?token=secret HTTP/1.1", b"").0, 303);
    assert_eq!(one.send("GET /?token=wrong HTTP/1.1", b"").0, 401);
    assert_eq!((text(&one, "/", "wrong").0, text(&one, "/view/", "wrong").0), (401, 401));
    assert!(text(&one, "/", "secret").1.contains("cart</a>"));
    assert_eq!(text(&one, "/view/", "secret").0, 200);
    one.end();

    let many = start("many", "secret\nteam-a of-a\nteam-b of-b\n");
    send(&many, "cart", "secret");
    send(&many, "checkout", "of-a");
    let (ours, theirs) = (text(&many, "/", "secret").1, text(&many, "/", "of-a").1);
    assert!(ours.contains("cart") && !ours.contains("checkout"), "{ours}");
    assert!(theirs.contains("checkout") && !theirs.contains("cart"), "{theirs}");
    assert!(!theirs.contains("view/"), "no link to what is not there: {theirs}");
    assert_eq!(text(&many, "/", "of-b").0, 404, "it has sent nothing");
    let asked = text(&many, "/api/changes", "of-a").1;
    assert!(asked.contains("checkout") && !asked.contains("cart"), "{asked}");
    for token in ["secret", "of-a"] {
        let (status, line) = text(&many, "/view/api/open", token);
        assert!(status == 404 && line.contains("tenants"), "{status} {line}");
    }
    many.end();
}
