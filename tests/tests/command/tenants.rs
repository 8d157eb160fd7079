//! Tenants of `flamelet collect`: each reads and fills only its own folder.

use std::path::Path;

use flamelet_profile::{LabelSetId, ProfileBuilder, pprof};
use flamelet_tests::programs::run_flamelet;

use super::collect::{Collector, SECOND, answer, now};

/// A pprof file with one function.
fn profile(function: &str) -> Vec<u8> {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let frame = builder.named_frame(function);
    let stack = builder.stack(&[frame]);
    builder.sample(stack, LabelSetId::EMPTY, &[1, 10_000_000]);
    // The same for all, so that all belong to one hour: services are counted by hour.
    static TIME: std::sync::OnceLock<i64> = std::sync::OnceLock::new();
    builder.header_mut().time_nanos = *TIME.get_or_init(|| now() - 60 * SECOND);
    let mut bytes = Vec::new();
    pprof::write_gzip(&builder.finish(), &mut bytes).expect("written");
    bytes
}

/// The head of a request with a token and a tenant, where they are not empty.
fn head(request: &str, token: &str, tenant: &str) -> String {
    let mut head = format!("{request} HTTP/1.1");
    if !token.is_empty() {
        head += &format!("\r\nAuthorization: Bearer {token}");
    }
    if !tenant.is_empty() {
        head += &format!("\r\nX-Scope-OrgID: {tenant}");
    }
    head
}

/// Sends a profile of a service, and returns the status and the answer.
fn ingest(collector: &Collector, service: &str, token: &str, tenant: &str) -> (u16, String) {
    let request = format!("POST /ingest?name={service}&format=pprof");
    let (status, body) = collector.send(&head(&request, token, tenant), &profile(service));
    (status, String::from_utf8_lossy(&body).into_owned())
}

/// Returns the status and the services that a token gives access to.
fn services(collector: &Collector, token: &str, tenant: &str) -> (u16, String) {
    let (status, body) = collector.send(&head("GET /", token, tenant), b"");
    let list = String::from_utf8_lossy(&body).into_owned();
    let names: Vec<&str> = list.lines().skip(1).map(str::trim).collect();
    (status, if status == 200 { names.join(" ") } else { list.trim().to_owned() })
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn tenants_do_not_see_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let (tokens, config) = (folder.path().join("tokens"), folder.path().join("collect.yaml"));
    std::fs::write(&tokens, "red r\nBlue b\nred both\nBlue both\nplain\n").expect("written");
    std::fs::write(&config, "limits:\n  services: 2\n").expect("written");
    let more = ["--token-file", text(&tokens), "--config", text(&config)];
    let collector = Collector::start(&store, &more);
    assert_eq!(services(&collector, "r", "").0, 404, "nothing is made for one who only reads");
    assert!(!store.join("tenants").exists());
    for (service, token, tenant) in
        [("of_red", "r", ""), ("of_red_too", "r", "red"), ("of_blue", "b", ""), ("of_none", "plain", "")]
    {
        let (status, body) = ingest(&collector, service, token, tenant);
        assert_eq!(status, 200, "{service}: {body}");
    }
    // Red is full, Blue is not.
    let (status, body) = ingest(&collector, "third", "r", "");
    assert!(status == 429 && body.contains("limits.services"), "{status} {body}");
    assert_eq!(ingest(&collector, "of_blue_too", "both", "Blue").0, 200);
    for (token, tenant, status) in [
        ("r", "Blue", 403),
        ("r", "blue", 403),
        ("plain", "red", 403),
        ("r", "../red", 403),
        ("both", "", 400),
        ("", "red", 401),
        ("guess", "red", 401),
    ] {
        assert_eq!(ingest(&collector, "x", token, tenant).0, status, "{token} {tenant}");
        assert_eq!(services(&collector, token, tenant).0, status, "{token} {tenant}");
    }
    let check = |collector: &Collector| {
        let seen = |token: &str, tenant: &str| services(collector, token, tenant);
        assert_eq!(seen("r", ""), (200, "of_red of_red_too".to_owned()));
        assert_eq!(seen("both", "red"), (200, "of_red of_red_too".to_owned()));
        assert_eq!(seen("b", "Blue"), (200, "of_blue of_blue_too".to_owned()));
        assert_eq!(seen("plain", ""), (200, "of_none".to_owned()));
        let query = br#"{"start":"0","end":"99999999999999","name":"service_name"}"#;
        let request = head("POST /querier.v1.QuerierService/LabelValues", "b", "");
        let (_, names) = collector.send(&format!("{request}\r\nContent-Type: application/json"), query);
        assert_eq!(String::from_utf8_lossy(&names), r#"{"names":["of_blue","of_blue_too"]}"#);
    };
    check(&collector);
    let reader = Collector::start(&store, &[&more[..], &["--read-only"]].concat());
    check(&reader);
    reader.end();
    collector.end();
    let collector = Collector::start(&store, &more);
    check(&collector);
    collector.end();
    let red = store.join("tenants/red");
    let top = answer(&["top", text(&red), "--service", "of_red", "--from", "-1h"]);
    assert!(top.contains("of_red"), "{top}");

    std::fs::write(&tokens, "red r\n../x secret\n").expect("written");
    let wrong = run_flamelet(["collect", "--store", text(&store), "--token-file", text(&tokens)]);
    assert!(wrong.status == Some(2) && wrong.stderr.contains("tokens: line 2: "), "{}", wrong.stderr);
    assert!(!wrong.stderr.contains("secret"), "{}", wrong.stderr);
}

#[test]
fn without_tokens_requests_say_their_tenant_if_the_configuration_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("collect.yaml");
    std::fs::write(&config, "tenants: true\n").expect("written");
    let store = folder.path().join("store");
    let collector = Collector::start(&store, &["--config", text(&config)]);
    assert_eq!(ingest(&collector, "of_red", "", "red").0, 200);
    assert_eq!(ingest(&collector, "of_none", "", "").0, 200);
    for bad in ["..", "../../outside", "a/b", "a|b", &"a".repeat(151)] {
        let (status, body) = ingest(&collector, "x", "", bad);
        assert!(status == 400 && body.contains("name of a tenant"), "{bad}: {status} {body}");
    }
    assert_eq!(services(&collector, "", "red"), (200, "of_red".to_owned()));
    assert_eq!(services(&collector, "", ""), (200, "of_none".to_owned()));
    assert_eq!(services(&collector, "", "Red").0, 404, "upper and lower case are different tenants");
    // Push says it with the same header.
    let file = folder.path().join("cpu.pb.gz");
    std::fs::write(&file, profile("pushed")).expect("written");
    for protocol in ["otlp", "parca", "pyroscope"] {
        let to = format!("{protocol}+{}", collector.url());
        answer(&["push", text(&file), "--to", &to, "--service", protocol, "--tenant", "green"]);
    }
    assert_eq!(services(&collector, "", "green"), (200, "otlp parca pyroscope".to_owned()));
    collector.end();
    let mut names: Vec<_> = std::fs::read_dir(store.join("tenants"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    assert_eq!(names, ["green", "red"]);
    let outside: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").flatten().collect();
    assert_eq!(outside.len(), 3, "{outside:?}");

    // Where it does not say so, the header means nothing.
    let store = folder.path().join("other");
    let collector = Collector::start(&store, &[]);
    assert_eq!(ingest(&collector, "all", "", "red").0, 200);
    assert_eq!(services(&collector, "", "blue"), (200, "all".to_owned()));
    collector.end();
}
