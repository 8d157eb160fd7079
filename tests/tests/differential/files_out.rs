//! What flamelet writes, pprof reads to the same numbers.

use std::path::{Path, PathBuf};

use flamelet_tests::compare::{Duel, ask_flamelet};
use flamelet_tests::{profiles, raw, rows};

/// Returns a new path for a written profile.
fn output() -> PathBuf {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    profiles::scratch().join(format!("written-{count}.pb.gz"))
}

/// Lets both programs write `report` of `file`, and lets pprof read both.
fn write_and_read_back(duel: &mut Duel, report: &str, options: &[&str], file: &Path) {
    let (theirs, ours) = (output(), output());
    let into = |path: &Path| format!("-output={}", path.display());
    let (into_theirs, into_ours) = (into(&theirs), into(&ours));
    let arguments = [&[report], options, &[into_ours.as_str()]].concat();
    let expected = duel.ask_pprof(&[&[report], options, &[into_theirs.as_str()]].concat(), &[file]);
    let found = ask_flamelet(&arguments, &[file]);
    assert_eq!(expected.status, Some(0), "pprof cannot write: {}", expected.stderr);
    assert_eq!(found.status, Some(0), "flamelet pprof {arguments:?} {}: {}", file.display(), found.stderr);
    for (reading, how) in [("-raw", raw::canonical as fn(&str) -> Vec<String>), ("-top", rows::rows)] {
        let expected = duel.ask_pprof(&[reading], &[&theirs]);
        let found = duel.ask_pprof(&[reading], &[&ours]);
        duel.judge(&arguments, &[file], (&expected, &found), how);
    }
}

#[test]
fn proto() {
    let Some(mut duel) = Duel::begin() else { return };
    let options: &[&[&str]] =
        &[&[], &["-focus=main|parse"], &["-tagfocus=GET|/sort"], &["-noinlines"], &["-hide=sort|main"]];
    for file in profiles::all() {
        for options in options {
            write_and_read_back(&mut duel, "-proto", options, &file);
        }
    }
    duel.end();
}

/// pprof rounds the values to the unit of the report (in seconds, most become 0); flamelet writes them as they
/// are. In the profile's own unit the two are the same. pprof also loses the name that it prints for a frame
/// without a function (`[libthing.so.1]`), so the profile that has one is left out.
#[test]
fn topproto() {
    let Some(mut duel) = Duel::begin() else { return };
    let own_unit = |file: &Path| {
        let name = file.file_name().expect("a file").to_string_lossy().into_owned();
        if name.contains("heap") { "-unit=bytes" } else { "-unit=nanoseconds" }
    };
    for file in profiles::go().into_iter().chain([profiles::negative(), profiles::wide()]) {
        for options in [&[][..], &["-cum"], &["-nodecount=3"], &["-focus=main|parse"]] {
            let options = [options, &[own_unit(&file)]].concat();
            write_and_read_back(&mut duel, "-topproto", &options, &file);
        }
    }
    duel.end();
}
