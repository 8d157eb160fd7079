//! Code that blocks share: the stacks of a program are kept once for a day, whatever services run it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flamelet_collect::{Collector, Options, Query, Reader};
use flamelet_profile::{Budget, Limits, Profile};

use crate::memory::{Bucket, Client};
use crate::support::{HOUR, Noting, Site, T0, cpu, offered};

const MINUTE: i64 = 60_000_000_000;

/// A profile with these stacks of a program, each of which is seen a different number of times.
fn stacks(time: i64, numbers: std::ops::Range<i64>) -> Profile {
    let names: Vec<(String, i64)> =
        numbers.map(|number| (format!("main;handle_{};work_{number}", number % 20), number + 1)).collect();
    let names: Vec<(&str, i64)> = names.iter().map(|(name, count)| (&**name, *count)).collect();
    cpu(time, &names)
}

/// Returns the values of each stack, by the names of its functions.
fn by_name(profile: &Profile) -> BTreeMap<String, i64> {
    let mut sums = BTreeMap::new();
    for sample in profile.samples() {
        let mut name = String::new();
        for &id in profile.stack(sample.stack) {
            for line in profile.lines_of(profile.location(id)) {
                name += profile.string(profile.function(line.function.expect("a name")).name);
                name.push(';');
            }
        }
        *sums.entry(name).or_insert(0) += sample.values[0];
    }
    sums
}

/// Returns the paths of files of shared code, and of blocks that refer to some.
fn found(site: &Site) -> (Vec<String>, usize) {
    let files = site.files();
    let refers = |name: &&String| {
        let path = site.path().join(name);
        name.ends_with("manifest.json")
            && std::fs::read_to_string(path).expect("readable").contains("\"format\": 3")
    };
    let referring = files.iter().filter(refers).count();
    (files.into_iter().filter(|name| name.starts_with("blocks/~code/")).collect(), referring)
}

/// Three services of one program, two of them with several blocks, some of whose stacks are in no file of shared code.
fn filled() -> Site {
    let site = Site::new();
    let collector = site.open();
    for (at, services) in [(0, &["cart", "checkout"][..]), (1, &["checkout"]), (2, &["checkout", "login"])] {
        for service in services {
            let profile = stacks(T0 + at * MINUTE, at * 10..200 + at * 10);
            collector.accept(&offered(service, &[], &profile)).expect("accepted");
        }
        collector.maintain();
    }
    collector.close();
    site
}

#[test]
fn services_of_a_program_share_its_code_and_answers_are_the_same() {
    let site = filled();
    let (code, referring) = found(&site);
    assert_eq!(code.len(), 2, "one file of stacks and one of locations: {code:?}");
    assert_eq!(referring, 3, "{:?}", site.files());
    for (service, windows) in [("cart", 0..1), ("checkout", 0..3), ("login", 2..3)] {
        let mut expected = BTreeMap::new();
        for at in windows {
            for (name, value) in by_name(&stacks(T0, at * 10..200 + at * 10)) {
                *expected.entry(name).or_insert(0) += value;
            }
        }
        let profile = site.profile(service, "process_cpu", T0, T0 + HOUR).expect("there");
        assert_eq!(by_name(&profile), expected, "{service}");
    }
    let small = |name: &&String| name.contains("/cart/") && name.ends_with("locations.parquet");
    let files = site.files();
    let own = files.iter().find(small).expect("a file");
    let (own, shared) =
        (std::fs::metadata(site.path().join(own)), std::fs::metadata(site.path().join(&code[0])));
    let (own, shared) = (own.expect("there").len(), shared.expect("there").len());
    assert!(own < shared / 2, "{own} and {shared} bytes");
}

#[test]
fn shared_code_is_removed_with_the_last_block_of_its_day() {
    let site = filled();
    let mut options = site.options();
    options.keep = Duration::from_secs(3600);
    options.doubt = Duration::ZERO;
    site.open_with(options).close();
    assert_eq!(found(&site), (Vec::new(), 0));
    assert_eq!(site.services(), Vec::<String>::new());
    // What comes late for that day refers to nothing that is gone.
    let collector = site.open();
    let late = stacks(T0 + 5 * MINUTE, 0..200);
    collector.accept(&offered("cart", &[], &late)).expect("accepted");
    collector.close();
    let profile = site.profile("cart", "process_cpu", T0, T0 + HOUR).expect("there");
    assert_eq!(by_name(&profile), by_name(&late));
}

