//! Reading any file stays within the allowed memory, and ends.

use std::path::Path;

use flamelet_tests::confined::assert_refused;
use flamelet_tests::mutate::{Random, mutated};
use flamelet_tests::peak::peak_memory;
use flamelet_tests::programs::{Answer, command, flamelet};
use flamelet_tests::{profiles, synthetic, wire};

use super::bombs;

/// The memory of a run besides its budget: the program itself, its libraries, and memory that its allocator keeps.
const BESIDES: u64 = 64_000_000;
const MIB: u64 = 1 << 20;
const HELPER: &str = env!("CARGO_BIN_EXE_peak_memory");

/// Runs a verb on a file under a budget, and checks its peak.
fn bounded(verb: &str, file: &Path, mebibytes: u64) -> Answer {
    let name = file.file_name().expect("a file").to_string_lossy().into_owned();
    let mut run = command(flamelet());
    run.args([verb, "--symbolize=none", "--max-memory", &format!("{mebibytes}M")]).arg(file);
    let (answer, peak) = peak_memory(HELPER, &run, &format!("{verb}-{name}"));
    let most = mebibytes * MIB + BESIDES;
    assert!(
        peak <= most,
        "{verb} {name}: {} MB of {} MB; {}",
        peak / 1_000_000,
        most / 1_000_000,
        answer.stderr
    );
    assert!(!answer.stderr.contains("panicked"), "{verb} {name}: {}", answer.stderr);
    answer
}

/// Small files that would become large stay within the limit, and if they are refused, the message says why and how to
/// allow more.
#[test]
fn small_files_that_would_become_large() {
    let mut refused = 0;
    for make in bombs::all() {
        let bomb = make();
        let file = profiles::written(bomb.name, || bomb.bytes);
        let answer = bounded("info", &file, 32);
        if answer.status == Some(0) {
            continue;
        }
        assert_refused(&answer, &file);
        refused += u32::from(answer.stderr.contains("raise it with --max-memory"));
    }
    assert!(refused >= 40, "only {refused} of the files ran out of their budget: the others test nothing");
}

/// The default limit applies too, and has the documented value.
#[test]
fn without_a_word_the_budget_is_a_gibibyte() {
    for make in bombs::worst() {
        let bomb = make();
        let file = profiles::written(&format!("default-{}", bomb.name), || bomb.bytes);
        let (answer, peak) = peak_memory(HELPER, command(flamelet()).arg("info").arg(&file), bomb.name);
        assert!(peak <= 1024 * MIB + BESIDES, "{}: {} MB", bomb.name, peak / 1_000_000);
        assert_refused(&answer, &file);
    }
}

/// The error names which of the two budgets ran out.
#[test]
fn the_error_says_which_budget_ran_out() {
    let refused = |make: bombs::Maker, wanted: &str| {
        let bomb = make();
        let file = profiles::written(&format!("kind-{}", bomb.name), || bomb.bytes);
        let answer = bounded("info", &file, 32);
        assert_refused(&answer, &file);
        assert!(answer.stderr.contains(wanted), "{}", answer.stderr);
        assert!(answer.stderr.contains("; raise it with --max-memory SIZE"), "{}", answer.stderr);
    };
    refused(bombs::OUT_OF_MEMORY, "needs more than the allowed 32 MiB of memory");
    refused(bombs::OUT_OF_WORK, "steps of work");
}

/// Damaged files of all kinds.
#[test]
fn damaged_files_stay_within_the_budget() {
    let mut random = Random::new(13);
    let mut seeds: Vec<Vec<u8>> =
        super::formats::seeds().iter().map(|path| std::fs::read(path).expect("a seed")).collect();
    seeds.push(wire::gunzip(&synthetic::corners()));
    for (at, seed) in seeds.iter().enumerate() {
        for copy in 0..3 {
            let file = profiles::written(&format!("bounded-{at}-{copy}"), || mutated(seed, &mut random));
            let answer = bounded("top", &file, 32);
            if answer.status != Some(0) {
                assert_refused(&answer, &file);
            }
        }
    }
}

/// Every verb that reads profiles accepts `--max-memory`, with the usual units.
#[test]
fn every_verb_that_reads_takes_a_budget() {
    let wide = profiles::wide();
    for verb in [
        "top",
        "tree",
        "traces",
        "tags",
        "raw",
        "info",
        "merge",
        "flame",
        "diff",
        "check",
        "convert",
        "symbolize",
        "view",
    ] {
        let answer = flamelet_tests::programs::run_flamelet([verb, "--help"]);
        assert!(answer.stdout.contains("--max-memory <SIZE>"), "{verb}: {}", answer.stdout);
    }
    for (size, status) in [("1", 0), ("512M", 0), ("0.5GiB", 0), ("1k", 2), ("much", 2), ("0", 2)] {
        let answer = flamelet_tests::programs::run_flamelet([
            "top".as_ref(),
            "--max-memory".as_ref(),
            std::ffi::OsStr::new(size),
            wide.as_os_str(),
        ]);
        assert_eq!(answer.status, Some(status), "{size}: {}", answer.stderr);
    }
}
