//! Records the allocations of a program that was not built for it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use flamelet_preload_ledger::modules::Modules;
use flamelet_preload_ledger::{AllocationCounts, COUNTS_ENDING, MODULES_ENDING, env};
use flamelet_profile::{HeapSizes, Profile};
use flamelet_symbol::symbolize::{self, Symbolizer};

use super::assemble;
use super::folder::{MOST_BYTES, PreloadFolder, Room};
pub use super::heap_summary::HeapSummary;
use super::heap_summary::ProcessFiles;
use super::running::RunningCommand;
use super::{Library, program};
use crate::checkpoint::Saver;
use crate::{Checkpoint, CommandEnd, Error, ErrorKind, Result};

/// What to record. Start from [`HeapRecordOptions::new`].
#[derive(Debug)]
pub struct HeapRecordOptions {
    /// The command; its children are recorded too.
    pub command: Command,
    /// The library that counts.
    pub library: Library,
    /// Bytes between samples on average; `None` to record every allocation.
    pub mean: Option<u64>,
    /// When to stop; `None` to stop when the command ends or the caller says so.
    pub duration: Option<Duration>,
    /// Give the command a process group of its own, so that Ctrl-C at the terminal ends only the recording.
    pub shield_command: bool,
    /// How to find names; `None` to leave addresses.
    pub symbolize: Option<symbolize::SymbolizeOptions>,
    /// Save the recording while it runs.
    pub checkpoint: Option<Checkpoint>,
}

impl HeapRecordOptions {
    /// Records every allocation of `command`, with names.
    pub fn new(command: Command, library: Library) -> Self {
        Self {
            command,
            library,
            mean: None,
            duration: None,
            shield_command: true,
            symbolize: Some(symbolize::SymbolizeOptions::default()),
            checkpoint: None,
        }
    }
}

/// The progress of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapProgress {
    /// The time since it began.
    pub elapsed: Duration,
    /// Processes seen so far.
    pub processes: usize,
    /// Allocations so far, or samples of them if they are sampled.
    pub allocations: u64,
    /// Bytes alive now.
    pub live: u64,
}

/// A finished recording.
#[derive(Debug)]
pub struct Recorded {
    /// What was recorded: Go's four sample types, then `peak_space` and `temporary_objects`.
    pub profile: Profile,
    /// The summary of the recording.
    pub summary: HeapSummary,
    /// What became of the command.
    pub command: CommandEnd,
}

/// How often to report progress.
const TELL: Duration = Duration::from_millis(500);

