//! For each rule of `explain` that plain Rust can trigger, a program where it speaks and a similar one where it does not.
//! (Rules about crates have synthetic pairs in `crates/report/src/explain/tests.rs`.)

use flamelet_tests::programs::{answer, command, run_flamelet};

use crate::recordings::{findings, record, rules_program, scratch};

const OPTIMIZED: &[&str] = &["-O", "-g"];

/// The rule, the program where it speaks, and the one where it does not.
const CPU: &[(&str, &str, &str)] = &[
    ("siphash", "siphash", "fast-hash"),
    ("allocation", "many-boxes", "one-box"),
    ("growing", "grow", "fill"),
    ("copying", "copy", "sum"),
    ("formatting", "format", "digits"),
    ("reference-counts", "clone-arcs", "borrow-arc"),
    ("dropping", "drop-trees", "keep-tree"),
    ("page-faults", "fresh-pages", "old-pages"),
    ("one-busy-thread", "one-thread", "all-threads"),
    ("few-lines", "one-line", "many-lines"),
];

fn rules_of(found: &[serde_json::Value]) -> Vec<String> {
    found.iter().map(|finding| finding["rule"].as_str().expect("a rule").to_owned()).collect()
}

#[test]
fn rules_about_time_speak_about_the_programs_that_they_are_for() {
    let program = rules_program("rules-optimized", OPTIMIZED);
    let mut wrong = Vec::new();
    for (rule, loud, quiet) in CPU {
        for (name, expected) in [(loud, true), (quiet, false)] {
            let Some(file) = record(&program, name, &["-F", "997"]) else { return };
            let rules = rules_of(&findings(&[file.to_str().expect("UTF-8")]));
            if rules.iter().any(|found| found == rule) != expected {
                wrong.push(format!("{rule} about {name}: {rules:?}"));
            }
        }
    }
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

/// The rule, the value that it is about, the program where it speaks, and the one where it does not.
const HEAP: &[(&str, &str, &str, &str)] = &[
    ("temporary", "alloc_objects", "temporary", "kept"),
    ("few-owners", "inuse_space", "hold-cache", "hold-in-many-places"),
    ("growing", "alloc_space", "grow", "fill"),
];

#[test]
fn rules_about_memory_speak_about_the_programs_that_they_are_for() {
    let program = rules_program("rules-optimized", OPTIMIZED);
    for (rule, value, loud, quiet) in HEAP {
        for (name, expected) in [(loud, true), (quiet, false)] {
            let Some(file) = record(&program, name, &["--heap"]) else { return };
            let rules = rules_of(&findings(&["-i", value, file.to_str().expect("UTF-8")]));
            assert_eq!(rules.iter().any(|found| found == rule), expected, "{rule} about {name}: {rules:?}");
        }
    }
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
