//! Each kind of lock: counts and delays are what the program itself has measured, with the right stacks on both sides.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, OnceLock, RwLock};
use std::thread::{JoinHandle, Thread};

use crate::contention::{ROUNDS, alone, contend, find, profiler};
use crate::pprof::{lacks_pprof, run_pprof};
use crate::sides::{check, contention, sides};

sides!(
    std_mutex,
    |lock: &Mutex<u32>, meanwhile| {
        let mut held = lock.lock().expect("no panic");
        *held += 1;
        meanwhile();
        drop(held);
    },
    |lock| *lock.lock().expect("no panic") += 1
);

sides!(
    std_read,
    |lock: &RwLock<u32>, meanwhile| {
        let held = lock.write().expect("no panic");
        meanwhile();
        drop(held);
    },
    |lock| drop(lock.read().expect("no panic"))
);

sides!(
    std_write,
    |lock: &RwLock<u32>, meanwhile| {
        let held = lock.read().expect("no panic");
        meanwhile();
        drop(held);
    },
    |lock| drop(lock.write().expect("no panic"))
);

sides!(
    parking_mutex,
    |lock: &parking_lot::Mutex<u32>, meanwhile| {
        let held = lock.lock();
        meanwhile();
        drop(held);
    },
    |lock| *lock.lock() += 1
);

sides!(
    parking_read,
    |lock: &parking_lot::RwLock<u32>, meanwhile| {
        let held = lock.write();
        meanwhile();
        drop(held);
    },
    |lock| drop(lock.read())
);

sides!(
    parking_write,
    |lock: &parking_lot::RwLock<u32>, meanwhile| {
        let held = lock.read();
        meanwhile();
        drop(held);
    },
    |lock| drop(lock.write())
);

type Signal = (Mutex<bool>, Condvar);

sides!(
    condition,
    |signal: &Signal, meanwhile| {
        meanwhile();
        *signal.0.lock().expect("no panic") = true;
        signal.1.notify_one();
    },
    |signal| {
        let mut is_set = signal.0.lock().expect("no panic");
        while !*is_set {
            is_set = signal.1.wait(is_set).expect("no panic");
        }
        *is_set = false;
    }
);

type Channel = (mpsc::Sender<u32>, Mutex<mpsc::Receiver<u32>>);

sides!(
    channel,
    |channel: &Channel, meanwhile| {
        meanwhile();
        channel.0.send(1).expect("it is received");
    },
    |channel| {
        let receiver = channel.1.lock().expect("no panic");
        receiver.recv().expect("it is sent");
    }
);

type ParkingSignal = (parking_lot::Mutex<bool>, parking_lot::Condvar);

sides!(
    parking_condition,
    |signal: &ParkingSignal, meanwhile| {
        meanwhile();
        *signal.0.lock() = true;
        signal.1.notify_one();
    },
    |signal| {
        let mut is_set = signal.0.lock();
        while !*is_set {
            signal.1.wait(&mut is_set);
        }
        *is_set = false;
    }
);

/// A new cell in each round.
type Cell = Mutex<Arc<OnceLock<u32>>>;

sides!(
    once,
    |cell: &Cell, meanwhile| {
        let new = Arc::new(OnceLock::new());
        *cell.lock().expect("no panic") = new.clone();
        new.get_or_init(|| {
            meanwhile();
            1
        });
    },
    |cell| {
        let cell = cell.lock().expect("no panic").clone();
        assert_eq!(*cell.get_or_init(|| 2), 1);
    }
);

/// The thread that parks, and whether it may go on.
type Parked = (Mutex<Option<Thread>>, AtomicBool);

sides!(
    park,
    |parked: &Parked, meanwhile| {
        meanwhile();
        parked.1.store(true, Ordering::SeqCst);
        parked.0.lock().expect("no panic").take().expect("it waits").unpark();
    },
    |parked| {
        *parked.0.lock().expect("no panic") = Some(std::thread::current());
        while !parked.1.load(Ordering::SeqCst) {
            std::thread::park();
        }
        parked.1.store(false, Ordering::SeqCst);
    }
);

/// A thread that is waited for.
type Ending = Mutex<Option<JoinHandle<()>>>;

sides!(
    ending,
    |ending: &Ending, meanwhile| {
        let is_over = Arc::new(AtomicBool::new(false));
        let is_over_there = is_over.clone();
        let thread = std::thread::spawn(move || {
            // Without waiting itself.
            while !is_over_there.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        });
        *ending.lock().expect("no panic") = Some(thread);
        meanwhile();
        is_over.store(true, Ordering::SeqCst);
    },
    |ending| {
        let thread = ending.lock().expect("no panic").take().expect("it runs");
        thread.join().expect("no panic");
    }
);

#[test]
fn a_thread_that_is_joined_and_one_that_parks() {
    let thread = Ending::default();
    let joins = || contention!(ending, &thread);
    if cfg!(target_feature = "crt-static") {
        // The C library's own function is called there: it works, and is not seen.
        let _alone = alone();
        let profiler = profiler();
        joins();
        assert_eq!(find(&profiler.block().expect("installed"), "ending::waits").count, 0);
    } else {
        check("ending", "join", false, joins);
    }
    let parked = Parked::default();
    check("park", "park", false, || contention!(park, &parked));
}

