//! Pyroscope itself receives what flamelet pushes and answers with it, and its command reads from flamelet.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flamelet::{History, Profiler, Push};
use flamelet_profile::{ProfileBuilder, pprof};
use flamelet_tests::programs::{Answer, answer, command, flamelet, run_flamelet};
use serde_json::{Value, json};

use super::server::{Server, free_ports, post};
use super::wire::{run_and_push, spin_for_peers, total_on_disk};
use super::{DEADLINE, as_of_now, now, peer, read, stacks};

pub(super) const CPU: &str = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";

/// Starts Pyroscope with an empty folder. Returns `None` if it is not built.
pub(super) fn pyroscope(folder: &Path) -> Option<Server> {
    let program = peer("pyroscope")?;
    // Another process may take one of its ports first.
    let server = (0..5).find_map(|turn| start(&program, &folder.join(turn.to_string())));
    Some(server.expect("Pyroscope becomes ready"))
}

/// Starts Pyroscope as one process, everything on loopback and nothing reported to anybody. Returns `None` if it ends.
fn start(program: &Path, folder: &Path) -> Option<Server> {
    let [http, grpc, gossip] = free_ports();
    let mut command = command(program);
    command.args(["-target=all", "-log.level=error", "-usage-stats.enabled=false"]);
    command.args(["-self-profiling.disable-push=true", "-storage.backend=filesystem"]);
    command.arg(format!("-server.http-listen-port={http}")).arg(format!("-server.grpc-listen-port={grpc}"));
    command.arg(format!("-memberlist.bind-port={gossip}"));
    for listens in ["server.http-listen-address", "server.grpc-listen-address", "memberlist.bind-addr"] {
        command.arg(format!("-{listens}=127.0.0.1"));
    }
    for part in ["compactor.ring", "distributor.ring", "overrides-exporter.ring", "query-frontend"] {
        command.arg(format!("-{part}.instance-addr=127.0.0.1"));
    }
    for part in ["query-scheduler.ring", "store-gateway.sharding-ring"] {
        command.arg(format!("-{part}.instance-addr=127.0.0.1"));
    }
    command.arg("-ingester.lifecycler.addr=127.0.0.1");
    command.arg(format!("-pyroscopedb.data-path={}", folder.join("data").display()));
    command.arg(format!("-storage.filesystem.dir={}", folder.join("store").display()));
    Server::start(&mut command, http, "/ready")
}

/// Asks with Pyroscope's own command for all profiles of a type. Returns the stacks with their values.
fn query(url: &str, service: &str, kind: &str, folder: &Path) -> Option<BTreeMap<String, i64>> {
    let file = folder.join("answer.pprof");
    let _ = std::fs::remove_file(&file);
    let mut command = command(&peer("profilecli")?);
    command.args([
        "query",
        "merge",
        "--url",
        url,
        "--profile-type",
        kind,
        "--from",
        "now-30m",
        "--to",
        "now",
    ]);
    command.arg("--query").arg(format!("{{service_name=\"{service}\"}}"));
    command.arg(format!("--output=pprof={}", file.display()));
    let Answer { status, stderr, .. } = answer(&mut command);
    assert_eq!(status, Some(0), "{stderr}");
    Some(stacks(&read(&file), 0))
}

#[test]
fn pyroscope_keeps_what_the_command_pushes() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = pyroscope(folder.path()) else { return };
    let to = server.url.replace("http", "pyroscope+http");
    for (name, kind, column) in [
        ("go-cpu", CPU, 1),
        ("go-heap", "memory:inuse_space:bytes:space:bytes", 3),
        ("go-heap", "memory:inuse_objects:count:space:bytes", 2),
    ] {
        let file = as_of_now(name, folder.path());
        let (source, service) = (file.display().to_string(), format!("{name}-{column}"));
        let pushed = run_flamelet(["push", &source, "--to", &to, "--service", &service]);
        assert_eq!(pushed.status, Some(0), "{}", pushed.stderr);
        let answered = query(&server.url, &service, kind, folder.path()).expect("built beside Pyroscope");
        assert_eq!(answered, stacks(&read(&file), column), "{kind}");

        let from = format!("{to}?query={kind}{{service_name=\"{service}\"}}&from=-30m");
        let file = folder.path().join("own.pb.gz");
        let own = run_flamelet(["proto", &from, "-o", &file.display().to_string()]);
        assert_eq!(own.status, Some(0), "{}", own.stderr);
        assert_eq!(stacks(&read(&file), 0), answered, "{kind}, read by flamelet");
    }
}

