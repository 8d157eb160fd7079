//! What is sent, and a block in the folder, is input. A profile that no block has room for is refused; a damaged or a
//! wrong block is left out with a note, and takes bounded memory.

use std::sync::Arc;
use std::time::Duration;

use flamelet_collect::{Collector, FleetPast, Offered, Options, Query, Reader, replay};
use flamelet_profile::{Budget, Error, ErrorKind, LabelSetId, Limits, Line, Profile, ProfileBuilder};
use flamelet_view::Past;

use crate::memory::{Bucket, Fault};
use crate::support::{HOUR, Nowhere, Site, T0, cpu, offered, totals};

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
fn the_viewer_says_what_is_missing() {
    let site = with_blocks();
    let shown = || {
        let past = FleetPast::new(Reader::open(site.path()).expect("opened"), Limits::SERVICE);
        past.range(T0 / 1_000_000, (T0 + 2 * HOUR) / 1_000_000).expect("a profile")
    };
    let whole = shown();
    assert!(!whole.name.contains("incomplete") && whole.profile.comments().count() == 0, "{}", whole.name);
    let is_first = |name: &String| name.contains("T10/") && name.ends_with("series.parquet");
    let name = site.files().into_iter().find(is_first).expect("one");
    std::fs::write(site.path().join(name), b"nonsense").expect("written");
    let part = shown();
    assert!(part.name.contains("incomplete") && part.name.contains("checksum"), "{}", part.name);
    assert_eq!((totals(&part.profile).0, part.profile.comments().count()), (3, 1));
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

/// As in a bucket that somebody else can write to.
#[test]
fn blocks_of_hours_that_are_far_apart_take_no_time_for_those_in_between() {
    let (bucket, log) = (Arc::new(Bucket::default()), tempfile::tempdir().expect("a folder"));
    let mut options = Options::shared(log.path());
    options.keep = Duration::from_secs(100 * 365 * 86_400);
    let collector = Collector::open_shared(bucket.client(), options, Box::new(Nowhere)).expect("opened");
    collector.accept(&offered("checkout", &[], &cpu(T0, &[("main", 3)]))).expect("accepted");
    collector.close();
    bucket.edit(|files| {
        let block: Vec<_> = files.iter().filter(|(path, _)| path.contains("/2026-01-15T10/")).collect();
        let block: Vec<(String, Vec<u8>)> =
            block.into_iter().map(|(path, bytes)| (path.clone(), bytes.clone())).collect();
        for (name, hour) in [("1970-01-01T00", 0), ("2200-12-31T23", 2_024_903)] {
            for (path, bytes) in &block {
                let mut bytes = bytes.clone();
                if path.ends_with("manifest.json") {
                    let own = format!("\"hour\": {}", T0 / HOUR);
                    let text = String::from_utf8(bytes).expect("text");
                    assert!(text.contains(&own), "{text}");
                    bytes = text.replace(&own, &format!("\"hour\": {hour}")).into_bytes();
                }
                files.insert(path.replace("2026-01-15T10", name), bytes);
            }
        }
    });
    let client = bucket.client();
    let reader = Reader::open_shared(client.clone()).expect("opened");
    let all = Query::new("checkout", "process_cpu", i64::MIN, i64::MAX);
    let (first, last) = reader.extent(&all, &Budget::new(Limits::SERVICE)).expect("read").expect("profiles");
    assert_eq!(
        (first.div_euclid(HOUR), last.div_euclid(HOUR)),
        (0, 2_024_903),
        "they say that they are there"
    );
    // So many calls are enough.
    client.plan(200, Some(Fault::DeadBefore), None);
    let mut count = 0;
    let mut each = |_| {
        count += 1;
        Ok(())
    };
    let range = i64::MIN..i64::MAX;
    let notes = replay::<Error>(&reader, "checkout", range, Limits::SERVICE, &mut each).expect("replayed");
    assert_eq!((count, notes), (1, Vec::new()), "the others are of another hour");
}

#[test]
fn a_small_budget_is_kept() {
    let site = with_blocks();
    let reader = Reader::open(site.path()).expect("opened");
    let query = Query::new("checkout", "process_cpu", T0, T0 + 2 * HOUR);
    assert!(reader.profile(&query, &Budget::new(Limits::of_memory(4000))).is_err());
}

/// Returns a profile of this many samples, each with a label of its own.
fn labelled(time: i64, samples: usize, name: &str, value: impl Fn(usize) -> String) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.header_mut().time_nanos = time;
    let frame = builder.named_frame("main");
    let stack = builder.stack(&[frame]);
    for at in 0..samples {
        let label = builder.text_label(name, &value(at));
        let labels = builder.labels(&[label]);
        builder.sample(stack, labels, &[1, 10]);
    }
    builder.finish()
}

