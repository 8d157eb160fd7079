//! CPU sampling inside a process: flamelet compared with pprof-rs and each of its unwinders.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::page::{Section, at_most, cell, verdict};
use super::{Options, build_apart, folder, statistics};
use crate::Failure;

/// A profiler: a feature of the package `bench-cpu`, because pprof-rs' unwinders exclude each other.
struct Variant {
    feature: &'static str,
    name: &'static str,
    /// Whether to build with frame pointers, which only the frame-pointer walk needs.
    frame_pointers: bool,
}

const VARIANTS: [Variant; 4] = [
    Variant { feature: "flamelet", name: "flamelet", frame_pointers: false },
    Variant { feature: "pprof-libgcc", name: "pprof-rs, libgcc", frame_pointers: false },
    Variant { feature: "pprof-frame-pointer", name: "pprof-rs, frame pointers", frame_pointers: true },
    Variant { feature: "pprof-framehop", name: "pprof-rs, framehop", frame_pointers: false },
];
const FREQUENCIES: [u32; 2] = [99, 999];
const THREADS: [u32; 3] = [1, 2, 8];
const DEPTHS: [u32; 3] = [10, 40, 100];
const DEPTH_OF_WORK: u32 = 40;
const FELT: &str = "felt";
const SAMPLE: &str = "sample";
const CALLS: &str = "CPU time seen, system calls, 999 Hz, 2 threads";
const TABLE_SHARE: &str = "unwind tables, of the text";
const TABLE_TIME: &str = "making them, CPU for a MB of text";
/// Several times what the longest run takes.
const LONGEST_RUN: &str = "400";
/// pprof-rs can deadlock in its handler; a run that does not end is tried this many times.
const TRIES: usize = 3;

/// A figure of one program run: the program's arguments, and the field of its output.
#[derive(Clone)]
struct Measure {
    arguments: Vec<String>,
    field: &'static str,
    title: String,
    show: fn(f64) -> String,
}

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    let programs: Vec<PathBuf> = VARIANTS.iter().map(build).collect::<Result<_, _>>()?;
    let rounds = if options.quick { 1 } else { options.rounds };
    let runs = runs(options.quick);
    // figures[run][program][round]
    let mut figures: Vec<Vec<Vec<Value>>> = vec![vec![Vec::new(); programs.len()]; runs.len()];
    let mut hangs = [0; VARIANTS.len()];
    for round in 1..=rounds {
        for (arguments, figures) in runs.iter().zip(&mut figures) {
            println!("   round {round} of {rounds}: {}", arguments.join(" "));
            for (at, (program, figures)) in programs.iter().zip(figures).enumerate() {
                // Measuring what a thread feels takes minutes, and serves only to check our own figure.
                if at > 0 && arguments[0] == FELT {
                    figures.push(Value::Null);
                    continue;
                }
                let arguments = if at == 0 { arguments.clone() } else { fewer(arguments) };
                figures.push(answer(program, &arguments, &mut hangs[at])?);
            }
        }
    }
    let middle = |measure: &Measure, program: usize| {
        let at = runs.iter().position(|arguments| *arguments == measure.arguments).expect("it was run");
        let values = figures[at][program].iter().map(|answer| answer[measure.field].as_f64());
        let values: Vec<f64> = values.map(|value| value.unwrap_or(f64::NAN)).collect();
        match measure.field {
            "felt" => mean(&values),
            "error" => mean(&values) / (values.len() as f64).sqrt(),
            _ => statistics::middle(values).unwrap_or(f64::NAN),
        }
    };
    let measures = measures(options.quick);
    let rows = measures.iter().map(|measure| {
        let figures = (0..programs.len()).map(|program| cell(Some(middle(measure, program)), measure.show));
        std::iter::once(measure.title.clone()).chain(figures).collect()
    });
    let ended = std::iter::once(format!("runs of {} that hung", runs.len() * rounds))
        .chain(hangs.iter().map(ToString::to_string))
        .collect();
    let columns = std::iter::once("").chain(VARIANTS.iter().map(|variant| variant.name)).collect();
    let find = |title: &str, program: usize| {
        let measure = measures.iter().find(|measure| measure.title == title);
        measure.map_or(f64::NAN, |measure| middle(measure, program))
    };
    Ok(Section {
        title: "cpu: sampling inside the process".to_owned(),
        about: format!(
            "The same work at depth 40 under each profiler; each figure comes from a process of its own; \
             {rounds} rounds.\n\nA sample's cost is the time that a signal takes from the sampled thread, \
             minus that of an empty handler with the same\nflags (for p99: minus that of a handler that \
             idles for the usual time of the measured one). It is measured at the same\nplace again and \
             again (warm), after work on half a megabyte (in place), after touching 8 MB (cold: nothing is \
             left in\nthe core's caches) and after touching 64 MB (from memory). Signals during which \
             another process had the core are left\nout.\n\nCPU added to a process, which works on one \
             thread, is the time of the profiler's own threads plus that of its samples,\neach counted \
             with the full time of a cold signal, including the kernel's part. \"As felt by a thread\" \
             compares the\ninterruptions of a thread that reads the clock all the time, with and without a \
             capture in turn; most of them come from\nthe machine itself. \"One capture in all\" is from \
             its start to the encoded profile, over a second of work. Only the build\nfor the \
             frame-pointer walk has frame pointers."
        ),
        columns,
        rows: rows.chain(std::iter::once(ended)).collect(),
        goals: goals(&find, hangs[0]),
    })
}

