//! Pyroscope itself receives what flamelet pushes and answers with it, and its command reads from flamelet.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use flamelet::{History, Profiler, Push};
use flamelet_profile::{Limits, Profile, pprof};
use flamelet_tests::programs::{Answer, answer, command, flamelet, run_flamelet};

use super::wire::{spin_for_peers, total_on_disk};
use super::{DEADLINE, peer, stacks};

const CPU: &str = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";

/// A server of another project, which ends with the test.
struct Server {
    child: Child,
    url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts Pyroscope with an empty folder. Returns `None` if it is not built.
fn pyroscope(folder: &Path) -> Option<Server> {
    let program = peer("pyroscope")?;
    // Another process may take one of its ports first.
    let server = (0..5).find_map(|turn| start(&program, &folder.join(turn.to_string())));
    Some(server.expect("Pyroscope becomes ready"))
}

/// Starts Pyroscope as one process, everything on loopback and nothing reported to anybody. Returns `None` if it ends.
fn start(program: &Path, folder: &Path) -> Option<Server> {
    // The ports are free a moment before; three listeners at once make them differ.
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let [http, grpc, gossip] =
        listeners.each_ref().map(|listener| listener.local_addr().expect("bound").port());
    drop(listeners);
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
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut server = Server { child, url: format!("http://127.0.0.1:{http}") };
    let patience = Instant::now();
    while !get(http, "/ready").is_some_and(|answer| answer.starts_with("HTTP/1.1 200")) {
        if server.child.try_wait().is_ok_and(|ended| ended.is_some()) {
            return None;
        }
        assert!(patience.elapsed() < DEADLINE, "Pyroscope does not become ready");
        std::thread::sleep(Duration::from_millis(200));
    }
    Some(server)
}

fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

fn read(path: &Path) -> Profile {
    pprof::read(&std::fs::read(path).expect("a file"), &Limits::SERVICE).expect("pprof")
}

/// Writes a committed profile with the present time: Pyroscope refuses what is older than an hour.
fn as_of_now(name: &str, folder: &Path) -> PathBuf {
    let mut profile = read(&flamelet_tests::profiles::committed(name));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    profile.header.time_nanos = i64::try_from(now.as_nanos()).expect("before 2262");
    let path = folder.join(format!("{name}.pb.gz"));
    pprof::write_gzip(&profile, std::fs::File::create(&path).expect("created")).expect("written");
    path
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

/// Runs a service until it has sent some windows.
fn run_and_push(url: &str, history: History) {
    let profiler = Profiler::builder().name("night").overhead_budget(None).history(history);
    let profiler = profiler.push(Push::pyroscope(url)).start().expect("started");
    let patience = Instant::now();
    while profiler.metrics().pushed < 6 {
        assert!(patience.elapsed() < DEADLINE, "{:?}", profiler.metrics());
        spin_for_peers(Duration::from_millis(200));
    }
    assert_eq!(profiler.metrics().push_dropped, 0);
}

#[test]
fn pyroscope_keeps_what_a_service_pushes_and_profilecli_reads_both() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = pyroscope(folder.path()) else { return };
    let history =
        || History::new(folder.path().join("history")).window(Duration::from_millis(500)).frequency(200);
    // What is not sent when a service ends, it sends after its next start; a busy machine may leave something each time.
    let kept = (0..5).find_map(|_| {
        run_and_push(&server.url, history());
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

#[test]
fn the_collector_satisfies_the_canary_of_profilecli() {
    let Some(profilecli) = peer("profilecli") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut collector = command(flamelet());
    collector.args(["collect", "--listen", "127.0.0.1:0", "--store"]).arg(folder.path().join("store"));
    let mut child = collector.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("its address");
    let collector = Server { child, url: line.trim().to_owned() };
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
