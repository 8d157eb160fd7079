//! Heap profiling inside a process: flamelet on three allocators, compared with jemalloc's own, pprof-alloc and
//! dhat-rs.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::page::{Section, at_most, cell};
use super::{Options, build_apart, statistics};
use crate::{Failure, run};

/// A row of the table: a mode of `bench-heap`, and what it is compared with.
struct Row {
    name: &'static str,
    mode: &'static str,
    /// The row without profiling whose figures are subtracted.
    base: usize,
    /// jemalloc's configuration, for a mean in powers of two.
    jemalloc: Option<fn(u32) -> String>,
    /// Whether it samples at all, and whether it can produce a profile.
    samples: bool,
    snapshot: bool,
}

const fn row(name: &'static str, mode: &'static str, base: usize) -> Row {
    Row { name, mode, base, jemalloc: None, samples: true, snapshot: true }
}

const fn plain(name: &'static str, mode: &'static str, base: usize) -> Row {
    Row { samples: false, snapshot: false, ..row(name, mode, base) }
}

fn profiling(lg_mean: u32) -> String {
    format!("prof:true,prof_active:true,lg_prof_sample:{lg_mean}")
}

fn inactive(lg_mean: u32) -> String {
    format!("prof:true,prof_active:false,lg_prof_sample:{lg_mean}")
}

const ROWS: [Row; 10] = [
    plain("system", "system", 0),
    plain("jemalloc", "jemalloc", 1),
    plain("mimalloc", "mimalloc", 2),
    Row {
        jemalloc: Some(profiling),
        snapshot: false,
        ..row("jemalloc, profiling, stock unwinder", "jemalloc", 1)
    },
    Row {
        jemalloc: Some(profiling), samples: false, ..row("… read by jemalloc_pprof", "jemalloc-pprof", 1)
    },
    row("pprof-alloc on system", "pprof-alloc", 0),
    row("dhat-rs on system", "dhat", 0),
    row("flamelet on system", "flamelet-system", 0),
    row("flamelet on jemalloc", "flamelet-jemalloc", 1),
    row("flamelet on mimalloc", "flamelet-mimalloc", 2),
];
/// One more row, with jemalloc's own sampling.
const HOOKS: Row = Row {
    jemalloc: Some(inactive),
    ..row("flamelet fed by jemalloc's sampling", "flamelet-jemalloc-hooks", 1)
};
const THREADS: [usize; 4] = [1, 2, 4, 8];
/// 512 KiB.
const LG_MEAN: u32 = 19;

/// The figures of one row, the best of all rounds.
#[derive(Default)]
struct Figures {
    /// Nanoseconds per pair, by number of threads.
    pairs: [Option<f64>; 4],
    /// What the profiler adds to them, compared with turns without it in the same process; one for each round.
    added: [Vec<f64>; 4],
    /// The same when every allocation is sampled.
    each: Vec<f64>,
    resident: Option<f64>,
    snapshot: Vec<Value>,
}

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    let program = build_apart("bench-heap", &[])?;
    let rounds = if options.quick { 1 } else { options.rounds };
    let millis = if options.quick { 20 } else { 700 };
    let mebibytes = if options.quick { 32 } else { 256 };
    let rows: Vec<&Row> = ROWS.iter().chain([&HOOKS]).collect();
    let mut figures: Vec<Figures> = rows.iter().map(|_| Figures::default()).collect();
    for round in 1..=rounds {
        println!("   round {round} of {rounds}");
        measure_pairs(&program, &rows, &mut figures, millis)?;
        for (row, figures) in rows.iter().zip(&mut figures) {
            measure_snapshot(&program, row, figures, mebibytes)?;
        }
    }
    Ok(section(&rows, &figures, rounds, mebibytes))
}

/// Measures allocations and frees. Runs that are compared follow each other directly: all modes with one number of
/// threads, then with the next.
fn measure_pairs(program: &Path, rows: &[&Row], figures: &mut [Figures], millis: u32) -> Result<(), Failure> {
    let least = |known: &mut Option<f64>, answer: &Value, field: &str| {
        let value = answer[field].as_f64().unwrap_or(f64::NAN);
        *known = Some(known.map_or(value, |known| known.min(value)));
    };
    for (place, threads) in THREADS.into_iter().enumerate() {
        for (row, figures) in
            rows.iter().zip(figures.iter_mut()).filter(|(row, _)| row.mode != "jemalloc-pprof")
        {
            let numbers = [threads as u32, millis, 1 << LG_MEAN];
            let answer = ask(program, row, LG_MEAN, &["pairs", row.mode], &numbers)?;
            least(&mut figures.pairs[place], &answer, "low");
            figures.added[place].extend(answer["added"].as_f64());
            if threads == 1 {
                least(&mut figures.resident, &answer, "rss_kb");
            }
        }
    }
    for (row, figures) in rows.iter().zip(figures).filter(|(row, _)| row.samples) {
        let answer = ask(program, row, 0, &["pairs", row.mode], &[1, millis, 1])?;
        figures.each.extend(answer["added"].as_f64().or(answer["low"].as_f64()));
    }
    Ok(())
}

fn measure_snapshot(program: &Path, row: &Row, figures: &mut Figures, mebibytes: u32) -> Result<(), Failure> {
    if row.snapshot {
        figures.snapshot.push(ask(program, row, LG_MEAN, &["snapshot", row.mode], &[mebibytes])?);
    }
    Ok(())
}

