//! Other users of the machine can neither read what a collector keeps nor have it write elsewhere.

use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use flamelet_collect::Collector;

use crate::support::{HOUR, Nowhere, Site, T0, cpu, offered};

const NOBODY: u32 = 65534;

fn refusal(site: &Site) -> String {
    Collector::open(site.options(), Box::new(Nowhere)).map(drop).expect_err("refused").to_string()
}

/// Returns the paths below a folder whose mode is not this one, of files and of folders.
fn with_other_modes(folder: &Path, files: u32, folders: u32) -> Vec<String> {
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let found = entry.metadata().expect("there");
        let wanted = if found.is_dir() { folders } else { files };
        if found.permissions().mode() & 0o777 != wanted {
            wrong.push(format!("{} {:o}", entry.path().display(), found.permissions().mode()));
        }
        if found.is_dir() {
            wrong.extend(with_other_modes(&entry.path(), files, folders));
        }
    }
    wrong
}

#[test]
fn only_the_user_of_the_collector_can_read_its_files() {
    let site = Site::new();
    let collector = site.open();
    collector.accept(&offered("checkout", &[], &cpu(T0, &[("main", 1)]))).expect("accepted");
    assert_eq!(with_other_modes(site.path(), 0o600, 0o700), Vec::<String>::new(), "with a log");
    collector.maintain();
    assert_eq!(with_other_modes(site.path(), 0o600, 0o700), Vec::<String>::new(), "with a block");
}

#[test]
fn links_are_not_followed() {
    let victim = tempfile::tempdir().expect("a folder");
    for name in ["log", "blocks", "tmp"] {
        let site = Site::new();
        symlink(victim.path(), site.path().join(name)).expect("linked");
        let error = refusal(&site);
        assert!(error.contains(name) && error.contains("is not a folder"), "{error}");
    }
    assert_eq!(std::fs::read_dir(victim.path()).expect("there").count(), 0, "nothing was written there");
    // A file of a block, which is the right one.
    let site = Site::new();
    let collector = site.open();
    collector.accept(&offered("checkout", &[], &cpu(T0, &[("main", 1)]))).expect("accepted");
    collector.maintain();
    let name = site.files().into_iter().find(|name| name.ends_with("samples.parquet")).expect("one");
    let (path, moved) = (site.path().join(name), victim.path().join("samples"));
    std::fs::rename(&path, &moved).expect("moved");
    symlink(&moved, &path).expect("linked");
    let reader = flamelet_collect::Reader::open(site.path()).expect("opened");
    let query = flamelet_collect::Query::new("checkout", "process_cpu", T0, T0 + HOUR);
    let budget = flamelet_profile::Budget::new(flamelet_profile::Limits::SERVICE);
    let (profile, notes) = reader.profile(&query, &budget).expect("read");
    assert!(profile.is_none() && notes.len() == 1, "{notes:?}");
}

#[test]
fn a_folder_of_another_user_is_refused() {
    let site = Site::new();
    if chown(site.path(), Some(NOBODY), Some(NOBODY)).is_err() {
        flamelet_test_support::skip!("only root can be attacked by another user");
        return;
    }
    let error = refusal(&site);
    assert!(error.contains("belongs to another user"), "{error}");
    assert_eq!(site.files(), Vec::<String>::new());
    // One inside that the other user has made before.
    for name in ["log", "blocks"] {
        let site = Site::new();
        let inside = site.path().join(name);
        std::fs::create_dir(&inside).expect("made");
        chown(&inside, Some(NOBODY), Some(NOBODY)).expect("given away");
        let error = refusal(&site);
        assert!(error.contains(name) && error.contains("belongs to another user"), "{error}");
    }
}
