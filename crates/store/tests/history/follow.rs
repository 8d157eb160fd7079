//! Reading window by window, as a push does.

use std::path::Path;

use flamelet_profile::{Budget, Limits};
use flamelet_store::{Follower, NextWindow, Options, Position, Reader, Writer};

use crate::support::{THEN, WINDOW, facts, window};

fn follower(folder: &Path) -> Follower {
    Follower::new(Reader::open(folder).expect("a folder"))
}

fn next(follower: &mut Follower, after: Position) -> Option<NextWindow> {
    follower.next_window(after, &Budget::new(Limits::SERVICE)).expect("within the budget")
}

/// Writes windows to a history.
fn write(writer: &mut Writer, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| writer.append("cpu", &window(number)).expect("written"));
}

#[test]
fn each_window_is_read_once_while_others_are_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = Options::default();
    options.segment_bytes = 4 << 10;
    let mut writer = Writer::open(folder.path(), options).expect("opened");
    let (mut kept, mut position) = (follower(folder.path()), Position::default());
    for number in 0..200 {
        assert!(next(&mut kept, position).is_none(), "{number}");
        write(&mut writer, number..number + 1);
        let found = next(&mut kept, position).expect("written");
        assert_eq!((found.kind.as_str(), found.has_gap), ("cpu", false));
        assert_eq!(facts(&found.profile), facts(&window(number)), "{number}");
        // One that begins anew finds the same.
        let fresh = next(&mut follower(folder.path()), position).expect("written");
        assert_eq!((fresh.position, facts(&fresh.profile)), (found.position, facts(&found.profile)));
        position = found.position;
    }
    assert!(position.segment > 2, "{position:?}");
}

#[test]
fn all_windows_of_a_segment_are_decoded_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = Writer::open(folder.path(), Options::default()).expect("opened");
    write(&mut writer, 0..300);
    let bytes: u64 = writer.status().bytes;
    // Some steps for each byte. If each window were decoded from the start of the segment, it would be 150 times as many.
    let budget = Budget::new(Limits { work: bytes * 20, ..Limits::SERVICE });
    let (mut follower, mut position) = (follower(folder.path()), Position::default());
    for number in 0..300 {
        let found = follower.next_window(position, &budget).expect("little work").expect("written");
        assert_eq!(facts(&found.profile), facts(&window(number)));
        position = found.position;
    }
}

#[test]
fn what_retention_removed_is_a_gap_and_another_history_is_not_mixed_up() {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("history");
    let mut writer = Writer::open(&folder, Options::default()).expect("opened");
    write(&mut writer, 0..3);
    let mut follower = follower(&folder);
    let first = next(&mut follower, Position::default()).expect("written");
    writer.finish_segment();
    write(&mut writer, 3..4);
    let entries = std::fs::read_dir(&folder).expect("listed").map(|entry| entry.expect("listed").path());
    let finished = entries.into_iter().find(|path| path.extension().is_some_and(|it| it == "segment"));
    std::fs::remove_file(finished.expect("one")).expect("removed");
    let found = next(&mut follower, first.position).expect("of the next segment");
    assert!(found.has_gap);
    assert_eq!(facts(&found.profile), facts(&window(3)));
    // The numbers of a new history begin again.
    drop(writer);
    std::fs::remove_dir_all(&folder).expect("removed");
    let mut writer = Writer::open(&folder, Options::default()).expect("opened");
    write(&mut writer, 10..13);
    let found = next(&mut follower, first.position).expect("written");
    assert_eq!(facts(&found.profile), facts(&window(11)), "after as many windows of the other file");
}

#[test]
fn a_position_is_found_by_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = Options::default();
    options.segment_bytes = 4 << 10;
    let mut writer = Writer::open(folder.path(), options).expect("opened");
    write(&mut writer, 0..100);
    let reader = Reader::open(folder.path()).expect("a folder");
    for number in [0, 1, 37, 99] {
        let time = THEN + number as i64 * WINDOW + WINDOW / 2;
        let position = reader.position_at(time, &Budget::new(Limits::SERVICE)).expect("read");
        let found = next(&mut follower(folder.path()), position).expect("there");
        assert_eq!(facts(&found.profile), facts(&window(number)), "{number}");
    }
    let last = reader.last_position(&Budget::new(Limits::SERVICE)).expect("read");
    let end = THEN + 100 * WINDOW;
    assert_eq!(reader.position_at(end, &Budget::new(Limits::SERVICE)).expect("read"), last);
}
