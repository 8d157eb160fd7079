//! The same program through `flamelet record` and through every tool that `flamelet run` drives: each gives its file,
//! a pprof beside it, and the same functions at the top.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use flamelet_tests::profiles;
use flamelet_tests::programs::{self, Answer, run_flamelet};

/// How far the shares of a function may lie apart. Time and instructions are not the same; this program does little
/// else than the arithmetic of one function, so they nearly are (0.91 to 0.97 was seen): samplers see the kernel too.
const CPU_MARGIN: f64 = 0.15;
/// Bytes are counted by every heap tool alike, but heaptrack counts some 70 KB of its own.
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

fn words<'a>(words: &[&'a str]) -> Vec<&'a str> {
    words.to_vec()
}

/// Runs a tool and returns the pprof that was made of its file; none, with a `SKIP:` line, where it is not allowed.
fn driven(tool: &str, rounds: &str) -> Option<PathBuf> {
    let folder = profiles::scratch().join(format!("runs-{}", std::process::id()));
    let folder = folder.to_str().expect("UTF-8");
    let program = program().to_str().expect("UTF-8");
    let answer: Answer =
        run_flamelet(words(&["run", tool, "-o", folder, "--name", tool, "--", program, rounds]));
    if answer.status != Some(0) && tool == "perf" {
        eprintln!("SKIP: perf may not record here: {}", answer.stderr.trim());
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

/// The share of each function, by itself or with what it calls.
fn shares(profile: &Path, sample_index: &str, which: &str) -> BTreeMap<String, f64> {
    let file = profile.to_str().expect("UTF-8");
    // Callgrind and its kind know no inlined functions.
    let options = ["top", "--json", "--nodecount=0", "--noinlines", "--sample-index", sample_index];
    let answer = run_flamelet(options.into_iter().chain([file]));
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    let top: serde_json::Value = serde_json::from_str(&answer.stdout).expect("JSON");
    let total = top["total"].as_f64().expect("a total");
    let rows = top["rows"].as_array().expect("rows").iter();
    rows.map(|row| {
        let name = row["name"].as_str().expect("a name").to_owned();
        (name, row[which].as_f64().expect("a value") / total)
    })
    .collect()
}

/// Asserts that `function` has the same share everywhere, and that it is the first of the program's own functions.
fn assert_agree(function: &str, all: &[(&str, BTreeMap<String, f64>)], margin: f64) {
    let share = |shares: &BTreeMap<String, f64>| shares.get(function).copied().unwrap_or(0.0);
    let found: Vec<(&str, f64)> = all.iter().map(|(tool, shares)| (*tool, share(shares))).collect();
    let least = found.iter().map(|(_, share)| *share).fold(f64::MAX, f64::min);
    let most = found.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    assert!(least > 0.5 && most - least <= margin, "{function}: {found:?}");
    for (tool, shares) in all {
        let own = shares.iter().filter(|(name, _)| name.starts_with("fixture::"));
        let first = own.max_by(|a, b| a.1.total_cmp(b.1)).map(|(name, _)| name.as_str());
        assert_eq!(first, Some(function), "{tool}");
    }
}

#[test]
fn cpu_tools_agree() {
    let mut all = Vec::new();
    let recorded = profiles::scratch().join(format!("agree-{}.pb.gz", std::process::id()));
    let out = recorded.to_str().expect("UTF-8");
    let answer =
        run_flamelet(words(&["record", "-o", out, "--", program().to_str().expect("UTF-8"), "10000"]));
    if answer.status == Some(0) {
        all.push(("flamelet record", shares(&recorded, "cpu", "flat")));
    } else {
        eprintln!("SKIP: nothing can be recorded here: {}", answer.stderr.trim());
    }
    if let Some(profile) = driven("perf", "10000") {
        all.push(("perf", shares(&profile, "cpu", "flat")));
    }
    for tool in ["callgrind", "cachegrind"] {
        let profile = driven(tool, "200").expect("valgrind runs anywhere");
        all.push((tool, shares(&profile, "Ir", "flat")));
    }
    assert_agree("fixture::leaf", &all, CPU_MARGIN);
}

#[test]
fn heap_tools_agree() {
    let mut all = Vec::new();
    for tool in ["dhat", "heaptrack"] {
        let profile = driven(tool, "3000").expect("heap tools run anywhere");
        all.push((tool, without_others(shares(&profile, "peak_space", "cum"))));
    }
    let profile = driven("massif", "3000").expect("valgrind runs anywhere");
    all.push(("massif", without_others(shares(&profile, "inuse_space", "cum"))));
    assert_agree("fixture::keep", &all, HEAP_MARGIN);
}

/// The functions that allocate; those around them hold as much, with what they call.
fn without_others(mut shares: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    shares.retain(|name, _| matches!(name.as_str(), "fixture::keep" | "fixture::churn"));
    shares
}
