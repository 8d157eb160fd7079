//! Many collectors on one bucket, any of which dies at any moment: nothing that was acknowledged is lost, nothing is
//! counted twice, and no reader sees half a block.
//!
//! Profile number `n` has `10^n` samples, so each digit of a total says how often one profile was counted.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flamelet_collect::{Collector, Options, Outside, Query, Reader, Refused, Store};
use flamelet_profile::{Budget, Limits, Result};

use crate::memory::{Bucket, Client, Fault};
use crate::support::{HOUR, Noting, T0, cpu, offered, totals};

/// Reports nothing.
struct Silent;

impl Outside for Silent {
    fn note(&self, _: &str) {}
}

/// A machine with a collector: its disk outlives it.
struct Machine {
    disk: tempfile::TempDir,
    bucket: Arc<Bucket>,
}

impl Machine {
    fn new(bucket: &Arc<Bucket>) -> Self {
        Self { disk: tempfile::tempdir().expect("a folder"), bucket: bucket.clone() }
    }

    fn try_start(&self, client: &Arc<Client>) -> Result<Collector> {
        let mut options = Options::shared(self.disk.path());
        options.keep = Duration::from_secs(100 * 365 * 86_400);
        options.grace = Duration::ZERO;
        Collector::open_shared(client.clone(), options, Box::new(Silent))
    }

    fn start(&self) -> Collector {
        self.try_start(&self.bucket.client()).expect("started")
    }
}

fn accept(collector: &Collector, numbers: impl IntoIterator<Item = u32>) {
    for number in numbers {
        try_accept(collector, number).expect("accepted");
    }
}

fn try_accept(collector: &Collector, number: u32) -> std::result::Result<(), Refused> {
    let profile = cpu(T0 + i64::from(number) * 1000, &[("main;work", 10i64.pow(number))]);
    collector.accept(&offered("checkout", &[], &profile))
}

/// Returns the total that a reader without a log finds, which must be able to read everything.
fn total_in(bucket: &Arc<Bucket>) -> i64 {
    let Ok(reader) = Reader::open_shared(bucket.client()) else { return 0 };
    let query = Query::new("checkout", "process_cpu", T0, T0 + HOUR);
    let (profile, notes) = reader.profile(&query, &Budget::new(Limits::SERVICE)).expect("read");
    assert_eq!(notes, Vec::<String>::new(), "{:?}", bucket.paths());
    profile.map_or(0, |profile| totals(&profile).0)
}

fn manifests(bucket: &Bucket) -> usize {
    bucket.paths().iter().filter(|path| path.ends_with("manifest.json")).count()
}

/// Returns what checks after each change that no profile is counted twice, and that none goes that was there before.
fn watcher(bucket: &Arc<Bucket>) -> Arc<dyn Fn() + Send + Sync> {
    let (bucket, seen) = (bucket.clone(), Mutex::new((Vec::new(), 0i64)));
    Arc::new(move || {
        let visible = visible(&bucket);
        let mut seen = seen.lock().expect("no panic");
        if seen.0 == visible {
            return;
        }
        let total = total_in(&bucket);
        let before = &mut seen.1;
        for place in 0..9 {
            let digit = |sum: i64| sum / 10i64.pow(place) % 10;
            assert!(digit(total) <= 1, "profile {place} is counted twice: {total}: {:?}", bucket.paths());
            assert!(digit(total) >= digit(*before), "profile {place} is gone: {total}: {:?}", bucket.paths());
        }
        *seen = (visible, total);
    })
}

/// Returns the files of blocks that have a manifest: nothing else changes what readers see.
fn visible(bucket: &Bucket) -> Vec<String> {
    let paths = bucket.paths();
    let blocks: Vec<&str> = paths.iter().filter_map(|path| path.strip_suffix("manifest.json")).collect();
    paths.iter().filter(|path| blocks.iter().any(|block| path.starts_with(block))).cloned().collect()
}

/// Two collectors that have both accepted profile 2; the first has a block in the bucket already.
struct Pair {
    bucket: Arc<Bucket>,
    machines: [Machine; 2],
    clients: [Arc<Client>; 2],
    collectors: [Collector; 2],
}

