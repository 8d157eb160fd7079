//! Where tasks await, and for how long.

use std::sync::Arc;
use std::time::Instant;

use tokio::io::AsyncReadExt;
use tokio::sync::{Mutex, Notify, Semaphore, mpsc};

use super::*;
use crate::pprof::{lacks_pprof, run_pprof};

/// Checks the awaits of an async function: their time is between what it must be at least and what the task itself
/// has measured.
#[track_caller]
fn check(function: &str, measured: Duration) {
    let profiler = profiler();
    let (count, delay) = find(&profiler.awaits(), function);
    assert!(count >= i64::from(ROUNDS), "{function}: {count} awaits");
    let least = WAIT * ROUNDS;
    assert!(delay >= least && delay <= measured, "{function}: {delay:?} is not in {least:?}..{measured:?}");
}

async fn sleeps() {
    for _ in 0..ROUNDS {
        tokio::time::sleep(WAIT).await;
    }
}

async fn waits_for_mutex(lock: Arc<Mutex<u32>>) {
    *lock.lock().await += 1;
}

async fn waits_for_permit(semaphore: Arc<Semaphore>) {
    for _ in 0..ROUNDS {
        semaphore.acquire().await.expect("open").forget();
    }
}

async fn waits_for_message(mut receiver: mpsc::Receiver<u32>) {
    for _ in 0..ROUNDS {
        receiver.recv().await.expect("sent");
    }
}

async fn waits_for_notice(notify: Arc<Notify>) {
    for _ in 0..ROUNDS {
        notify.notified().await;
    }
}

async fn waits_for_bytes(mut stream: tokio::net::TcpStream) {
    for _ in 0..ROUNDS {
        stream.read_exact(&mut [0]).await.expect("sent");
    }
}

/// Runs `future` as a task and returns how long it took.
async fn measured(name: &str, future: impl Future<Output = ()> + Send + 'static) -> Duration {
    let start = Instant::now();
    flamelet::spawn_named(name, future).await.expect("no panic");
    start.elapsed()
}

/// Returns whether the task of this name has awaited for long enough.
fn awaits(name: &str) -> bool {
    let mut tasks = flamelet::tasks::all().into_iter().filter(|task| task.name == name);
    tasks.any(|task| {
        task.phase == flamelet::tasks::Phase::Awaiting && Duration::from_nanos(task.phase_nanos) >= WAIT
    })
}

