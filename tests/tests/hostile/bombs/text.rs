//! Text, line by line: columns that only some rows use, stacks that are defined once and used often, endless names.

use super::{Bomb, Maker, repeated};

pub(super) const ALL: &[Maker] = &[
    perf_script_events,
    perf_script_long_sample,
    perf_script_colons,
    perf_script_inlined,
    folded_deep,
    folded_long_line,
    callgrind_places,
    callgrind_functions,
    cachegrind_lines,
    massif_snapshots,
    heaptrack_deep,
    heaptrack_modules,
    jemalloc_threads,
    legacy_same_stack,
    legacy_heap_samples,
    strace_unfinished,
    strace_summary_calls,
    bpftrace_keys,
    bpftrace_stacks,
    dtrace_frames,
    mac_sample_deep,
    xctrace_references,
];

/// A new event for each sample: a table with as many columns as rows.
fn perf_script_events() -> Bomb {
    events("events.perf", 12_000)
}

/// A file of 590 KB that once took 3 GB.
pub(super) fn worst_events() -> Bomb {
    events("most-events.perf", 24_000)
}

fn events(name: &'static str, count: usize) -> Bomb {
    Bomb::new(name, repeated(count, |at| format!("a {at} 1.5: 1 e{at}: \n\t 1 f ({at})\n\n")))
}

/// One sample of millions of frames.
fn perf_script_long_sample() -> Bomb {
    let frames = repeated(3 << 20, |at| format!(" {:x}\n", at % 16));
    Bomb::packed("long.perf", format!("a 1 1.5: 1 e: \n\t 1 f (m)\n{frames}"))
}

/// A line of colons, none of which ends a word.
fn perf_script_colons() -> Bomb {
    let line = "a:".repeat(400_000);
    Bomb::packed("colons.perf", format!("a 1 1.5: 1 e: \n\t 1 f (m)\n\n{line}\n"))
}

/// One frame of millions of functions.
fn perf_script_inlined() -> Bomb {
    let inlined = "\t 1 f (inlined)\n".repeat(1 << 20);
    Bomb::packed("inlined.perf", format!("a 1 1.5: 1 e: \n\t 1 f (m)\n{inlined}\t 1 f (m)\n"))
}

/// Stacks that share their beginnings.
fn folded_deep() -> Bomb {
    Bomb::packed("deep.folded", repeated(5000, |depth| format!("{}x 1\n", "f;".repeat(depth))))
}

/// One stack of millions of frames.
fn folded_long_line() -> Bomb {
    Bomb::packed("line.folded", format!("a;b 1\n{} 1\n", "f;".repeat(12 << 20)))
}

/// A function with costs at many lines and with many callers.
fn callgrind_places() -> Bomb {
    let places = repeated(30_000, |at| format!("{} 1000000\n", at + 1));
    let callers = repeated(3000, |at| format!("fn=c{at}\n1 1\ncfn=hot\ncalls=1 1\n1 10000000\n"));
    Bomb::packed("places.callgrind", format!("# callgrind format\nevents: Ir\nfn=hot\n{places}{callers}"))
}

fn callgrind_functions() -> Bomb {
    let functions = repeated(500_000, |at| format!("fn=f{at}\n1 1\n"));
    Bomb::packed("functions.callgrind", format!("# callgrind format\nevents: Ir\n{functions}"))
}

fn cachegrind_lines() -> Bomb {
    let events = repeated(64, |at| format!(" E{at}"));
    let lines = repeated(400_000, |at| format!("{at} 1\n"));
    Bomb::packed("lines.cachegrind", format!("events:{events}\nfl=a\nfn=f\n{lines}"))
}

fn massif_snapshots() -> Bomb {
    let snapshots = "snapshot=1\n".repeat(1 << 20);
    Bomb::packed("snapshots.massif", format!("desc: x\ncmd: x\ntime_unit: i\n{snapshots}"))
}

