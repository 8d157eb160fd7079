//! The same program through `flamelet record` and through every tool that `flamelet run` drives: each gives its file,
//! a pprof next to it, and the same functions at the top.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use flamelet_tests::profiles;
use flamelet_tests::programs::{self, Answer, json_of, run_flamelet};

/// How much shares of time and of instructions may differ for the program's own functions; all but one mostly make calls.
const CPU_MARGIN: f64 = 0.05;
/// All heap tools count the same bytes, but heaptrack adds about 70 KB of its own.
const HEAP_MARGIN: f64 = 0.05;

/// Two threads, recursion, blocks of several lifetimes.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = profiles::scratch().join(format!("fixture-{}", std::process::id()));
        let source = programs::repository().join("crates/formats/tests/data/fixture.rs");
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut build = Command::new(rustc);
        build.args(["--edition=2024", "--crate-name=fixture", "-g", "-Copt-level=1", "-o"]);
        let status = build.arg(&program).arg(source).status().expect("rustc starts");
        assert!(status.success(), "the program does not build");
        program
    })
}

/// Runs a tool and returns the pprof file of its result; `None`, with a `SKIP:` line, where that is not permitted.
fn driven(tool: &str, arguments: &[&str]) -> Option<PathBuf> {
    let folder = profiles::scratch().join(format!("runs-{}", std::process::id()));
    let folder = folder.to_str().expect("UTF-8");
    let program = program().to_str().expect("UTF-8");
    let words = ["run", tool, "-o", folder, "--name", tool, "--", program];
    let answer: Answer = run_flamelet(words.iter().chain(arguments));
    if answer.status != Some(0) && tool == "perf" {
        flamelet_test_support::skip!("perf may not record here: {}", answer.stderr.trim());
        return None;
    }
    assert_eq!(answer.status, Some(0), "{tool}: {}", answer.stderr);
    assert!(
        answer.stdout.contains("Showing nodes accounting for"),
        "{tool} shows nothing:
{}",
        answer.stdout
    );
    let runs = std::fs::read_dir(Path::new(folder).join(tool)).expect("a folder a service");
    let run = runs.map(|entry| entry.expect("an entry").path()).next().expect("a folder a run");
    let name = run.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(name.ends_with(&format!("-{tool}")), "{name}");
    let files = std::fs::read_dir(&run).expect("the run's files").count();
    assert!(files >= 2, "{tool}: the raw file is kept beside the pprof made of it");
    Some(run.join("profile.pb.gz"))
}

/// Returns the flat or cumulative value of each function, and the sum of all.
fn values(profile: &Path, sample_index: &str, which: &str) -> (BTreeMap<String, f64>, f64) {
    let file = profile.to_str().expect("UTF-8");
    // Callgrind and similar tools do not know inlined functions.
    let options = ["top", "--json", "--nodecount=0", "--noinlines", "--sample-index", sample_index];
    let top = json_of(options.into_iter().chain([file]));
    let rows = top["rows"].as_array().expect("rows").iter();
    let values = rows
        .map(|row| (row["name"].as_str().expect("a name").to_owned(), row[which].as_f64().expect("a value")))
        .collect();
    (values, top["total"].as_f64().expect("a total"))
}

/// Returns the bounds of the true share of a function.
#[derive(Debug)]
struct Share {
    least: f64,
    most: f64,
}

impl Share {
    fn exactly(share: f64) -> Self {
        Self { least: share, most: share }
    }

    /// Wilson's interval of five standard deviations: the true share is outside of it once in a million runs.
    fn sampled(seen: f64, all: f64) -> Self {
        const DEVIATIONS: f64 = 5.0;
        let weight = all + DEVIATIONS.powi(2);
        let middle = (seen + DEVIATIONS.powi(2) / 2.0) / weight;
        let half = DEVIATIONS / weight * (seen * (all - seen) / all + DEVIATIONS.powi(2) / 4.0).sqrt();
        Self { least: middle - half, most: middle + half }
    }
}

/// Asserts that `function` is the first of these functions, and returns its value and the sum of all.
fn first_of(functions: &BTreeMap<String, f64>, function: &str, tool: &str) -> (f64, f64) {
    let first = functions.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(name, _)| name.as_str());
    assert_eq!(first, Some(function), "{tool}: {functions:?}");
    (functions[function], functions.values().sum())
}

/// Asserts that a function has the largest share, and that no two tools differ by more than `margin` beyond chance.
fn assert_agree(all: &[(&str, Share)], margin: f64) {
    assert!(all.iter().all(|(_, share)| share.least > 0.5), "{all:?}");
    let highest = all.iter().map(|(_, share)| share.least).fold(0.0, f64::max);
    let lowest = all.iter().map(|(_, share)| share.most).fold(f64::MAX, f64::min);
    assert!(highest - lowest <= margin, "{all:?}");
}

/// Returns the share of `leaf` among the program's own functions; the kernel's and the C library's shares differ
/// between machines.
fn leaf(profile: &Path, sample_index: &str, tool: &str) -> (f64, f64) {
    let (mut own, _) = values(profile, sample_index, "flat");
    own.retain(|name, _| name.starts_with("fixture::"));
    first_of(&own, "fixture::leaf", tool)
}

#[test]
fn cpu_tools_agree() {
    // Some hundred samples, and little work for the kernel.
    let long = ["40000", "forget"];
    let mut all = Vec::new();
    let recorded = profiles::scratch().join(format!("agree-{}.pb.gz", std::process::id()));
    let out = recorded.to_str().expect("UTF-8");
    let program = program().to_str().expect("UTF-8");
    let answer = run_flamelet(["record", "-o", out, "--", program].into_iter().chain(long));
    if answer.status == Some(0) {
        let (seen, of) = leaf(&recorded, "samples", "flamelet record");
        all.push(("flamelet record", Share::sampled(seen, of)));
    } else {
        flamelet_test_support::skip!("nothing can be recorded here: {}", answer.stderr.trim());
    }
    if let Some(profile) = driven("perf", &long) {
        let (seen, of) = leaf(&profile, "samples", "perf");
        all.push(("perf", Share::sampled(seen, of)));
    }
    for tool in ["callgrind", "cachegrind"] {
        let profile = driven(tool, &["200"]).expect("valgrind runs anywhere");
        let (instructions, of) = leaf(&profile, "Ir", tool);
        all.push((tool, Share::exactly(instructions / of)));
    }
    assert_agree(&all, CPU_MARGIN);
}

#[test]
fn heap_tools_agree() {
    let tools = [("dhat", "peak_space"), ("heaptrack", "peak_space"), ("massif", "inuse_space")];
    let all = tools.map(|(tool, sample_index)| {
        let profile = driven(tool, &["3000"]).expect("heap tools run anywhere");
        let (mut functions, total) = values(&profile, sample_index, "cum");
        // The functions that allocate; their callers have the same cumulative values.
        functions.retain(|name, _| matches!(name.as_str(), "fixture::keep" | "fixture::churn"));
        let (held, _) = first_of(&functions, "fixture::keep", tool);
        (tool, Share::exactly(held / total))
    });
    assert_agree(&all, HEAP_MARGIN);
}