/// Waits until the task of this name has, or has not, awaited for long enough. Not by a timer: the task must really
/// await, however slow the machine is.
async fn until(name: &str, wanted: bool) {
    let start = Instant::now();
    while awaits(name) != wanted {
        assert!(start.elapsed() < DEADLINE, "{name}: awaits must become {wanted}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Calls `release` in each round, when the task of this name has awaited for long enough.
async fn release(name: &str, mut release: impl AsyncFnMut()) {
    for _ in 0..ROUNDS {
        until(name, true).await;
        release().await;
        // Until it is polled again, its time still grows.
        until(name, false).await;
    }
}

#[test]
fn a_timer() {
    let measured = runtime().block_on(measured("timer", sleeps()));
    // A timer runs from some moment of the poll that makes it, so there is no time that it awaits at least.
    let (count, delay) = find(&profiler().awaits(), "awaits::sleeps");
    assert!(
        count == i64::from(ROUNDS) && !delay.is_zero() && delay <= measured,
        "{count}, {delay:?} of {measured:?}"
    );
}

/// Awaits in a task of its own, inside of the task that polls it.
async fn nests() {
    flamelet::task("inside", inside()).await;
}

async fn inside() {
    for _ in 0..ROUNDS {
        tokio::time::sleep(WAIT).await;
    }
}

#[test]
fn an_await_in_a_task_inside_of_another_counts_once() {
    let measured = runtime().block_on(measured("around", nests()));
    let awaits = profiler().awaits();
    let (count, delay) = find(&awaits, "awaits::inside");
    assert!(
        count == i64::from(ROUNDS) && !delay.is_zero() && delay <= measured,
        "{count}, {delay:?} of {measured:?}"
    );
    assert_eq!(find(&awaits, "awaits::nests"), (0, Duration::ZERO));
}

#[test]
fn a_semaphore() {
    let semaphore = Arc::new(Semaphore::new(0));
    let measured = runtime().block_on(async {
        let work = tokio::spawn(measured("semaphore", waits_for_permit(semaphore.clone())));
        release("semaphore", async || semaphore.add_permits(1)).await;
        work.await.expect("no panic")
    });
    check("awaits::waits_for_permit", measured);
}

#[test]
fn a_mutex() {
    let lock = Arc::new(Mutex::new(0));
    let measured = runtime().block_on(async {
        let mut sum = Duration::ZERO;
        for _ in 0..ROUNDS {
            let held = lock.lock().await;
            let work = tokio::spawn(measured("mutex", waits_for_mutex(lock.clone())));
            until("mutex", true).await;
            drop(held);
            sum += work.await.expect("no panic");
        }
        sum
    });
    check("awaits::waits_for_mutex", measured);
}

#[test]
fn a_channel_and_a_notice() {
    let (sender, receiver) = mpsc::channel(1);
    let notify = Arc::new(Notify::new());
    let runtime = runtime();
    let measured_channel = runtime.block_on(async {
        let work = tokio::spawn(measured("channel", waits_for_message(receiver)));
        release("channel", async || sender.send(1).await.expect("received")).await;
        work.await.expect("no panic")
    });
    check("awaits::waits_for_message", measured_channel);
    let measured_notice = runtime.block_on(async {
        let work = tokio::spawn(measured("notice", waits_for_notice(notify.clone())));
        release("notice", async || notify.notify_one()).await;
        work.await.expect("no panic")
    });
    check("awaits::waits_for_notice", measured_notice);
}

#[test]
fn a_socket() {
    use tokio::io::AsyncWriteExt;

    let measured = runtime().block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let (client, accepted) = tokio::join!(tokio::net::TcpStream::connect(address), listener.accept());
        let mut server = accepted.expect("accepted").0;
        let work = tokio::spawn(measured("socket", waits_for_bytes(client.expect("connected"))));
        release("socket", async || server.write_all(&[1]).await.expect("written")).await;
        work.await.expect("no panic")
    });
    check("awaits::waits_for_bytes", measured);
}

async fn is_stuck() {
    outer_of_stuck(std::future::pending()).await;
}

async fn outer_of_stuck(never: std::future::Pending<()>) {
    let notify = Notify::new();
    tokio::select! {
        () = never => {}
        () = notify.notified() => {}
    }
}

#[inline(never)]
fn blocks_a_thread(end: &std::sync::mpsc::Receiver<()>) {
    let _ = std::hint::black_box(end.recv());
}

/// How a thread with a label is shown, on one line whatever the label is.
const WORKS_ON: &str = r#" s of CPU time, job="a \"nightly\"\none""#;

#[test]
fn threads_are_listed_beside_tasks_and_idle_workers_are_marked() {
    let (profiler, runtime) = (profiler(), runtime());
    runtime.spawn(flamelet::task("beside threads", std::future::pending::<()>()));
    let (over, end) = std::sync::mpsc::channel();
    let blocked = std::thread::Builder::new().name("blocked-thread".into());
    let labelled = move || {
        let _scope = flamelet::labels!(job = "a \"nightly\"\none");
        blocks_a_thread(&end);
    };
    let blocked = blocked.spawn(labelled).expect("a thread");
    let server = profiler.serve("127.0.0.1:0").expect("serves");
    let start = Instant::now();
    // Until both have come to where they wait, and have answered.
    loop {
        let text = String::from_utf8(get(&server, "goroutine?debug=2")).expect("text");
        assert!(start.elapsed() < DEADLINE, "they are not listed: {text}");
        let of_thread = |name: &str| {
            let at = text.find(&format!("# {name}: "))?;
            let head = text[..at].trim_end().rsplit('\n').next()?;
            Some((head.to_owned(), text[at..].split("\n\n").next()?.to_owned()))
        };
        let is_blocked = of_thread("blocked-thread").is_some_and(|(head, stack)| {
            let works_on = stack.lines().next().is_some_and(|line| line.ends_with(WORKS_ON));
            head.starts_with("thread ")
                && head.contains(" [waiting")
                && works_on
                && stack.contains("blocks_a_thread")
        });
        if is_blocked && text.contains(" [idle") {
            break;
        }
    }
    let json = String::from_utf8(get(&server, "tasks")).expect("text");
    assert!(json.contains(r#""labels": {"job": "a \"nightly\"\u000aone"}, "stack": ["#), "{json}");
    let answer = get(&server, "goroutine");
    let body = answer.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |at| at + 4);
    let profile =
        flamelet_capture::profile::pprof::read(&answer[body..], &Default::default()).expect("a profile");
    let has = |key: &str, text: &str| {
        profile.samples().any(|sample| {
            let labels = profile.labels(sample.labels);
            labels.iter().any(|label| (profile.string(label.key), profile.string(label.text)) == (key, text))
        })
    };
    assert!(has("thread", "blocked-thread") && has("task", "beside threads"));
    drop(over);
    blocked.join().expect("ended");
}

#[test]
fn tasks_are_listed_with_their_await_stacks() {
    let (profiler, runtime) = (profiler(), runtime());
    for _ in 0..3 {
        runtime.spawn(flamelet::task("stuck", is_stuck()));
    }
    let start = Instant::now();
    while find(&profiler.live_tasks(), "awaits::outer_of_stuck").0 < 3 {
        assert!(start.elapsed() < DEADLINE, "they are not listed");
    }
    let profile = profiler.live_tasks();
    assert_eq!(find(&profile, "awaits::is_stuck").0, 3, "with every async function around");
    let in_executor = profile.samples().filter(|sample| {
        let has = |part: &str| {
            let mut lines = profile.stack(sample.stack).iter().flat_map(|&location| profile.lines(location));
            let is_it = |name: &str| name.contains(part);
            lines.any(|line| line.function.is_some_and(|id| is_it(profile.string(profile.function(id).name))))
        };
        has("awaits::is_stuck") && has("tokio::runtime::task::harness")
    });
    assert_eq!(in_executor.count(), 0, "and without the executor's");
    let server = profiler.serve("127.0.0.1:0").expect("serves");
    let url = |path: &str| format!("http://{}/debug/pprof/{path}", server.address());
    let text = String::from_utf8(get(&server, "goroutine?debug=2")).expect("text");
    for word in ["[awaiting, ", "# stuck: ", "outer_of_stuck", "created by ", "awaits.rs:"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let first_thread = text.find("\nthread ").expect("threads follow");
    assert!(
        text[first_thread..].contains(" of CPU time\n") && !text[first_thread..].contains("\ngoroutine "),
        "{text}"
    );
    let json = String::from_utf8(get(&server, "tasks")).expect("text");
    for word in [
        "application/json",
        "{\"tasks\": [",
        "\"name\": \"stuck\", \"state\": \"awaiting\", \"state_ns\": ",
        "\"labels\": {\"task\": \"stuck\"}",
        "outer_of_stuck",
        "], \"threads\": [",
        "\"syscall\": ",
        "\"untracked\": 0}",
    ] {
        assert!(json.contains(word), "{word}: {json}");
    }
    let id = json.split("{\"id\": ").find(|task| task.contains("\"name\": \"stuck\""));
    let id = id.and_then(|task| task.split(',').next()).expect("a number");
    let one = String::from_utf8(get(&server, &format!("tasks?id={id}"))).expect("text");
    assert!(one.contains("\"name\": \"stuck\"") && one.matches("\"id\": ").count() == 1, "{one}");
    for (wrong, said) in
        [("999999999", "404 Not Found"), ("0", "400 Bad Request"), ("-1", "400"), ("x", "400")]
    {
        let refused = String::from_utf8(get(&server, &format!("tasks?id={wrong}"))).expect("text");
        assert!(refused.contains(said), "{wrong}: {refused}");
    }
    if !lacks_pprof() {
        let top = run_pprof(&["-top", "-nodecount=1000", "-nodefraction=0"], &url("goroutine"));
        assert!(top.contains("Type: goroutine") && top.contains("outer_of_stuck"), "{top}");
        let top = run_pprof(&["-top", "-nodecount=1000", "-nodefraction=0"], &url("await"));
        assert!(top.contains("Type: delay"), "{top}");
        run_pprof(&["-raw"], &url("goroutine?debug=1"));
        run_pprof(&["-raw"], &url("await?debug=1"));
    }
    drop(runtime);
    let start = Instant::now();
    while flamelet::tasks::all().iter().any(|task| task.name == "stuck") {
        assert!(start.elapsed() < DEADLINE, "tasks of a runtime that is gone are still listed");
    }
}

fn get(server: &flamelet::Server, path: &str) -> Vec<u8> {
    use std::io::{Read, Write};

    let mut stream = std::net::TcpStream::connect(server.address()).expect("a connection");
    write!(stream, "GET /debug/pprof/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    bytes
}