/// Builds `bench-cpu` with one profiler and stores the program under its own name.
fn build(variant: &Variant) -> Result<PathBuf, Failure> {
    let mut arguments = vec!["--features", variant.feature];
    if variant.frame_pointers {
        arguments.extend(["--", "-Cforce-frame-pointers=yes"]);
    }
    let built = build_apart("bench-cpu", &arguments)?;
    let program = folder()?.join(format!("bench-cpu-{}", variant.feature));
    // Removed first: an earlier copy may still be running, and cannot be overwritten.
    let _ = std::fs::remove_file(&program);
    std::fs::copy(&built, &program)
        .map_err(|error| Failure::failed(format!("{}: {error}", program.display())))?;
    Ok(program)
}

/// Returns what the program printed. A run that does not end is killed, counted and repeated.
fn answer(program: &Path, arguments: &[String], hangs: &mut usize) -> Result<Value, Failure> {
    const KILLED: i32 = 128 + 9;
    for _ in 0..TRIES {
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", LONGEST_RUN]).arg(program).args(arguments);
        let output = command.output().map_err(|error| Failure::failed(format!("timeout: {error}")))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if output.status.success() {
            return serde_json::from_str(text.trim()).map_err(|error| {
                Failure::failed(format!("{} printed `{}`: {error}", program.display(), text.trim()))
            });
        }
        let is_hung = output.status.code() == Some(KILLED) || output.status.signal() == Some(9);
        if !is_hung {
            let errors = String::from_utf8_lossy(&output.stderr);
            let last = errors.trim_end().lines().last().unwrap_or("no message");
            return Err(Failure::failed(format!("{} failed ({}): {last}", program.display(), output.status)));
        }
        println!("   {} {} hung", program.display(), arguments.join(" "));
        *hangs += 1;
    }
    Err(Failure::failed(format!("{} {} hung {TRIES} times", program.display(), arguments.join(" "))))
}

