//! Rollups and manifests: long ranges are read from sums, and what a query opens does not depend on what else is kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flamelet_collect::{Collector, FleetPast, Listing, Offered, Options, Query, Reader, Store};
use flamelet_profile::{Budget, Limits, Profile, ProfileBuilder, Result, pprof};
use flamelet_test_support::Random;
use flamelet_view::Past;

use crate::memory::{Bucket, Client};
use crate::support::{HOUR, Noting, T0};

const MINUTE: i64 = 60_000_000_000;

/// A bucket that remembers what was asked of it.
#[derive(Debug)]
struct Counted {
    store: Arc<Client>,
    calls: Mutex<Vec<String>>,
}

impl Counted {
    fn new(bucket: &Arc<Bucket>) -> Arc<Self> {
        Arc::new(Self { store: bucket.client(), calls: Mutex::default() })
    }

    /// Returns the names of what was opened and listed since the last call.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().expect("no panic"))
    }

    fn note(&self, call: String) {
        self.calls.lock().expect("no panic").push(call);
    }
}

impl Store for Counted {
    fn list(&self, folder: &str) -> Result<Listing> {
        self.note(format!("list {folder}"));
        self.store.list(folder)
    }

    fn get(&self, path: &str, most: u64) -> Result<Vec<u8>> {
        self.note(path.rsplit('/').next().unwrap_or_default().to_owned());
        self.store.get(path, most)
    }

    fn create(&self, path: &str, bytes: &[u8]) -> Result<bool> {
        self.store.create(path, bytes)
    }

    fn delete(&self, path: &str) -> Result<()> {
        self.store.delete(path)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn shown(&self, path: &str) -> String {
        self.store.shown(path)
    }
}

/// A profile of CPU time, some of whose samples are of a trace.
fn cpu(random: &mut Random, time: i64) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.set_period("cpu", "nanoseconds", 10_000_000);
    let header = builder.header_mut();
    (header.time_nanos, header.duration_nanos) = (time, 10_000_000_000);
    let main = builder.named_frame("main");
    let [plain, traced] = [None, Some("4bf92f")].map(|trace| {
        let labels: Vec<_> = trace.iter().map(|trace| builder.text_label("trace_id", trace)).collect();
        builder.labels(&labels)
    });
    for at in 0..30 {
        let leaf = builder.named_frame(&format!("f{at}"));
        let stack = builder.stack(&[leaf, main]);
        let count = 1 + random.below(1000) as i64;
        builder.sample(stack, if at % 10 == 0 { traced } else { plain }, &[count, count * 10_000_000]);
    }
    builder.finish()
}

/// A profile of memory, of which only the last one in a range counts.
fn heap(random: &mut Random, time: i64) -> Profile {
    let mut builder = ProfileBuilder::new(&[("alloc_space", "bytes"), ("inuse_space", "bytes")]);
    builder.header_mut().time_nanos = time;
    for at in 0..20 {
        let frame = builder.named_frame(&format!("allocate{}", at + random.below(5)));
        let stack = builder.stack(&[frame]);
        let bytes = random.below(1 << 20) as i64;
        builder.sample(stack, flamelet_profile::LabelSetId::EMPTY, &[bytes, bytes / 2]);
    }
    builder.finish()
}

/// Fills a bucket with three hours of a service, each of which is one block.
fn filled() -> (Arc<Bucket>, tempfile::TempDir) {
    let (bucket, disk) = (Arc::new(Bucket::default()), tempfile::tempdir().expect("a folder"));
    let mut options = Options::shared(disk.path());
    options.keep = Duration::from_secs(100 * 365 * 86_400);
    options.grace = Duration::ZERO;
    let notes = Noting::default();
    let collector =
        Collector::open_shared(bucket.client(), options, Box::new(notes.clone())).expect("started");
    let mut random = Random::new(7);
    for minute in 0..180 {
        let time = T0 + minute * MINUTE;
        for (version, profile) in [("1", cpu(&mut random, time)), ("2", heap(&mut random, time))] {
            let mut bytes = Vec::new();
            pprof::write_gzip(&profile, &mut bytes).expect("written");
            let labels = vec![("version".to_owned(), version.to_owned())];
            let offered =
                Offered { service: "shop".into(), labels, is_delta: true, bytes, ..Offered::default() };
            collector.accept(&offered).expect("accepted");
        }
        if minute % 25 == 24 {
            collector.maintain();
        }
    }
    collector.maintain();
    collector.maintain();
    assert_eq!(notes.all(), Vec::<String>::new());
    let manifests = bucket.paths().iter().filter(|path| path.ends_with("manifest.json")).count();
    assert_eq!(manifests, 3, "each hour was merged");
    (bucket, disk)
}

