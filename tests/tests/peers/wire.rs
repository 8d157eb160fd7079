//! What flamelet sends, received by the code of the receivers' own protocols: Pyroscope's Connect handlers, Parca's gRPC
//! services, and the OpenTelemetry collector's decoder (`tests/peers/wire`). And what a service answers to Pyroscope's own client.

use flamelet::{History, Profiler, Push};
use flamelet_profile::{Budget, Limits, ProfileBuilder, pprof};
use flamelet_store::{Options, Query, Reader, Writer};
use flamelet_tests::programs::run_flamelet;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
    run_and_push(history, [Push::pyroscope(&url), Push::parca(&url), Push::otlp(&url)], 12);
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

/// Runs a service until it has sent so many windows.
pub(super) fn run_and_push(history: History, to: impl IntoIterator<Item = Push>, windows: u64) {
    let profiler = Profiler::builder().name("night").overhead_budget(None).history(history);
    let profiler = to.into_iter().fold(profiler, |builder, push| builder.push(push));
    let profiler = profiler.start().expect("started");
    let patience = Instant::now();
    while profiler.metrics().pushed < windows {
        assert!(patience.elapsed() < DEADLINE, "{:?}", profiler.metrics());
        spin_for_peers(Duration::from_millis(200));
    }
    assert_eq!(profiler.metrics().push_dropped, 0);
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

/// When the windows of [`known_history`] began, in milliseconds since 1970: within what a history keeps.
fn yesterday() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).expect("not far in the future") - 86_400_000
}

/// Writes two windows: `pay` for route /a, in a span, and `list` for route /b.
fn known_history(folder: &Path, start: i64) {
    let mut writer = Writer::open(folder, Options::default()).expect("a writer");
    for (number, route, function, span) in
        [(0, "/a", "pay", "b7ad6b7169203331"), (1, "/b", "list", "b7ad6b7169203332")]
    {
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        builder.set_period("cpu", "nanoseconds", 10_000_000);
        let frames = [builder.named_frame(function), builder.named_frame("main")];
        let stack = builder.stack(&frames);
        let labels = [("route", route), ("span_id", span)].map(|(key, text)| builder.text_label(key, text));
        let labels = builder.labels(&labels);
        builder.sample(stack, labels, &[number + 1, (number + 1) * 1000]);
        let header = builder.header_mut();
        let start = (start + number * 10_000) * 1_000_000;
        (header.time_nanos, header.duration_nanos) = (start, 10_000_000_000);
        writer.append("cpu", &builder.finish()).expect("written");
    }
}

/// Grafana's data source asks with this client.
#[test]
fn a_service_answers_pyroscopes_own_client() {
    let Some(program) = peer("wire") else { return };
    let (folder, start) = (tempfile::tempdir().expect("a folder"), yesterday());
    known_history(folder.path(), start);
    let profiler = Profiler::builder().name("checkout").history(History::new(folder.path()));
    let profiler = profiler.start().expect("started");
    let server = profiler.serve("127.0.0.1:0").expect("a server");
    let url = format!("http://{}", server.address());
    let times = [start - 1000, start + 60_000].map(|time| time.to_string());
    let output = Command::new(program).args(["query", &url]).args(times).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let names =
        "__name__ __period_type__ __period_unit__ __profile_type__ __type__ __unit__ route service_name";
    let cpu = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";
    let answers = [
        format!("ProfileTypes process_cpu:samples:count:cpu:nanoseconds {cpu}"),
        format!("LabelNames {names}"),
        "LabelValues /a /b".to_owned(),
        "Series {route=/a,service_name=checkout} {route=/b,service_name=checkout}".to_owned(),
        "SelectMergeStacktraces 3000 list main pay total".to_owned(),
        "SelectMergeSpanProfile 1000 main pay total".to_owned(),
        "SelectMergeProfile 1000".to_owned(),
        "Diff 1000 2000 3000".to_owned(),
        "SelectSeries {route=/a}=1000 {route=/b}=2000".to_owned(),
        "SelectHeatmap 2".to_owned(),
        "GetProfileStats true true true".to_owned(),
    ];
    let expected = ["proto", "json"].map(|codec| answers.each_ref().map(|it| format!("{codec} {it}")));
    assert_eq!(said.lines().collect::<Vec<_>>(), expected.as_flattened());
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
