//! Who holds up the executor, and where all threads are.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::*;
use crate::pprof::{lacks_pprof, run_pprof};

/// Long enough to be noticed, on a machine that is not busy; else the test tries again.
const LONG: Duration = Duration::from_millis(60);

#[inline(never)]
fn holds_up_by_sleep() {
    std::thread::sleep(LONG);
    std::hint::black_box(());
}

#[inline(never)]
fn holds_up_by_work() {
    let start = Instant::now();
    while start.elapsed() < LONG {
        std::hint::black_box((0..1000u64).fold(0, |sum, number| std::hint::black_box(sum ^ number)));
    }
}

static LOCK: Mutex<u32> = Mutex::new(0);

#[inline(never)]
fn holds_up_by_lock() {
    *LOCK.lock().expect("no panic") += 1;
    std::hint::black_box(());
}

/// Whether a long poll of the task with this name, with a function of this name in its stack, has this cause. (Other tests of
/// this process hold up their tasks by the same functions.)
fn is_found(profile: &Profile, name: &str, cause: &str) -> bool {
    profile.samples().any(|sample| {
        let has_label = |key: &str, text: &str| {
            let mut labels = profile.labels(sample.labels).iter();
            labels.any(|label| profile.string(label.key) == key && profile.string(label.text) == text)
        };
        let mut lines = profile.stack(sample.stack).iter().flat_map(|&location| profile.lines(location));
        let has = |function: &str| function.contains(&format!("blocked::{name}"));
        has_label("task", name)
            && has_label("cause", cause)
            && lines
                .any(|line| line.function.is_some_and(|id| has(profile.string(profile.function(id).name))))
    })
}

#[test]
fn polls_that_take_long_are_found_with_stack_and_cause() {
    let (profiler, runtime) = (profiler(), runtime());
    let _entered = runtime.enter();
    let start = Instant::now();
    let before = profiler.metrics().blocked_polls;
    let mut polls = 0;
    for (function, cause) in
        [("holds_up_by_sleep", "system call"), ("holds_up_by_work", "cpu"), ("holds_up_by_lock", "lock")]
    {
        // Repeated if the machine was stopped, so that no look came in time, or the work was kept from the CPU.
        while !is_found(&profiler.blocked_polls(), function, cause) {
            assert!(
                start.elapsed() < DEADLINE,
                "{function}: {:?}",
                of_task(&profiler.blocked_polls(), function)
            );
            polls += 1;
            let holder = std::thread::spawn(move || {
                let _held = LOCK.lock().expect("no panic");
                if function == "holds_up_by_lock" {
                    std::thread::sleep(2 * LONG);
                }
            });
            let work = async move {
                match function {
                    "holds_up_by_sleep" => holds_up_by_sleep(),
                    "holds_up_by_work" => holds_up_by_work(),
                    _ => holds_up_by_lock(),
                }
            };
            if function != "holds_up_by_lock" {
                holder.join().expect("no panic");
                runtime.block_on(flamelet::spawn_named(function, work)).expect("no panic");
            } else {
                runtime.block_on(flamelet::spawn_named(function, work)).expect("no panic");
                holder.join().expect("no panic");
            }
        }
    }
    let metrics = profiler.metrics();
    assert!(metrics.blocked_polls > before && polls >= 3, "{metrics:?}");
    assert!(metrics.blocked_time >= LONG, "{metrics:?}");
    if !lacks_pprof() {
        let server = profiler.serve("127.0.0.1:0").expect("serves");
        let url = format!("http://{}/debug/pprof/blocked", server.address());
        let top = run_pprof(&["-top", "-nodecount=1000", "-nodefraction=0"], &url);
        assert!(top.contains("Type: delay") && top.contains("holds_up_by_sleep"), "{top}");
    }
}

