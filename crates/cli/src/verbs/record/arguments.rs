//! The arguments of `flamelet record`.

use std::path::PathBuf;

use clap::ValueHint;

use super::load::LoadAfter;
use crate::arguments::values::{bytes, existing_path, seconds};

/// The default output of a recording.
pub(crate) const CPU_FILE: &str = "profile.pb.gz";
/// The default output for memory.
pub(crate) const HEAP_FILE: &str = "heap.pb.gz";

fn output_help() -> String {
    format!(
        "Write to this file; its extension selects the format (.pb.gz, .svg, .html, .folded, .speedscope.json, …) \
         [default: {CPU_FILE}, with --heap {HEAP_FILE}]"
    )
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The command to record, after --
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<String>,
    /// Record processes by id or name, with their threads and children (several: -p 12,34 or -p again)
    #[arg(short, long, value_name = "PID|NAME", value_delimiter = ',')]
    pub(crate) pid: Vec<String>,
    /// Record all processes of the machine
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Samples per second for each running thread
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = 997)]
    pub(crate) frequency: u32,
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help = output_help())]
    pub(crate) output: Option<PathBuf>,
    /// Stop after this many seconds, and stop the command too [default: when it exits, or Ctrl-C]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<std::time::Duration>,
    /// Also record the time that threads spend blocked
    #[arg(long)]
    pub(crate) off_cpu: bool,
    /// Record system calls instead of CPU time: counts, errors, latency
    #[arg(long)]
    pub(crate) syscalls: bool,
    /// Also record the arguments of system calls: files, sizes, flags (slower: the command stops at each call)
    #[arg(long, requires = "syscalls", conflicts_with_all = ["all", "off_cpu", "event"])]
    pub(crate) args: bool,
    /// Record an event from `perf list` instead, or every call of a function with uprobe:PROGRAM:FUNCTION
    #[arg(short, long, value_name = "EVENT")]
    pub(crate) event: Vec<String>,
    /// Record the command's allocations instead: all, or samples with =sampled (every 512 KB) or =SIZE
    #[arg(long, value_name = "all|sampled|SIZE", num_args = 0..=1, require_equals = true,
          default_missing_value = "all", value_parser = heap,
          conflicts_with_all = ["pid", "all", "off_cpu", "syscalls", "event"])]
    pub(crate) heap: Option<Heap>,
    /// Leave out kernel frames
    #[arg(long)]
    pub(crate) no_kernel: bool,
    /// Run the command this many times and merge the recordings; an output name with {run} gives each run its own file
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) repeat: u32,
    /// Note in the profile how much work each run does, so that comparisons can be scaled to it
    #[arg(long, value_name = "N", value_parser = work)]
    pub(crate) work: Option<f64>,
    /// Run this load generator (a shell command) during the recording, starting when the command listens on a port
    #[arg(long, value_name = "CMD")]
    pub(crate) load: Option<String>,
    /// Start the load when the command prints TEXT, listens on PORT (:80, or a number from 1024), or after TIME (2s,
    /// 500ms; a smaller number means seconds)
    #[arg(long, value_name = "TEXT|PORT|TIME", requires = "load")]
    pub(crate) load_after: Option<LoadAfter>,
    /// Take symbols from this binary, debug file or folder
    #[arg(long, value_name = "PATH", value_parser = existing_path(), value_hint = ValueHint::AnyPath)]
    pub(crate) binary: Vec<PathBuf>,
    /// Exit with status 1 if the recording is of poor quality
    #[arg(long)]
    pub(crate) strict: bool,
    /// Open the viewer afterwards
    #[arg(long)]
    pub(crate) view: bool,
}

/// Reads a positive amount of work.
fn work(text: &str) -> Result<f64, String> {
    let work: Option<f64> = text.parse().ok().filter(|work: &f64| work.is_finite() && *work > 0.0);
    work.ok_or_else(|| "this is not a positive number".into())
}

/// Which allocations to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heap {
    /// All of them.
    All,
    /// One every this many bytes.
    Sampled(u64),
}

/// Reads `all`, `sampled` or `64KB`.
fn heap(text: &str) -> Result<Heap, String> {
    const USUAL: u64 = 512 << 10;
    match text {
        "all" => Ok(Heap::All),
        "sampled" => Ok(Heap::Sampled(USUAL)),
        size => bytes(size).map(Heap::Sampled).map_err(|_| "use all, sampled or a size such as 64KB".into()),
    }
}
