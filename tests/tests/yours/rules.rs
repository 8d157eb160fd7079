//! For each rule of `explain`, what the rule reports and something similar that it does not report.

use std::path::{Path, PathBuf};

use flamelet_tests::programs::run_flamelet;

use crate::recordings::{cargo_program, dhat, findings, moments, record, rules_program};

/// CPU time; with the kernel's frames; of programs with crates; of other builds.
const TIMES: [&str; 4] = ["cpu", "kernel", "libraries", "build"];

/// A row of `programs/pairs.txt`.
struct Pair {
    rule: &'static str,
    /// What is recorded.
    about: &'static str,
    /// Where the rule speaks.
    loud: &'static str,
    /// Where it does not.
    quiet: &'static str,
}

/// Returns the pairs that are tested here: those of a service have a test beside it.
fn pairs() -> impl Iterator<Item = Pair> {
    let rows = include_str!("programs/pairs.txt").lines().filter(|line| !line.starts_with('#'));
    let pairs = rows.map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [rule, about, loud, quiet] => Pair { rule, about, loud, quiet },
        _ => panic!("{line}"),
    });
    pairs.filter(|pair| !pair.about.starts_with("service:"))
}

/// `rules.rs`, compiled with these flags, which are separated by commas.
fn built(flags: &str) -> PathBuf {
    rules_program(&format!("rules{}", flags.replace(',', "")), &flags.split(',').collect::<Vec<_>>())
}

fn optimized() -> PathBuf {
    built("-O,-g")
}

/// Returns the words after `explain` for the recording of a program; `None` where nothing can be recorded.
fn words_for(program: &Path, about: &str, name: &str) -> Option<Vec<String>> {
    let text = |path: PathBuf| path.display().to_string();
    Some(match about {
        "dhat" => vec![text(dhat(program, name))],
        "own" => vec![text(moments(name).join("heap-0.pb.gz"))],
        "moments" => {
            let folder = moments(name);
            (0..6).map(|turn| text(folder.join(format!("heap-{turn}.pb.gz")))).collect()
        }
        "build" => {
            let (name, flags) = name.split_once(',').expect("flags");
            vec![text(record(&built(flags), name, &["-F", "997"])?)]
        }
        about if TIMES.contains(&about) => vec![text(record(program, name, &["-F", "997"])?)],
        about => vec!["-i".to_owned(), about.to_owned(), text(record(program, name, &["--heap"])?)],
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
            let words = words_for(program, about, name)?;
            if expected && words.last().is_some_and(|file| is_skipped(file)) {
                return Some(wrong);
            }
            let rules = rules_of(&findings(&words.iter().map(String::as_str).collect::<Vec<_>>()));
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
    let program = optimized();
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
        // A call's own function may leave no frame: compilers turn its last call into a jump.
        let has_kernel =
            ["do_syscall_64", "__arm64_sys_", "el0_svc"].iter().any(|name| traces.contains(name));
        if !has_kernel {
            let about = run_flamelet(["info", file]).stdout;
            flamelet_test_support::skip!("this recording has no frames of the kernel: {}", one_line(&about));
        }
        !has_kernel
    };
    let program = optimized();
    let of_kernel = pairs().filter(|pair| pair.about == "kernel");
    let Some(wrong) = wrong(&program, of_kernel, is_skipped) else { return };
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_finding_names_the_function_that_causes_it() {
    let program = optimized();
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
fn rules_about_builds_speak_about_the_programs_that_they_are_for() {
    let of_builds = pairs().filter(|pair| pair.about == "build");
    let Some(wrong) = wrong(&optimized(), of_builds, |_| false) else { return };
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Where few checks of a build with debug assertions are hot, its overflow checks are what is left to report.
#[test]
fn a_build_with_debug_assertions_is_recognised_by_one_of_its_checks() {
    let Some(file) = record(&built("-O,-g,-Cdebug-assertions=on"), "checked-sum", &["-F", "997"]) else {
        return;
    };
    let rules = rules_of(&findings(&[file.to_str().expect("UTF-8")]));
    assert!(rules.iter().any(|rule| rule == "overflow-checks" || rule == "debug-assertions"), "{rules:?}");
}

#[test]
fn rules_about_memory_speak_about_the_programs_that_they_are_for() {
    let program = optimized();
    let of_heap = pairs().filter(|pair| !TIMES.contains(&pair.about));
    let Some(wrong) = wrong(&program, of_heap, |_| false) else { return };
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_diff_says_what_got_slower() {
    let program = optimized();
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
fn a_leak_is_reported_with_the_function_that_remembers() {
    let words = words_for(&optimized(), "moments", "leak").expect("it writes its own profiles");
    let found = findings(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let leak = found.iter().find(|finding| finding["rule"] == "leak").unwrap_or_else(|| panic!("{found:#?}"));
    let title = leak["title"].as_str().expect("a title");
    assert!(title.contains("6 profiles, steadily"), "{title}");
    assert!(leak["places"][0]["function"].as_str().is_some_and(|name| name.contains("remember")), "{leak}");
}

#[test]
fn a_recording_of_the_heap_knows_its_size_over_time() {
    let program = optimized();
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
