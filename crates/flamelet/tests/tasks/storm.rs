//! Everything at once: locks, tasks, cancellations, panics, forks and runtimes that come and go, while profiles are taken.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use flamelet_test_support::{Random, holds_in_child};

use super::*;

/// For so many seconds, and then it is also checked that nothing has piled up. Run it alone, since the memory and the threads of
/// other tests count too: `FLAMELET_STORM_SECONDS=300 cargo test -p flamelet --test tasks storm::a_storm -- --exact --nocapture`.
const SECONDS: &str = "FLAMELET_STORM_SECONDS";

/// A few seconds, in every run of the tests.
const SHORT: Duration = Duration::from_secs(3);

#[test]
fn a_storm() {
    storm(SHORT);
    let seconds = std::env::var(SECONDS).ok().map(|text| text.parse().expect("a number of seconds"));
    if let Some(seconds) = seconds {
        long_storm(Duration::from_secs(seconds));
    }
}

/// A long storm has so many parts.
const PARTS: u32 = 3;

/// What may be added in the last part of a long storm: tables and caches are full by then, but the allocator's heaps are not always
/// equally fragmented.
const MOST_GROWTH: u64 = 4 << 20;

/// What a process holds: bytes of memory, threads, and tasks that are listed.
#[derive(Clone, Copy, Debug)]
struct Held {
    memory: u64,
    threads: u64,
    tasks: usize,
}