/// As a person who needs room, or another collector with the same bucket.
#[test]
fn code_that_somebody_removes_is_written_again() {
    let site = Site::new();
    let collector = site.open();
    for hour in 0..2 {
        collector.accept(&offered("cart", &[], &stacks(T0 + hour * HOUR, 0..200))).expect("accepted");
        collector.maintain();
        assert!(!found(&site).0.is_empty(), "it is there");
        std::fs::remove_dir_all(site.path().join("blocks/~code")).expect("removed");
    }
    collector.accept(&offered("cart", &[], &stacks(T0 + 2 * HOUR, 0..200))).expect("accepted");
    collector.close();
    let profile = site.profile("cart", "process_cpu", T0 + 2 * HOUR, T0 + 3 * HOUR).expect("there");
    assert_eq!(by_name(&profile), by_name(&stacks(T0, 0..200)));
}

/// As a person who keeps a copy, or a program that copies buckets.
#[test]
fn code_under_a_name_that_no_manifest_can_have_is_not_referred_to() {
    let site = Site::new();
    let collector = site.open();
    collector.accept(&offered("cart", &[], &stacks(T0, 0..200))).expect("accepted");
    collector.close();
    drop(collector);
    let (code, _) = found(&site);
    let folder = site.path().join(&code[0]).parent().expect("a folder").to_owned();
    std::fs::rename(&folder, folder.with_extension("bak")).expect("renamed");
    let late = stacks(T0 + HOUR, 0..200);
    let collector = site.open();
    collector.accept(&offered("cart", &[], &late)).expect("accepted");
    collector.close();
    let profile = site.profile("cart", "process_cpu", T0 + HOUR, T0 + 2 * HOUR).expect("there");
    assert_eq!(by_name(&profile), by_name(&late));
}

#[test]
fn code_that_is_missing_or_damaged_is_told_and_changes_no_answer() {
    let site = filled();
    let (code, _) = found(&site);
    let notes = |site: &Site| {
        let reader = Reader::open(site.path()).expect("opened");
        let query = Query::new("cart", "process_cpu", T0, T0 + HOUR);
        let (profile, notes) = reader.profile(&query, &Budget::new(Limits::SERVICE)).expect("read");
        assert_eq!(profile.map(|profile| by_name(&profile)), None);
        notes
    };
    for name in &code {
        let damaged = site.copy();
        let path = damaged.path().join(name);
        let bytes = std::fs::read(&path).expect("readable");
        for at in (0..bytes.len()).step_by(bytes.len() / 40) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x55;
            std::fs::write(&path, changed).expect("written");
            let reader = Reader::open(damaged.path()).expect("opened");
            let query = Query::new("cart", "process_cpu", T0, T0 + HOUR);
            let (profile, notes) = reader.profile(&query, &Budget::new(Limits::SERVICE)).expect("read");
            let is_same = profile.is_some_and(|profile| by_name(&profile) == by_name(&stacks(T0, 0..200)));
            assert!(
                is_same || notes.iter().any(|note| note.contains("~code")),
                "byte {at} of {name}: {notes:?}"
            );
        }
        std::fs::remove_file(&path).expect("removed");
        assert!(notes(&damaged)[0].contains("a block was left out"), "{:?}", notes(&damaged));
    }
}

/// Opens a collector with a bucket, which keeps profiles for this long.
fn shared(client: Arc<Client>, disk: &tempfile::TempDir, keep: Duration, max_bytes: u64) -> Collector {
    let mut options = Options::shared(disk.path());
    (options.keep, options.grace, options.max_bytes) = (keep, Duration::ZERO, max_bytes);
    Collector::open_shared(client, options, Box::new(Noting::default())).expect("opened")
}

const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);

fn disk() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Returns the values of each stack of a service in a bucket, from then on for an hour.
fn in_bucket(bucket: &Arc<Bucket>, service: &str, from: i64) -> BTreeMap<String, i64> {
    let reader = Reader::open_shared(bucket.client()).expect("opened");
    let query = Query::new(service, "process_cpu", from, from + HOUR);
    let (profile, notes) = reader.profile(&query, &Budget::new(Limits::SERVICE)).expect("read");
    assert_eq!(notes, Vec::<String>::new(), "{:?}", bucket.paths());
    profile.map_or_else(BTreeMap::new, |profile| by_name(&profile))
}

