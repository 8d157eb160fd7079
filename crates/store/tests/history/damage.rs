//! Torn and damaged segments: what is served is right.

use std::path::{Path, PathBuf};

use flamelet_profile::{Budget, Limits};
use flamelet_store::{Options, Query, Reader, Writer};

use crate::support::{Random, THEN, facts, read_window, window};

const WINDOWS: u64 = 6;

/// Writes some windows and returns the path and the bytes of their segment.
fn small_log(folder: &Path) -> (PathBuf, Vec<u8>) {
    let mut writer = Writer::open(folder, Options::default()).expect("opened");
    (0..WINDOWS).for_each(|number| writer.append("cpu", &window(number)).expect("written"));
    drop(writer);
    let entries = std::fs::read_dir(folder).expect("listed").map(|entry| entry.expect("listed").path());
    let path =
        entries.into_iter().find(|path| path.extension().is_some_and(|it| it == "segment")).expect("one");
    // Else the segment would not be read for the whole range.
    let _ = std::fs::remove_file(path.with_extension("sum"));
    let bytes = std::fs::read(&path).expect("read");
    (path, bytes)
}

/// Checks that each window is right or missing, and returns which are there.
fn good_windows(folder: &Path) -> Vec<u64> {
    let there = |&number: &u64| {
        let found = read_window(folder, number);
        assert!(found.as_ref().is_none_or(|found| *found == facts(&window(number))), "window {number}");
        found.is_some()
    };
    (0..WINDOWS).filter(there).collect()
}

#[test]
fn a_segment_cut_anywhere_has_the_windows_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, bytes) = small_log(folder.path());
    let mut before = 0;
    for length in 0..=bytes.len() {
        std::fs::write(&path, &bytes[..length]).expect("written");
        let there = good_windows(folder.path());
        assert_eq!(there, (0..there.len() as u64).collect::<Vec<_>>(), "cut at {length}");
        assert!(there.len() >= before);
        before = there.len();
    }
    assert_eq!(before as u64, WINDOWS);
}

#[test]
fn a_flipped_bit_anywhere_makes_no_window_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, bytes) = small_log(folder.path());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&path, &damaged).expect("written");
        let there = good_windows(folder.path());
        assert!((there.len() as u64) < WINDOWS, "byte {at}");
    }
}

#[test]
fn random_damage_makes_no_window_wrong_and_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, bytes) = small_log(folder.path());
    let mut random = Random(7);
    let mut noted = 0;
    for _ in 0..300 {
        let mut damaged = bytes.clone();
        for _ in 0..=random.below(4) {
            let (from, to) = (random.below(bytes.len() as u64), random.below(bytes.len() as u64));
            match random.below(4) {
                0 => damaged[from as usize..].fill(0),
                1 => drop(damaged.splice(0..0, bytes[..from as usize].to_vec())),
                2 => drop(damaged.drain(from.min(to) as usize..from.max(to) as usize)),
                _ => damaged[from as usize] = random.below(256) as u8,
            }
            damaged.resize(damaged.len().max(bytes.len()), 0);
        }
        std::fs::write(&path, &damaged).expect("written");
        // A part of the log may be there twice, so its windows may count twice; they are not otherwise wrong.
        for number in 0..WINDOWS {
            let Some(found) = read_window(folder.path(), number) else { continue };
            let times = |(key, values): (&String, &Vec<i64>)| {
                let expected = facts(&window(number));
                let expected = expected.get(key).unwrap_or_else(|| panic!("window {number} has no {key}"));
                values[0] / expected[0]
            };
            assert!(found.iter().map(times).all(|times| times >= 1), "window {number}");
        }
        let reader = Reader::open(folder.path()).expect("opened");
        let budget = Budget::new(Limits::SERVICE);
        let (_, skipped) = reader.profile(&Query::new("cpu", THEN, i64::MAX), &budget).expect("read");
        noted += usize::from(!skipped.notes().is_empty());
    }
    assert!(noted > 50, "{noted}");
}

#[test]
fn a_tiny_budget_is_an_error_and_no_wrong_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    small_log(folder.path());
    let reader = Reader::open(folder.path()).expect("opened");
    let mut outcomes = [0, 0];
    for memory in (0..60).map(|step| 1u64 << (step / 2 + 4)) {
        let budget = Budget::new(Limits::of_memory(memory));
        match reader.profile(&Query::new("cpu", THEN, i64::MAX), &budget) {
            Ok((profile, _)) => {
                let expected = crate::support::sum((0..WINDOWS).map(window));
                assert_eq!(profile.map(|profile| facts(&profile)), Some(expected), "{memory}");
                outcomes[0] += 1;
            }
            Err(_) => outcomes[1] += 1,
        }
    }
    assert!(outcomes.iter().all(|&count| count > 5), "{outcomes:?}");
}
