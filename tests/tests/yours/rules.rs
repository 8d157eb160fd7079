//! For rules of `explain`, a program that the rule reports and a similar one that it does not report. (Rules that no
//! program here triggers have synthetic pairs in `crates/report/src/explain/tests.rs`.)

use std::path::Path;

use flamelet_tests::programs::{answer, command, run_flamelet};

use crate::recordings::{cargo_program, findings, record, rules_program, scratch};

const OPTIMIZED: &[&str] = &["-O", "-g"];

/// CPU time; with the kernel's frames; of programs with crates.
const TIMES: [&str; 3] = ["cpu", "kernel", "libraries"];

/// A row of `programs/pairs.txt`.
struct Pair {
    rule: &'static str,
    /// One of [`TIMES`], or a sample type of the heap.
    about: &'static str,
    /// The program where the rule speaks.
    loud: &'static str,
    /// The one where it does not.
    quiet: &'static str,
}

fn pairs() -> impl Iterator<Item = Pair> {
    let rows = include_str!("programs/pairs.txt").lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [rule, about, loud, quiet] => Pair { rule, about, loud, quiet },
        _ => panic!("{line}"),
    })
}

/// Returns the pairs whose recordings do not agree with their rule. `is_skipped` says whether a recording cannot be used.
fn wrong(
    program: &Path,
    pairs: impl Iterator<Item = Pair>,
    is_skipped: impl Fn(&str) -> bool,
) -> Option<Vec<String>> {
    let mut wrong = Vec::new();
    for Pair { rule, about, loud, quiet } in pairs {
        for (name, expected) in [(loud, true), (quiet, false)] {
            let is_heap = !TIMES.contains(&about);
            let file = record(program, name, if is_heap { &["--heap"] } else { &["-F", "997"] })?;
            let file = file.to_str().expect("UTF-8");
            if expected && is_skipped(file) {
                return Some(wrong);
            }
            let words = if is_heap { vec!["-i", about, file] } else { vec![file] };
            let rules = rules_of(&findings(&words));
            if rules.iter().any(|found| found == rule) != expected {
                wrong.push(format!("{rule} about {name}: {rules:?}"));
            }
        }
    }
    Some(wrong)
}

/// A `SKIP:` line is one line.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn rules_of(found: &[serde_json::Value]) -> Vec<String> {
    found.iter().map(|finding| finding["rule"].as_str().expect("a rule").to_owned()).collect()
}

