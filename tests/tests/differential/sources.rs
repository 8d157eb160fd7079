//! Several files at once, merged, and profiles that do not fit together.

use flamelet_tests::compare::Duel;
use flamelet_tests::{profiles, raw};

#[test]
fn several_files_are_merged() {
    let Some(mut duel) = Duel::begin() else { return };
    for file in profiles::all() {
        let twice = [file.as_path(), file.as_path()];
        duel.text(&["-top"], &twice);
        duel.text(&["-tags"], &twice);
        duel.compare(&["-raw"], &twice, raw::canonical);
    }
    duel.end();
}

#[test]
fn profiles_that_do_not_fit_are_refused_by_both() {
    let Some(mut duel) = Duel::begin() else { return };
    let (cpu, heap) = (profiles::committed("go-cpu"), profiles::committed("go-heap"));
    duel.both_refuse(&["-top"], &[&cpu, &heap]);
    duel.end();
}