#[test]
fn a_cell_that_is_set_once() {
    let cell = Cell::default();
    check("once", "once", true, || contention!(once, &cell));
}

#[test]
fn a_mutex_of_std() {
    let lock = Mutex::new(0);
    check("std_mutex", "mutex", true, || contention!(std_mutex, &lock));
}

#[test]
fn a_lock_of_std_for_readers_and_writers() {
    let lock = RwLock::new(0);
    check("std_read", "rwlock", true, || contention!(std_read, &lock));
    check("std_write", "rwlock", true, || contention!(std_write, &lock));
}

#[test]
fn locks_of_parking_lot() {
    let lock = parking_lot::Mutex::new(0);
    check("parking_mutex", "mutex", true, || contention!(parking_mutex, &lock));
    let lock = parking_lot::RwLock::new(0);
    check("parking_read", "rwlock", true, || contention!(parking_read, &lock));
    check("parking_write", "rwlock", true, || contention!(parking_write, &lock));
}

#[test]
fn a_condition_variable_and_a_channel() {
    let signal = Signal::default();
    check("condition", "condvar", false, || contention!(condition, &signal));
    let signal = ParkingSignal::default();
    check("parking_condition", "condvar", false, || contention!(parking_condition, &signal));
    let (sender, receiver) = mpsc::channel();
    let both = (sender, Mutex::new(receiver));
    check("channel", "channel", false, || contention!(channel, &both));
}

mod labelled {
    #[inline(never)]
    pub(super) fn waits(lock: &std::sync::Mutex<u32>) {
        let _scope = flamelet::labels! { route = "/checkout" };
        *lock.lock().expect("no panic") += 1;
        std::hint::black_box(());
    }
}

#[test]
fn a_wait_carries_the_labels_and_the_thread_of_the_waiter() {
    let _alone = alone();
    let profiler = profiler();
    let lock = Mutex::new(0);
    contend(|meanwhile| std_mutex::releases(&lock, meanwhile), || labelled::waits(&lock));
    let profile = profiler.block().expect("installed");
    let labels: Vec<(&str, &str)> = profile
        .samples()
        .flat_map(|sample| profile.labels(sample.labels))
        .map(|label| (profile.string(label.key), profile.string(label.text)))
        .collect();
    assert!(labels.contains(&("route", "/checkout")), "{labels:?}");
    assert!(labels.iter().any(|(key, _)| *key == "thread"), "{labels:?}");
}

/// Of short waits some are sampled, and stand for the others.
#[test]
fn at_a_coarse_rate_long_waits_are_still_exact() {
    static LOCK: OnceLock<Mutex<u32>> = OnceLock::new();
    let _alone = alone();
    let profiler = profiler();
    flamelet::locks::set_rate(crate::contention::HELD / 2).expect("installed");
    let before = find(&profiler.block().expect("installed"), "std_mutex::waits");
    let lock = LOCK.get_or_init(Mutex::default);
    let truth = contention!(std_mutex, lock);
    let after = find(&profiler.block().expect("installed"), "std_mutex::waits");
    assert_eq!(after.count - before.count, i64::from(ROUNDS), "each is longer than the rate");
    let delay = after.delay - before.delay;
    assert!(delay >= truth.at_least && delay <= truth.waited, "{delay:?}, {truth:?}");
}

#[test]
fn rates_that_make_no_sense_are_refused_and_zero_stops() {
    use std::time::Duration;

    let _alone = alone();
    let profiler = profiler();
    assert!(flamelet::locks::set_rate(Duration::MAX).is_err());
    assert_eq!(flamelet::locks::rate(), Duration::from_nanos(1), "it stays as it was");
    flamelet::locks::set_rate(Duration::ZERO).expect("off");
    let before = find(&profiler.block().expect("installed"), "std_mutex::waits");
    let lock = Mutex::new(0);
    contention!(std_mutex, &lock);
    let (block, mutex) = (profiler.block().expect("installed"), profiler.mutex().expect("installed"));
    assert_eq!(find(&block, "std_mutex::waits"), before);
    let says_so = |profile: &flamelet::Profile| profile.comments().any(|text| text.contains("rate is 0"));
    assert!(says_so(&block) && says_so(&mutex));
}

#[test]
fn go_reads_both_profiles_and_seconds_give_the_difference() {
    if lacks_pprof() {
        return;
    }
    let _alone = alone();
    let profiler = profiler();
    let server = profiler.serve("127.0.0.1:0").expect("serves");
    let lock = Mutex::new(0);
    contention!(std_mutex, &lock);
    let url = |path: &str| format!("http://{}/debug/pprof/{path}", server.address());
    for (path, function) in [("block", "std_mutex::waits"), ("mutex", "std_mutex::releases")] {
        let top = run_pprof(&["-top", "-nodecount=1000", "-nodefraction=0"], &url(path));
        assert!(top.contains("Type: delay") && top.contains(function), "{path}: {top}");
    }
    let text = run_pprof(&["-raw"], &url("block?debug=1"));
    assert!(text.contains("std_mutex::waits"), "{text}");
    // Nothing of this test's locks is waited for during that second.
    let delta = run_pprof(&["-top", "-nodecount=1000", "-nodefraction=0"], &url("block?seconds=1"));
    assert!(!delta.contains("std_mutex::waits"), "{delta}");
}