/// A chain of traces, each of which allocates.
fn heaptrack_deep() -> Bomb {
    let traces = repeated(8000, |at| format!("t 10 {at:x}\n+ 1 {:x} {at:x}\n", at + 1));
    Bomb::new("deep.heaptrack", format!("v 10400 3\n{traces}"))
}

fn heaptrack_modules() -> Bomb {
    let modules = repeated(60_000, |at| format!("m 1 a {at:x} 0 1\n"));
    Bomb::packed("modules.heaptrack", format!("v 10400 3\n{modules}t 10 0\n+ 1 1 1\n"))
}

/// A long stack, and many threads that have it.
fn jemalloc_threads() -> Bomb {
    let stack = repeated(20_000, |at| format!(" 0x{at:x}"));
    let threads = repeated(20_000, |at| format!("  t{at}: 1: 1 [0: 0]\n"));
    Bomb::packed("threads.heap", format!("heap_v2/1\n@{stack}\n  t*: 1: 1 [0: 0]\n{threads}"))
}

/// A long stack, and many threads that refer to it as the same as the previous one.
fn legacy_same_stack() -> Bomb {
    let stack = repeated(20_000, |at| format!(" 0x{at:x}\n"));
    let same = repeated(20_000, |at| {
        format!("--- Thread {at:x} (name: t{at}) stack: ---\n[same as previous thread]\n")
    });
    Bomb::packed(
        "same.threadz",
        format!("--- threadz 1 ---\n\n--- Thread 1 (name: a) stack: ---\n{stack}{same}"),
    )
}

fn legacy_heap_samples() -> Bomb {
    let samples = repeated(600_000, |at| format!("1: {at} [1: {at}] @ 0x1\n"));
    Bomb::packed("samples.legacy-heap", format!("heap profile: 1: 4 [7: 1000] @ heap_v2/524288\n{samples}"))
}

fn strace_unfinished() -> Bomb {
    let calls = repeated(1_000_000, |at| format!("{at} read(0 <unfinished ...>\n"));
    Bomb::packed("unfinished.strace", format!("1 1.5 write(1) = 1 <0.1>\n{calls}"))
}

fn strace_summary_calls() -> Bomb {
    let rows = repeated(500_000, |at| format!("0 0 0 1 c{at}\n"));
    let title = "% time     seconds  usecs/call     calls    errors syscall";
    Bomb::packed("calls.strace-summary", format!("{title}\n------ ----\n{rows}"))
}

fn bpftrace_keys() -> Bomb {
    Bomb::packed("keys.bpftrace", format!("@a[1]: 1\n@[\n{}", ",a,b,c,d\n".repeat(1 << 20)))
}

/// Stacks of addresses, which are held until all modules are known.
fn bpftrace_stacks() -> Bomb {
    Bomb::packed("stacks.bpftrace", format!("@a[1]: 1\n{}", "@[\n 0x1\n]: 1\n".repeat(1 << 20)))
}

fn dtrace_frames() -> Bomb {
    Bomb::packed("frames.dtrace", repeated(400_000, |at| format!("  m`f{at}+0x1\n  1\n")))
}

fn mac_sample_deep() -> Bomb {
    let lines =
        repeated(4000, |depth| format!("{}{} f  (in m) + 1  [0x1]\n", " ".repeat(depth), 9000 - depth));
    Bomb::packed("deep.sample", format!("Analysis of sampling x every 1 millisecond\nCall graph:\n{lines}"))
}

/// A long backtrace, and rows that refer to it.
fn xctrace_references() -> Bomb {
    let frames = repeated(100_000, |at| format!(r#"<frame id="{}" name="f{at}" addr="0x1"/>"#, at + 10));
    let rows = r#"<row><backtrace ref="1"/></row>"#.repeat(100_000);
    let row = format!(r#"<row><weight id="2">1</weight><backtrace id="1">{frames}</backtrace></row>"#);
    Bomb::packed("references.xml", format!("<?xml?><trace-query-result>{row}{rows}</trace-query-result>"))
}
