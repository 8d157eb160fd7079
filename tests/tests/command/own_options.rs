//! `flamelet VERB --option` gives what `pprof -verb -option` gives.

use std::path::Path;

use flamelet_tests::compare::Duel;
use flamelet_tests::programs::run_flamelet;
use flamelet_tests::{profiles, rows};

/// flamelet's words, and pprof's for the same.
const SAME: &[(&str, &str)] = &[
    ("top", "-top"),
    ("top --cum", "-top -cum"),
    ("top --nodecount 3", "-top -nodecount=3"),
    ("top -n 3", "-top -nodecount=3"),
    ("top --nodefraction 0.1", "-top -nodefraction=0.1"),
    ("top --no-trim", "-top -trim=false"),
    ("top --focus main|handler", "-top -focus=main|handler"),
    ("top --ignore sort|parse", "-top -ignore=sort|parse"),
    ("top --hide runtime", "-top -hide=runtime"),
    ("top --show main|parse", "-top -show=main|parse"),
    ("top --show-from sort|fill|handler", "-top -show_from=sort|fill|handler"),
    ("top --prune-from sort|fill|handler", "-top -prune_from=sort|fill|handler"),
    ("top --tagfocus GET|/sort", "-top -tagfocus=GET|/sort"),
    ("top --tagfocus bytes=64kb:1mb", "-top -tagfocus=bytes=64kb:1mb"),
    ("top --tagignore GET|/sort", "-top -tagignore=GET|/sort"),
    ("tags --tagshow method|route", "-tags -tagshow=method|route"),
    ("tags --taghide method|route", "-tags -taghide=method|route"),
    ("top --tagroot method,route", "-top -tagroot=method,route"),
    ("top --tagleaf method,route", "-top -tagleaf=method,route"),
    ("top --noinlines", "-top -noinlines"),
    ("top --granularity lines", "-top -lines"),
    ("top --granularity filefunctions", "-top -filefunctions"),
    ("top --granularity addresses", "-top -addresses"),
    ("top --sample-index 0", "-top -sample_index=0"),
    ("top --mean --sample-index 1", "-top -mean -sample_index=1"),
    ("top --divide-by 2", "-top -divide_by=2"),
    ("top --unit ms", "-top -unit=ms"),
    ("top --relative-percentages --focus main", "-top -relative_percentages -focus=main"),
    ("tree", "-tree"),
    ("tree --edgefraction 0.1", "-tree -edgefraction=0.1"),
    ("peek main", "-peek=main"),
    ("traces", "-traces"),
    ("tags", "-tags"),
    ("comments", "-comments"),
    ("callgrind", "-callgrind"),
];

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[test]
fn verbs_and_their_options() {
    let Some(mut duel) = Duel::begin() else { return };
    for file in [profiles::committed("go-cpu"), profiles::committed("go-heap"), profiles::corners()] {
        for (ours, theirs) in SAME {
            let expected = duel.ask_pprof(&words(theirs), &[&file]);
            let found = run_flamelet(words(ours).into_iter().map(Path::new).chain([file.as_path()]));
            duel.judge(&words(theirs), &[&file], (&expected, &found), rows::rows);
        }
    }
    duel.end();
}

#[test]
fn options_may_stand_before_or_behind_the_file() {
    let cpu = profiles::committed("go-cpu").display().to_string();
    let before = run_flamelet(["top", "--cum", "--focus", "sort", &cpu]);
    let behind = run_flamelet(["top", &cpu, "--focus=sort", "--cum"]);
    assert_eq!(before.status, Some(0), "{}", before.stderr);
    assert_eq!(before.stdout, behind.stdout);
}

#[test]
fn bases() {
    let Some(mut duel) = Duel::begin() else { return };
    let (base, file) = (profiles::committed("go-cpu"), profiles::committed("go-cpu"));
    let path = base.display().to_string();
    for (ours, theirs) in [("--base", "-base"), ("--diff-base", "-diff_base")] {
        let expected = duel.ask_pprof(&["-top", &format!("{theirs}={path}")], &[&file]);
        let found = run_flamelet(["top", ours, &path, &path]);
        duel.judge(&["-top", theirs], &[&file], (&expected, &found), rows::rows);
    }
    duel.end();
}

#[test]
fn bad_use_is_status_2() {
    let cpu = profiles::committed("go-cpu").display().to_string();
    let cases: &[&[&str]] = &[
        &["no-such-verb"],
        &["top"],
        &["top", "--no-such-option", &cpu],
        &["top", "--focus", "(", &cpu],
        &["top", "--tagfocus", "(", &cpu],
        &["top", "--granularity", "molecules", &cpu],
        &["top", "--sample-index", "nonsense", &cpu],
        &["top", "--nodecount", "many", &cpu],
        &["pprof", "-top", "-no_such_option", &cpu],
        &["pprof", "-top", "-focus=(", &cpu],
        &["pprof", "-top", "-tree", &cpu],
    ];
    for arguments in cases {
        let answer = run_flamelet(*arguments);
        assert_eq!(answer.status, Some(2), "{arguments:?}: {answer:?}");
        assert!(!answer.stderr.trim().is_empty() && answer.stdout.is_empty(), "{arguments:?}: {answer:?}");
        assert!(!answer.stderr.contains("panicked"), "{arguments:?}: {}", answer.stderr);
    }
}
