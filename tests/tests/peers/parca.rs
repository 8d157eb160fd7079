//! Parca itself receives what flamelet pushes, scrapes a service, and answers with it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use flamelet::{History, Profiler, Push};
use flamelet_profile::{Limits, pprof};
use flamelet_tests::programs::{command, run_flamelet};

use super::server::{Server, free_ports};
use super::wire::{run_and_push, spin_for_peers, total_on_disk};
use super::{DEADLINE, as_of_now, now, peer, read, stacks};

const CPU: &str = "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta";

/// Starts Parca with an empty folder and this part of its configuration. Returns `None` if it is not built.
fn parca(folder: &Path, scrape_configs: &str) -> Option<Server> {
    let program = peer("parca")?;
    let config = folder.join("parca.yaml");
    let storage = format!(
        "object_storage: {{bucket: {{type: FILESYSTEM, config: {{directory: {:?}}}}}}}",
        folder.join("data")
    );
    std::fs::write(&config, format!("{storage}\n{scrape_configs}\n")).expect("written");
    // Another process may take its port first.
    let server = (0..5).find_map(|_| {
        let [port] = free_ports();
        let mut command = command(&program);
        command.arg("--config-path").arg(&config).arg(format!("--http-address=127.0.0.1:{port}"));
        command.arg("--debuginfo-cache-dir").arg(folder).arg("--log-level=error");
        // No server is asked for symbols.
        command.arg("--debuginfod-upstream-servers=127.0.0.1:1").current_dir(folder);
        Server::start(&mut command, port, "/metrics")
    });
    Some(server.expect("Parca becomes ready"))
}

/// Asks with Parca's generated client. Returns the answer, or `None` after an error.
fn ask(server: &Server, what: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let address = server.url.trim_start_matches("http://");
    let output = Command::new(peer("wire")?).args([what, address]).args(arguments).output().expect("it runs");
    output.status.success().then_some(output.stdout)
}

/// Asks for all profiles of the last half hour. Returns the stacks with their values; none if Parca has no such profile.
fn query(server: &Server, kind: &str, selector: &str) -> BTreeMap<String, i64> {
    let now = now() / 1_000_000;
    let [from, to] = [now - 1_800_000, now + 60_000].map(|time| time.to_string());
    let Some(file) = ask(server, "parca-query", &[&format!("{kind}{{{selector}}}"), &from, &to]) else {
        return BTreeMap::new();
    };
    stacks(&pprof::read(&file, &Limits::SERVICE).expect("pprof"), 0)
}

#[test]
fn parca_keeps_what_the_command_pushes() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = parca(folder.path(), "") else { return };
    let to = server.url.replace("http", "parca+http");
    // Parca answers the number of samples of a CPU profile in nanoseconds, so that is not compared.
    for (name, kind, column) in [
        ("go-cpu", CPU, 1),
        ("go-heap", "memory:inuse_space:bytes:space:bytes", 3),
        ("go-heap", "memory:alloc_objects:count:space:bytes", 0),
    ] {
        let file = as_of_now(name, folder.path());
        let (source, service) = (file.display().to_string(), format!("{name}-{column}"));
        let pushed = run_flamelet(["push", &source, "--to", &to, "--service", &service, "--label", "zone=b"]);
        assert_eq!(pushed.status, Some(0), "{}", pushed.stderr);
        let selector = format!("service_name=\"{service}\",zone=\"b\"");
        let answered = query(&server, kind, &selector);
        assert_eq!(answered, stacks(&read(&file), column), "{kind}");

        let from = format!("{to}?query={kind}{{{selector}}}&from=-30m");
        let file = folder.path().join("own.pb.gz");
        let own = run_flamelet(["proto", &from, "-o", &file.display().to_string()]);
        assert_eq!(own.status, Some(0), "{}", own.stderr);
        assert_eq!(stacks(&read(&file), 0), answered, "{kind}, read by flamelet");
    }
}

#[test]
fn parca_keeps_what_a_service_pushes() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = parca(folder.path(), "") else { return };
    let history = folder.path().join("history");
    let on = || History::new(&history).window(Duration::from_millis(500)).frequency(200);
    // What is not sent when a service ends, it sends after its next start; a busy machine may leave something each time.
    let kept = (0..5).find_map(|_| {
        run_and_push(on(), [Push::parca(&server.url)], 6);
        let kept = query(&server, CPU, "service_name=\"night\"");
        (kept.values().sum::<i64>() == total_on_disk(&history)).then_some(kept)
    });
    let kept = kept.expect("all of it, once");
    assert!(kept.keys().any(|stack| stack.contains("spin_for_peers")), "{kept:?}");
}

/// What Parca scrapes unless it is told otherwise.
const SCRAPED: [&str; 5] = ["allocs", "block", "goroutine", "mutex", "profile"];

#[test]
fn parca_scrapes_a_service_without_further_configuration() {
    if peer("parca").is_none() {
        return;
    }
    let profiler = Profiler::builder().name("night").start().expect("started");
    let served = profiler.serve("127.0.0.1:0").expect("a port");
    let folder = tempfile::tempdir().expect("a folder");
    let address = served.address();
    let config =
        format!("scrape_configs: [{{job_name: night, static_configs: [{{targets: [\"{address}\"]}}]}}]");
    let Some(server) = parca(folder.path(), &config) else { return };
    let patience = Instant::now();
    loop {
        spin_for_peers(Duration::from_millis(500));
        let targets = ask(&server, "parca-targets", &[]).unwrap_or_default();
        let targets = String::from_utf8(targets).expect("text");
        let is_good = |name: &&str| {
            let of_name = |line: &&str| {
                line.split([' ', '?'])
                    .nth(1)
                    .is_some_and(|url| url.ends_with(&format!("/debug/pprof/{name}")))
            };
            targets.lines().find(of_name).is_some_and(|line| line.starts_with("HEALTH_GOOD "))
        };
        let kept = query(&server, CPU, "job=\"night\"");
        if SCRAPED.iter().all(is_good) && kept.keys().any(|stack| stack.contains("spin_for_peers")) {
            return;
        }
        assert!(patience.elapsed() < DEADLINE, "{targets}{kept:?}");
        assert!(!targets.contains("HEALTH_BAD"), "{targets}");
    }
}
