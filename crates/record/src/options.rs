//! What to record.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use flamelet_profile::Profile;

/// What to record.
#[derive(Debug)]
pub enum Target {
    /// These processes and all that are below them: their threads, and threads and children that start later.
    Pids(Vec<u32>),
    /// A command, from its first instruction on, and its children.
    Command(Command),
    /// Every process on the machine, where that is permitted.
    All,
}

/// How stacks that are larger than a dump are completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completion {
    /// In batches at first, and eagerly once more than 2 % of the stacks are cut. A program that is known to have frames
    /// larger than any dump begins eagerly, until it is known whether they run.
    #[default]
    Auto,
    /// Never: a stack that does not fit its dump stays cut.
    Never,
    /// From the start, by reading the live stack while the thread is still where it was sampled.
    Eager,
}

/// Writes the profile so far somewhere, so that a killed recorder leaves a readable file.
pub type Save = Box<dyn FnMut(&Profile) -> std::io::Result<()> + Send>;

/// How to save the recording while it runs.
pub struct Checkpoint {
    /// The shortest interval. Larger profiles are saved more rarely, so that saving stays below 2 % of the time.
    pub every: Duration,
    /// How to save. [`Checkpoint::to_file`] replaces a file atomically.
    pub save: Save,
}

impl Checkpoint {
    /// Replaces the pprof file at `path` every `every`, so that a complete one exists at any moment.
    pub fn to_file(path: impl Into<PathBuf>, every: Duration) -> Self {
        let path = path.into();
        Self { every, save: Box::new(move |profile| crate::checkpoint::replace_file(&path, profile)) }
    }
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoint").field("every", &self.every).finish_non_exhaustive()
    }
}

/// What to record, how often and for how long. Start from [`RecordOptions::new`].
#[derive(Debug)]
pub struct RecordOptions {
    /// What to record.
    pub target: Target,
    /// CPU samples per second of each running thread, at most [`RecordOptions::MAX_FREQUENCY`].
    pub frequency: u32,
    /// When to stop; `None` to stop when the target ends or the caller says so.
    pub duration: Option<Duration>,
    /// Sample where CPU time goes.
    pub cpu: bool,
    /// Record blocked time by stack.
    pub off_cpu: bool,
    /// Count all system calls, with errors, latency and sampled stacks.
    pub syscalls: bool,
    /// Record the arguments of system calls too. They are read while the thread is stopped at its call, with ptrace, so
    /// nothing else can be recorded at the same time.
    pub arguments: bool,
    /// Other events by the names of `perf list` (`page-faults`, `syscalls:sys_enter_getrandom`), or functions of
    /// a program (`uprobe:/path:function`).
    pub events: Vec<String>,
    /// Kernel frames, where permitted.
    pub kernel: bool,
    /// Bytes of stack copied with each sample, at most [`RecordOptions::MAX_DUMP`].
    pub dump_bytes: u32,
    /// How stacks larger than that are completed.
    pub completion: Completion,
    /// Bytes of each CPU's ring; smaller if the user may not lock as much memory. `None` for the default.
    pub ring_bytes: Option<usize>,
    /// The most moments in the timeline, 24 bytes each. Beyond that the timeline ends, and the totals continue.
    pub max_moments: usize,
    /// Give the command a process group of its own, so that Ctrl-C at the terminal ends the recording and not the
    /// command.
    pub shield_command: bool,
    /// Find names in the background while recording.
    pub symbolize: Option<flamelet_symbol::symbolize::SymbolizeOptions>,
    /// Save the recording while it runs.
    pub checkpoint: Option<Checkpoint>,
}

impl RecordOptions {
    /// The highest frequency.
    pub const MAX_FREQUENCY: u32 = 20_000;
    /// The largest stack dump that the kernel writes.
    pub const MAX_DUMP: u32 = 65_528;
    /// The default stack dump.
    pub const DEFAULT_DUMP: u32 = 16 << 10;
    /// The default length of a timeline: 384 MB.
    pub const DEFAULT_MOMENTS: usize = 16_000_000;

    /// Samples the CPU time of `target`, 997 times a second, with names.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            frequency: 997,
            duration: None,
            cpu: true,
            off_cpu: false,
            syscalls: false,
            arguments: false,
            events: Vec::new(),
            kernel: true,
            dump_bytes: Self::DEFAULT_DUMP,
            completion: Completion::Auto,
            ring_bytes: None,
            max_moments: Self::DEFAULT_MOMENTS,
            shield_command: true,
            symbolize: Some(flamelet_symbol::symbolize::SymbolizeOptions::default()),
            checkpoint: None,
        }
    }

    /// Checks that the options make sense, before anything is started.
    pub(crate) fn check(&self) -> crate::Result<()> {
        let bad = |message: String| Err(crate::Error::new(crate::ErrorKind::InvalidOption, message));
        if self.frequency == 0 || self.frequency > Self::MAX_FREQUENCY {
            return bad(format!(
                "invalid frequency of {} Hz; use 1 to {}",
                self.frequency,
                Self::MAX_FREQUENCY
            ));
        }
        if self.dump_bytes > Self::MAX_DUMP || !self.dump_bytes.is_multiple_of(8) || self.dump_bytes == 0 {
            let most = Self::MAX_DUMP;
            return bad(format!(
                "invalid stack dump size of {} bytes; use a multiple of 8 up to {most}",
                self.dump_bytes
            ));
        }
        if !(self.cpu || self.off_cpu || self.syscalls) && self.events.is_empty() {
            return bad("nothing to record; select CPU, off-CPU, system calls or an event".to_owned());
        }
        let has_more = self.cpu || self.off_cpu || !self.events.is_empty();
        if self.arguments && (!self.syscalls || has_more || matches!(self.target, Target::All)) {
            return bad(
                "arguments are recorded only with system calls, of a command or of processes".to_owned()
            );
        }
        match &self.target {
            Target::Pids(pids) if pids.is_empty() => bad("no process to record".to_owned()),
            _ => Ok(()),
        }
    }
}
