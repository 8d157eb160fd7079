//! Watching locks, tasks and requests: what it costs a service, compared with tokio-console's subscriber, await-tree and
//! dial9.

mod service;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::page::{Section, at_most, cell, verdict};
use super::{Options, folder, statistics};
use crate::{Failure, run, workspace};
use service::Service;

/// A row of the table: what watches the service, as a feature of `bench-wait`.
struct Watcher {
    name: &'static str,
    feature: Option<&'static str>,
    /// Whether it needs `--cfg tokio_unstable`.
    unstable: bool,
}

const WATCHERS: [Watcher; 5] = [
    Watcher { name: "nothing", feature: None, unstable: false },
    Watcher { name: "flamelet, everything on", feature: Some("flamelet"), unstable: false },
    Watcher { name: "await-tree", feature: Some("await-tree"), unstable: false },
    Watcher { name: "tokio-console's subscriber", feature: Some("console"), unstable: true },
    Watcher { name: "dial9", feature: Some("dial9"), unstable: true },
];
const FLAMELET: usize = 1;

const CONNECTIONS: u32 = 32;
/// Requests a second while latencies are measured: well below what the service can do.
const RATE: u32 = 2_000;

/// The figures of one turn of a service.
#[derive(Clone, Copy)]
struct Turn {
    /// Requests a second, as fast as possible, and the service's CPU time for each.
    rate: f64,
    cpu_us: f64,
    /// At [`RATE`].
    p50_us: f64,
    p99_us: f64,
}

/// What single things cost, and whether tokio agrees on await stacks; the middle of the rounds.
#[derive(Default)]
struct Micro {
    lock_ns: Option<f64>,
    poll_ns: Option<f64>,
    task_ns: Option<f64>,
    wall_percent: Option<f64>,
    sampler_percent: Option<f64>,
    own_threads_percent: Option<f64>,
    same_percent: Option<f64>,
}

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    let programs: Vec<PathBuf> =
        WATCHERS.iter().map(|watcher| build(watcher.feature, watcher.unstable)).collect::<Result<_, _>>()?;
    let dump = build(Some("dump"), true)?;
    let (turns, millis) = if options.quick { (1, 300) } else { (options.rounds * 7, 1_000) };
    let services: Vec<Service> =
        programs.iter().map(|program| Service::start(program)).collect::<Result<_, _>>()?;
    // What is made once, tables for instance, is there before the first turn.
    for service in &services {
        service.load(&programs[0], CONNECTIONS, millis / 2, 0)?;
    }
    let mut figures: Vec<Vec<Turn>> = vec![Vec::new(); WATCHERS.len()];
    for turn in 0..turns {
        println!("   turn {} of {turns}", turn + 1);
        for step in 0..WATCHERS.len() {
            let at = (turn + step) % WATCHERS.len();
            figures[at].push(measure(&services[at], &programs[0], millis)?);
        }
    }
    let memory: Vec<f64> =
        services.iter().map(|service| service.process.peak_megabytes()).collect::<Result<_, _>>()?;
    drop(services);
    let micro = micro(&programs, &dump, options)?;
    Ok(section(&figures, &memory, &micro, turns, millis))
}

/// Builds `bench-wait` with one watcher and stores the program under its own name.
fn build(feature: Option<&str>, unstable: bool) -> Result<PathBuf, Failure> {
    let target = workspace::root().join("bench/target").join(if unstable { "tokio-unstable" } else { "" });
    let mut build = workspace::cargo();
    build.args(["build", "--release", "--manifest-path", "bench/Cargo.toml", "--package", "bench-wait"]);
    build.arg("--target-dir").arg(&target).args(feature.map(|feature| format!("--features={feature}")));
    if unstable {
        build.env("RUSTFLAGS", "--cfg tokio_unstable");
    }
    let name = feature.unwrap_or("plain");
    run::step(&format!("building bench-wait ({name})"), &mut build)?;
    let program = folder()?.join(format!("bench-wait-{name}"));
    // Removed first: an earlier copy may still be running, and cannot be overwritten.
    let _ = std::fs::remove_file(&program);
    std::fs::copy(target.join("release/bench-wait"), &program)
        .map_err(|error| Failure::failed(format!("{}: {error}", program.display())))?;
    Ok(program)
}

fn measure(service: &Service, client: &Path, millis: u32) -> Result<Turn, Failure> {
    let fast = service.load(client, CONNECTIONS, millis, 0)?;
    let paced = service.load(client, CONNECTIONS, millis, RATE)?;
    Ok(Turn { rate: fast.rate, cpu_us: fast.cpu_us, p50_us: paced.p50_us, p99_us: paced.p99_us })
}

fn micro(programs: &[PathBuf], dump: &Path, options: &Options) -> Result<Micro, Failure> {
    let seconds = if options.quick { "1" } else { "10" };
    let rounds = if options.quick { 1 } else { options.rounds };
    let mut answers: Vec<Value> = Vec::new();
    let mut locks = Vec::new();
    for _ in 0..rounds {
        let [plain, watched] = [&programs[0], &programs[FLAMELET]].map(|program| ask(program, &["lock"]));
        locks.push(number(&watched?, "lock_ns") - number(&plain?, "lock_ns"));
        for arguments in [&["poll"][..], &["wall", "500", seconds], &["sampler", seconds]] {
            answers.push(ask(&programs[FLAMELET], arguments)?);
        }
    }
    answers.push(ask(dump, &["dump"])?);
    let middle = |field: &str| statistics::middle(answers.iter().filter_map(|answer| answer[field].as_f64()));
    Ok(Micro {
        lock_ns: statistics::middle(locks),
        poll_ns: middle("poll_ns"),
        task_ns: middle("task_ns"),
        wall_percent: middle("wall_percent"),
        sampler_percent: middle("sampler_percent"),
        own_threads_percent: middle("own_threads_percent"),
        same_percent: middle("same_percent"),
    })
}