impl Pair {
    fn new() -> Self {
        let bucket = Arc::new(Bucket::default());
        let machines = [Machine::new(&bucket), Machine::new(&bucket)];
        let clients = [bucket.client(), bucket.client()];
        let observer = watcher(&bucket);
        clients.iter().for_each(|client| client.observe(observer.clone()));
        let collectors = [0, 1].map(|at| machines[at].try_start(&clients[at]).expect("started"));
        accept(&collectors[0], [0]);
        collectors[0].maintain();
        accept(&collectors[0], [1, 2]);
        accept(&collectors[1], [2, 3]);
        Self { bucket, machines, clients, collectors }
    }

    /// Starts all collectors again, and checks that everything is there once.
    fn check(self, what: &str) {
        let Self { bucket, machines, collectors, .. } = self;
        drop(collectors);
        let again = machines.each_ref().map(Machine::start);
        for _ in 0..2 {
            again.iter().for_each(Collector::maintain);
        }
        assert_eq!(total_in(&bucket), 1111, "{what}: {:?}", bucket.paths());
        let logs = machines.iter().flat_map(|machine| std::fs::read_dir(machine.disk.path().join("log")));
        assert_eq!(logs.flatten().count(), 0, "{what}: every log became blocks");
    }
}

#[test]
fn two_collectors_share_a_bucket() {
    let pair = Pair::new();
    assert_eq!(total_in(&pair.bucket), 1, "what is in a log is read by its own collector only");
    let own = |collector: &Collector| {
        let query = Query::new("checkout", "process_cpu", T0, T0 + HOUR);
        let found = collector.reader().profile(&query, &Budget::new(Limits::SERVICE)).expect("read").0;
        totals(&found.expect("a profile")).0
    };
    assert_eq!((own(&pair.collectors[0]), own(&pair.collectors[1])), (111, 1101));
    pair.collectors[0].maintain();
    pair.collectors[1].maintain();
    assert_eq!((own(&pair.collectors[0]), own(&pair.collectors[1])), (1111, 1111));
    assert_eq!(manifests(&pair.bucket), 1, "one block is left: {:?}", pair.bucket.paths());
    assert!(pair.bucket.paths().iter().all(|path| !path.starts_with("claims/")), "{:?}", pair.bucket.paths());
    pair.check("without any fault");
}

#[test]
fn a_collector_dies_at_every_step() {
    let faults = [Fault::Lost, Fault::Late, Fault::DeadBefore, Fault::DeadAfter];
    for fault in faults {
        let steps = (0..).take_while(|&step| {
            let pair = Pair::new();
            pair.clients[0].plan(step, Some(fault), None);
            pair.collectors[0].maintain();
            let was_reached = !pair.clients[0].is_waiting();
            pair.check(&format!("{fault:?} at step {step}"));
            was_reached
        });
        let steps = steps.count();
        assert!(steps > 20, "{steps} steps with {fault:?}");
    }
}

#[test]
fn another_collector_merges_the_same_hour_at_every_step() {
    for fault in [None, Some(Fault::Late), Some(Fault::DeadBefore), Some(Fault::DeadAfter)] {
        let steps = (0..).take_while(|&step| {
            let Pair { bucket, machines, clients, collectors: [first, second] } = Pair::new();
            let second = Arc::new(second);
            let other = second.clone();
            clients[0].plan(step, fault, Some(Box::new(move || other.maintain())));
            first.maintain();
            let was_reached = !clients[0].is_waiting();
            // The hook may be waiting still.
            clients[0].plan(u64::MAX, None, None);
            let second = Arc::into_inner(second).expect("no one else has it");
            Pair { bucket, machines, clients, collectors: [first, second] }
                .check(&format!("{fault:?} at step {step}"));
            was_reached
        });
        let steps = steps.count();
        assert!(steps > 20, "{steps} steps with {fault:?}");
    }
}

#[test]
fn a_collector_that_was_killed_dies_again_while_it_starts() {
    for fault in [Fault::Late, Fault::DeadBefore, Fault::DeadAfter] {
        let steps = (0..).take_while(|&step| {
            let Pair { bucket, machines, clients, collectors: [first, second] } = Pair::new();
            drop(first);
            let client = bucket.client();
            client.observe(watcher(&bucket));
            client.plan(step, Some(fault), None);
            drop(machines[0].try_start(&client));
            let was_reached = !client.is_waiting();
            let first = machines[0].start();
            Pair { bucket, machines, clients, collectors: [first, second] }
                .check(&format!("{fault:?} at step {step}"));
            was_reached
        });
        assert!(steps.count() > 20);
    }
}