#[test]
fn pyroscope_keeps_what_a_service_pushes_and_profilecli_reads_both() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = pyroscope(folder.path()) else { return };
    let history =
        || History::new(folder.path().join("history")).window(Duration::from_millis(500)).frequency(200);
    // What is not sent when a service ends, it sends after its next start; a busy machine may leave something each time.
    let kept = (0..5).find_map(|_| {
        run_and_push(history(), [Push::pyroscope(&server.url)], 6);
        let kept = query(&server.url, "night", CPU, folder.path()).expect("built");
        (kept.values().sum::<i64>() == total_on_disk(&folder.path().join("history"))).then_some(kept)
    });
    let kept = kept.expect("all of it, once");
    assert!(kept.keys().any(|stack| stack.contains("spin_for_peers")), "{kept:?}");

    let profiler = Profiler::builder().name("night").history(history()).start().expect("started");
    let served = profiler.serve("127.0.0.1:0").expect("a port");
    let own = query(&format!("http://{}", served.address()), "night", CPU, folder.path()).expect("built");
    for (stack, value) in kept {
        assert!(own.get(&stack).is_some_and(|own| *own >= value), "{stack}: {value}, {:?}", own.get(&stack));
    }
}

/// Starts a collector that keeps profiles in this folder.
pub(super) fn collector(folder: &Path) -> Server {
    let mut collector = command(flamelet());
    collector.args(["collect", "--listen", "127.0.0.1:0", "--store"]).arg(folder);
    let mut child = collector.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("its address");
    Server { child, url: line.trim().to_owned() }
}

#[test]
fn the_collector_takes_what_the_agent_of_pyroscope_pushes() {
    let Some(agent) = peer("pyroscope-agent") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let collector = collector(folder.path());
    let ended = Command::new(agent).args(["12", "no folder", &collector.url]).output().expect("it runs");
    assert!(ended.status.success(), "{ended:?}");
    let kept = query(&collector.url, "live", CPU, folder.path()).expect("built");
    let own: i64 =
        kept.iter().filter(|(stack, _)| stack.contains("requests::answer")).map(|(_, cpu)| cpu).sum();
    let all: i64 = kept.values().sum();
    assert!(own * 2 > all, "{own} of {all}: {kept:?}");
}

#[test]
fn the_collector_satisfies_the_canary_of_profilecli() {
    let Some(profilecli) = peer("profilecli") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let collector = collector(folder.path());
    let mut canary = Command::new(profilecli);
    canary.args(["canary-exporter", "--listen-address=127.0.0.1:0", "--test-frequency=2s", "--url"]);
    let child = canary.arg(&collector.url).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut canary = Server { child: child.expect("started"), url: String::new() };
    let mut said = Vec::new();
    for line in BufReader::new(canary.child.stderr.take().expect("piped")).lines().map_while(Result::ok) {
        assert!(!line.contains("probe failed"), "{said:?} {line}");
        let is_end = line.contains("probe successful") && line.contains("query-instant");
        said.push(line);
        if is_end && said.iter().filter(|line| line.contains("probe successful")).count() >= 4 {
            return;
        }
    }
    panic!("the canary ended: {said:?}");
}

