//! The same questions to Pyroscope itself and to a service: the same answers, and the same errors.

use std::collections::BTreeMap;
use std::path::Path;

use flamelet::{History, Profiler};
use flamelet_profile::{LabelSetId, Profile, ProfileBuilder, pprof};
use flamelet_store::{Options, Writer};
use flamelet_tests::programs::run_flamelet;
use serde_json::{Value, json};

use super::now;
use super::pyroscope::{CPU, pyroscope};
use super::server::post;

/// A window of a made-up service: many stacks, some with the same total.
fn window(time: i64) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.set_period("cpu", "nanoseconds", 10_000_000);
    let mut state = 7u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..120 {
        let depth = 1 + random(6);
        let names: Vec<String> = (0..depth).map(|_| format!("step_{}", random(4))).collect();
        let mut frames = vec![builder.named_frame("main")];
        frames.extend(names.iter().map(|name| builder.named_frame(name)));
        frames.reverse();
        let stack = builder.stack(&frames);
        let count = 1 + random(9) as i64;
        builder.merge_sample(stack, LabelSetId::EMPTY, &[count, count * 10_000_000]);
    }
    let header = builder.header_mut();
    (header.time_nanos, header.duration_nanos) = (time, 10_000_000_000);
    builder.finish()
}

/// Two servers that hold the same window.
struct Both {
    urls: [String; 2],
    start: i64,
    end: i64,
}

impl Both {
    fn ask(&self, method: &str, body: &Value) -> [(u16, Value); 2] {
        let path = format!("/querier.v1.QuerierService/{method}");
        self.urls.each_ref().map(|url| post(url, &path, &body.to_string()).expect("an answer"))
    }

    /// Returns the request for all of the window, with further fields.
    fn body(&self, further: &Value) -> Value {
        let mut body = json!({
            "profileTypeID": CPU, "labelSelector": "{service_name=\"night\"}",
            "start": self.start.to_string(), "end": self.end.to_string(),
        });
        for (name, value) in further.as_object().expect("fields") {
            body[name] = value.clone();
        }
        body
    }
}

/// Calls `check` with Pyroscope and a service that hold the same window; not at all if Pyroscope is not built.
fn with_both(check: impl FnOnce(&Both)) {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = pyroscope(folder.path()) else { return };
    let time = now() - 60_000_000_000;
    let profile = window(time);
    push(&profile, &server.url, folder.path());
    let history = folder.path().join("history");
    let mut writer = Writer::open(&history, Options::default()).expect("a writer");
    writer.append("cpu", &profile).expect("written");
    drop(writer);
    let profiler =
        Profiler::builder().name("night").history(History::new(&history)).start().expect("started");
    let served = profiler.serve("127.0.0.1:0").expect("a port");
    let urls = [server.url.clone(), format!("http://{}", served.address())];
    check(&Both { urls, start: time / 1_000_000 - 1000, end: time / 1_000_000 + 30_000 });
}

fn push(profile: &Profile, url: &str, folder: &Path) {
    let file = folder.join("window.pb.gz");
    pprof::write_gzip(profile, std::fs::File::create(&file).expect("created")).expect("written");
    let to = url.replace("http", "pyroscope+http");
    let pushed = run_flamelet(["push", &file.display().to_string(), "--to", &to, "--service", "night"]);
    assert_eq!(pushed.status, Some(0), "{}", pushed.stderr);
}

fn number(value: &Value) -> i64 {
    value.as_i64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("no number: {value}"))
}

/// Returns the nodes of a flame graph by their names from the root, with their totals and own values.
fn nodes(answer: &Value) -> BTreeMap<String, (i64, i64)> {
    let flame = &answer["flamegraph"];
    let mut all = BTreeMap::new();
    let mut above: Vec<(i64, i64, String)> = Vec::new();
    for level in flame["levels"].as_array().expect("levels") {
        let values: Vec<i64> = level["values"].as_array().expect("values").iter().map(number).collect();
        let (mut at, mut here) = (0, Vec::new());
        for node in values.chunks_exact(4) {
            at += node[0];
            let name = flame["names"][node[3] as usize].as_str().expect("a name");
            let parent = above.iter().find(|(from, to, _)| (*from..*to).contains(&at));
            let path = parent.map_or_else(|| name.to_owned(), |(_, _, path)| format!("{path};{name}"));
            all.insert(path.clone(), (node[1], node[2]));
            here.push((at, at + node[1], path));
            at += node[1];
        }
        above = here;
    }
    all
}

