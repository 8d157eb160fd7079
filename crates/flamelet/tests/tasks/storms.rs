//! Tasks under stress: no lost wake-up, no crash, nothing left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Semaphore, mpsc};

use super::*;

const TASKS: u64 = 200;

/// Every message arrives, through a ring of tasks that only run when they are woken: a lost wake-up would stop it.
#[test]
fn a_ring_of_tasks_never_stops() {
    const LAPS: u64 = 200;
    for runtime in
        [runtime(), tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")]
    {
        let passed = Arc::new(AtomicU64::new(0));
        let ring = async {
            let (first, mut next) = mpsc::channel::<u64>(1);
            let mut set = flamelet::JoinSet::new();
            for _ in 0..TASKS {
                let (sender, receiver) = mpsc::channel(1);
                let mut incoming = std::mem::replace(&mut next, receiver);
                let passed = passed.clone();
                set.spawn(async move {
                    while let Some(lap) = incoming.recv().await {
                        passed.fetch_add(1, Ordering::Relaxed);
                        if lap % 7 == 0 {
                            tokio::task::yield_now().await;
                        }
                        if sender.send(lap).await.is_err() {
                            return;
                        }
                    }
                });
            }
            let feed = flamelet::spawn(async move {
                for lap in 0..LAPS {
                    first.send(lap).await.expect("the ring lives");
                }
            });
            for lap in 0..LAPS {
                assert_eq!(next.recv().await, Some(lap));
            }
            feed.await.expect("no panic");
            while set.join_next().await.is_some() {}
        };
        let ring = async { tokio::time::timeout(DEADLINE, ring).await.expect("it did not stop") };
        runtime.block_on(ring);
        assert_eq!(passed.load(Ordering::Relaxed), TASKS * LAPS);
    }
}

/// Tasks that are aborted, that panic, that are polled by `select!` and moved between executors.
#[test]
fn aborts_panics_and_moves() {
    let runtime = runtime();
    runtime.block_on(async {
        let semaphore = Arc::new(Semaphore::new(4));
        let mut work = Vec::new();
        for number in 0..2000u32 {
            let semaphore = semaphore.clone();
            let task = flamelet::spawn_named("mixed", async move {
                let _permit = semaphore.acquire().await.expect("open");
                if number % 10 == 3 {
                    std::panic::resume_unwind(Box::new("as the test wants"));
                }
                tokio::task::yield_now().await;
                number
            });
            if number % 10 == 7 {
                task.abort();
            }
            work.push(task);
        }
        let (mut done, mut failed) = (0, 0);
        for task in work {
            match task.await {
                Ok(_) => done += 1,
                Err(_) => failed += 1,
            }
        }
        assert!(done >= 1600 && failed >= 200 && done + failed == 2000, "{done} done, {failed} failed");
        // Polled by one task, then finished by another.
        let mut moved = Box::pin(flamelet::task("moved", async {
            tokio::time::sleep(WAIT).await;
            42
        }));
        tokio::select! {
            biased;
            _ = &mut moved => panic!("it sleeps"),
            () = tokio::task::yield_now() => {}
        }
        assert_eq!(tokio::spawn(moved).await.expect("no panic"), 42);
    });
    drop(runtime);
    assert!(!flamelet::tasks::all().iter().any(|task| ["mixed", "moved"].contains(&task.name.as_str())));
}

#[test]
fn labels_follow_tasks_and_blocking_work() {
    use flamelet::labels::LabelSet;

    let text =
        |labels: LabelSet| labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
    let (task, blocking) = runtime().block_on(flamelet::task("outer", async {
        let blocking = flamelet::spawn_blocking(LabelSet::current).await.expect("no panic");
        let inner = flamelet::spawn_named("inner", async {
            tokio::task::yield_now().await;
            LabelSet::current()
        });
        (inner.await.expect("no panic"), blocking)
    }));
    assert_eq!(text(blocking), ["task=outer"]);
    assert_eq!(text(task), ["task=inner"]);
}

/// Rayon and threads of one's own: the closure carries what the thread that makes it works on.
#[test]
fn labels_go_along_with_work_on_other_threads() {
    use flamelet::labels::LabelSet;

    let _scope = flamelet::labels! { route = "/pool" };
    let (send, work) = std::sync::mpsc::channel::<Box<dyn FnOnce() -> LabelSet + Send>>();
    let pool = std::thread::spawn(move || {
        let carried: Vec<LabelSet> = work.iter().map(|work| work()).collect();
        (carried, LabelSet::current())
    });
    let carried = LabelSet::current().carried_by(LabelSet::current);
    send.send(Box::new(carried)).expect("received");
    send.send(Box::new(LabelSet::current)).expect("received");
    drop(send);
    let (carried, after) = pool.join().expect("no panic");
    assert_eq!(carried, [LabelSet::new([("route", "/pool")]), LabelSet::EMPTY], "and only that work");
    assert!(after.is_empty());
}

/// Everything that tokio's `JoinSet` has, with tasks that are named after the line that spawns them.
#[test]
fn a_join_set_takes_the_place_of_tokios() {
    struct NotDebug;

    assert!(format!("{:?}", flamelet::JoinSet::<NotDebug>::default()).contains("JoinSet"));
    let names = || flamelet::tasks::all().into_iter().map(|task| task.name).collect::<Vec<_>>();
    let (runtime, local) = (runtime(), tokio::task::LocalSet::new());
    let handle = runtime.handle().clone();
    runtime.block_on(local.run_until(async {
        let mut set = flamelet::JoinSet::new();
        let line = line!() + 1;
        set.spawn_local(async { *std::rc::Rc::new(1u32) });
        assert!(names().iter().any(|name| name.ends_with(&format!("storms.rs:{line}"))), "{:?}", names());
        set.spawn_local_on(async { 2 }, &local);
        set.spawn_on(async { 3 }, &handle);
        set.spawn_blocking_on(|| 4, &handle);
        set.extend([5, 6].map(|number| async move { number }));
        assert_eq!(set.len(), 6);
        let mut all = set.join_all().await;
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3, 4, 5, 6]);

        let mut set: flamelet::JoinSet<u32> = (0..3).map(|number| async move { number }).collect();
        let (first, _) = set.join_next_with_id().await.expect("three").expect("no panic");
        let second = std::future::poll_fn(|context| set.poll_join_next_with_id(context)).await;
        assert_ne!(second.expect("two").expect("no panic").0, first);
        assert!(std::future::poll_fn(|context| set.poll_join_next(context)).await.is_some());
        assert!(set.try_join_next_with_id().is_none() && set.is_empty());
        assert_eq!(flamelet::spawn_local(async { 7 }).await.expect("no panic"), 7);
    }));
}