/// A profile of 6,000 requests, each with a trace of its own, to three routes. A tenant of Pyroscope has 5,000 series.
fn traced(folder: &Path) -> PathBuf {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.set_period("cpu", "nanoseconds", 10_000_000);
    let frame = builder.named_frame("main");
    let stack = builder.stack(&[frame]);
    for number in 1..=6000 {
        let texts = [("route", format!("/{}", number % 3)), ("trace_id", format!("{number:032x}"))];
        let mut labels = texts.map(|(key, text)| builder.text_label(key, &text)).to_vec();
        labels.push(builder.text_label("span_id", &format!("{number:016x}")));
        let labels = builder.labels(&labels);
        builder.sample(stack, labels, &[1, number]);
    }
    let header = builder.header_mut();
    (header.time_nanos, header.duration_nanos) = (now(), 10_000_000_000);
    let path = folder.join("traced.pb.gz");
    let file = std::fs::File::create(&path).expect("created");
    pprof::write_gzip(&builder.finish(), file).expect("written");
    path
}

#[test]
fn traces_make_no_series_in_pyroscope_and_spans_are_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = pyroscope(folder.path()) else { return };
    let (file, to) = (traced(folder.path()), server.url.replace("http", "pyroscope+http"));
    let pushed = run_flamelet(["push", &file.display().to_string(), "--to", &to, "--service", "traced"]);
    assert_eq!(pushed.status, Some(0), "{}", pushed.stderr);
    let (start, end) = (now() / 1_000_000 - 60_000, now() / 1_000_000 + 60_000);
    let ask = |method: &str, further: Value| {
        let mut body = json!({
            "start": start, "end": end, "profileTypeID": CPU, "labelSelector": "{service_name=\"traced\"}",
            "matchers": ["{service_name=\"traced\"}"],
        });
        further.as_object().expect("fields").iter().for_each(|(name, value)| body[name] = value.clone());
        let fields: &[&str] = match method {
            "Series" => &["profileTypeID", "labelSelector"],
            _ => &["matchers"],
        };
        fields.iter().for_each(|name| drop(body.as_object_mut().expect("fields").remove(*name)));
        let path = format!("/querier.v1.QuerierService/{method}");
        let (status, answer) = post(&server.url, &path, &body.to_string()).expect("an answer");
        assert_eq!(status, 200, "{answer}");
        answer
    };
    let series = ask("Series", json!({}));
    // Each route has a series for each of the two values.
    assert_eq!(series["labelsSet"].as_array().map(Vec::len), Some(6), "{series}");
    assert!(!series.to_string().contains("trace_id"), "{series}");
    let whole = ask("SelectMergeStacktraces", json!({}));
    assert_eq!(whole["flamegraph"]["total"], (1..=6000).sum::<i64>().to_string(), "{whole}");
    let span = ask("SelectMergeSpanProfile", json!({ "spanSelector": [format!("{:016x}", 77)] }));
    assert_eq!(span["flamegraph"]["total"], "77", "{span}");
}

#[test]
fn alloy_scrapes_a_service_without_further_configuration_and_pyroscope_keeps_it() {
    let Some(program) = peer("alloy-scrape") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = pyroscope(folder.path()) else { return };
    let profiler = Profiler::builder().name("night").start().expect("started");
    let served = profiler.serve("127.0.0.1:0").expect("a port");
    let mut alloy = command(&program);
    alloy.args([&served.address().to_string(), "night", &server.url]).current_dir(folder.path());
    // Packages of this version register paths that Go's newer routing takes for a conflict.
    alloy.env("GODEBUG", "httpmuxgo121=1");
    let child = alloy.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    let _alloy = Server { child, url: String::new() };
    let patience = Instant::now();
    loop {
        spin_for_peers(Duration::from_millis(500));
        let kept = query(&server.url, "night", CPU, folder.path()).expect("built");
        if kept.keys().any(|stack| stack.contains("spin_for_peers")) {
            return;
        }
        assert!(patience.elapsed() < DEADLINE, "{kept:?}");
    }
}