/// Count and delay of the long polls of the task with this name, and their causes.
fn of_task(profile: &Profile, task: &str) -> (i64, Duration, Vec<String>) {
    let mut found = (0, Duration::ZERO, Vec::new());
    for sample in profile.samples() {
        let label = |name: &str| {
            let mut labels = profile.labels(sample.labels).iter();
            labels.find(|label| profile.string(label.key) == name).map(|label| profile.string(label.text))
        };
        if label("task") == Some(task) {
            found.0 += sample.values[0];
            found.1 += Duration::from_nanos(sample.values[1] as u64);
            found.2.extend(label("cause").map(str::to_owned));
        }
    }
    found.2.sort();
    found.2.dedup();
    found
}

/// A long poll inside of another one: their times together are no more than there was.
#[test]
fn a_long_poll_inside_of_another_counts_once() {
    let (profiler, runtime) = (profiler(), runtime());
    let mut sum = Duration::ZERO;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let work = async { flamelet::task("long inside", async { holds_up_by_sleep() }).await };
        runtime.block_on(flamelet::task("long around", work));
        sum += start.elapsed();
    }
    let profile = profiler.blocked_polls();
    let (inside, around) = (of_task(&profile, "long inside"), of_task(&profile, "long around"));
    assert!(inside.0 == i64::from(ROUNDS) && inside.1 >= LONG * ROUNDS, "{inside:?}");
    assert!(inside.1 + around.1 <= sum, "{inside:?} and {around:?} in {sum:?}");
}

/// Reads a byte from a file that has none for a while.
#[inline(never)]
fn reads_a_file(file: &mut std::fs::File) {
    use std::io::Read;

    file.read_exact(&mut [0]).expect("a byte");
    std::hint::black_box(());
}

/// Both ends of a file whose reader waits for its writer.
fn fifo() -> (std::fs::File, std::fs::File) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo runs");
    assert!(made.success());
    let writer = std::fs::File::options().read(true).write(true).open(&path).expect("opened");
    (writer, std::fs::File::open(&path).expect("opened"))
}

#[test]
fn a_poll_that_waits_for_a_file_says_so() {
    use std::io::Write;

    let (profiler, runtime) = (profiler(), runtime());
    let (mut writer, mut reader) = fifo();
    let start = Instant::now();
    // Repeated if the machine was stopped, so that no look came in time.
    while !is_found(&profiler.blocked_polls(), "reads_a_file", "file") {
        assert!(start.elapsed() < DEADLINE, "{:?}", of_task(&profiler.blocked_polls(), "reads_a_file"));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(LONG);
                writer.write_all(&[1]).expect("written");
            });
            runtime.block_on(flamelet::task("reads_a_file", async { reads_a_file(&mut reader) }));
        });
    }
}

/// Polls of a known length, in a system call each: every one is counted, with its length.
#[test]
fn long_polls_are_counted_with_their_length() {
    use std::io::Write;

    let (profiler, runtime) = (profiler(), runtime());
    let _entered = runtime.enter();
    let before = profiler.metrics();
    // On a busy machine a thread may wait for a CPU, and may not be seen in time.
    let measured = |name: &'static str, possible: &[&str], poll: &mut (dyn FnMut() + Send)| {
        let mut sum = Duration::ZERO;
        for _ in 0..ROUNDS {
            let start = Instant::now();
            runtime.block_on(flamelet::task(name, async { poll() }));
            sum += start.elapsed();
        }
        let (count, delay, causes) = of_task(&profiler.blocked_polls(), name);
        assert_eq!(count, i64::from(ROUNDS), "{name}");
        assert!(causes.iter().all(|cause| possible.contains(&&**cause)), "{name}: {causes:?}");
        assert!(delay >= LONG * ROUNDS && delay <= sum, "{name}: {delay:?} of {sum:?}");
    };
    measured("sleeps in a poll", &["system call", "cpu"], &mut holds_up_by_sleep);
    // As one that hashes a password.
    measured("works in a poll", &["cpu", "system call"], &mut holds_up_by_work);
    let (mut writer, mut reader) = fifo();
    let mut writers = Vec::new();
    measured("reads in a poll", &["file", "system call", "cpu"], &mut || {
        let mut writer = writer.try_clone().expect("the same file");
        writers.push(std::thread::spawn(move || {
            std::thread::sleep(LONG);
            writer.write_all(&[1]).expect("written");
        }));
        reads_a_file(&mut reader);
    });
    // Not in the poll: who joins a thread may wait long for a busy machine, in a lock.
    for writer in writers {
        writer.join().expect("no panic");
    }
    writer.write_all(&[1]).expect("still open");
    let metrics = profiler.metrics();
    assert_eq!(metrics.blocked_lengths.iter().sum::<u64>(), metrics.blocked_polls, "{metrics:?}");
    let longer = |metrics: &flamelet::Metrics| -> u64 {
        let place = flamelet::Metrics::BLOCKED_BOUNDS.partition_point(|bound| *bound < LONG);
        metrics.blocked_lengths[place..].iter().sum()
    };
    assert!(longer(&metrics) >= longer(&before) + 3 * u64::from(ROUNDS), "{metrics:?}");
}

