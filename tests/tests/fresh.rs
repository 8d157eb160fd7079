//! Profiles that a real Go program writes while the test runs, read by both programs; and, with
//! `FLAMELET_REGENERATE=1`, the committed copies under `testdata/` are rewritten.

use flamelet_tests::compare::Duel;
use flamelet_tests::{dot, profiles, programs, raw};

/// Enough for a few dozen samples at Go's 100 a second.
const MILLISECONDS: u32 = 700;

#[test]
fn fresh_go_profiles_give_the_same_rows() {
    let Some(mut duel) = Duel::begin() else { return };
    for kind in ["cpu", "heap", "allocs", "mutex", "block", "goroutine"] {
        let Some(profile) = profiles::fresh(kind, MILLISECONDS) else { return };
        for report in ["-top", "-tree", "-traces", "-tags", "-peek=main", "-callgrind"] {
            duel.text(&[report], &[&profile]);
        }
        duel.compare(&["-raw"], &[&profile], raw::canonical);
        duel.compare(&["-dot"], &[&profile], dot::canonical);
    }
    duel.end();
}

#[test]
fn committed_profiles_are_there_or_written_anew() {
    let regenerate = std::env::var_os("FLAMELET_REGENERATE").is_some();
    for kind in profiles::GO_KINDS {
        if regenerate {
            let fresh = profiles::fresh(kind, 2500).expect("regenerating needs Go");
            let committed = programs::repository().join("testdata").join(format!("go-{kind}.pb.gz"));
            std::fs::copy(fresh, committed).expect("writing into testdata/");
        }
        let size = std::fs::metadata(profiles::committed(&format!("go-{kind}"))).expect("readable").len();
        assert!((100..200_000).contains(&size), "go-{kind}: {size} bytes");
    }
}
