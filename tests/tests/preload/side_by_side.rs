//! The same program under heaptrack: the same totals.

use std::path::Path;
use std::process::Command;

use flamelet_profile::{LocationId, Profile};
use flamelet_tests::profiles::scratch;

use crate::recording::{compiled, record, values_of};

/// Returns the value that heaptrack_print prints after `label`, such as `678.60K`, and the size of its last digit.
fn printed(text: &str, label: &str) -> (f64, f64) {
    let line =
        text.lines().find_map(|line| line.strip_prefix(label)).unwrap_or_else(|| panic!("{label}: {text}"));
    let word = line.split_whitespace().next().expect("a number");
    let digits = word.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &word[digits.len()..] {
        "K" => 1e3,
        "M" => 1e6,
        "" | "B" => 1.0,
        other => panic!("unit {other}"),
    };
    let last = if digits.contains('.') { unit / 100.0 } else { unit };
    (digits.parse::<f64>().expect("a number") * unit, last)
}

#[test]
fn totals_are_those_of_heaptrack() {
    // C++, because heaptrack itself brings the C++ library, which allocates when it is loaded.
    let program = compiled("mixed.cpp", "mixed", &[]);
    let recording = record("mixed", &["--heap"], &[&program]);
    assert_eq!(recording.said.status, Some(0), "{}", recording.said.stderr);
    let out = scratch().join("mixed.heaptrack");
    let heaptrack = Command::new("heaptrack").arg("-o").arg(&out).arg(&program).output().expect("heaptrack");
    assert!(heaptrack.status.success(), "{}", String::from_utf8_lossy(&heaptrack.stderr));
    let file = ["zst", "gz"].map(|ending| scratch().join(format!("mixed.heaptrack.{ending}")));
    let file = file.iter().find(|path| path.exists()).expect("heaptrack's file");
    let text = print(file);
    let [calls, _, _, living, peak, temporary] = values_of(&recording.profile, "", None);
    // heaptrack lets the C++ library free its reserve for exceptions before it ends; that does not happen by itself.
    let leaked = living - reserve(&recording.profile);
    let same = |value: i64, label: &str| {
        let (theirs, digit) = printed(&text, label);
        assert!((value as f64 - theirs).abs() <= digit, "{label} {theirs} and here {value}");
    };
    same(calls, "calls to allocation functions:");
    same(temporary, "temporary memory allocations:");
    same(peak, "peak heap memory consumption:");
    same(leaked, "total memory leaked:");
}

/// Memory allocated before `main` that is live at the end.
fn reserve(profile: &Profile) -> i64 {
    let is_of_program = |location: &LocationId| {
        let mapping = profile.location(*location).mapping.expect("a module");
        profile.string(profile.mapping(mapping).filename).ends_with("/mixed")
    };
    let before = profile.samples().filter(|sample| !profile.stack(sample.stack).iter().any(is_of_program));
    before.map(|sample| sample.values[3]).sum()
}

fn print(file: &Path) -> String {
    let printed = Command::new("heaptrack_print").arg(file).output().expect("heaptrack_print");
    String::from_utf8_lossy(&printed.stdout).into_owned()
}