/// Returns the line of JSON that a program prints.
fn ask(program: &Path, arguments: &[&str]) -> Result<Value, Failure> {
    let text = run::output(Command::new(program).args(arguments))?;
    serde_json::from_str(text.trim())
        .map_err(|error| Failure::failed(format!("{} printed `{}`: {error}", program.display(), text.trim())))
}

fn number(answer: &Value, field: &str) -> f64 {
    answer[field].as_f64().unwrap_or(f64::NAN)
}

/// Returns the middle of what a watcher adds, in percent, each turn compared with the service alone in the same turn.
fn added(figures: &[Vec<Turn>], at: usize, figure: fn(&Turn) -> f64) -> Option<f64> {
    let pairs = figures[at].iter().zip(&figures[0]);
    statistics::middle(pairs.map(|(watched, plain)| (figure(watched) / figure(plain) - 1.0) * 100.0))
}

/// How far turns of the service alone are from their own middle: half of them are closer than this many percent.
fn noise(figures: &[Turn], figure: fn(&Turn) -> f64) -> Option<f64> {
    let middle = statistics::middle(figures.iter().map(figure))?;
    statistics::middle(figures.iter().map(|turn| ((figure(turn) / middle - 1.0) * 100.0).abs()))
}

fn section(figures: &[Vec<Turn>], memory: &[f64], micro: &Micro, turns: usize, millis: u32) -> Section {
    let middle = |at: usize, figure: fn(&Turn) -> f64| statistics::middle(figures[at].iter().map(figure));
    let percent = |value: f64| format!("{value:+.1} %");
    let micros = |value: f64| format!("{value:.0} µs");
    let rows = WATCHERS.iter().enumerate().map(|(at, watcher)| {
        let more = |figure: fn(&Turn) -> f64| cell(added(figures, at, figure).filter(|_| at > 0), percent);
        vec![
            watcher.name.to_owned(),
            cell(middle(at, |turn| turn.rate), |rate| format!("{rate:.0}")),
            more(|turn| turn.rate),
            cell(middle(at, |turn| turn.cpu_us), |cpu| format!("{cpu:.1} µs")),
            more(|turn| turn.cpu_us),
            cell(middle(at, |turn| turn.p50_us), micros),
            cell(middle(at, |turn| turn.p99_us), micros),
            more(|turn| turn.p99_us),
            cell(Some(memory[at]), |megabytes| format!("{megabytes:.1} MB")),
        ]
    });
    Section {
        title: "wait: watching locks, tasks and requests of a service".to_owned(),
        about: format!(
            "An axum service on two threads, whose requests take a std lock, wait for a place in a pool \
             and let another task render\nthe answer; {CONNECTIONS} connections from one more thread, all \
             on the same machine. {turns} turns of {} s each,\ninterleaved. Requests a second and CPU for \
             a request are measured at full speed; p50 and p99 at {RATE} requests a\nsecond, counted from \
             when a request was due. What is added is the median over the turns, each compared with the \
             service\nalone in the same turn; memory is the peak. flamelet has everything on: locks, \
             tasks, requests, blocked polls, labels,\nheap and continuous CPU profiles. dial9 is \
             configured through its environment, tokio-console's subscriber has no client,\nand await-tree \
             has a root for each request and task. The last two rows need `tokio_unstable`.",
            f64::from(millis) / 1e3
        ),
        columns: vec![
            "watched by",
            "requests a second",
            "added",
            "CPU for a request",
            "added",
            "p50",
            "p99",
            "added",
            "memory",
        ],
        rows: rows.collect(),
        goals: goals(figures, memory, micro),
    }
}

fn goals(figures: &[Vec<Turn>], memory: &[f64], micro: &Micro) -> Vec<String> {
    let lost = added(figures, FLAMELET, |turn| turn.rate).map(|percent| -percent);
    let (p99, spread) = (
        added(figures, FLAMELET, |turn| turn.p99_us).unwrap_or(f64::NAN),
        noise(&figures[0], |turn| turn.p99_us).unwrap_or(f64::NAN),
    );
    let same = micro.same_percent.unwrap_or(f64::NAN);
    vec![
        at_most("throughput lost with everything on", lost, 1.0, "%"),
        format!(
            "p99 grows by no more than the service alone varies ({spread:.1} %): {p99:+.1} %, {}",
            verdict(p99 <= spread)
        ),
        at_most("memory added", Some(memory[FLAMELET] - memory[0]), 24.0, "MB"),
        at_most("added to an uncontended lock", micro.lock_ns, 0.5, "ns"),
        at_most("added to a poll that is not sampled", micro.poll_ns, 100.0, "ns"),
        format!(
            "a task from start to end, with one poll: {} ns",
            cell(micro.task_ns, |nanos| format!("{nanos:.0}"))
        ),
        at_most("500 idle threads under the wall clock", micro.wall_percent, 1.0, "% of a CPU"),
        at_most("CPU added by the sampler at 99 Hz", micro.sampler_percent, 0.08, "%"),
        format!(
            "… of which in its own threads: {} %",
            cell(micro.own_threads_percent, |percent| format!("{percent:.3}"))
        ),
        format!(
            "await stacks that tokio's task dump also has: 95 % or more: {same:.1} %, {}",
            verdict(same >= 95.0)
        ),
    ]
}
