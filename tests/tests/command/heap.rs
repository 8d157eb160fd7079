//! `flamelet heap`: every view of a killed program whose memory is known; files and URLs.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use flamelet_profile::{ProfileBuilder, pprof};
use serde_json::Value;

use flamelet_tests::profiles;
use flamelet_tests::programs::{json_of, run_flamelet};

/// Returns the recovery file of the killed workload.
fn ledger() -> &'static Path {
    static LEDGER: OnceLock<PathBuf> = OnceLock::new();
    LEDGER.get_or_init(|| {
        let path = profiles::scratch().join("killed.ledger");
        let mut child = Command::new(env!("CARGO_BIN_EXE_heap_workload"))
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the workload starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        // SIGKILL, which a process cannot handle.
        child.kill().expect("killed");
        child.wait().expect("gone");
        path
    })
}

fn json(words: &[&str]) -> Value {
    json_of(["heap"].iter().chain(words).chain(&["--json"]))
}

fn view(flag: &str) -> Value {
    json(&[ledger().to_str().expect("UTF-8"), flag])
}

/// The bytes and objects of the rows with `function` in their stack.
fn sum(answer: &Value, function: &str) -> (i64, i64) {
    let rows = answer["rows"].as_array().expect("rows").iter();
    let rows = rows.filter(|row| {
        let mut names = row["own"].as_array().expect("names").iter();
        names.any(|name| name.as_str().is_some_and(|name| name.ends_with(function)))
    });
    rows.fold((0, 0), |sum, row| {
        let number = |field: &str| row[field].as_i64().expect("a number");
        (sum.0 + number("bytes"), sum.1 + number("objects"))
    })
}

#[test]
fn every_view_of_a_killed_program_is_exact() {
    assert_eq!(sum(&view("--in-use"), "hold_sessions"), (501_200, 51));
    assert_eq!(sum(&view("--in-use"), "spike"), (0, 0));
    assert_eq!(sum(&view("--temporary"), "format_for_nothing"), (600_000, 200));
    let peak = sum(&view("--peak"), "spike").0;
    assert!((4_900_000..5_100_000).contains(&peak), "{peak}");
    assert!(sum(&view("--allocated"), "spike").0 >= 5_000_000);
    let freed = view("--freed");
    let row = freed["rows"].as_array().expect("rows").iter().find(|row| {
        let names = |field: &str, name: &str| row[field].as_str().is_some_and(|text| text.contains(name));
        names("allocated_by", "heap_workload::bytes") && names("freed_by", "consume")
    });
    assert_eq!(row.expect("a pair")["bytes"], 200_000);
    let lifetimes = view("--lifetime");
    let classes = lifetimes["classes"].as_array().expect("classes").iter();
    let total: i64 = classes.map(|class| class["bytes"].as_i64().expect("bytes")).sum();
    assert_eq!(lifetimes["total_bytes"], total);
    assert_eq!(lifetimes["report"], "lifetimes");
}

#[test]
fn the_terminal_form_names_the_holder_first() {
    let path = ledger().to_str().expect("UTF-8");
    let answer = run_flamelet(["heap", path, "-n", "3"]);
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    let lines: Vec<&str> = answer.stdout.lines().collect();
    assert!(lines[0].starts_with("In use: ") && lines[1].trim_start().starts_with("bytes"), "{lines:?}");
    assert!(lines[2].contains("488.28kB") && lines[2].ends_with("heap_workload::bytes"), "{lines:?}");
    assert!(lines[3].contains("← heap_workload::hold_sessions"), "{lines:?}");
    let answer = run_flamelet(["heap", path, "--growth"]);
    assert_eq!(answer.status, Some(2));
    assert!(answer.stderr.contains("one moment does not say what grows"), "{}", answer.stderr);
}

fn heap_file(name: &str, minute: i64, leaked: i64) -> String {
    let path = profiles::written(name, || {
        let mut builder = ProfileBuilder::new(&[("inuse_objects", "count"), ("inuse_space", "bytes")]);
        builder.header_mut().time_nanos = minute * 60_000_000_000;
        for (name, bytes) in [("shop::leak", leaked), ("shop::config", 1 << 20)] {
            let function = builder.named_function(name, "shop.rs");
            let frame = builder.frame(function, 1);
            let (stack, labels) = (builder.stack(&[frame]), builder.labels(&[]));
            builder.sample(stack, labels, &[bytes >> 10, bytes]);
        }
        let mut bytes = Vec::new();
        pprof::write_gzip(&builder.finish(), &mut bytes).expect("memory");
        bytes
    });
    path.display().to_string()
}

#[test]
fn growth_over_saved_files_in_any_order() {
    let files: Vec<String> =
        (0..5).map(|at| heap_file(&format!("heap-{at}.pb.gz"), at, (1 + at) << 20)).collect();
    let shuffled: Vec<&str> = [3, 0, 4, 1, 2].map(|at: usize| files[at].as_str()).to_vec();
    let growth = json(&shuffled);
    assert_eq!((&growth["report"], &growth["moments"]), (&Value::from("growth"), &Value::from(5)));
    assert_eq!(growth["rows"].as_array().map(Vec::len), Some(1));
    let leak = &growth["rows"][0];
    assert_eq!((&leak["own"][0], &leak["bytes"]), (&Value::from("shop::leak"), &Value::from(4 << 20)));
    assert_eq!((&leak["steady"], &leak["suspect"]), (&Value::from(true), &Value::from(true)));
    let answer = run_flamelet(["heap", "--growth", &files[0]]);
    assert_eq!(answer.status, Some(2));
    assert!(answer.stderr.contains("two or more heap profiles"), "{}", answer.stderr);
    let answer = run_flamelet(["heap", "--peak", &files[0], &files[1]]);
    assert!(answer.status == Some(2) && answer.stderr.contains("--growth"), "{}", answer.stderr);
}

#[test]
fn go_programs_have_memory_too_and_cpu_profiles_have_none() {
    let go = profiles::committed("go-heap").display().to_string();
    let holders = json(&[&go, "--in-use"]);
    let top = json_of(["top", "--json", "--no-trim", "-i", "inuse_space", &go]);
    assert_eq!(holders["total_bytes"], top["total"]);
    let cpu = profiles::committed("go-cpu").display().to_string();
    let answer = run_flamelet(["heap", &cpu]);
    assert_eq!(answer.status, Some(2));
    assert!(answer.stderr.contains("not a heap profile"), "{}", answer.stderr);
    let answer = run_flamelet(["heap", "--lifetime", &go]);
    assert!(answer.status == Some(2) && answer.stderr.contains("/debug/pprof/lifetime"), "{}", answer.stderr);
}
