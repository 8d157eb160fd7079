//! Disks that vanish, folders that cannot be written, files of others.

use flamelet_profile::ErrorKind;
use flamelet_store::{Options, Writer};

use crate::support::{facts, read_window, window};

#[test]
fn a_folder_that_was_removed_is_made_again() {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("history");
    let mut writer = Writer::open(&folder, Options::default()).expect("opened");
    writer.append("cpu", &window(0)).expect("written");
    std::fs::remove_dir_all(&folder).expect("removed");
    writer.append("cpu", &window(1)).expect("written again");
    assert_eq!(read_window(&folder, 0), None);
    assert_eq!(read_window(&folder, 1), Some(facts(&window(1))));
}

#[test]
fn a_disk_that_is_gone_is_an_error_until_it_is_back() {
    let parent = tempfile::tempdir().expect("a folder");
    let (disk, elsewhere) = (parent.path().join("disk"), parent.path().join("elsewhere"));
    let folder = disk.join("history");
    let mut writer = Writer::open(&folder, Options::default()).expect("opened");
    writer.append("cpu", &window(0)).expect("written");
    std::fs::rename(&disk, &elsewhere).expect("moved away");
    for number in 1..4 {
        let error = writer.append("cpu", &window(number)).expect_err("no disk");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("history") && !error.to_string().contains('\n'), "{error}");
    }
    std::fs::rename(&elsewhere, &disk).expect("moved back");
    writer.append("cpu", &window(4)).expect("written");
    assert_eq!(writer.status().failed, 3);
    for (number, is_there) in [(0, true), (1, false), (4, true)] {
        assert_eq!(read_window(&folder, number), is_there.then(|| facts(&window(number))), "{number}");
    }
}

/// As when a service starts before its disk is mounted.
#[test]
fn the_windows_of_a_disk_that_appears_later_stay_there() {
    let parent = tempfile::tempdir().expect("a folder");
    let (folder, disk) = (parent.path().join("history"), parent.path().join("disk"));
    let mut options = Options::default();
    options.segment_span = std::time::Duration::from_secs(10);
    let write = |writer: &mut Writer, numbers: std::ops::Range<u64>| {
        numbers.for_each(|number| writer.append("cpu", &window(number)).expect("written"));
    };
    write(&mut Writer::open(&disk, options.clone()).expect("opened"), 0..5);
    let mut writer = Writer::open(&folder, options).expect("opened");
    write(&mut writer, 5..7);
    std::fs::rename(&folder, parent.path().join("below")).expect("moved away");
    std::fs::rename(&disk, &folder).expect("moved there");
    write(&mut writer, 7..12);
    for number in 0..12 {
        let expected = !(5..7).contains(&number);
        assert_eq!(read_window(&folder, number), expected.then(|| facts(&window(number))), "{number}");
    }
    assert_eq!(Writer::open(&folder, Options::default()).expect_err("locked").kind(), ErrorKind::Busy);
}

#[test]
fn names_that_went_with_the_folder_are_asked_for_again() {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("history");
    let mut writer = Writer::open(&folder, Options::default()).expect("opened");
    let mut unnamed_places = || {
        writer.append("cpu", &window(0)).expect("written");
        std::iter::from_fn(|| writer.take_unnamed()).map(|unnamed| unnamed.locations().len()).sum::<usize>()
    };
    let all = unnamed_places();
    assert!(all > 0);
    assert_eq!(unnamed_places(), 0);
    std::fs::remove_dir_all(&folder).expect("removed");
    assert_eq!(unnamed_places(), all);
    assert_eq!(Writer::open(&folder, Options::default()).expect_err("locked").kind(), ErrorKind::Busy);
}

#[test]
fn a_file_in_the_place_of_the_folder_is_an_error() {
    let parent = tempfile::tempdir().expect("a folder");
    let path = parent.path().join("file");
    std::fs::write(&path, "x").expect("written");
    for path in [path.clone(), path.join("below")] {
        let error = Writer::open(&path, Options::default()).expect_err("not a folder");
        assert!(error.to_string().contains("file"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn links_that_others_put_there_are_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let victim = folder.path().join("victim");
    std::fs::write(&victim, "precious").expect("written");
    let outside = tempfile::tempdir().expect("a folder");
    for number in 1..4 {
        let trap = outside.path().join(format!("history-{number:010}.open"));
        std::os::unix::fs::symlink(&victim, trap).expect("linked");
    }
    let mut writer = Writer::open(outside.path(), Options::default()).expect("opened");
    // The traps are not segments; their names are passed over.
    (0..6).for_each(|number| writer.append("cpu", &window(number)).expect("written"));
    assert_eq!(std::fs::read(&victim).expect("read"), b"precious");
    assert_eq!(read_window(outside.path(), 5), Some(facts(&window(5))));
    let lock = outside.path().join("history.lock");
    drop(writer);
    std::fs::remove_file(&lock).expect("removed");
    std::os::unix::fs::symlink(&victim, &lock).expect("linked");
    assert!(Writer::open(outside.path(), Options::default()).is_err());
}