#[test]
fn old_listings_lose_and_double_nothing() {
    for changes in 1..30 {
        let pair = Pair::new();
        pair.clients.iter().for_each(|client| client.list_stale(changes));
        for _ in 0..3 {
            pair.collectors.iter().for_each(Collector::maintain);
        }
        pair.check(&format!("listings are {changes} changes old"));
    }
}

#[test]
fn many_collectors_at_once_with_a_bucket_that_fails_now_and_then() {
    let bucket = Arc::new(Bucket::default());
    let machines: Vec<Machine> = (0..4).map(|_| Machine::new(&bucket)).collect();
    std::thread::scope(|scope| {
        for (at, machine) in machines.iter().enumerate() {
            scope.spawn(move || {
                let client = machine.bucket.client();
                let collector = machine.try_start(&client).expect("started");
                for round in 0..6u64 {
                    // Each profile is sent to two of the collectors.
                    for number in [at as u32, (at as u32 + 1) % 4] {
                        accept(&collector, [number + 4 * (round as u32 % 2)]);
                    }
                    let fault = [Fault::Lost, Fault::Late][round as usize % 2];
                    client.plan(3 + 5 * round + at as u64, Some(fault), None);
                    collector.maintain();
                }
            });
        }
    });
    for machine in &machines {
        machine.start();
    }
    assert_eq!(total_in(&bucket), 11_111_111);
}

#[test]
fn a_reader_finds_everything_when_an_hour_is_merged_at_any_step() {
    let steps = (0..).take_while(|&step| {
        let bucket = Arc::new(Bucket::default());
        let machine = Machine::new(&bucket);
        let collector = machine.start();
        for number in 0..2 {
            accept(&collector, [number]);
            collector.maintain();
        }
        accept(&collector, [2]);
        let client = bucket.client();
        // The log becomes a block, which is merged with the others, and these are removed at once.
        client.plan(step, None, Some(Box::new(move || collector.maintain())));
        let reader = Reader::open_shared(client.clone()).expect("opened");
        let query = Query::new("checkout", "process_cpu", T0, T0 + HOUR);
        let (profile, notes) = reader.profile(&query, &Budget::new(Limits::SERVICE)).expect("read");
        let total = profile.map_or(0, |profile| totals(&profile).0);
        assert!(matches!(total, 11 | 111), "step {step}: {total}, {notes:?}");
        assert_eq!(notes, Vec::<String>::new(), "step {step}");
        !client.is_waiting()
    });
    let steps = steps.count();
    assert!(steps > 5, "{steps} steps");
}

#[test]
fn a_bucket_that_does_not_answer_stops_nobody_from_accepting() {
    let bucket = Arc::new(Bucket::default());
    let machine = Machine::new(&bucket);
    let client = bucket.client();
    let collector = machine.try_start(&client).expect("started");
    client.plan(0, Some(Fault::DeadBefore), None);
    accept(&collector, [0]);
    collector.maintain();
    accept(&collector, [1]);
    collector.maintain();
    drop(collector);
    assert_eq!(total_in(&bucket), 0);
    machine.start();
    assert_eq!(total_in(&bucket), 11, "everything is in the bucket when it answers again");
}

#[test]
fn a_slow_bucket_keeps_neither_senders_nor_readers_waiting() {
    let bucket = Arc::new(Bucket::default());
    let machine = Machine::new(&bucket);
    let client = bucket.client();
    let collector = machine.try_start(&client).expect("started");
    accept(&collector, [0]);
    let (is_reached, reached) = std::sync::mpsc::channel();
    let (release, is_released) = std::sync::mpsc::channel::<()>();
    // The first call that makes a block waits until somebody lets it go on.
    let wait = move || {
        is_reached.send(()).expect("somebody waits");
        let _ = is_released.recv();
    };
    client.plan(0, None, Some(Box::new(wait)));
    std::thread::scope(|scope| {
        scope.spawn(|| collector.maintain());
        reached.recv().expect("the bucket is asked");
        accept(&collector, [1, 2]);
        let query = Query::new("checkout", "process_cpu", T0, T0 + HOUR);
        let budget = Budget::new(Limits::SERVICE);
        let (profile, notes) = collector.reader().profile(&query, &budget).expect("read");
        assert_eq!((profile.map(|profile| totals(&profile).0), notes.len()), (Some(111), 0));
        release.send(()).expect("it waits");
    });
    collector.maintain();
    assert_eq!(total_in(&bucket), 111);
}

