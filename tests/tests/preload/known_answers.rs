//! Every allocation is recorded, with the function that made it.

use std::path::Path;

use crate::recording::{compiled, record, values_of};

/// The bytes of 1000 blocks of 100, 101, … bytes.
const KEPT: i64 = 1000 * 100 + 999 * 1000 / 2;
/// The bytes of the first 600 of them.
const FREED: i64 = 600 * 100 + 599 * 600 / 2;
/// 64, 128, … 6400 bytes.
const GROWN: i64 = 64 * 100 * 101 / 2;

fn known(profile: &flamelet_profile::Profile) {
    let of = |function| values_of(profile, function, None);
    // At the peak, all kept blocks are live, and the last of the growing blocks.
    assert_eq!(of("kept"), [1000, KEPT, 400, KEPT - FREED, KEPT, 0]);
    assert_eq!(of("temporary"), [500, 500 * 40, 0, 0, 0, 500]);
    let grown = of("growing");
    assert_eq!(grown[..4], [100, GROWN, 0, 0], "each step counts as a block of its own");
    assert_eq!((grown[4], grown[5]), (6400, 99));
    assert_eq!(of("zeroed"), [1, 330, 1, 330, 330, 0]);
    assert_eq!(of("aligned")[..4], [3, 777 + 640 + 100, 0, 0]);
    let all = of("");
    assert_eq!(all[0], 1000 + 500 + 100 + 1 + 3);
    assert_eq!(all[4], KEPT + 6400 + 330 + 777 + 640 + 100, "the peak is what was alive at one moment");
}

#[test]
fn a_c_program_is_counted_exactly_and_its_status_is_passed_on() {
    let program = compiled("known.c", "known", &[]);
    let recording = record("known", &["--heap"], &[&program]);
    assert_eq!(recording.said.status, Some(3));
    known(&recording.profile);
    let said = &recording.said.stderr;
    assert!(said.contains("1604 calls to allocation functions"), "{said}");
    assert!(said.contains("599 temporary allocations"), "{said}");
    assert!(said.contains("in 401 blocks live at the end"), "{said}");
    assert!(said.contains("0 lost, 100.0 % of the stacks reach the start of their thread"), "{said}");
}

#[test]
fn a_kill_loses_nothing() {
    let program = compiled("known.c", "known", &[]);
    for turn in 0..5 {
        let recording = record(&format!("killed-{turn}"), &["--heap"], &[&program, Path::new("killed")]);
        assert_eq!(recording.said.status, Some(128 + 9), "as a shell has it");
        known(&recording.profile);
    }
}

#[test]
fn blocks_that_other_threads_free_are_counted_where_they_were_made() {
    let program = compiled("threads.c", "threads", &[]);
    let recording = record("threads", &["--heap"], &[&program]);
    assert_eq!(recording.said.status, Some(0));
    let made = 4 * 20_000;
    let produced = values_of(&recording.profile, "produced", None);
    assert_eq!(produced[..4], [made, made * 48, made / 2, made / 2 * 48]);
    // At the moment of the peak, each thread may have one more block in flight.
    assert!(produced[4] >= (made / 2 - 8) * 48 && produced[4] <= made * 48, "{produced:?}");
    assert_eq!(values_of(&recording.profile, "short_lived", None)[..4], [made, made * 32, 0, 0]);
    assert_eq!(values_of(&recording.profile, "short_lived", None)[5], made, "all of them are temporary");
}

#[test]
fn a_rust_program_is_counted_exactly() {
    let program = compiled("rust.rs", "rust", &[]);
    let recording = record("rust", &["--heap"], &[&program]);
    let boxes = values_of(&recording.profile, "boxes", None);
    // The vectors too: one of 1000 boxes, four of 500.
    let (blocks, vectors) = (1000 + 4 * 500, 5);
    assert_eq!(boxes[..2], [blocks + vectors, blocks * 100 + (1000 + 4 * 500) * 8]);
    assert!(boxes[2] >= 400 && boxes[2] <= 401, "{boxes:?}: 400 boxes, and the vector they may still be in");
    // 4, 8, … 1024 items of eight bytes.
    let doubling = values_of(&recording.profile, "doubling", None);
    assert_eq!(doubling[..4], [9, 8 * (2048 - 4), 0, 0]);
    assert!(
        recording.said.stderr.contains("100.0 % of the stacks reach the start of their thread"),
        "{}",
        recording.said.stderr
    );
}

#[test]
fn other_outputs_than_pprof_are_written_too() {
    let program = compiled("known.c", "known", &[]);
    for ending in ["folded", "svg", "html"] {
        let out = flamelet_tests::profiles::scratch().join(format!("known.{ending}"));
        let words = ["record", "--heap", "-o"].map(std::ffi::OsStr::new);
        let rest = [out.as_os_str(), "--".as_ref(), program.as_os_str()];
        let said = flamelet_tests::programs::run_flamelet(words.into_iter().chain(rest));
        assert_eq!(said.status, Some(3), "{}", said.stderr);
        let text = std::fs::read_to_string(&out).expect("written");
        assert!(text.contains("growing"), "{ending}: {}", &text[..text.len().min(300)]);
    }
}