fn words(words: &[&dyn std::fmt::Display]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// The arguments of each kind of run; `quick` only shows that everything works.
fn capture(hertz: u32, threads: u32, quick: bool) -> Vec<String> {
    words(&[&"capture", &hertz, &threads, &if quick { 300 } else { 2_400 / threads }])
}

fn calls(quick: bool) -> Vec<String> {
    words(&[&"calls", &999, &2, &if quick { 300 } else { 1_000 }])
}

fn added(hertz: u32) -> Vec<String> {
    words(&[&"added", &hertz])
}

fn felt(hertz: u32, quick: bool) -> Vec<String> {
    words(&[&FELT, &hertz, &if quick { 1 } else { 120 }])
}

fn sample(depth: u32, quick: bool) -> Vec<String> {
    words(&[&SAMPLE, &depth, &if quick { 400 } else { 4_000 }])
}

/// A quarter of the work for the peers: their figures are so much larger that they need less precision.
fn fewer(arguments: &[String]) -> Vec<String> {
    match arguments {
        [kind, first, count] if kind == SAMPLE => {
            let count = count.parse::<u32>().map_or(1, |count| count.div_ceil(4));
            words(&[kind, first, &count])
        }
        _ => arguments.to_vec(),
    }
}

/// Returns every distinct run, in the order they are made.
fn runs(quick: bool) -> Vec<Vec<String>> {
    let mut runs: Vec<Vec<String>> = Vec::new();
    for measure in measures(quick) {
        if !runs.contains(&measure.arguments) {
            runs.push(measure.arguments);
        }
    }
    runs
}

fn measures(quick: bool) -> Vec<Measure> {
    let percent = |value: f64| format!("{:.1} %", value * 100.0);
    let points = |value: f64| format!("{value:+.2} %");
    let micros = |value: f64| format!("{:.2} µs", value / 1e3);
    let millis = |value: f64| format!("{:.1} ms", value / 1e3);
    let megabytes = |value: f64| format!("{:.1} MB", value * 1024.0 / 1e6);
    let mut all = Vec::new();
    let mut add = |arguments: Vec<String>, field, title: String, show: fn(f64) -> String| {
        all.push(Measure { arguments, field, title, show });
    };
    for hertz in FREQUENCIES {
        for threads in THREADS {
            let title = format!("CPU time seen, {hertz} Hz, {threads} threads");
            add(capture(hertz, threads, quick), "share", title, percent);
        }
    }
    add(calls(quick), "share", CALLS.to_owned(), percent);
    for hertz in FREQUENCIES {
        let run = capture(hertz, 2, quick);
        add(run.clone(), "whole", format!("stacks of 40 frames and more, {hertz} Hz"), percent);
        add(run.clone(), "start_us", format!("start, {hertz} Hz"), millis);
        add(run.clone(), "start_cpu_us", format!("start, {hertz} Hz, CPU"), millis);
        add(run.clone(), "end_us", format!("end to encoded profile, {hertz} Hz"), millis);
        add(run.clone(), "end_cpu_us", format!("end to encoded profile, {hertz} Hz, CPU"), millis);
        add(run.clone(), "capture_kb", format!("memory added by the capture, {hertz} Hz"), megabytes);
        add(run, "rss_kb", format!("memory added at the peak, names included, {hertz} Hz"), megabytes);
        add(added(hertz), "added", format!("CPU added to the process, {hertz} Hz"), points);
        add(added(hertz), "own", format!("of it in threads of its own, {hertz} Hz"), points);
        add(felt(hertz, quick), "felt", format!("the same as felt by a thread, {hertz} Hz"), points);
        add(felt(hertz, quick), "error", format!("standard error of that, {hertz} Hz"), points);
        add(added(hertz), "whole_us", format!("one capture in all, {hertz} Hz, CPU"), millis);
    }
    for depth in DEPTHS {
        let run = sample(depth, quick);
        add(run.clone(), "warm", format!("a sample at depth {depth}, warm, median"), micros);
        add(run.clone(), "place_mean", format!("a sample at depth {depth}, in place, mean"), micros);
        add(run.clone(), "place_p99", format!("a sample at depth {depth}, in place, p99"), micros);
        add(run.clone(), "cold", format!("a sample at depth {depth}, cold, median"), micros);
        if depth == DEPTH_OF_WORK {
            add(run, "memory", format!("a sample at depth {depth}, from memory, median"), micros);
        }
    }
    add(words(&[&"tables"]), "table_share", TABLE_SHARE.to_owned(), percent);
    add(words(&[&"tables"]), "table_ms", TABLE_TIME.to_owned(), |value| format!("{value:.2} ms"));
    all
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn goals(find: &dyn Fn(&str, usize) -> f64, hangs: usize) -> Vec<String> {
    let peers = |title: &str| (1..VARIANTS.len()).map(|at| find(title, at)).fold(f64::INFINITY, f64::min);
    let mut goals = Vec::new();
    let mut most = |title: &str, limit: f64, scale: f64, unit: &str| {
        goals.push(at_most(title, Some(find(title, 0) / scale), limit, unit));
    };
    most("a sample at depth 40, in place, mean", 1.5, 1e3, "µs");
    most("a sample at depth 40, in place, p99", 2.5, 1e3, "µs");
    most("a sample at depth 40, cold, median", 3.4, 1e3, "µs");
    most("CPU added to the process, 99 Hz", 0.3, 1.0, "%");
    most("CPU added to the process, 999 Hz", 1.0, 1.0, "%");
    most("memory added by the capture, 999 Hz", 16.0, 1e6 / 1024.0, "MB");
    most("memory added at the peak, names included, 999 Hz", 16.0, 1e6 / 1024.0, "MB");
    most("start, 99 Hz", 50.0, 1e3, "ms");
    most(TABLE_SHARE, 20.0, 1e-2, "%");
    most(TABLE_TIME, 1.5, 1.0, "ms");
    let least = FREQUENCIES.iter().flat_map(|hertz| THREADS.map(|threads| (hertz, threads)));
    let least = least
        .map(|(hertz, threads)| find(&format!("CPU time seen, {hertz} Hz, {threads} threads"), 0))
        .fold(find(CALLS, 0), f64::min);
    goals.push(format!(
        "CPU time seen at 99 and 999 Hz, 1 to 8 threads, system calls too: at least 97 %: {:.1} %, {}",
        least * 100.0,
        verdict(least >= 0.97)
    ));
    for title in ["a sample at depth 40, in place, mean", "one capture in all, 999 Hz, CPU"] {
        let ratio = peers(title) / find(title, 0);
        goals.push(format!(
            "{title}: a third of the cheapest pprof-rs or less: {ratio:.1} times less, {}",
            verdict(ratio >= 3.0)
        ));
    }
    for hertz in FREQUENCIES {
        let title = format!("CPU added to the process, {hertz} Hz");
        let seen = format!("CPU time seen, {hertz} Hz, 1 threads");
        let cost = |at: usize| find(&title, at) / find(&seen, at);
        let theirs = (1..VARIANTS.len()).map(cost).fold(f64::INFINITY, f64::min);
        goals.push(format!(
            "{title}, per second of CPU time seen: {:.1} times less than the cheapest pprof-rs ({:.2} of ours is the \
             thread that finds new threads and collects samples; the kernel's part of a signal is the same for both)",
            theirs / cost(0),
            find(&format!("of it in threads of its own, {hertz} Hz"), 0)
        ));
        let (felt, error) = (
            find(&format!("the same as felt by a thread, {hertz} Hz"), 0),
            find(&format!("standard error of that, {hertz} Hz"), 0),
        );
        goals.push(format!("{title}, as felt by a thread: {felt:.2} ± {error:.2} %"));
    }
    // pprof-rs reads debug information when it starts, flamelet when it ends.
    let both = |at: usize| find("start, 99 Hz, CPU", at) + find("end to encoded profile, 99 Hz, CPU", at);
    let (ours, theirs) = (both(0), (1..VARIANTS.len()).map(both).fold(f64::INFINITY, f64::min));
    goals.push(format!(
        "start and end to encoded profile, CPU: no more than the cheapest pprof-rs, {:.0} ms: {:.0} ms, {}",
        theirs / 1e3,
        ours / 1e3,
        verdict(ours <= theirs)
    ));
    goals.push(format!("runs that hung: none: {hangs}, {}", verdict(hangs == 0)));
    goals
}