#[test]
fn merged_blocks_stay_for_readers_that_have_listed_them() {
    let bucket = Arc::new(Bucket::default());
    let machine = Machine::new(&bucket);
    let mut options = Options::shared(machine.disk.path());
    options.keep = Duration::from_secs(100 * 365 * 86_400);
    assert!(options.grace >= Duration::from_secs(60));
    let collector = Collector::open_shared(bucket.client(), options, Box::new(Silent)).expect("started");
    for number in 0..2 {
        accept(&collector, [number]);
        collector.maintain();
    }
    collector.maintain();
    assert_eq!(manifests(&bucket), 3, "two blocks, and the one that they became: {:?}", bucket.paths());
    assert_eq!(total_in(&bucket), 11);
}

#[test]
fn a_block_stays_if_the_one_that_replaces_it_is_damaged() {
    let bucket = Arc::new(Bucket::default());
    let machine = Machine::new(&bucket);
    let mut options = Options::shared(machine.disk.path());
    options.keep = Duration::from_secs(100 * 365 * 86_400);
    let collector = Collector::open_shared(bucket.client(), options, Box::new(Silent)).expect("started");
    accept(&collector, [0]);
    collector.maintain();
    let single = bucket.paths();
    accept(&collector, [1]);
    collector.maintain();
    drop(collector);
    // The merged block is the one whose manifest lists both profiles.
    let is_merged = |path: &String, bytes: &[u8]| {
        path.ends_with("manifest.json")
            && String::from_utf8_lossy(bytes).matches("\": {\n").count() > 0
            && serde_json::from_slice::<serde_json::Value>(bytes)
                .is_ok_and(|manifest| manifest["profiles"].as_array().is_some_and(|ids| ids.len() == 2))
    };
    bucket.edit(|files| {
        let merged = files.iter().find(|(path, bytes)| is_merged(path, bytes)).expect("merged").0.clone();
        let samples = merged.replace("manifest.json", "samples.parquet");
        files.get_mut(&samples).expect("there").truncate(100);
    });
    let again = machine.start();
    accept(&again, [2]);
    again.maintain();
    again.maintain();
    assert!(single.iter().all(|path| bucket.paths().contains(path)), "{:?}", bucket.paths());
}

#[test]
fn an_hour_that_is_too_old_leaves_nothing_behind() {
    let bucket = Arc::new(Bucket::default());
    let machine = Machine::new(&bucket);
    accept(&machine.start(), [0]);
    machine.start();
    let torn = "blocks/checkout/2026-01-15T10/00-1/samples.parquet";
    for path in [torn, "claims/checkout/2026-01-15T10/3"] {
        bucket.client().create(path, b"of a dead collector").expect("written");
    }
    let mut options = Options::shared(machine.disk.path());
    options.keep = Duration::from_secs(3600);
    // A machine whose clock is ten years ahead of the bucket's.
    let before = bucket.paths();
    bucket.ahead.store(-10 * 365 * 24 * HOUR, Ordering::SeqCst);
    let notes = Noting::default();
    drop(Collector::open_shared(bucket.client(), options.clone(), Box::new(notes.clone())).expect("started"));
    assert_eq!(bucket.paths(), before, "nothing is removed");
    assert!(notes.all()[0].contains("5256000 minutes apart"), "{:?}", notes.all());
    bucket.ahead.store(0, Ordering::SeqCst);
    drop(Collector::open_shared(bucket.client(), options, Box::new(Silent)).expect("started"));
    assert_eq!(bucket.paths(), ["flamelet-collect.json"]);
}

#[test]
fn a_bucket_with_something_else_is_refused() {
    let bucket = Arc::new(Bucket::default());
    assert!(
        Reader::open_shared(bucket.client()).is_err_and(|error| error.to_string().contains("is missing"))
    );
    bucket.client().create("flamelet-collect.json", b"{}").expect("written");
    let machine = Machine::new(&bucket);
    let error = machine.try_start(&bucket.client()).map(drop).expect_err("refused");
    assert!(error.to_string().contains("another version"), "{error}");
}
