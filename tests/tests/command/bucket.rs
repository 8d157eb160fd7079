//! `flamelet collect --store s3://…`: many collectors and readers on one bucket.

use std::path::Path;
use std::process::Command;

use flamelet_profile::pprof;
use flamelet_test_support::S3Server;
use flamelet_tests::programs::{answer, command, flamelet};
use serde_json::json;

use crate::collect::{Collector, SECOND, ingest, now, profile};

/// Returns `flamelet` with the settings for an S3 server, and folders of its own.
pub(crate) fn with_bucket(endpoint: &str, home: &Path) -> Command {
    let mut command = command(flamelet());
    set_bucket(&mut command, endpoint, home);
    command
}

/// Sets them for a command that runs `flamelet`.
pub(crate) fn set_bucket(command: &mut Command, endpoint: &str, home: &Path) {
    command.env("AWS_ENDPOINT", endpoint).env("AWS_REGION", "us-east-1");
    command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b").env_remove("AWS_ALLOW_HTTP");
    command.env("XDG_CACHE_HOME", home.join("cache")).env("XDG_STATE_HOME", home.join("state"));
}

pub(crate) const STORE: &str = "s3://profiles/fleet/eu";

/// Returns how many samples a report without any collector finds.
pub(crate) fn samples(endpoint: &str, home: &Path) -> i64 {
    try_samples(endpoint, home).expect("a report")
}

/// The same while there may be none yet.
pub(crate) fn try_samples(endpoint: &str, home: &Path) -> Result<i64, String> {
    let out = home.join("all.pb.gz");
    let mut command = with_bucket(endpoint, home);
    command.args(["proto", STORE, "--service", "shop/a", "--from", "-5h", "-o"]).arg(&out);
    let answer = answer(&mut command);
    if answer.status != Some(0) {
        return Err(answer.stderr);
    }
    let file = std::fs::read(out).expect("written");
    Ok(pprof::read(&file, &pprof::Limits::default()).expect("pprof").total(0))
}

#[test]
fn collectors_and_readers_share_a_bucket() {
    let Some(server) = S3Server::start() else { return };
    let endpoint = format!("http://{}", server.address);
    let home = tempfile::tempdir().expect("a folder");
    let start = |log: &str| {
        let mut command = with_bucket(&endpoint, home.path());
        command.args(["collect", "--store", STORE, "--flush", "1s", "--log"]).arg(home.path().join(log));
        Collector::run(&mut command)
    };
    // The hour is over, so its blocks are merged at once.
    let time = now() / SECOND * SECOND - 3 * 3600 * SECOND;
    let send = |collector: &Collector, second: i64, count: i64| {
        let head = ingest("shop%2Fa", time + second * SECOND);
        let (status, body) = collector.send(&head, &profile(time + second * SECOND, "busy_work", count));
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    };
    let (one, other) = (start("one"), start("other"));
    send(&one, 0, 1);
    send(&other, 0, 1); // The same profile.
    send(&one, 1, 10);
    send(&other, 2, 100);
    one.kill();
    let one = start("one");
    send(&one, 3, 1000);
    other.end();
    one.end();
    assert_eq!(samples(&endpoint, home.path()), 1111);
    assert_eq!(samples(&endpoint, home.path()), 1111, "from the cache");
    assert!(home.path().join("cache/flamelet/blocks").read_dir().expect("a cache").count() > 4);

    let mut command = with_bucket(&endpoint, home.path());
    let reader = Collector::run(command.args(["collect", "--read-only", "--store", STORE]));
    let range = json!({ "start": (now() - 5 * 3600 * SECOND) / 1_000_000, "end": now() / 1_000_000,
        "name": "service_name" });
    assert_eq!(reader.call("LabelValues", &range), json!({ "names": ["shop/a"] }));
    let (status, _) = reader.send(&ingest("shop", time), &profile(time, "x", 1));
    assert_eq!(status, 405, "it only reads");
    reader.end();

    // Engines see what is in the bucket: whole blocks, and no claims once all is merged.
    let listing = server.get("/profiles?list-type=2&prefix=fleet/eu/");
    assert!(
        listing.contains("<Key>fleet/eu/blocks/shop%2fa/") && listing.contains("/manifest.json</Key>"),
        "{listing}"
    );
    assert!(!listing.contains("/claims/"), "{listing}");
    for verb in [&["top"][..], &["explain"], &["diff", "--json"]] {
        let mut command = with_bucket(&endpoint, home.path());
        // The hours before have nothing to compare with.
        let sources = if verb[0] == "diff" { &[STORE, STORE][..] } else { &[STORE] };
        let report = answer(command.args(verb).args(sources).args(["--from", "-5h"]));
        assert_eq!(report.status, Some(0), "{verb:?}: {}", report.stderr);
        assert!(verb[0] != "top" || report.stdout.contains("busy_work"), "{}", report.stdout);
    }
}

#[test]
fn views_are_over_the_paths_of_the_bucket() {
    let home = tempfile::tempdir().expect("a folder");
    for (engine, words) in [
        ("duckdb", "read_parquet('s3://profiles/fleet/eu/blocks/*/*/*/series.parquet')"),
        (
            "clickhouse",
            "s3('https://s3.example.org/profiles/fleet/eu/blocks/*/*/*/series.parquet', 'Parquet')",
        ),
    ] {
        let mut command = with_bucket("https://s3.example.org", home.path());
        let views = answer(command.args(["collect", "sql", engine, "--store", STORE]));
        assert!(views.stdout.contains(words), "{}{}", views.stdout, views.stderr);
    }
}

#[test]
fn a_bucket_that_cannot_be_used_is_refused_with_one_line() {
    let home = tempfile::tempdir().expect("a folder");
    let unused = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = format!("http://{}", unused.local_addr().expect("bound"));
    drop(unused);
    let tokens = home.path().join("tokens");
    std::fs::write(&tokens, "team-a secret\n").expect("written");
    let tokens = tokens.to_str().expect("a text");
    let read_only = ["collect", "--read-only", "--store", STORE];
    for (endpoint, arguments, words) in [
        (&*nobody, &["top", STORE, "--from", "-1h"][..], "s3://profiles/fleet/eu"),
        (&*nobody, &read_only, "s3://profiles/fleet/eu"),
        // An address that is reserved for documentation.
        ("http://192.0.2.1:9000", &read_only, "AWS_ALLOW_HTTP"),
        (&*nobody, &["collect", "--store", "s3:///x"], "write it as s3://BUCKET/PREFIX"),
        (&*nobody, &["collect", "--store", "ftp://x/y"], "write it as s3://BUCKET/PREFIX"),
        (&*nobody, &["collect", "--store", "/tmp", "--log", "/tmp"], "--log is for a bucket"),
        (&*nobody, &["collect", "--store", STORE, "--token-file", tokens], "s3://profiles/fleet/eu"),
    ] {
        let answer = answer(with_bucket(endpoint, home.path()).args(arguments));
        assert!(
            answer.status == Some(2) && answer.stderr.contains(words),
            "{arguments:?}: {}",
            answer.stderr
        );
        assert_eq!(answer.stderr.trim().lines().count(), 1, "{}", answer.stderr);
    }
}