#[test]
fn rules_about_time_speak_about_the_programs_that_they_are_for() {
    let program = rules_program("rules-optimized", OPTIMIZED);
    let Some(wrong) = wrong(&program, pairs().filter(|pair| pair.about == "cpu"), |_| false) else { return };
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rules_about_crates_speak_about_the_programs_that_they_are_for() {
    let program = cargo_program("libraries");
    let Some(wrong) = wrong(&program, pairs().filter(|pair| pair.about == "libraries"), |_| false) else {
        return;
    };
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// System calls are distinguished by the kernel's frames.
#[test]
fn rules_about_the_kernel_speak_about_the_programs_that_they_are_for() {
    let is_skipped = |file: &str| {
        let traces = run_flamelet(["traces", file]).stdout;
        let has_kernel = ["__x64_sys_", "__arm64_sys_"].iter().any(|name| traces.contains(name));
        if !has_kernel {
            let about = run_flamelet(["info", file]).stdout;
            flamelet_test_support::skip!("this recording has no frames of the kernel: {}", one_line(&about));
        }
        !has_kernel
    };
    let program = rules_program("rules-optimized", OPTIMIZED);
    let of_kernel = pairs().filter(|pair| pair.about == "kernel");
    let Some(wrong) = wrong(&program, of_kernel, is_skipped) else { return };
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_finding_names_the_function_that_causes_it() {
    let program = rules_program("rules-optimized", OPTIMIZED);
    let Some(file) = record(&program, "siphash", &["-F", "997"]) else { return };
    let found = findings(&[file.to_str().expect("UTF-8")]);
    let finding = found.iter().find(|finding| finding["rule"] == "siphash").expect("SipHash");
    let place = &finding["places"][0];
    assert!(place["function"].as_str().expect("a name").contains("count_words"), "{place}");
    assert!(place["file"].as_str().expect("a file").ends_with("rules.rs"), "{place}");
    assert!(place["line"].as_i64().expect("a line") > 0, "{place}");
    assert_eq!(finding["confidence"], "high", "{finding}");
}

#[test]
fn builds_for_development_are_recognised() {
    for (name, flags, expected) in
        [("rules-optimized", OPTIMIZED, false), ("rules-unoptimized", &["-g"][..], true)]
    {
        let program = rules_program(name, flags);
        let Some(file) = record(&program, "checked-sum", &["-F", "997"]) else { return };
        let rules = rules_of(&findings(&[file.to_str().expect("UTF-8")]));
        for rule in ["unoptimized", "debug-assertions"] {
            assert_eq!(rules.iter().any(|found| found == rule), expected, "{rule} about {name}: {rules:?}");
        }
    }
}

/// Where few checks of a build with debug assertions are hot, its overflow checks are what is left to report.
#[test]
fn overflow_checks_of_an_optimized_build_are_recognised() {
    for (name, flags, expected) in [
        ("rules-optimized", OPTIMIZED, &[][..]),
        ("rules-overflow", &["-O", "-g", "-C", "overflow-checks=on"], &["overflow-checks"]),
        (
            "rules-assertions",
            &["-O", "-g", "-C", "debug-assertions=on"],
            &["overflow-checks", "debug-assertions"],
        ),
    ] {
        let program = rules_program(name, flags);
        let Some(file) = record(&program, "checked-sum", &["-F", "997"]) else { return };
        let rules = rules_of(&findings(&[file.to_str().expect("UTF-8")]));
        let checks = ["overflow-checks", "debug-assertions"];
        let found: Vec<&str> =
            checks.into_iter().filter(|rule| rules.iter().any(|found| found == rule)).collect();
        assert_eq!(found.is_empty(), expected.is_empty(), "{name}: {rules:?}");
        assert!(found.iter().all(|rule| expected.contains(rule)), "{name}: {rules:?}");
    }
}

#[test]
fn rules_about_memory_speak_about_the_programs_that_they_are_for() {
    let program = rules_program("rules-optimized", OPTIMIZED);
    let of_heap = pairs().filter(|pair| !TIMES.contains(&pair.about));
    let Some(wrong) = wrong(&program, of_heap, |_| false) else { return };
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_diff_says_what_got_slower() {
    let program = rules_program("rules-optimized", OPTIMIZED);
    let (Some(base), Some(new)) =
        (record(&program, "one-box", &["-F", "997"]), record(&program, "many-boxes", &["-F", "997"]))
    else {
        return;
    };
    let (base, new) = (base.to_str().expect("UTF-8"), new.to_str().expect("UTF-8"));
    let answer = run_flamelet(["diff", "--explain", base, new]);
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    let (more, less) = answer.stdout.split_once("Costs less:").expect("both");
    assert!(more.contains("many_boxes") && more.contains("is new"), "{}", answer.stdout);
    assert!(more.contains("allocating"), "{}", answer.stdout);
    assert!(less.contains("one_box") && less.contains("is gone"), "{}", answer.stdout);
    let same = run_flamelet(["diff", "--explain", new, new]);
    assert!(same.stdout.contains("None of your functions changed by more than noise"), "{}", same.stdout);
}

#[test]
fn a_leak_shows_in_heap_profiles_of_several_moments() {
    for (kind, expected) in [("leak", true), ("cache", false)] {
        let folder = scratch(&format!("moments-{kind}"));
        std::fs::create_dir_all(&folder).expect("our own folder");
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_heap_moments"));
        let done = answer(command(program).arg(kind).arg(&folder));
        assert_eq!(done.status, Some(0), "{}", done.stderr);
        let files: Vec<String> =
            (0..6).map(|turn| folder.join(format!("heap-{turn}.pb.gz")).display().to_string()).collect();
        let found = findings(&files.iter().map(String::as_str).collect::<Vec<_>>());
        let leak = found.iter().find(|finding| finding["rule"] == "leak");
        assert_eq!(leak.is_some(), expected, "{kind}: {found:#?}");
        if let Some(leak) = leak {
            let title = leak["title"].as_str().expect("a title");
            assert!(title.contains("6 profiles, steadily"), "{title}");
            assert!(
                leak["places"][0]["function"].as_str().is_some_and(|name| name.contains("remember")),
                "{leak}"
            );
        }
    }
}

#[test]
fn a_recording_of_the_heap_knows_its_size_over_time() {
    let program = rules_program("rules-optimized", OPTIMIZED);
    let Some(file) = record(&program, "kept", &["--heap"]) else { return };
    let bytes = std::fs::read(file).expect("recorded");
    let profile = flamelet_profile::pprof::read(&bytes, &Default::default()).expect("a profile");
    let sizes = profile.heap_sizes();
    assert!(sizes.len() >= 2 && sizes.is_sorted_by_key(|size| size.time), "{sizes:?}");
    let kinds = profile.sample_types().iter().map(|value| profile.string(value.kind));
    let in_use = kinds.into_iter().position(|kind| kind == "inuse_space").expect("in use");
    let last = i64::try_from(sizes[sizes.len() - 1].bytes).expect("a size");
    assert_eq!(
        (sizes[0].bytes, last),
        (0, profile.total(in_use)),
        "nothing at the start, what is kept at the end"
    );
    assert!(last > 20_000, "{last}");
}