fn ask(program: &Path, row: &Row, lg_mean: u32, words: &[&str], numbers: &[u32]) -> Result<Value, Failure> {
    let mut command = Command::new(program);
    command.args(words).args(numbers.iter().map(u32::to_string));
    command.env("_RJEM_MALLOC_CONF", row.jemalloc.map_or("prof:false".to_owned(), |conf| conf(lg_mean)));
    command.env("PPROF_ALLOC_SAMPLE_RATE", (1u32 << lg_mean).to_string());
    let text = run::output(&mut command)?;
    serde_json::from_str(text.trim())
        .map_err(|error| Failure::failed(format!("bench-heap printed `{}`: {error}", text.trim())))
}

fn section(rows: &[&Row], figures: &[Figures], rounds: usize, mebibytes: u32) -> Section {
    let added = |at: usize, threads: usize| -> Option<f64> {
        let beside = Some(figures[at].pairs[threads]? - figures[rows[at].base].pairs[threads]?);
        statistics::middle(figures[at].added[threads].iter().copied()).or(beside)
    };
    let sample = |at: usize| -> Option<f64> {
        let each = statistics::middle(figures[at].each.iter().copied())?;
        // Without turns that run without the profiler, the figure includes the allocation itself.
        let base = if figures[at].added[0].is_empty() { figures[rows[at].base].pairs[0]? } else { 0.0 };
        Some((each - base) / 1e3)
    };
    let resident = |at: usize| -> Option<f64> {
        Some((figures[at].resident? - figures[rows[at].base].resident?) * 1024.0 / 1e6)
    };
    let middle = |at: usize, field: &str| -> Option<f64> {
        statistics::middle(figures[at].snapshot.iter().filter_map(|answer| answer[field].as_f64()))
    };
    let table = rows.iter().enumerate().map(|(at, row)| {
        let mut cells = vec![row.name.to_owned(), cell(figures[at].pairs[0], |ns| format!("{ns:.1} ns"))];
        let profiles = rows[at].base != at;
        for threads in 0..THREADS.len() {
            cells.push(cell(added(at, threads).filter(|_| profiles), |ns| format!("{ns:+.2} ns")));
        }
        cells.push(cell(sample(at), |us| format!("{us:.2} µs")));
        cells.push(cell(resident(at).filter(|_| profiles), |mb| format!("{mb:+.1} MB")));
        cells.push(cell(middle(at, "wall_us"), |us| format!("{:.1} ms", us / 1e3)));
        for field in ["added_kb", "anonymous_kb", "file_kb"] {
            cells.push(cell(middle(at, field), |kb| format!("{:.1} MB", kb * 1024.0 / 1e6)));
        }
        cells.push(cell(middle(at, "pause_us"), |us| format!("{:.2} ms", us / 1e3)));
        cells.push(cell(middle(at, "usual_us"), |us| format!("{:.2} ms", us / 1e3)));
        cells
    });
    let at = |mode: &str| rows.iter().position(|row| row.mode == mode).expect("a row");
    Section {
        title: "heap: sampling allocations inside the process".to_owned(),
        about: format!(
            "64 live blocks of 16 to 200 bytes, one replaced at a time, under 50 frames of an ordinary \
             build, with 512 KiB between\nsamples. A sample's own cost is measured by sampling every \
             allocation; it includes the free and, for flamelet, the stack\nof the free. Times are CPU \
             times of the thread: the lower decile of many short turns. What is added is relative to \
             turns\nwithout the profiler right after them in the same process (for jemalloc's own \
             sampling, in another process): the median\nof the fastest quarter, and of {rounds} rounds.\n\n\
             The snapshot is of {mebibytes} MiB from 256 stacks, up to an encoded profile (flamelet and \
             pprof-alloc with names, from\na binary with 100 MB of debug information; jemalloc_pprof \
             without). Its memory is the highest resident size minus that\nbefore it (the parts are \
             sampled often, and need not peak together). The pause is the longest allocation of another\n\
             thread during the snapshot, next to its usual longest; waiting for a CPU is not counted. \
             pprof-alloc walks frame\npointers, which this build does not have, so its stacks are short."
        ),
        columns: vec![
            "allocator",
            "alloc + free",
            "added, 1 thread",
            "2",
            "4",
            "8",
            "a sample",
            "memory",
            "snapshot",
            "its memory",
            "anonymous",
            "of files",
            "longest pause",
            "usual",
        ],
        rows: table.collect(),
        goals: vec![
            at_most("flamelet on the system allocator", added(at("flamelet-system"), 0), 1.5, "ns"),
            at_most("flamelet on jemalloc", added(at("flamelet-jemalloc"), 0), 1.0, "ns"),
            at_most(
                "flamelet fed by jemalloc's sampling",
                added(at("flamelet-jemalloc-hooks"), 0),
                1.0,
                "ns",
            ),
            at_most("flamelet on mimalloc", added(at("flamelet-mimalloc"), 0), 1.5, "ns"),
            at_most("a sample on the system allocator", sample(at("flamelet-system")), 1.5, "µs"),
            at_most("a sample on jemalloc", sample(at("flamelet-jemalloc")), 1.5, "µs"),
            at_most("a sample on mimalloc", sample(at("flamelet-mimalloc")), 1.5, "µs"),
            at_most(
                "the memory of a snapshot with names",
                middle(at("flamelet-system"), "added_kb").map(|kb| kb * 1024.0 / 1e6),
                16.0,
                "MB",
            ),
        ],
    }
}
