//! `flamelet record --heap`: records the allocations of a command that was not built for it.

use std::process::ExitCode;

use flamelet_profile::unit;
use flamelet_record::preload::Library;
use flamelet_record::preload::heap::{HeapProgress, HeapRecordOptions, HeapSummary, Recorded, record};

use super::arguments::{Args, HEAP_FILE, Heap};
use super::live_line::LiveLine;
use super::{Outcome, Run, run_all};
use crate::error::{Failure, Result};
use crate::profiles::SymbolOptions;

/// The library that is loaded into the command; it is embedded in this program.
static LIBRARY: Library =
    Library { bytes: flamelet_embed::cdylib!(flamelet_preload), name: "libflamelet-heap.so" };

pub(crate) fn run(args: &Args, heap: Heap) -> Result<ExitCode> {
    run_all(args, HEAP_FILE, &mut |run| {
        let Recorded { profile, summary, command } = record_once(args, heap, run)?;
        Ok(Outcome { profile, summary: summary_lines(&summary, heap), command: Some(command) })
    })
}

fn record_once(args: &Args, heap: Heap, run: Run<'_>) -> Result<Recorded> {
    let [program, rest @ ..] = args.command.as_slice() else {
        return Err(Failure::new("--heap needs a command after --; it cannot attach to a running process"));
    };
    let mut options = HeapRecordOptions::new(run.command(program, rest)?, LIBRARY);
    options.mean = match heap {
        Heap::All => None,
        Heap::Sampled(mean) => Some(mean),
    };
    options.duration = args.duration;
    let symbols = SymbolOptions { binaries: args.binary.clone(), ..SymbolOptions::default() };
    options.symbolize = Some(symbols.symbolizer_options());
    options.checkpoint = run.checkpoint;
    options.shield_command = run.interruptions.shield_command();
    let mut line = LiveLine::new(true);
    let mut tell = |progress: &HeapProgress| line.show(&live_line(progress));
    record(options, &mut tell, run.interruptions.flag()).map_err(|error| Failure::new(error.to_string()))
}

fn live_line(progress: &HeapProgress) -> String {
    let HeapProgress { elapsed, processes, allocations, live } = progress;
    let live = unit::label(i64::try_from(*live).unwrap_or(i64::MAX), "bytes");
    let seconds = elapsed.as_secs_f64();
    format!("{seconds:.0} s: {allocations} allocations recorded, {live} live, {processes} processes")
}

fn summary_lines(summary: &HeapSummary, heap: Heap) -> Vec<String> {
    let bytes = |bytes: u64| unit::label(i64::try_from(bytes).unwrap_or(i64::MAX), "bytes");
    let how = match heap {
        Heap::All => String::new(),
        Heap::Sampled(mean) => {
            format!(", estimated from {} samples, one every {}", summary.recorded, bytes(mean))
        }
    };
    let whose = if summary.processes > 1 {
        format!(" (sum over {} processes)", summary.processes)
    } else {
        String::new()
    };
    let mut lines = summary.notes.clone();
    lines.extend([
        format!("{} calls to allocation functions, {}{how}", summary.allocations, bytes(summary.allocated)),
        format!("{} temporary allocations", summary.temporary),
        format!("{} at the peak{whose}", bytes(summary.peak)),
        format!("{} in {} blocks live at the end", bytes(summary.live_bytes), summary.live),
        format!(
            "{} lost, {:.1} % of the stacks reach the start of their thread",
            summary.lost,
            100.0 * summary.rooted_share()
        ),
    ]);
    lines
}