/// Removes the rollups, as if an earlier version had written the blocks.
fn without_rollups(bucket: &Bucket) -> Arc<Bucket> {
    let copy = Bucket::default();
    bucket.edit(|files| copy.edit(|other| *other = files.clone()));
    copy.edit(|files| {
        files.retain(|path, _| !path.ends_with("hour.parquet") && !path.ends_with("minutes.parquet"));
        for (_, bytes) in files.iter_mut().filter(|(path, _)| path.ends_with("manifest.json")) {
            let mut manifest: serde_json::Value = serde_json::from_slice(bytes).expect("JSON");
            let entries = manifest["files"].as_object_mut().expect("files");
            assert!(entries.remove("hour.parquet").is_some() && entries.remove("minutes.parquet").is_some());
            *bytes = serde_json::to_vec(&manifest).expect("written");
        }
    });
    Arc::new(copy)
}

fn read(reader: &Reader, name: &str, from: i64, to: i64) -> Option<Vec<u8>> {
    let query = Query::new("shop", name, from, to);
    let (profile, notes) = reader.profile(&query, &Budget::new(Limits::SERVICE)).expect("read");
    assert_eq!(notes, Vec::<String>::new());
    profile.map(|profile| pprof::encode(&profile))
}

#[test]
fn rollups_give_the_same_answers_and_fewer_rows() {
    let (bucket, _disk) = filled();
    let (with, without) = (Counted::new(&bucket), Counted::new(&without_rollups(&bucket)));
    let [fast, slow] = [&with, &without].map(|store| Reader::open_shared(store.clone()).expect("opened"));
    for (name, from, to, has_sums) in [
        ("process_cpu", 0, 3 * HOUR, 3),
        ("process_cpu", -HOUR, 10 * HOUR, 3),
        ("memory", 0, 3 * HOUR, 3),
        ("process_cpu", HOUR, 2 * HOUR, 1),
        ("memory", HOUR, 2 * HOUR, 1),
        // Parts of hours are read from their samples.
        ("process_cpu", MINUTE, 3 * HOUR, 2),
        ("memory", MINUTE, 3 * HOUR - 1, 2),
        ("process_cpu", 90 * MINUTE, 95 * MINUTE, 0),
        ("process_cpu", 3 * HOUR, 4 * HOUR, 0),
    ] {
        let (from, to) = (T0 + from, T0 + to);
        // Each time by a reader that has read nothing before.
        let new = Reader::open_shared(with.clone()).expect("opened");
        with.take();
        let found = read(&new, name, from, to);
        let opened = with.take();
        assert_eq!(found, read(&slow, name, from, to), "{name} {from} {to}");
        assert_eq!(found, read(&new, name, from, to), "from memory");
        let again = with.take();
        assert!(again.iter().all(|call| !call.ends_with(".parquet")), "read twice: {again:?}");
        let sums = opened.iter().filter(|call| *call == "hour.parquet").count();
        assert_eq!(sums, has_sums, "{name} {from} {to}: {opened:?}");
        assert!(without.take().iter().all(|call| call != "hour.parquet"));
    }
    let is_traced = |labels: &[(&str, &str)]| labels.contains(&("trace_id", "4bf92f"));
    let of_trace = |reader: &Reader| {
        let query = Query::new("shop", "process_cpu", T0, T0 + 3 * HOUR);
        let query = Query { keep: Some(&is_traced), ..query };
        let (profile, _) = reader.profile(&query, &Budget::new(Limits::SERVICE)).expect("read");
        pprof::encode(&profile.expect("a profile"))
    };
    assert_eq!(of_trace(&fast), of_trace(&slow), "traces are kept apart");
    // Of the samples of a block few rows are left.
    let rows = |bytes: &[u8], name: &str| {
        let manifest: serde_json::Value = serde_json::from_slice(bytes).expect("JSON");
        manifest["files"][name]["rows"].as_u64().expect("a number")
    };
    bucket.edit(|files| {
        for (path, bytes) in files.iter().filter(|(path, _)| path.ends_with("manifest.json")) {
            assert!(rows(bytes, "samples.parquet") > 10 * rows(bytes, "hour.parquet"), "{path}");
        }
    });
}

#[test]
fn a_course_from_minutes_has_the_same_total() {
    let (bucket, _disk) = filled();
    let (with, without) = (Counted::new(&bucket), Counted::new(&without_rollups(&bucket)));
    let course = |store: &Arc<Counted>, parts: usize| {
        let reader = Reader::open_shared(store.clone()).expect("opened");
        let course = FleetPast::new(reader, Limits::SERVICE).course(parts).expect("read");
        (course.from, course.to, course.values)
    };
    // One profile begins in each minute, so that nothing is rounded.
    assert_eq!(course(&with, 20), course(&without, 20));
    let opened = with.take();
    assert_eq!(opened.iter().filter(|call| *call == "minutes.parquet").count(), 3, "{opened:?}");
    assert!(opened.iter().all(|call| call != "samples.parquet" && call != "stacks.parquet"), "{opened:?}");
    assert_eq!(course(&with, 1000), course(&without, 1000));
    assert!(with.take().iter().all(|call| call != "minutes.parquet"), "short parts need the samples");
}

