//! The second opinion: tokio's own task dumps and flamelet's await stacks of the same tasks.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tokio::sync::{Mutex, Notify, Semaphore, mpsc, oneshot};

use crate::watch;

/// How many tasks of each kind.
const EACH: usize = 20;

/// What tasks wait for; none of it ever comes.
struct Never {
    lock: Mutex<()>,
    pool: Semaphore,
    notify: Notify,
    listener: std::net::SocketAddr,
}

async fn waits_for_lock(never: Arc<Never>) {
    outer(async move { drop(never.lock.lock().await) }).await;
}

async fn waits_for_permit(never: Arc<Never>) {
    drop(never.pool.acquire().await);
}

async fn waits_for_notice(never: Arc<Never>) {
    outer(outer(async move { never.notify.notified().await })).await;
}

async fn waits_for_timer() {
    outer(tokio::time::sleep(Duration::from_secs(3600))).await;
}

async fn waits_for_message(mut receiver: mpsc::Receiver<()>) {
    outer(async move { drop(receiver.recv().await) }).await;
}

async fn waits_for_answer(receiver: oneshot::Receiver<()>) {
    drop(receiver.await);
}

async fn waits_for_bytes(never: Arc<Never>) {
    let mut stream = tokio::net::TcpStream::connect(never.listener).await.expect("connected");
    let _ = stream.read_u8().await;
}

async fn waits_in_select(never: Arc<Never>) {
    tokio::select! {
        () = never.notify.notified() => {}
        () = pending() => {}
    }
}

#[inline(never)]
async fn outer<T>(inner: impl Future<Output = T>) -> T {
    inner.await
}

/// Prints how many of the await stacks are the same.
pub(crate) fn run() {
    watch::start();
    let profiler = flamelet::Profiler::builder().name("bench-wait").start().expect("started");
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let never = Arc::new(Never {
        lock: Mutex::new(()),
        pool: Semaphore::new(0),
        notify: Notify::new(),
        listener: listener.local_addr().expect("bound"),
    });
    let held = spawn_all(&runtime, &never);
    let wanted = 8 * EACH;
    let start = Instant::now();
    while awaiting() < wanted {
        assert!(start.elapsed() < Duration::from_secs(120), "{} of {wanted} tasks await", awaiting());
        std::thread::sleep(Duration::from_millis(20));
    }
    let ours = ours(&profiler);
    let theirs = theirs(&runtime);
    let same: usize = ours.iter().map(|(stack, count)| *count.min(theirs.get(stack).unwrap_or(&0))).sum();
    for (stack, count) in &ours {
        if theirs.get(stack) != Some(count) {
            eprintln!("ours, {count} times: {stack:?}");
        }
    }
    for (stack, count) in &theirs {
        if ours.get(stack) != Some(count) {
            eprintln!("tokio's, {count} times: {stack:?}");
        }
    }
    let all: usize = theirs.values().sum();
    println!("{{\"same_percent\":{:.2},\"tasks\":{all}}}", 100.0 * same as f64 / all.max(1) as f64);
    drop(held);
    std::process::exit(0);
}

/// What keeps tasks waiting.
type Held = (Vec<mpsc::Sender<()>>, Vec<oneshot::Sender<()>>);

fn spawn_all(runtime: &tokio::runtime::Runtime, never: &Arc<Never>) -> Held {
    let _entered = runtime.enter();
    // Another task has it first.
    let holder = never.clone();
    runtime.block_on(async move { std::mem::forget(holder.lock.lock().await) });
    let mut held: Held = Default::default();
    for _ in 0..EACH {
        flamelet::spawn(waits_for_lock(never.clone()));
        flamelet::spawn(waits_for_permit(never.clone()));
        flamelet::spawn(waits_for_notice(never.clone()));
        flamelet::spawn(waits_for_timer());
        let (sender, receiver) = mpsc::channel(1);
        held.0.push(sender);
        flamelet::spawn(waits_for_message(receiver));
        let (sender, receiver) = oneshot::channel();
        held.1.push(sender);
        flamelet::spawn(waits_for_answer(receiver));
        flamelet::spawn(waits_for_bytes(never.clone()));
        flamelet::spawn(waits_in_select(never.clone()));
    }
    held
}

fn awaiting() -> usize {
    let tasks = flamelet::tasks::all();
    tasks
        .iter()
        .filter(|task| task.phase == flamelet::tasks::Phase::Awaiting && !task.stack.is_empty())
        .count()
}

/// How many tasks have the same await stack, by the functions of this module, leaf first.
type Stacks = HashMap<Vec<String>, usize>;

fn ours(profiler: &flamelet::Profiler) -> Stacks {
    let profile = profiler.live_tasks();
    let mut stacks = Stacks::new();
    for sample in profile.samples() {
        let lines = profile.stack(sample.stack).iter().flat_map(|&location| profile.lines(location));
        let names =
            lines.filter_map(|line| line.function).map(|id| profile.string(profile.function(id).name));
        *stacks.entry(own(names)).or_default() += sample.values[0] as usize;
    }
    stacks
}

fn theirs(runtime: &tokio::runtime::Runtime) -> Stacks {
    let dump = runtime.block_on(async { tokio::runtime::Handle::current().dump().await });
    let mut stacks = Stacks::new();
    for task in dump.tasks().iter() {
        let traces = task.trace().resolve_backtraces();
        let Some(trace) = traces.first() else { continue };
        let frames: Vec<_> = trace.frames().cloned().collect();
        let symbols = frames.iter().flat_map(|frame| frame.symbols().cloned().collect::<Vec<_>>());
        let names: Vec<String> =
            symbols.filter_map(|symbol| symbol.name_demangled().map(ToString::to_string)).collect();
        *stacks.entry(own(names.iter().map(String::as_str))).or_default() += 1;
    }
    stacks
}

/// Keeps the async functions of this module, without hashes, types and numbers of closures.
fn own<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut own: Vec<String> = Vec::new();
    for name in names.filter(|name| name.contains("bench_wait::dump::")) {
        let (_, rest) = name.split_once("bench_wait::dump::").expect("it is there");
        let word: String =
            rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
        own.push(word);
    }
    own
}
