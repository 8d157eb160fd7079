//! Each report in its plain form, and the options that belong to one report.

use flamelet_tests::compare::Duel;
use flamelet_tests::{dot, profiles, raw};

#[test]
fn text_reports() {
    let Some(mut duel) = Duel::begin() else { return };
    let reports = ["-top", "-text", "-tree", "-traces", "-tags", "-comments"];
    duel.each(&profiles::all(), &reports, &[&[]]);
    duel.end();
}

#[test]
fn order_and_size_of_the_listing() {
    let Some(mut duel) = Duel::begin() else { return };
    let options: &[&[&str]] = &[
        &["-cum"],
        &["-flat"],
        &["-nodecount=1"],
        &["-nodecount=3"],
        &["-nodecount=10"],
        &["-nodecount=500"],
        &["-nodefraction=0"],
        &["-nodefraction=0.05"],
        &["-nodefraction=0.3"],
        &["-nodefraction=0.02", "-cum"],
        &["-edgefraction=0.1"],
        &["-edgefraction=0.1", "-nodefraction=0.1", "-nodecount=20"],
        &["-trim=false"],
        &["-trim=false", "-cum"],
    ];
    duel.each(&profiles::all(), &["-top", "-tree"], options);
    duel.end();
}

#[test]
fn peek() {
    let Some(mut duel) = Duel::begin() else { return };
    let reports = [
        "-peek=main|layer1",
        "-peek=sort|alloc|account|parse|grew|layer3",
        "-peek=.",
        "-peek=(?i)MAIN|MODULE2",
    ];
    duel.each(&profiles::all(), &reports, &[&[], &["-cum"], &["-nodefraction=0.1"]]);
    for file in profiles::all() {
        duel.both_refuse(&["-peek=matches-nothing-at-all"], &[&file]);
    }
    duel.end();
}

#[test]
fn graph() {
    let Some(mut duel) = Duel::begin() else { return };
    let options: &[&[&str]] = &[
        &[],
        &["-call_tree"],
        &["-nodecount=5"],
        &["-nodefraction=0.1"],
        &["-edgefraction=0.1"],
        &["-trim=false"],
        &["-compact_labels"],
        &["-compact_labels=false"],
        &["-focus=main|handler"],
        &["-files"],
        &["-lines"],
        &["-call_tree", "-nodecount=12"],
        &["-taghide=bytes|size"],
    ];
    for file in profiles::all() {
        for options in options {
            duel.compare(&[&["-dot"], *options].concat(), &[&file], dot::canonical);
        }
    }
    duel.end();
}

#[test]
fn raw_samples() {
    let Some(mut duel) = Duel::begin() else { return };
    let options: &[&[&str]] = &[&[], &["-focus=main"], &["-tagfocus=GET|t1"], &["-noinlines"]];
    for file in profiles::all() {
        for options in options {
            duel.compare(&[&["-raw"], *options].concat(), &[&file], raw::canonical);
        }
    }
    duel.end();
}

#[test]
fn callgrind() {
    let Some(mut duel) = Duel::begin() else { return };
    let options: &[&[&str]] = &[&[], &["-focus=main"], &["-sample_index=0"], &["-noinlines"]];
    duel.each(&profiles::all(), &["-callgrind"], options);
    duel.end();
}

#[test]
fn source_listing() {
    let Some(mut duel) = Duel::begin() else { return };
    // Built with -trimpath, the profile names its sources by package.
    let tests = flamelet_tests::programs::repository().join("tests/go");
    let sources = format!("-source_path={}", tests.display());
    let trim = "-trim_path=flamelet/tests";
    for (kind, name) in [("cpu", "main.fibonacci"), ("cpu", "main.sortNumbers"), ("heap", "main.allocate")] {
        let file = profiles::committed(&format!("go-{kind}"));
        duel.text(&[&format!("-list={name}"), &sources, trim], &[&file]);
    }
    duel.end();
}
