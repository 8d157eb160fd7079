//! Reading any file stays within the allowed memory, and ends.

use std::path::Path;

use flamelet_tests::confined::assert_refused;
use flamelet_tests::mutate::{Random, mutated};
use flamelet_tests::peak::peak_memory;
use flamelet_tests::programs::{Answer, command, flamelet, run_flamelet};
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
    // pprof's command line has no option for it.
    let bomb = bombs::worst()[1]();
    let file = profiles::written(&format!("pprof-{}", bomb.name), || bomb.bytes);
    let (answer, peak) = peak_memory(HELPER, command(flamelet()).args(["pprof", "-top"]).arg(&file), "pprof");
    assert!(peak <= 1024 * MIB + BESIDES, "pprof -top: {} MB", peak / 1_000_000);
    assert_eq!(answer.status, Some(2), "{}", answer.stderr);
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

/// Verbs without `--max-memory`, and why.
const WITHOUT_A_BUDGET: [(&str, &str); 13] = [
    ("requests", "reads no profile but an answer of a service, of 4 MiB at most"),
    ("tasks", "prints an answer of a service, of 256 MiB at most, as it is"),
    ("collect", "has limits of its own"),
    ("symbols", "reads the user's own binary"),
    ("record", "reads no profile"),
    ("run", "reads what the tool that it runs has just written, within the default"),
    ("doctor", "reads no profile"),
    ("recover", "reads the user's own recovery file, which has a fixed size"),
    ("demo", "reads no profile"),
    ("pprof", "has pprof's options only; the default is tested below"),
    ("completions", "reads no profile"),
    ("man", "reads no profile"),
    ("help", "reads no profile"),
];

/// Returns the verbs that `flamelet --help` lists.
fn verbs() -> Vec<String> {
    let help = run_flamelet(["--help"]).stdout;
    let list =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = list.filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    names.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// Returns the arguments with which a verb reads a file; `None` if it does not read files by itself.
fn reading(verb: &str, file: &str) -> Option<Vec<String>> {
    let out =
        |ending: &str| profiles::scratch().join(format!("bounded-{verb}{ending}")).display().to_string();
    let words = match verb {
        // Saves what a service sends as it is, within its limit.
        "fetch" => return None,
        // Opens files when it is asked about them, by its protocol.
        "mcp" => return None,
        "peek" | "list" | "disasm" => vec![".".to_owned(), file.to_owned()],
        "diff" | "check" => vec![file.to_owned(), file.to_owned()],
        "graph" | "flame" => vec![file.to_owned(), "-o".to_owned(), out(".svg")],
        "proto" | "topproto" | "merge" | "convert" | "symbolize" => {
            vec![file.to_owned(), "-o".to_owned(), out(".pb.gz")]
        }
        "view" => vec![file.to_owned(), "--no-browser".to_owned()],
        "push" => {
            let to = ["--to", "http://127.0.0.1:1", "--service", "x"].map(str::to_owned);
            [vec![file.to_owned()], to.to_vec()].concat()
        }
        _ => vec![file.to_owned()],
    };
    Some(words)
}

/// Every verb that reads profiles accepts `--max-memory`, with the usual units, and stays within it.
#[test]
fn every_verb_that_reads_takes_a_budget() {
    let wide = profiles::wide();
    let bomb = bombs::OUT_OF_MEMORY();
    let file = profiles::written(&format!("verbs-{}", bomb.name), || bomb.bytes);
    let verbs = verbs();
    assert!(verbs.len() > 30 && verbs.contains(&"mcp".to_owned()), "{verbs:?}");
    for verb in &verbs {
        let has_budget = run_flamelet([verb, "--help"]).stdout.contains("--max-memory <SIZE>");
        let is_without = WITHOUT_A_BUDGET.iter().any(|(without, _)| without == verb);
        assert!(has_budget != is_without, "{verb}: either --max-memory, or a reason in the list");
        let Some(words) = reading(verb, file.to_str().expect("UTF-8")).filter(|_| has_budget) else {
            continue;
        };
        let mut run = command(flamelet());
        run.args([verb, "--max-memory", "32M"]).args(&words);
        let (answer, peak) = peak_memory(HELPER, &run, &format!("verb-{verb}"));
        assert!(peak <= 32 * MIB + BESIDES, "{verb}: {} MB; {}", peak / 1_000_000, answer.stderr);
        assert_eq!(answer.status, Some(2), "{verb}: {}", answer.stderr);
        assert!(answer.stderr.contains("allowed 32 MiB of memory"), "{verb}: {}", answer.stderr);
    }
    for (size, status) in [("1", 0), ("512M", 0), ("0.5GiB", 0), ("1k", 2), ("much", 2), ("0", 2)] {
        let answer = run_flamelet([
            "top".as_ref(),
            "--max-memory".as_ref(),
            std::ffi::OsStr::new(size),
            wide.as_os_str(),
        ]);
        assert_eq!(answer.status, Some(status), "{size}: {}", answer.stderr);
    }
}