impl Held {
    fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").expect("it runs");
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
            line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
        };
        Self {
            memory: number("VmRSS:") << 10,
            threads: number("Threads:"),
            tasks: flamelet::tasks::all().len(),
        }
    }

    /// Waits until no more threads and tasks are left than there were `before`. Threads that were told to end may need a moment, and
    /// those of flamelet's own that have nothing to do end later.
    fn after_rest(before: Self) -> Self {
        let start = Instant::now();
        loop {
            let now = Self::now();
            let is_calm = now.threads <= before.threads && now.tasks <= before.tasks;
            if is_calm || start.elapsed() >= DEADLINE {
                return now;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Compares what the process holds after each part of a long storm. A leak would go on to the end; tables and caches fill up.
fn long_storm(duration: Duration) {
    let mut held = vec![Held::now()];
    for _ in 0..PARTS {
        storm(duration / PARTS);
        held.push(Held::after_rest(held[0]));
        println!(
            "{:?} of {duration:?}: {:?}",
            duration / PARTS * (held.len() as u32 - 1),
            held[held.len() - 1]
        );
    }
    let [before, .., last_but_one, last] = held[..] else { unreachable!("there are several parts") };
    assert!(
        last.threads <= before.threads && last.tasks <= before.tasks,
        "threads or tasks are left: {held:?}"
    );
    assert!(last.memory <= last_but_one.memory + MOST_GROWTH, "{held:?}");
}

static STD: Mutex<u64> = Mutex::new(0);
static PARKING: parking_lot::Mutex<u64> = parking_lot::Mutex::new(0);

/// What the storm has done.
#[derive(Default)]
struct Done {
    finished: AtomicU64,
    lost: AtomicU64,
    forks: AtomicU64,
    runtimes: AtomicU64,
    profiles: AtomicU64,
}

fn storm(duration: Duration) {
    let (profiler, done, is_over) = (profiler(), Done::default(), AtomicBool::new(false));
    let (done, is_over) = (&done, &is_over);
    std::thread::scope(|scope| {
        scope.spawn(|| many_threads(done, is_over));
        scope.spawn(|| one_thread(done, is_over));
        scope.spawn(|| runtimes(done, is_over));
        scope.spawn(|| contention(is_over));
        scope.spawn(|| contention(is_over));
        scope.spawn(|| forks(done, is_over));
        scope.spawn(|| profiles(&profiler, done, is_over));
        std::thread::sleep(duration);
        is_over.store(true, Ordering::SeqCst);
    });
    let Done { finished, lost, forks, runtimes, profiles } = done;
    let counts = [finished, lost, forks, runtimes, profiles].map(|count| count.load(Ordering::SeqCst));
    println!("finished, lost, forks, runtimes, profiles: {counts:?}");
    assert!([0, 2, 3, 4].iter().all(|&at| counts[at] > 0), "{counts:?}");
    let left: Vec<String> = flamelet::tasks::all().into_iter().map(|task| task.name).collect();
    assert!(!left.iter().any(|name| name.starts_with("storm")), "{left:?}");
}

fn is_over(over: &AtomicBool) -> bool {
    over.load(Ordering::SeqCst)
}

/// A future whose waker goes to another thread, which wakes by some clones and drops others. It ends when it was woken
/// for real.
struct Elsewhere {
    is_ready: Arc<AtomicBool>,
    to: mpsc::Sender<(Waker, Option<Arc<AtomicBool>>)>,
    polls: u32,
}

impl Future for Elsewhere {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.is_ready.load(Ordering::SeqCst) {
            return Poll::Ready(());
        }
        self.polls += 1;
        // One that is dropped there, and one that wakes.
        let waker = context.waker();
        let sent = self.to.send((waker.clone(), None));
        let is_last = self.polls > 2;
        let ready = is_last.then(|| self.is_ready.clone());
        let sent = sent.and_then(|()| self.to.send((waker.clone(), ready)));
        if sent.is_err() || !is_last {
            waker.wake_by_ref();
        }
        if self.polls > 100 { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// The other thread.
fn wake_all(from: &mpsc::Receiver<(Waker, Option<Arc<AtomicBool>>)>) {
    while let Ok((waker, ready)) = from.recv() {
        let Some(ready) = ready else { continue };
        ready.store(true, Ordering::SeqCst);
        waker.wake();
    }
}

type ToWakers = mpsc::Sender<(Waker, Option<Arc<AtomicBool>>)>;

/// One piece of async work.
async fn work(kind: u32, lock: Arc<tokio::sync::Mutex<u64>>, to: ToWakers) {
    match kind % 8 {
        0 => *STD.lock().expect("no panic inside") += 1,
        1 => *lock.lock().await += 1,
        2 => tokio::time::sleep(Duration::from_micros(u64::from(kind % 1500))).await,
        3 => Elsewhere { is_ready: Arc::default(), to, polls: 0 }.await,
        4 => std::panic::resume_unwind(Box::new("as the test wants")),
        5 => {
            let _held = lock.lock().await;
            tokio::task::yield_now().await;
        }
        6 => {
            let inner = flamelet::spawn_blocking(|| *PARKING.lock() += 1);
            inner.await.expect("no panic");
        }
        _ => flamelet::task("storm, nested", std::future::ready(())).await,
    }
}

/// Counts how a task ended.
fn note<T>(done: &Done, outcome: &Result<T, tokio::task::JoinError>) {
    let counter = if outcome.is_ok() { &done.finished } else { &done.lost };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A runtime of many threads: spawns, aborts, panics, `block_in_place`.
fn many_threads(done: &Done, over: &AtomicBool) {
    let (runtime, mut random) = (runtime(), Random::new(1));
    let (to, from) = mpsc::channel();
    let wakers = std::thread::spawn(move || wake_all(&from));
    let lock = Arc::new(tokio::sync::Mutex::new(0));
    loop {
        runtime.block_on(async {
            let mut tasks = Vec::new();
            for _ in 0..64 {
                let kind = random.bits();
                let (lock, to) = (lock.clone(), to.clone());
                let task = flamelet::spawn_named("storm, many threads", async move {
                    if kind % 64 == 9 {
                        tokio::task::block_in_place(|| *PARKING.lock() += 1);
                    }
                    work(kind >> 8, lock, to).await;
                });
                if kind % 16 == 5 {
                    task.abort();
                }
                tasks.push(task);
            }
            for task in tasks {
                let outcome = tokio::time::timeout(DEADLINE, task).await.expect("a wake-up was lost");
                note(done, &outcome);
            }
        });
        if is_over(over) {
            break;
        }
    }
    drop((runtime, to));
    wakers.join().expect("no panic");
}

/// A runtime of one thread, with a `LocalSet`.
fn one_thread(done: &Done, over: &AtomicBool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (to, from) = mpsc::channel();
    let wakers = std::thread::spawn(move || wake_all(&from));
    let mut random = Random::new(2);
    while !is_over(over) {
        let set = tokio::task::LocalSet::new();
        let (lock, to) = (Arc::new(tokio::sync::Mutex::new(0)), to.clone());
        let tasks: Vec<_> = (0..32).map(|_| random.bits()).collect();
        set.block_on(&runtime, async {
            let spawn = |kind: u32| {
                tokio::task::spawn_local(flamelet::task("storm, local", work(kind, lock.clone(), to.clone())))
            };
            let tasks: Vec<_> = tasks.into_iter().map(spawn).collect();
            for task in tasks {
                let outcome = tokio::time::timeout(DEADLINE, task).await.expect("a wake-up was lost");
                note(done, &outcome);
            }
        });
    }
    drop((runtime, to));
    wakers.join().expect("no panic");
}

/// Runtimes that end with tasks that still wait, and one inside of another's blocking work.
fn runtimes(done: &Done, over: &AtomicBool) {
    let mut round = 0u32;
    loop {
        let outer = runtime();
        for _ in 0..20 {
            outer.spawn(flamelet::task("storm, never ends", std::future::pending::<()>()));
            outer.spawn(flamelet::task("storm, sleeps", async { tokio::time::sleep(DEADLINE).await }));
        }
        let nested = outer.spawn_blocking(|| {
            let inner = runtime();
            inner.block_on(flamelet::task("storm, inner", tokio::task::yield_now()));
        });
        outer.block_on(nested).expect("no panic");
        round += 1;
        if round.is_multiple_of(2) {
            drop(outer);
        } else {
            outer.shutdown_timeout(DEADLINE);
        }
        done.runtimes.fetch_add(1, Ordering::Relaxed);
        if is_over(over) {
            break;
        }
    }
}

/// Threads that want the same locks.
fn contention(over: &AtomicBool) {
    while !is_over(over) {
        *STD.lock().expect("no panic inside") += 1;
        *PARKING.lock() += 1;
        std::thread::yield_now();
    }
}

/// Children that use what other threads of the parent were using.
fn forks(done: &Done, over: &AtomicBool) {
    loop {
        let is_fine = holds_in_child(|| {
            let mut task = Box::pin(flamelet::task("storm, child", std::future::ready(7)));
            let is_ready = task.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(7);
            let listed = flamelet::tasks::all();
            is_ready && listed.len() == 1 && listed[0].name == "storm, child"
        });
        assert!(is_fine, "the child hangs, crashes or lists tasks of its parent");
        done.forks.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(5));
        if is_over(over) {
            break;
        }
    }
}

/// All profiles of waiting, and of the CPU.
fn profiles(profiler: &Profiler, done: &Done, over: &AtomicBool) {
    loop {
        let start = Instant::now();
        profiler.block().expect("installed");
        profiler.mutex().expect("installed");
        profiler.awaits();
        profiler.live_tasks_text();
        profiler.blocked_polls();
        profiler.wall(Duration::from_millis(30)).expect("captured");
        profiler.cpu(Duration::from_millis(30)).frequency(499).run().expect("captured");
        assert!(start.elapsed() < DEADLINE, "a profile took too long");
        done.profiles.fetch_add(1, Ordering::Relaxed);
        if is_over(over) {
            break;
        }
    }
}