/// The code is written before the first block of its day. Meanwhile another collector starts on a machine whose clock is ten years
/// ahead.
#[test]
fn a_clock_that_is_ahead_removes_no_code_that_is_about_to_be_used() {
    let profile = stacks(T0, 0..200);
    let steps = (0..).take_while(|&step| {
        let (bucket, disks) = (Arc::new(Bucket::default()), [disk(), disk()]);
        bucket.ahead.store(-10 * 365 * 24 * HOUR, Ordering::SeqCst);
        let client = bucket.client();
        let collector = shared(client.clone(), &disks[0], CENTURY, u64::MAX);
        collector.accept(&offered("cart", &[], &profile)).expect("accepted");
        let other = bucket.clone();
        let starts = move || drop(shared(other.client(), &disks[1], Duration::from_secs(3600), u64::MAX));
        client.plan(step, None, Some(Box::new(starts)));
        collector.maintain();
        assert_eq!(in_bucket(&bucket, "cart", T0), by_name(&profile), "step {step}");
        !client.is_waiting()
    });
    let steps = steps.count();
    assert!(steps > 8, "{steps} steps");
}

/// Returns the bytes of the files below a folder of a bucket.
fn bytes_below(bucket: &Bucket, prefix: &str) -> u64 {
    let mut bytes = 0;
    bucket.edit(|files| {
        let of =
            |(path, bytes): (&String, &Vec<u8>)| (path.starts_with(prefix)).then_some(bytes.len() as u64);
        bytes = files.iter().filter_map(of).sum();
    });
    bytes
}

/// In a bucket, code outlives its blocks, because other collectors may refer to it.
#[test]
fn code_that_no_block_uses_takes_no_room_from_those_that_are_there() {
    let (bucket, disk) = (Arc::new(Bucket::default()), disk());
    let days = [T0, T0 + 24 * HOUR, T0 + 48 * HOUR];
    let collector = shared(bucket.client(), &disk, CENTURY, u64::MAX);
    for day in days {
        collector.accept(&offered("cart", &[], &stacks(day, 0..200))).expect("accepted");
        collector.maintain();
    }
    drop(collector);
    let code = bytes_below(&bucket, "blocks/~code/");
    assert_eq!(
        bucket.paths().iter().filter(|path| path.contains("~code")).count(),
        6,
        "{:?}",
        bucket.paths()
    );
    let blocks = bytes_below(&bucket, "blocks/cart/");
    // Enough for the last day only, and then the same again.
    let most = (code + blocks) / 3 + 4096;
    for _ in 0..2 {
        drop(shared(bucket.client(), &disk, CENTURY, most));
        let has = days.map(|day| !in_bucket(&bucket, "cart", day).is_empty());
        assert_eq!(has, [false, false, true], "{:?}", bucket.paths());
    }
}

/// Whoever sends profiles says which program they are of.
#[test]
fn nobody_can_make_the_code_of_a_program_too_large_for_others() {
    /// The names of all of them are more than a question may take.
    const PROFILES: i64 = 12;
    let site = Site::new();
    let collector = site.open();
    let good = stacks(T0, 0..200);
    for at in 0..PROFILES {
        collector.accept(&offered("cart", &[], &stacks(T0 + at * MINUTE, 0..200))).expect("accepted");
        let names: Vec<String> =
            (0..70).map(|number| format!("{at}_{number}_{}", "x".repeat(200_000))).collect();
        let names: Vec<(&str, i64)> = names.iter().map(|name| (&**name, 1)).collect();
        collector.accept(&offered("evil", &[], &cpu(T0 + at * MINUTE, &names))).expect("accepted");
    }
    collector.close();
    let reader = Reader::open(site.path()).expect("opened");
    let query = Query::new("cart", "process_cpu", T0, T0 + HOUR);
    let (profile, notes) = reader.profile(&query, &Budget::new(Limits::SERVICE)).expect("read");
    assert_eq!(notes, Vec::<String>::new());
    let sums = by_name(&profile.expect("there"));
    assert_eq!(sums, by_name(&good).into_iter().map(|(name, value)| (name, PROFILES * value)).collect());
}
