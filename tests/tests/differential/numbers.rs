//! Which values are shown, and in which unit.

use flamelet_tests::compare::Duel;
use flamelet_tests::profiles;

#[test]
fn sample_index_by_number_and_name() {
    let Some(mut duel) = Duel::begin() else { return };
    let names: [(&str, &[&str]); 4] = [
        ("cpu", &["0", "1", "samples", "cpu"]),
        ("heap", &["0", "1", "2", "3", "alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]),
        ("mutex", &["contentions", "delay", "0", "1"]),
        ("block", &["contentions", "delay"]),
    ];
    for (kind, indices) in names {
        let file = profiles::committed(&format!("go-{kind}"));
        for index in indices {
            for report in ["-top", "-tree", "-traces", "-tags"] {
                duel.text(&[report, &format!("-sample_index={index}")], &[&file]);
            }
        }
    }
    for index in ["0", "1", "2", "objects", "space", "wait"] {
        duel.text(&["-top", &format!("-sample_index={index}")], &[&profiles::corners()]);
    }
    for index in ["nonsense", "9", "-1"] {
        duel.both_refuse(&["-top", &format!("-sample_index={index}")], &[&profiles::corners()]);
    }
    duel.end();
}

#[test]
fn legacy_names_of_sample_types() {
    let Some(mut duel) = Duel::begin() else { return };
    let heap = profiles::committed("go-heap");
    for flag in ["-inuse_space", "-inuse_objects", "-alloc_space", "-alloc_objects"] {
        duel.text(&["-top", flag], &[&heap]);
    }
    let mutex = profiles::committed("go-mutex");
    for flag in ["-total_delay", "-contentions", "-mean_delay"] {
        duel.text(&["-top", flag], &[&mutex]);
    }
    duel.end();
}

#[test]
fn mean() {
    let Some(mut duel) = Duel::begin() else { return };
    let options: &[&[&str]] =
        &[&["-mean"], &["-mean", "-sample_index=0"], &["-mean", "-focus=main"], &["-mean", "-cum"]];
    duel.each(&profiles::all(), &["-top", "-tree", "-traces", "-tags"], options);
    duel.end();
}

#[test]
fn units_and_scale() {
    let Some(mut duel) = Duel::begin() else { return };
    let options: &[&[&str]] = &[
        &["-unit=minimum"],
        &["-unit=auto"],
        &["-unit=ms"],
        &["-unit=s"],
        &["-unit=us"],
        &["-unit=hrs"],
        &["-unit=kb"],
        &["-unit=MB"],
        &["-unit=gb"],
        &["-unit=nonsense"],
        &["-divide_by=2"],
        &["-divide_by=0.5"],
        &["-divide_by=1000"],
        &["-divide_by=3", "-unit=ms"],
    ];
    duel.each(&profiles::all(), &["-top", "-tree", "-traces", "-tags"], options);
    duel.end();
}

#[test]
fn percentages() {
    let Some(mut duel) = Duel::begin() else { return };
    let options: &[&[&str]] = &[
        &["-relative_percentages", "-focus=sort|fill|deposit|handler|grew|module3"],
        &["-relative_percentages", "-ignore=main"],
        &["-relative_percentages"],
        &["-relative_percentages", "-tagfocus=GET|/sort|shard-1"],
    ];
    duel.each(&profiles::all(), &["-top", "-tree", "-tags"], options);
    duel.end();
}

#[test]
fn negative_values() {
    let Some(mut duel) = Duel::begin() else { return };
    let options: &[&[&str]] = &[&[], &["-drop_negative"], &["-drop_negative", "-cum"], &["-trim=false"]];
    duel.each(&[profiles::negative()], &["-top", "-tree", "-peek=main", "-traces", "-tags"], options);
    duel.end();
}