#[test]
fn a_damaged_rollup_is_not_needed() {
    let (bucket, _disk) = filled();
    let reader = Reader::open_shared(bucket.client()).expect("opened");
    let wanted = read(&reader, "process_cpu", T0, T0 + 3 * HOUR);
    bucket.edit(|files| {
        for (_, bytes) in files.iter_mut().filter(|(path, _)| path.ends_with("hour.parquet")) {
            bytes.truncate(100);
        }
    });
    assert_eq!(read(&reader, "process_cpu", T0, T0 + 3 * HOUR), wanted);
}

/// Adds copies of a block under other services and hours until there are so many blocks.
fn grow(bucket: &Bucket, count: usize) {
    bucket.edit(|files| {
        let first = files.keys().find(|path| path.ends_with("manifest.json")).expect("a block").clone();
        let folder = first.trim_end_matches("manifest.json").to_owned();
        let block: BTreeMap<String, Vec<u8>> = files
            .iter()
            .filter_map(|(path, bytes)| Some((path.strip_prefix(&folder)?.to_owned(), bytes.clone())))
            .collect();
        let manifest: serde_json::Value = serde_json::from_slice(&files[&first]).expect("JSON");
        let hour = manifest["hour"].as_i64().expect("a number");
        for number in 3..count as i64 {
            // Half of them are of the same service.
            let (service, ahead) =
                if number % 2 == 0 { ("shop".to_owned(), number) } else { (format!("s{number}"), 0) };
            let mut manifest = manifest.clone();
            manifest["service"] = service.clone().into();
            manifest["hour"] = (hour + ahead).into();
            let time = flamelet_profile::moment::format((hour + ahead) * HOUR);
            let folder = format!("blocks/{service}/{}/0-{number}", &time[..13]);
            for (name, bytes) in block.iter().filter(|(name, _)| *name != "manifest.json") {
                files.insert(format!("{folder}/{name}"), bytes.clone());
            }
            files.insert(format!("{folder}/manifest.json"), serde_json::to_vec(&manifest).expect("written"));
        }
    });
}

#[test]
fn a_query_opens_as_much_with_ten_blocks_as_with_ten_thousand() {
    let (bucket, _disk) = filled();
    let count = |bucket: &Arc<Bucket>| {
        let store = Counted::new(bucket);
        let reader = Reader::open_shared(store.clone()).expect("opened");
        store.take();
        assert!(read(&reader, "process_cpu", T0 + HOUR, T0 + 2 * HOUR).is_some());
        store.take()
    };
    grow(&bucket, 10);
    let few = count(&bucket);
    let (lists, opens): (Vec<&String>, Vec<&String>) = few.iter().partition(|call| call.starts_with("list"));
    assert_eq!((lists.len(), opens.len()), (1, 5), "one folder, one manifest and four files: {few:?}");
    grow(&bucket, 10_000);
    let manifests = bucket.paths().iter().filter(|path| path.ends_with("manifest.json")).count();
    assert_eq!(manifests, 10_000);
    assert_eq!(count(&bucket), few);
}

#[test]
fn blocks_without_wanted_types_or_labels_are_not_opened() {
    let (bucket, _disk) = filled();
    let store = Counted::new(&bucket);
    let opened = |name: &str, select: &str| {
        let reader = Reader::open_shared(store.clone()).expect("opened");
        let selector = flamelet_remote::selector::Selector::parse(select).expect(select);
        let query = Query::new("shop", name, T0, T0 + 3 * HOUR);
        let query = Query { select: Some(&selector), ..query };
        store.take();
        let (profile, _) = reader.profile(&query, &Budget::new(Limits::SERVICE)).expect("read");
        let files = store.take().iter().filter(|call| call.ends_with(".parquet")).count();
        (profile.is_some(), files)
    };
    assert_eq!(opened("process_cpu", "{version=\"1\"}"), (true, 12));
    assert_eq!(
        opened("process_cpu", "{version=\"2\"}"),
        (false, 12),
        "its manifest does not say which series have it"
    );
    assert_eq!(opened("process_cpu", "{version=\"3\"}"), (false, 0));
    assert_eq!(opened("process_cpu", "{zone=~\".+\"}"), (false, 0));
    assert_eq!(opened("goroutines", ""), (false, 0));
}
