//! What std and widely used crates build from locks, condition variables and parked threads: the waits are counted once,
//! with the kind of the outer thing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, LazyLock, Mutex, Once};

use crossbeam_channel::{Receiver, Sender};
use crossbeam_utils::sync::{Parker, Unparker};

use crate::contention::{alone, contend, find, profiler};
use crate::sides::{check, check_made_of_lock, contention, sides};

type Channel = (Sender<u32>, Receiver<u32>);

sides!(
    crossbeam_receive,
    |channel: &Channel, meanwhile| {
        meanwhile();
        channel.0.send(1).expect("it is received");
    },
    |channel| assert_eq!(channel.1.recv(), Ok(1))
);

sides!(
    crossbeam_send,
    |channel: &Channel, meanwhile| {
        channel.0.send(1).expect("there is room");
        meanwhile();
        assert_eq!(channel.1.recv(), Ok(1));
        assert_eq!(channel.1.recv(), Ok(2));
    },
    |channel| channel.0.send(2).expect("there is room later")
);

type Parked = (Mutex<Parker>, Unparker);

sides!(
    crossbeam_park,
    |parked: &Parked, meanwhile| {
        meanwhile();
        parked.1.unpark();
    },
    |parked| parked.0.lock().expect("no panic").park()
);

/// A new cell in each round.
type Cell = Mutex<Arc<once_cell::sync::OnceCell<u32>>>;

sides!(
    other_once,
    |cell: &Cell, meanwhile| {
        let new = Arc::new(once_cell::sync::OnceCell::new());
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

type Lazy = Mutex<Option<Arc<LazyLock<u32, Box<dyn FnOnce() -> u32 + Send>>>>>;

sides!(
    lazy,
    |cell: &Lazy, meanwhile| {
        let (is_begun, is_over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (is_begun_there, is_over_there) = (is_begun.clone(), is_over.clone());
        let work: Box<dyn FnOnce() -> u32 + Send> = Box::new(move || {
            is_begun_there.store(true, Ordering::SeqCst);
            // Without waiting itself.
            while !is_over_there.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            1
        });
        let new = Arc::new(LazyLock::new(work));
        *cell.lock().expect("no panic") = Some(new.clone());
        std::thread::scope(|scope| {
            let forces = scope.spawn(|| assert_eq!(**new, 1));
            while !is_begun.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            meanwhile();
            is_over.store(true, Ordering::SeqCst);
            // A join would be a wait of this side.
            while !forces.is_finished() {
                std::thread::yield_now();
            }
        });
    },
    |cell| {
        let cell = cell.lock().expect("no panic").clone().expect("made");
        assert_eq!(**cell, 1);
    }
);

/// A new one in each round.
type Calls = Mutex<Option<Arc<Once>>>;

sides!(
    call_once,
    |calls: &Calls, meanwhile| {
        let new = Arc::new(Once::new());
        *calls.lock().expect("no panic") = Some(new.clone());
        new.call_once(meanwhile);
    },
    |calls| {
        let once = calls.lock().expect("no panic").clone().expect("made");
        once.call_once(|| unreachable!("the other thread was first"));
    }
);

sides!(
    barrier,
    |barrier: &Barrier, meanwhile| {
        meanwhile();
        barrier.wait();
    },
    |barrier| {
        barrier.wait();
    }
);

/// A pool, and whether its work is over.
type Pool = (rayon::ThreadPool, AtomicBool);

sides!(
    rayon_install,
    |pool: &Pool, meanwhile| {
        meanwhile();
        pool.1.store(true, Ordering::SeqCst);
    },
    |pool| pool.0.install(|| {
        while !pool.1.swap(false, Ordering::SeqCst) {
            std::thread::yield_now();
        }
    })
);

#[test]
fn channels_and_parked_threads_of_crossbeam() {
    let channel = crossbeam_channel::unbounded();
    check("crossbeam_receive", "channel", false, || contention!(crossbeam_receive, &channel));
    let channel = crossbeam_channel::bounded(1);
    check("crossbeam_send", "channel", false, || contention!(crossbeam_send, &channel));
    let parker = Parker::new();
    let unparker = parker.unparker().clone();
    let parked = (Mutex::new(parker), unparker);
    check("crossbeam_park", "park", false, || contention!(crossbeam_park, &parked));
}

#[test]
fn values_that_are_made_once() {
    let cell = Cell::default();
    check("other_once", "once", true, || contention!(other_once, &cell));
    let calls = Calls::default();
    check("call_once", "once", true, || contention!(call_once, &calls));
    let cell = Lazy::default();
    check("lazy", "once", true, || contention!(lazy, &cell));
}

#[test]
fn a_barrier() {
    let both = Barrier::new(2);
    check_made_of_lock("barrier", "barrier", || contention!(barrier, &both));
}

#[test]
fn work_that_a_pool_of_rayon_does() {
    let threads = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool");
    let pool = (threads, AtomicBool::new(false));
    check_made_of_lock("rayon_install", "join", || contention!(rayon_install, &pool));
}

mod rayon_join {
    use super::{AtomicBool, Ordering};

    /// Waits for its other half, which another worker has taken.
    #[inline(never)]
    pub(super) fn waits(is_over: &AtomicBool) {
        let is_taken = AtomicBool::new(false);
        let until = |flag: &AtomicBool| {
            while !flag.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        };
        let other = || {
            is_taken.store(true, Ordering::SeqCst);
            until(is_over);
        };
        rayon::join(|| until(&is_taken), other);
        std::hint::black_box(());
    }
}

/// A worker that waits in the middle of its work is not idle, though it sleeps where idle ones do; and it looks for other
/// work now and then, so that only its time is known and not how often it sleeps.
#[test]
fn a_worker_of_rayon_that_waits_for_its_other_half() {
    thread_local! {
        /// The thread that waits is a worker itself.
        static POOL: rayon::ThreadPool = {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(2).use_current_thread();
            pool.build().expect("a pool")
        };
    }
    let _alone = alone();
    let profiler = profiler();
    let is_over = AtomicBool::new(false);
    let truth = contend(
        |meanwhile| {
            is_over.store(false, Ordering::SeqCst);
            meanwhile();
            is_over.store(true, Ordering::SeqCst);
        },
        || POOL.with(|pool| pool.install(|| rayon_join::waits(&is_over))),
    );
    let found = find(&profiler.block().expect("installed"), "rayon_join::waits");
    assert!(found.count > 0 && found.delay <= truth.waited, "{found:?}, {truth:?}");
    assert!(found.delay >= truth.at_least / 2, "{found:?}, {truth:?}");
    assert!(found.kinds.iter().all(|kind| ["join", "mutex"].contains(&&**kind)), "{found:?}");
}
