//! `--json`: parseable, and the same numbers as the text.

use flamelet_tests::profiles;
use flamelet_tests::programs::json_of;

#[test]
fn every_report_prints_json() {
    for file in profiles::all() {
        let file = file.display().to_string();
        for verb in ["top", "tree", "traces", "tags", "raw", "info", "comments"] {
            assert!(json_of([verb, "--json", &file]).is_object(), "{verb} {file}");
        }
        assert!(json_of(["peek", ".+", "--json", &file]).is_object(), "peek {file}");
        assert!(json_of(["diff", &file, &file, "--json"]).is_object(), "diff {file}");
    }
}

/// A real service, in this process.
#[test]
fn tasks_and_requests_of_a_service_print_json() {
    use std::task::{Context, Poll, Waker};

    let profiler = flamelet::Profiler::builder().name("tasks").start().expect("started");
    let server = profiler.serve("127.0.0.1:0").expect("serves");
    let url = format!("http://{}", server.address());
    let mut task = Box::pin(flamelet::task("a \"stuck\" task", std::future::pending::<()>()));
    let polled = Future::poll(task.as_mut(), &mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Pending);
    let answer = json_of(["tasks", &url, "--json"]);
    let tasks = answer["tasks"].as_array().expect("a list");
    let found = tasks.iter().find(|task| task["name"] == "a \"stuck\" task").expect("it is listed");
    assert_eq!((found["state"].as_str(), found["polls"].as_u64()), (Some("awaiting"), Some(1)), "{found}");
    assert_eq!(found["labels"]["task"], "a \"stuck\" task");
    assert!(found["created_by"][0]["function"].as_str().is_some_and(|name| name.contains("json")), "{found}");
    assert!(json_of(["requests", &url, "--json"])["routes"].is_array());
}

/// A hand-made profile with a known answer: milliseconds under `main`, some of them negative.
#[test]
fn top_has_the_exact_values() {
    let file = profiles::negative().display().to_string();
    let top = json_of(["top", "--json", "--no-trim", &file]);
    let rows = top["rows"].as_array().or_else(|| top["entries"].as_array()).expect("a list of rows");
    let value = |name: &str, field: &str| {
        let row = rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name} in {top}"));
        row[field].as_i64().unwrap_or_else(|| panic!("{name} has no {field}: {row}"))
    };
    assert_eq!(value("grew", "flat"), 320_000_000);
    assert_eq!(value("grew", "cum"), 380_000_000);
    assert_eq!(value("shrank", "flat"), -60_000_000);
    assert_eq!(value("gone", "flat"), -80_000_000);
    assert_eq!(value("main", "flat"), 10_000_000);
    assert_eq!(value("main", "cum"), 190_000_000);
}
