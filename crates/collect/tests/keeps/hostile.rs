//! A block in the folder is input: a damaged or a wrong one is left out with a note, and takes bounded memory.

use flamelet_collect::{Query, Reader};
use flamelet_profile::{Budget, Limits};

use crate::support::{HOUR, Site, T0, cpu, offered, totals};

fn with_blocks() -> Site {
    let site = Site::new();
    let collector = site.open();
    for hour in 0..2 {
        let profile = cpu(T0 + hour * HOUR, &[("main;work", 1 + hour), ("main", 1)]);
        collector.accept(&offered("checkout", &[("region", "eu")], &profile)).expect("accepted");
    }
    collector.maintain();
    site
}

fn read(site: &Site) -> (i64, Vec<String>) {
    let reader = Reader::open(site.path()).expect("opened");
    let query = Query::new("checkout", "process_cpu", T0, T0 + 2 * HOUR);
    let (profile, notes) = reader.profile(&query, &Budget::new(Limits::SERVICE)).expect("read");
    (profile.map_or(0, |profile| totals(&profile).0), notes)
}

#[test]
fn a_changed_file_is_left_out_with_a_note() {
    let whole = with_blocks();
    assert_eq!(read(&whole), (5, Vec::new()));
    let of_first_hour = |name: &&String| name.contains("T10/") && !name.ends_with(".json");
    for name in whole.files().iter().filter(of_first_hour) {
        let site = whole.copy();
        let path = site.path().join(name);
        let mut bytes = std::fs::read(&path).expect("read");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).expect("written");
        let (total, notes) = read(&site);
        assert_eq!(total, 3, "{name}: the other hour is there");
        assert!(notes.len() == 1 && notes[0].contains("checksum"), "{notes:?}");
    }
}

#[test]
fn a_manifest_that_makes_no_sense_is_left_out() {
    let whole = with_blocks();
    let name =
        whole.files().into_iter().find(|name| name.contains("T10/") && name.ends_with(".json")).expect("one");
    let text = std::fs::read_to_string(whole.path().join(&name)).expect("read");
    for (changed, words) in [
        (String::new(), "the manifest is damaged"),
        (text.replace("\"format\": 2", "\"format\": 9"), "format 9"),
        (text.replace("\"service\": \"checkout\"", "\"service\": \"other\""), "another service"),
        ("[".repeat(100_000), "the manifest is damaged"),
    ] {
        let site = whole.copy();
        std::fs::write(site.path().join(&name), changed).expect("written");
        let (total, notes) = read(&site);
        assert_eq!(total, 3);
        assert!(notes.len() == 1 && notes[0].contains(words), "{notes:?}");
    }
}

#[test]
fn links_and_folders_are_no_files_of_a_block() {
    let site = with_blocks();
    let name = site
        .files()
        .into_iter()
        .find(|name| name.contains("T10/") && name.ends_with("samples.parquet"))
        .expect("one");
    let path = site.path().join(name);
    std::fs::remove_file(&path).expect("removed");
    std::fs::create_dir(&path).expect("made");
    let (total, notes) = read(&site);
    assert_eq!((total, notes.len()), (3, 1), "{notes:?}");
}

#[test]
fn a_small_budget_is_kept() {
    let site = with_blocks();
    let reader = Reader::open(site.path()).expect("opened");
    let query = Query::new("checkout", "process_cpu", T0, T0 + 2 * HOUR);
    assert!(reader.profile(&query, &Budget::new(Limits::of_memory(4000))).is_err());
}
