//! A real Rust program, recorded by flamelet, read by both programs.

use std::path::PathBuf;

use flamelet_tests::compare::Duel;
use flamelet_tests::programs::run_flamelet;
use flamelet_tests::{profiles, raw};

/// The recorded profile; none, with a `SKIP:` line, where the kernel does not let this user record.
fn recorded() -> Option<PathBuf> {
    let out = profiles::scratch().join("rust.pb.gz");
    let program = env!("CARGO_BIN_EXE_rust_workload");
    let words = ["record", "-o", out.to_str().expect("UTF-8"), "--", program];
    let answer = run_flamelet(words);
    if answer.status != Some(0) {
        flamelet_test_support::skip!("nothing can be recorded here: {}", answer.stderr.trim());
        return None;
    }
    Some(out)
}

#[test]
fn both_read_the_recording_to_the_same_rows() {
    let Some(mut duel) = Duel::begin() else { return };
    let Some(profile) = recorded() else { return };
    let top = run_flamelet(["top".as_ref(), profile.as_os_str()]).stdout;
    assert!(top.contains("rust_workload"), "the program's own functions are missing:\n{top}");
    for report in ["-top", "-tree", "-traces", "-tags", "-peek=rust_workload", "-callgrind", "-comments"] {
        duel.text(&[report, "-symbolize=none"], &[&profile]);
    }
    for option in ["-focus=Heavy", "-noinlines", "-lines", "-sample_index=0", "-hide=core", "-show_from=each"]
    {
        duel.text(&["-top", option, "-symbolize=none"], &[&profile]);
    }
    duel.compare(&["-raw", "-symbolize=none"], &[&profile], raw::canonical);
    duel.end();
}
