//! Time ranges of a service's history, from its folder.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flamelet::{History, Profiler};
use flamelet_profile::{LabelSetId, Profile, ProfileBuilder, pprof};
use flamelet_store::{Options, Writer};
use flamelet_tests::programs::run_flamelet;

const SECOND: i64 = 1_000_000_000;

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_nanos()).expect("not far in the future")
}

/// A window of ten seconds that began `minutes` ago, with this many samples in one function.
fn window(minutes: i64, function: &str, samples: i64) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let frames = [builder.named_frame(function), builder.named_frame("main")];
    let stack = builder.stack(&frames);
    builder.sample(stack, LabelSetId::EMPTY, &[samples, samples * 10_000_000]);
    builder.set_period("cpu", "nanoseconds", 10_000_000);
    let header = builder.header_mut();
    (header.time_nanos, header.duration_nanos) = (now() - minutes * 60 * SECOND, 10 * SECOND);
    builder.finish()
}

/// A history of a quiet night and a busy day.
fn history() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::open(folder.path(), Options::default()).expect("a writer");
    for (minutes, function, samples) in [(90, "night_work", 30), (89, "night_work", 10), (5, "day_work", 200)]
    {
        writer.append("cpu", &window(minutes, function, samples)).expect("written");
    }
    folder
}

#[track_caller]
fn answer(arguments: &[&str]) -> String {
    let answer = run_flamelet(arguments);
    assert_eq!(answer.status, Some(0), "{arguments:?}: {}", answer.stderr);
    answer.stdout
}

#[test]
fn every_report_takes_a_range_of_a_history() {
    let folder = history();
    let path = folder.path().to_str().expect("text");
    let all = answer(&["top", path]);
    assert!(all.contains("night_work") && all.contains("day_work"), "{all}");
    let ranged = format!("{path}?from=-3h&to=-1h");
    for night in [&["top", path, "--from", "-3h", "--to", "-1h"][..], &["top", &ranged], &["tree", &ranged]] {
        let night = answer(night);
        assert!(night.contains("night_work") && !night.contains("day_work"), "{night}");
    }
    let day = answer(&["top", path, "--from=-1h", "--json"]);
    assert!(day.contains("day_work") && !day.contains("night_work"), "{day}");
    let explained = answer(&["explain", path, "--from", "-1h"]);
    assert!(!explained.contains("night_work"), "{explained}");
    let out = folder.path().join("night.pb.gz");
    answer(&["proto", path, "--from", "-3h", "--to", "-1h", "-o", out.to_str().expect("text")]);
    let night = pprof::read(&std::fs::read(out).expect("written"), &pprof::Limits::default()).expect("pprof");
    assert_eq!((night.total(0), night.header.duration_nanos), (40, 20 * SECOND));
}

#[test]
fn a_range_is_compared_with_the_one_before_it() {
    let folder = history();
    let path = folder.path().to_str().expect("text");
    let changed = answer(&["diff", path, "--from", "-1h"]);
    assert!(changed.contains("night_work") && changed.contains("day_work"), "{changed}");
    let before = format!("{path}?from=-2h&to=-1h");
    assert_eq!(answer(&["diff", &before, path, "--from", "-1h"]), changed);
}

#[test]
fn ranges_without_an_answer_say_why_in_one_line() {
    let folder = history();
    let path = folder.path().to_str().expect("text");
    let ranged = format!("{path}?since=-1h");
    let selected = format!("{path}?select={{version=\"1\"}}");
    for (arguments, text) in [
        (&["top", path, "--from", "-1h", "--to", "-2h"][..], "the range is empty"),
        (&["top", path, "--from", "-20m", "--to", "-10m"], "the history covers"),
        (&["top", path, "--from", "2001-01-01", "--to", "2001-01-02"], "the history covers"),
        (&["top", path, "--from", "2090-01-01"], "the range is empty"),
        (&["top", &ranged], "'since' is not from, to, kind or select"),
        (&["top", &selected], "'select' is for the folder or bucket of flamelet collect"),
        (&["diff", path], "name two profiles"),
    ] {
        let answer = run_flamelet(arguments);
        assert_eq!(answer.status, Some(2), "{arguments:?}: {}", answer.stdout);
        assert!(answer.stderr.contains(text), "{arguments:?}: {}", answer.stderr);
        assert_eq!(answer.stderr.trim_end().lines().count(), 1, "{}", answer.stderr);
    }
    let answer = run_flamelet(["top", path, "--from", "yesterday"]);
    assert_eq!(answer.status, Some(2));
    assert!(answer.stderr.contains("is not a time"), "{}", answer.stderr);
}

/// As from Pyroscope: by the query calls that Grafana uses.
#[test]
fn a_service_is_read_by_pyroscopes_calls() {
    let folder = history();
    let profiler = Profiler::builder().name("checkout").history(History::new(folder.path()));
    let profiler = profiler.start().expect("started");
    let server = profiler.serve("127.0.0.1:0").expect("a server");
    let host = server.address();
    let query = "process_cpu:cpu:nanoseconds:cpu:nanoseconds{service_name=\"checkout\"}";
    let source = |range: &str| format!("pyroscope://{host}?query={query}{range}");
    let night = answer(&["top", &source("&from=-3h&to=-1h")]);
    assert!(night.contains("night_work") && !night.contains("day_work"), "{night}");
    let day = answer(&["top", &source(""), "--from", "-1h", "--json"]);
    assert!(day.contains("day_work") && !day.contains("night_work"), "{day}");
    let out = folder.path().join("night.pb.gz");
    answer(&["proto", &source("&from=-3h&to=-1h"), "-o", out.to_str().expect("text")]);
    let night = pprof::read(&std::fs::read(out).expect("written"), &pprof::Limits::default()).expect("pprof");
    let cpu = night.sample_types().iter().position(|value| night.string(value.kind) == "cpu");
    assert_eq!(night.total(cpu.expect("CPU time")), 40 * 10_000_000);
    let other = source("&from=-3h").replace("checkout", "other");
    let nothing = run_flamelet(["top", &other]);
    assert!(!nothing.stdout.contains("night_work"), "{}", nothing.stdout);
}
