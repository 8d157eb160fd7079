//! `flamelet record --heap`: what a command allocates that was not built for it.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flamelet_formats::Format;
use flamelet_profile::{merge, unit};
use flamelet_record::Checkpoint;
use flamelet_record::preload::Library;
use flamelet_record::preload::heap::{Options, Progress, Recorded, Summary, record};
use flamelet_report::info::{self, Verdict};

use super::record::{OutputKind, end_command, exit_code, print_verdict};
use crate::args::{Heap, RecordArgs};
use crate::error::{Failure, Result};
use crate::live_line::LiveLine;
use crate::load::Load;
use crate::source::SymbolOptions;

/// The library that is loaded into the command; it ships inside of this program.
static LIBRARY: Library =
    Library { bytes: flamelet_embed::cdylib!(flamelet_preload), name: "libflamelet-heap.so" };

pub(crate) fn run(args: &RecordArgs, heap: Heap) -> Result<ExitCode> {
    let path = args.output.clone().unwrap_or_else(|| PathBuf::from("heap.pb.gz"));
    // A wrong name should not cost a recording.
    let kind = OutputKind::of(&path)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let load = args.load.as_deref().map(Load::start).transpose()?;
    let mut profiles = Vec::new();
    let mut status = None;
    for _ in 0..args.repeat.max(1) {
        let recorded = record_once(args, heap, &path, kind, &stop)?;
        status = Some(end_command(recorded.command, args, &stop)?);
        print_summary(&recorded.summary, heap);
        profiles.push(recorded.profile);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    drop(load);
    let profile = match profiles.len() {
        1 => profiles.remove(0),
        _ => merge(&profiles.iter().collect::<Vec<_>>())?,
    };
    let facts = info::info(&profile);
    let shown = args.view.then(|| profile.clone());
    let path = kind.write_somewhere(&profile, path)?;
    print_verdict(&facts);
    kind.print_next_step(&path);
    if let Some(profile) = shown {
        let source = flamelet_view::Source::profile(&path.to_string_lossy(), profile);
        super::view::serve(source, 0, true)?;
    }
    Ok(exit_code(status, args.strict && facts.verdict == Verdict::Poor))
}

fn record_once(
    args: &RecordArgs,
    heap: Heap,
    path: &Path,
    kind: OutputKind,
    stop: &AtomicBool,
) -> Result<Recorded> {
    let [program, rest @ ..] = args.command.as_slice() else {
        return Err(Failure::new(
            "--heap needs a command after --: its library is loaded when a program starts, not into a running one",
        ));
    };
    let mut command = Command::new(program);
    command.args(rest);
    let mut options = Options::new(command, LIBRARY);
    options.mean = match heap {
        Heap::All => None,
        Heap::Sampled(mean) => Some(mean),
    };
    options.duration = args.duration;
    let symbols = SymbolOptions { binaries: args.binary.clone(), ..SymbolOptions::default() };
    options.symbolize = Some(symbols.symbolizer_options());
    if kind == OutputKind::Format(Format::Pprof) && path != Path::new("-") {
        options.checkpoint = Some(Checkpoint::to_file(path, Duration::from_secs(5)));
    }
    let mut line = LiveLine::new(true);
    let mut tell = |progress: &Progress| line.show(&live_line(progress));
    record(options, &mut tell, stop).map_err(|error| Failure::new(error.to_string()))
}

fn live_line(progress: &Progress) -> String {
    let Progress { elapsed, processes, allocations, live } = progress;
    let live = unit::label(i64::try_from(*live).unwrap_or(i64::MAX), "bytes");
    let seconds = elapsed.as_secs_f64();
    format!("{seconds:.0} s: {allocations} allocations recorded, {live} alive, {processes} processes")
}

fn print_summary(summary: &Summary, heap: Heap) {
    let bytes = |bytes: u64| unit::label(i64::try_from(bytes).unwrap_or(i64::MAX), "bytes");
    summary.notes.iter().for_each(|note| eprintln!("{note}"));
    let how = match heap {
        Heap::All => String::new(),
        Heap::Sampled(mean) => {
            format!(", estimated from {} samples, one every {}", summary.recorded, bytes(mean))
        }
    };
    eprintln!("{} calls to allocation functions, {}{how}", summary.allocations, bytes(summary.allocated),);
    eprintln!("{} temporary allocations", summary.temporary);
    let whose = if summary.processes > 1 {
        format!(" (sum over {} processes)", summary.processes)
    } else {
        String::new()
    };
    eprintln!("{} at the peak{whose}", bytes(summary.peak));
    eprintln!("{} in {} blocks alive at the end", bytes(summary.live_bytes), summary.live);
    eprintln!("{} lost, {:.1} % of the stacks rooted", summary.lost, 100.0 * summary.rooted_share());
}
