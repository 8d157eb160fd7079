//! What flamelet sends, received by the code of the receivers' own protocols: Pyroscope's Connect handlers, Parca's gRPC
//! services, and the OpenTelemetry collector's decoder (`tests/peers/wire`).

use flamelet::{History, Profiler, Push};
use flamelet_profile::{Budget, Limits, pprof};
use flamelet_store::{Query, Reader};
use flamelet_tests::programs::run_flamelet;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use super::{DEADLINE, peer, stacks};

/// The receiver, which ends with the test.
struct Wire {
    child: Child,
    address: String,
    lines: Receiver<String>,
}

impl Wire {
    /// Starts it, or says that the test is skipped.
    fn start() -> Option<Self> {
        let mut child = Command::new(peer("wire")?).stdout(Stdio::piped()).spawn().expect("it starts");
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let address = lines.recv_timeout(DEADLINE).expect("an address");
        Some(Self { child, address, lines })
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(DEADLINE).expect("a call")
    }

    /// Returns all lines so far. They come a moment after their answer, so one more profile is pushed, whose line comes last.
    fn lines(&self) -> Vec<String> {
        let file = flamelet_tests::profiles::committed("go-cpu").display().to_string();
        let to = format!("pyroscope+http://{}", self.address);
        let answer = run_flamelet(["push", &file, "--to", &to, "--service", "end"]);
        assert_eq!(answer.status, Some(0), "{}", answer.stderr);
        std::iter::repeat_with(|| self.line()).take_while(|line| !line.contains("service_name=end")).collect()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_command_is_understood() {
    let Some(wire) = Wire::start() else { return };
    let file = flamelet_tests::profiles::committed("go-cpu");
    let sent = pprof::read(&std::fs::read(&file).expect("read"), &Limits::SERVICE).expect("pprof");
    let (total, time) = (sent.total(sent.sample_types().len() - 1), sent.header.time_nanos);
    let push = |protocol: &str| {
        let to = format!("{protocol}+http://{}", wire.address);
        let source = file.display().to_string();
        let answer =
            run_flamelet(["push", &source, "--to", &to, "--service", "checkout", "--label", "zone=b"]);
        assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    };
    push("pyroscope");
    let labels = "__delta__=false,__name__=process_cpu,service_name=checkout,zone=b";
    assert_eq!(wire.line(), format!("pyroscope {{{labels}}} {total} {time}"));
    push("parca");
    let labels = "__name__=process_cpu,job=checkout,service_name=checkout,zone=b";
    assert_eq!(wire.line(), format!("parca {{{labels}}} {total} {time}"));
    push("otlp");
    let (mut column, mut found) = (0, vec![BTreeMap::<String, i64>::new(); sent.sample_types().len()]);
    for line in wire.lines() {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        if words[0] == "otlp" {
            let (kind, _) = words[2].split_once(' ').expect("a kind");
            column =
                sent.sample_types().iter().position(|value| sent.string(value.kind) == kind).expect("known");
            assert!(words[1] == "checkout" && words[2].contains(&format!(" {time} ")), "{line}");
        } else {
            *found[column].entry(words[2].to_owned()).or_default() +=
                words[1].parse::<i64>().expect("a number");
        }
    }
    for (column, found) in found.iter().enumerate() {
        assert_eq!(found, &stacks(&sent, column));
    }
}

#[test]
fn a_service_is_understood() {
    let Some(wire) = Wire::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("http://{}", wire.address);
    let history = History::new(folder.path()).window(Duration::from_millis(500)).frequency(200);
    let profiler = Profiler::builder().name("night").overhead_budget(None).history(history);
    let profiler = profiler.push(Push::pyroscope(&url)).push(Push::parca(&url)).push(Push::otlp(&url));
    let profiler = profiler.start().expect("started");
    let patience = Instant::now();
    while profiler.metrics().pushed < 12 {
        assert!(patience.elapsed() < DEADLINE, "{:?}", profiler.metrics());
        spin_for_peers(Duration::from_millis(200));
    }
    assert_eq!(profiler.metrics().push_dropped, 0);
    drop(profiler);
    let on_disk = total_on_disk(folder.path());
    let lines = wire.lines();
    let sum = |kind: &str| -> i64 {
        let of_kind = lines.iter().filter(|line| line.starts_with(kind));
        of_kind.filter_map(|line| line.rsplit(' ').nth(1)?.parse::<i64>().ok()).sum()
    };
    assert_eq!((sum("pyroscope "), sum("parca ")), (on_disk, on_disk), "all of it, once");
    assert!(lines.iter().any(|line| line.starts_with("otlp-sample ") && line.contains("spin_for_peers")));
}

pub(super) fn total_on_disk(folder: &Path) -> i64 {
    let query = Query::new("cpu", i64::MIN, i64::MAX);
    let reader = Reader::open(folder).expect("a history");
    let read = reader.profile(&query, &Budget::new(Limits::SERVICE)).expect("read");
    read.0.map_or(0, |profile| profile.total(1))
}

#[inline(never)]
pub(super) fn spin_for_peers(duration: Duration) {
    let end = Instant::now() + duration;
    let mut state = 1u64;
    while Instant::now() < end {
        for _ in 0..10_000 {
            state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

#[test]
fn symbols_are_understood() {
    let Some(wire) = Wire::start() else { return };
    let program = std::env::current_exe().expect("this test");
    let size = program.metadata().expect("a file").len();
    let name = program.file_name().expect("a name").to_string_lossy().into_owned();
    let id = flamelet_symbol::buildid::of_file(&program).expect("an ELF file").expect("a build id");
    let push = |protocol: &str| {
        let to = format!("{protocol}+http://{}", wire.address);
        let answer = run_flamelet(["symbols", "push", &program.display().to_string(), "--to", &to]);
        assert_eq!(answer.status, Some(0), "{}", answer.stderr);
        answer.stderr
    };
    assert!(push("pyroscope").contains("Sent "));
    let expected = [
        format!("pyroscope-should {id} {name} TYPE_EXECUTABLE_FULL"),
        format!("pyroscope-upload {id} {size} <nil>"),
        format!("pyroscope-finished {id}"),
    ];
    assert_eq!(expected.each_ref().map(|_| wire.line()), expected);
    assert!(push("parca").contains("Sent "));
    let expected = [
        format!("parca-should {id} DEBUGINFO_TYPE_EXECUTABLE"),
        format!("parca-initiate {id} {size}"),
        format!("parca-upload {id} one {size}"),
        format!("parca-finished {id} one"),
    ];
    assert_eq!(expected.each_ref().map(|_| wire.line()), expected);
    assert!(push("parca").contains("not sent: it is there already"));
}