/// Workers that wait for work are no contention.
#[test]
fn workers_without_work_are_not_among_the_blocked_threads() {
    let (profiler, runtime) = (profiler(), runtime());
    let start = Instant::now();
    let profile = loop {
        // One worker waits for events, and the other, by futex, for the first.
        let tasks =
            (0..4).map(|_| runtime.spawn(async { tokio::time::sleep(Duration::from_millis(1)).await }));
        for task in tasks.collect::<Vec<_>>() {
            runtime.block_on(task).expect("no panic");
        }
        let profile = profiler.block().expect("installed");
        if profile.comments().any(|comment| comment.contains("waits of idle threads set aside")) {
            break profile;
        }
        assert!(start.elapsed() < DEADLINE, "no worker had to wait");
    };
    for kind in ["condvar", "park"] {
        assert!(!has_label(&profile, "multi_thread::worker::Context::park", "kind", kind), "{kind}");
    }
}

#[inline(never)]
fn waits_for_the_end(end: &std::sync::mpsc::Receiver<()>) {
    let _ = end.recv();
    std::hint::black_box(());
}

#[inline(never)]
fn runs_until_the_end(is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        std::hint::black_box((0..1000u64).fold(0, |sum, number| std::hint::black_box(sum ^ number)));
    }
}

#[test]
fn the_wall_clock_sees_threads_that_run_and_threads_that_wait() {
    let (profiler, _idle) = (profiler(), runtime());
    let (end, is_end) = std::sync::mpsc::channel();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || waits_for_the_end(&is_end));
        scope.spawn(|| runs_until_the_end(&is_over));
        let start = Instant::now();
        let profile = loop {
            let profile = profiler.wall(Duration::from_millis(500)).expect("captured");
            let found = ["waits_for_the_end", "runs_until_the_end"]
                .map(|name| find(&profile, &format!("blocked::{name}")));
            // The system call is asked for when a thread has not run between two looks.
            if found.iter().all(|(count, nanos)| *count > 0 && !nanos.is_zero())
                && has_label(&profile, "blocked::waits_for_the_end", "syscall", "futex")
            {
                break profile;
            }
            assert!(start.elapsed() < DEADLINE, "{found:?}");
        };
        // Now, so that a failure below is no hang.
        is_over.store(true, Ordering::Relaxed);
        drop(end);
        assert!(profile.comments().any(|comment| comment.contains("idle threads set aside")));
        let timeline = profile.timeline.as_ref().expect("times are kept");
        let total: i64 = timeline.events.iter().map(|event| event.value).sum();
        assert_eq!(total, profile.total(1), "every moment is on the timeline");
        let waits = |event: &&flamelet_capture::profile::Event| {
            let labels = profile.labels(profile.sample(event.sample as usize).labels).iter();
            labels.into_iter().any(|label| profile.string(label.text) == "waiting")
        };
        assert!(timeline.events.iter().filter(waits).any(|event| event.value > 0));
        if !lacks_pprof() {
            let server = profiler.serve("127.0.0.1:0").expect("serves");
            let url = format!("http://{}/debug/pprof/wall?seconds=1", server.address());
            let top = run_pprof(&["-top", "-nodecount=1000", "-nodefraction=0"], &url);
            assert!(top.contains("Type: wall"), "{top}");
        }
    });
}