#[test]
fn flame_graphs_have_the_same_nodes_as_pyroscopes() {
    with_both(|both| {
        for most in [0, -1, 1, 2, 5, 16, 50, 100, 100_000] {
            let body = both.body(&json!({ "maxNodes": most.to_string() }));
            let [(200, theirs), (200, own)] = both.ask("SelectMergeStacktraces", &body) else {
                panic!("{most} nodes: {:?}", both.ask("SelectMergeStacktraces", &body))
            };
            assert_eq!(nodes(&own), nodes(&theirs), "{most} nodes");
        }
    });
}

/// Returns the sum of the values of a profile in JSON.
fn total(profile: &Value) -> i64 {
    let samples = profile["sample"].as_array().cloned().unwrap_or_default();
    samples.iter().map(|sample| number(&sample["value"][0])).sum()
}

/// Returns the sum of all points of all series.
fn sum(answer: &Value) -> f64 {
    let series = answer["series"].as_array().cloned().unwrap_or_default();
    let points = series.iter().flat_map(|series| series["points"].as_array().cloned().unwrap_or_default());
    points.map(|point| point["value"].as_f64().unwrap_or_default()).sum()
}

#[test]
fn call_sites_select_the_same_stacks_as_pyroscopes() {
    with_both(|both| {
        let mut totals = Vec::new();
        for site in [&[][..], &["main"], &["main", "step_1"], &["main", "step_1", "step_2"], &["step_1"]] {
            let site: Vec<Value> = site.iter().map(|name| json!({ "name": name })).collect();
            let body = both.body(&json!({ "stackTraceSelector": { "callSite": site }, "step": 60 }));
            let [(200, theirs), (200, own)] = both.ask("SelectMergeProfile", &body) else {
                panic!("{site:?}")
            };
            assert_eq!(total(&own), total(&theirs), "{site:?}");
            totals.push(total(&own));
            let [(200, theirs), (200, own)] = both.ask("SelectSeries", &body) else { panic!("{site:?}") };
            assert_eq!(sum(&own), sum(&theirs), "{site:?}");
        }
        let is_less = |pair: &[i64]| pair[0] > pair[1];
        assert!(
            totals[0] == totals[1] && totals[1..].windows(2).all(is_less) && totals[4] == 0,
            "{totals:?}"
        );
    });
}

#[test]
fn errors_have_pyroscopes_codes() {
    with_both(|both| {
        let without = |names: &[&str]| {
            let mut body = both.body(&json!({ "step": 15 }));
            names.iter().for_each(|name| drop(body.as_object_mut().expect("fields").remove(*name)));
            body
        };
        let with = |name: &str, value: Value| both.body(&json!({ "step": 15, (name): value }));
        let calls = ["SelectMergeStacktraces", "SelectMergeProfile", "SelectSeries"];
        for method in calls {
            for body in [
                without(&["start", "end"]),
                without(&["start"]),
                without(&["end"]),
                with("profileTypeID", json!("cpu")),
                with("profileTypeID", json!("a:b:c:d:e:f:g")),
                with("profileTypeID", json!("no:such:type:of:profile")),
                with("labelSelector", json!("{service_name=}")),
                with("labelSelector", json!("{service_name=~\"(\"}")),
                with("labelSelector", json!("{service_name=\"nobody\"}")),
                with("start", json!("x")),
                with("maxNodes", json!("-5")),
            ] {
                let [theirs, own] = both.ask(method, &body);
                assert_eq!(
                    (own.0, &own.1["code"]),
                    (theirs.0, &theirs.1["code"]),
                    "{method} {body}: {own:?}, Pyroscope: {theirs:?}"
                );
            }
        }
    });
}
