//! Waits in the history on disk.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use flamelet::{ErrorKind, History, Profiler};

use crate::contention::{DEADLINE, Found, ROUNDS, alone, contend, find};

#[inline(never)]
fn past_releases(lock: &Mutex<u32>, meanwhile: &dyn Fn()) {
    let mut held = lock.lock().expect("no panic");
    *held += 1;
    meanwhile();
    drop(held);
    std::hint::black_box(());
}

#[inline(never)]
fn past_waits(lock: &Mutex<u32>) {
    *lock.lock().expect("no panic") += 1;
    std::hint::black_box(());
}

#[test]
fn waits_are_in_the_windows_of_the_history() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let start = SystemTime::now() - Duration::from_secs(1);
    let history = History::new(folder.path()).window(Duration::from_millis(100));
    let builder = Profiler::builder().lock_rate(Duration::from_nanos(1)).history(history);
    let profiler = builder.start().expect("started");
    let lock = Mutex::new(0);
    let truth = contend(|meanwhile| past_releases(&lock, meanwhile), || past_waits(&lock));
    let past = |kind: &str, function: &str| match profiler.range_of(kind, start, SystemTime::now()) {
        Ok(profile) => find(&profile, function),
        Err(error) if error.kind() == ErrorKind::NotFound => Found::default(),
        Err(error) => panic!("{error}"),
    };
    let patience = Instant::now();
    let is_missing = |kind, function| past(kind, function).count < i64::from(ROUNDS);
    while is_missing("block", "past_waits") || is_missing("mutex", "past_releases") {
        assert!(patience.elapsed() < DEADLINE, "some waits are missing");
        std::thread::sleep(Duration::from_millis(10));
    }
    let block = past("block", "past_waits");
    assert_eq!(block.count, i64::from(ROUNDS), "{block:?}");
    assert!(block.delay >= truth.at_least && block.delay <= truth.waited, "{block:?}, {truth:?}");
    assert_eq!(block.kinds, ["mutex"]);
    let mutex = past("mutex", "past_releases");
    assert_eq!((mutex.count, mutex.delay), (block.count, block.delay), "the other side");
}