/// Returns a profile whose locations share one long name, which takes little room in a file.
fn one_long_name(first: u64, locations: u64, length: usize) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.header_mut().time_nanos = T0;
    let function = Some(builder.named_function(&"x".repeat(length), ""));
    for at in first..first + locations {
        let location = builder.location(None, at + 1, &[Line { function, line: at as i64, column: 0 }]);
        let stack = builder.stack(&[location]);
        builder.sample(stack, LabelSetId::EMPTY, &[1, 10]);
    }
    builder.finish()
}

#[test]
fn a_profile_that_no_block_has_room_for_is_refused() {
    let site = Site::new();
    let collector = site.open();
    let long = "f".repeat(1 << 20);
    for (profile, status, words) in [
        (labelled(T0, 1, "trace_id", |_| long.clone()), 400, "the trace_id of a sample has 1048576 bytes"),
        (labelled(T0, 1, "span_id", |_| "0".repeat(65)), 400, "the span_id of a sample has 65 bytes"),
        (cpu(T0, &vec![("main", 1); 65_537]), 413, "limits.samples"),
        (one_long_name(0, 300, 1 << 20), 413, "more than 32 MiB for the texts"),
    ] {
        let refused = collector.accept(&offered("evil", &[], &profile)).expect_err(words);
        assert!(refused.status == status && refused.message.contains(words), "{refused:?}");
    }
    collector
        .accept(&offered("good", &[], &labelled(T0, 100, "trace_id", |at| format!("{at:064}"))))
        .expect("kept");
    collector.accept(&offered("good", &[], &cpu(T0 + 1000, &[("main", 3)]))).expect("kept");
    collector.maintain();
    assert_eq!(site.total("good", T0, T0 + HOUR), Some((103, 1030)));
    assert!(site.files().iter().all(|name| !name.ends_with(".log")), "{:?}", site.files());
}

#[test]
fn profiles_that_are_too_large_together_become_several_blocks() {
    let site = Site::new();
    let collector = site.open();
    // Each takes 30 MiB of names in a block, and all are in one log.
    for at in 0..10 {
        let mut profile = one_long_name(30 * at as u64, 30, 1 << 20);
        profile.header.time_nanos = T0 + at * 1000;
        collector.accept(&offered("large", &[], &profile)).expect("accepted");
    }
    collector.accept(&offered("small", &[], &cpu(T0, &[("main", 3)]))).expect("accepted");
    collector.maintain();
    assert_eq!(site.total("small", T0, T0 + HOUR), Some((3, 30)));
    let manifests = site
        .files()
        .iter()
        .filter(|name| name.starts_with("blocks/large") && name.ends_with(".json"))
        .count();
    assert!(manifests > 1, "{:?}", site.files());
    assert!(site.files().iter().all(|name| !name.ends_with(".log")), "{:?}", site.files());
}

/// A few bytes of a log may be very many names. While the log has no room in memory, each question reads it.
#[test]
fn names_in_a_log_that_is_read_count_for_a_question() {
    let site = Site::new();
    let collector = site.open();
    for at in 0..6 {
        let mut profile = one_long_name(30 * at as u64, 30, 1 << 20);
        profile.header.time_nanos = T0 + at * 1000;
        collector.accept(&offered("large", &[], &profile)).expect("accepted");
    }
    let reader = Reader::open(site.path()).expect("opened");
    let query = Query::new("large", "process_cpu", T0, T0 + HOUR);
    let read = |mib: u64| reader.profile(&query, &Budget::new(Limits::of_memory(mib << 20)));
    let error = read(64).expect_err("they take 180 MiB");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    let (profile, notes) = read(512).expect("read");
    assert_eq!((profile.map(|profile| totals(&profile)), notes), (Some((180, 1800)), Vec::new()));
}

#[test]
fn a_type_with_a_colon_is_found() {
    let site = Site::new();
    let collector = site.open();
    let mut builder = ProfileBuilder::new(&[("sched:sched_switch", "a:b")]);
    builder.set_period("sched:sched_switch", "c:d", 1);
    builder.header_mut().time_nanos = T0;
    let frame = builder.named_frame("main");
    let stack = builder.stack(&[frame]);
    builder.sample(stack, LabelSetId::EMPTY, &[7]);
    let offer = Offered { name: Some("switches".into()), ..offered("checkout", &[], &builder.finish()) };
    collector.accept(&offer).expect("accepted");
    for when in ["in the log", "in a block"] {
        let profile = site.profile("checkout", "switches", T0, T0 + HOUR).expect(when);
        let value = profile.sample_types()[0];
        assert_eq!((profile.string(value.kind), profile.string(value.unit)), ("sched_sched_switch", "a_b"));
        assert_eq!(profile.total(0), 7, "{when}");
        collector.maintain();
    }
}