/// Records until the command ends, the duration is over or `stop` is set.
pub fn record(
    mut options: HeapRecordOptions,
    progress: &mut dyn FnMut(&HeapProgress),
    stop: &AtomicBool,
) -> Result<Recorded> {
    let program = program::check(options.command.get_program(), program::Purpose::Heap)?;
    let folder = PreloadFolder::new(options.library)?;
    let mut command = options.command;
    folder.preload_into(&mut command);
    command.env(env::MEAN, options.mean.unwrap_or(0).to_string());
    let name = command.get_program().to_string_lossy().into_owned();
    let mut saver = options.checkpoint.take().map(Saver::new);
    let running = RunningCommand::start(command, options.shield_command)?;
    let mut told = Instant::now();
    let mut sums = ProgressSums::default();
    let mut sizes = HeapSizes::default();
    sizes.push(0, 0);
    running.wait(options.duration, stop, |elapsed| {
        if told.elapsed() >= TELL {
            let so_far = HeapProgress { elapsed, ..sums.so_far(&folder) };
            sizes.push(nanos(elapsed), so_far.live);
            progress(&so_far);
            told = Instant::now();
        }
        if let Some(saver) = &mut saver {
            saver.save_if_due(|| assemble::profile(&gather(&folder).0, elapsed).0);
        }
    })?;
    let elapsed = running.started.elapsed();
    let (processes, left_out) = gather(&folder);
    if processes.is_empty() {
        return Err(never_loaded(&name, running.kill()));
    }
    let command = running.end()?;
    let (mut profile, mut summary) = assemble::profile(&processes, elapsed);
    let live = processes.iter().flat_map(|process| &process.counts.rows);
    sizes.push(nanos(elapsed), live.fold(0, |sum, row| sum.saturating_add(row.live_bytes)));
    profile.set_heap_sizes(sizes);
    if let Some(allocator) = program.own_allocator {
        summary.notes.push(format!(
            "{name} is linked with {allocator}, whose allocations are not recorded; build flamelet into it \
             (flamelet::global_allocator!) to record them"
        ));
    }
    if left_out > 0 {
        summary.notes.push(format!(
            "{left_out} files of processes are missing in the profile: all together were too large"
        ));
    }
    let without_room = without_room(&folder);
    if without_room > 0 {
        summary.notes.push(format!("{without_room} processes are missing in the profile: the disk was full"));
    }
    if summary.without_stack > 0 {
        summary.notes.push(format!(
            "{} allocations are counted without their stack: the disk or the address space was full, or there were too many \
             stacks",
            summary.without_stack
        ));
    }
    if let Some(error) = saver.and_then(|saver| saver.failure) {
        summary.notes.push(format!("the recording could not be saved while it ran: {error}"));
    }
    if let Some(symbols) = options.symbolize {
        Symbolizer::new(symbols).symbolize_profile(&mut profile);
    }
    assemble::judge(&mut profile, &summary);
    Ok(Recorded { profile, summary, command })
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn never_loaded(name: &str, was_ended: bool) -> Error {
    let ended = if was_ended { "; the command was stopped" } else { "" };
    let message = format!(
        "no allocation of {name} was recorded: it did not load the library, or its allocator is linked into it; see \
         `flamelet doctor {name}`{ended}"
    );
    Error::new(ErrorKind::Unsupported, message)
}

/// The longest list of modules that is read. A program with thousands of libraries has a list of a megabyte.
const MOST_MODULES: u64 = 16 << 20;

/// Reads what all processes have written so far, and counts the files that there was no room for. A process that is only
/// starting is skipped.
fn gather(folder: &PreloadFolder) -> (Vec<ProcessFiles>, usize) {
    let mut room = Room::new();
    let read = |path: &PathBuf| {
        let counts = read_counts(path, &mut room)?;
        let modules = room.read(&path.with_extension(MODULES_ENDING), MOST_MODULES).unwrap_or_default();
        Some(ProcessFiles { counts, modules: Modules::parse(&String::from_utf8_lossy(&modules)) })
    };
    let processes = folder.files(COUNTS_ENDING).iter().filter_map(read).collect();
    (processes, room.left_out)
}

fn read_counts(path: &Path, room: &mut Room) -> Option<AllocationCounts> {
    flamelet_preload_ledger::read(&room.read(path, MOST_BYTES)?).ok()
}

/// Counts the processes that created their file and had no room to fill it.
fn without_room(folder: &PreloadFolder) -> usize {
    let is_empty =
        |path: &&PathBuf| path.symlink_metadata().is_ok_and(|file| file.is_file() && file.len() == 0);
    folder.files(COUNTS_ENDING).iter().filter(is_empty).count()
}

/// Progress, without rereading the files of processes that have ended: a build has thousands of them.
#[derive(Default)]
struct ProgressSums {
    ended: HashMap<PathBuf, (u64, u64)>,
}

impl ProgressSums {
    fn so_far(&mut self, folder: &PreloadFolder) -> HeapProgress {
        let (mut progress, mut room) = (HeapProgress::default(), Room::new());
        for path in folder.files(COUNTS_ENDING) {
            let Some((allocations, live)) = self.of(path, &mut room) else { continue };
            progress.processes += 1;
            progress.allocations = progress.allocations.saturating_add(allocations);
            progress.live = progress.live.saturating_add(live);
        }
        progress
    }

    /// Returns the allocations and live bytes of one process image.
    fn of(&mut self, path: PathBuf, room: &mut Room) -> Option<(u64, u64)> {
        if let Some(&known) = self.ended.get(&path) {
            return Some(known);
        }
        // Checked first: anything it counts between the two reads would be missed.
        let has_ended = !is_running(&path);
        let rows = read_counts(&path, room)?.rows;
        let sums = rows.iter().fold((0u64, 0u64), |(allocations, live), row| {
            (allocations.saturating_add(row.allocations), live.saturating_add(row.live_bytes))
        });
        if has_ended {
            self.ended.insert(path, sums);
        }
        Some(sums)
    }
}

/// Returns whether a process with the pid at the start of the file's name exists. In a container the pid differs: the
/// progress shown may then be outdated, but the recording is not.
fn is_running(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.split_once('-').is_none_or(|(pid, _)| Path::new("/proc").join(pid).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_s_name_says_whether_its_process_runs() {
        let path = |pid: u32| PathBuf::from(format!("/var/tmp/flamelet-1-0/{pid}-0.counts"));
        assert!(is_running(&path(std::process::id())));
        assert!(!is_running(&path(u32::MAX)));
        assert!(is_running(Path::new("unknown")));
    }
}
