//! One profile against another: `-base`, `-diff_base`, `-normalize`.

use std::path::PathBuf;

use flamelet_tests::compare::{Duel, ask_flamelet};
use flamelet_tests::programs::Answer;
use flamelet_tests::wire::{Label, ProfileFile};
use flamelet_tests::{dot, profiles, rows};

/// A CPU profile of five functions with these milliseconds each, under one caller.
fn service(name: &str, milliseconds: [i64; 5]) -> PathBuf {
    profiles::written(name, || {
        let mut file = ProfileFile::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        file.period("cpu", "nanoseconds", 1_000_000);
        file.time(1_700_000_000_000_000_000, 10_000_000_000);
        let program = file.mapping(0x40_0000, 0x60_0000, 0, "/usr/bin/service", "aabb");
        let main = file.function("main", "main", "service.c", 1);
        let root = file.location(program, 0x40_0010, &[(main, 3, 0)]);
        for (n, milliseconds) in milliseconds.into_iter().enumerate().filter(|(_, value)| *value != 0) {
            let function = file.function(&format!("work_{n}"), &format!("work_{n}"), "work.c", 10 * n as i64);
            let leaf = file.location(program, 0x41_0000 + 16 * n as u64, &[(function, 10 * n as i64 + 2, 0)]);
            let shard = Label::Text("shard", if n % 2 == 0 { "even" } else { "odd" });
            file.sample(&[leaf, root], &[milliseconds, milliseconds * 1_000_000], &[shard]);
        }
        file.into_gzip()
    })
}

/// Two moments of one service: one function grew, one shrank, one is new, one is gone, one is the same.
fn before_and_after() -> (PathBuf, PathBuf) {
    (service("before.pb.gz", [500, 300, 0, 40, 10]), service("after.pb.gz", [900, 120, 77, 0, 10]))
}

const REPORTS: [&str; 6] = ["-top", "-tree", "-traces", "-tags", "-peek=work", "-top -cum"];

fn compare_each(options: &[&[&str]]) {
    let Some(mut duel) = Duel::begin() else { return };
    let (before, after) = before_and_after();
    for base in ["-base", "-diff_base"] {
        let base = format!("{base}={}", before.display());
        for options in options {
            for report in REPORTS {
                let report: Vec<&str> = report.split(' ').collect();
                duel.text(&[&report, *options, &[base.as_str()]].concat(), &[&after]);
            }
            duel.compare(&[&["-dot"], *options, &[base.as_str()]].concat(), &[&after], dot::canonical);
        }
    }
    duel.end();
}

#[test]
fn plain() {
    compare_each(&[&[]]);
}

#[test]
fn normalized_and_without_the_negative() {
    compare_each(&[&["-normalize"], &["-drop_negative"], &["-normalize", "-drop_negative"]]);
}

#[test]
fn filtered() {
    compare_each(&[
        &["-focus=work_[013]"],
        &["-ignore=work_0"],
        &["-tagfocus=odd"],
        &["-relative_percentages"],
        &["-sample_index=samples"],
        &["-nodefraction=0.3"],
        &["-unit=s"],
    ]);
}

#[test]
fn a_profile_against_itself_is_nothing() {
    let Some(mut duel) = Duel::begin() else { return };
    for file in profiles::all() {
        for option in ["-base", "-diff_base"] {
            let base = format!("{option}={}", file.display());
            duel.text(&["-top", &base], &[&file]);
            duel.text(&["-traces", &base], &[&file]);
        }
    }
    duel.end();
}

/// Go's pprof uses only the last `-base`; flamelet sums them, as it sums the profiles themselves.
#[test]
fn two_bases_are_summed() {
    let (before, after) = before_and_after();
    for option in ["-base", "-diff_base"] {
        let base = format!("{option}={}", before.display());
        let once = ask_flamelet(&["-traces", &base, "-unit=ms"], &[&after]);
        let twice = ask_flamelet(&["-traces", &base, &base, "-unit=ms"], &[&after, &after]);
        let halved = ask_flamelet(&["-traces", &base, &base, "-unit=ms", "-divide_by=2"], &[&after, &after]);
        assert_eq!(twice.status, Some(0), "{}", twice.stderr);
        let values = |answer: &Answer| -> Vec<String> {
            rows::rows(&answer.stdout).into_iter().filter(|row| row.contains("ms work_")).collect()
        };
        assert_ne!(values(&once), values(&twice));
        assert_eq!(values(&once), values(&halved));
    }
}

#[test]
fn both_kinds_of_base_are_refused() {
    let Some(mut duel) = Duel::begin() else { return };
    let (before, after) = before_and_after();
    let (base, diff_base) =
        (format!("-base={}", before.display()), format!("-diff_base={}", before.display()));
    duel.both_refuse(&["-top", &base, &diff_base], &[&after]);
    duel.both_refuse(&["-top", "-normalize"], &[&after]);
    duel.end();
}
