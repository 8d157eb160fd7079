//! The arguments of `flamelet record`.

use std::path::PathBuf;

use clap::ValueHint;

use crate::arguments::values::{bytes, existing_path, seconds};

/// The default output of a recording.
pub(crate) const CPU_FILE: &str = "profile.pb.gz";
/// The default output for memory.
pub(crate) const HEAP_FILE: &str = "heap.pb.gz";

fn output_help() -> String {
    format!(
        "Write to this file; its name picks the format (.pb.gz, .svg, .html, .folded, .speedscope.json, …) \
         [default: {CPU_FILE}, with --heap {HEAP_FILE}]"
    )
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The command, after --
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<String>,
    /// Record these processes, by id or by name, with their threads and children (several: -p 12,34, or -p again)
    #[arg(short, long, value_name = "PID|NAME", value_delimiter = ',')]
    pub(crate) pid: Vec<String>,
    /// Record every process of the machine
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Samples a second of each running thread
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = 997)]
    pub(crate) frequency: u32,
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help = output_help())]
    pub(crate) output: Option<PathBuf>,
    /// End after this many seconds, and ask a command to end too [default: when it ends, or Ctrl-C]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<std::time::Duration>,
    /// Record blocked time too
    #[arg(long)]
    pub(crate) off_cpu: bool,
    /// Record system calls: counts, errors, latency
    #[arg(long)]
    pub(crate) syscalls: bool,
    /// Record an event of `perf list` by its name, or every call of a function as uprobe:PROGRAM:FUNCTION
    #[arg(short, long, value_name = "EVENT")]
    pub(crate) event: Vec<String>,
    /// Record what the command allocates instead: every allocation, or with =sampled (every 512 KB) or =SIZE some
    #[arg(long, value_name = "all|sampled|SIZE", num_args = 0..=1, require_equals = true,
          default_missing_value = "all", value_parser = heap,
          conflicts_with_all = ["pid", "all", "off_cpu", "syscalls", "event"])]
    pub(crate) heap: Option<Heap>,
    /// Leave the kernel's side out
    #[arg(long)]
    pub(crate) no_kernel: bool,
    /// Run the command this many times and merge
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) repeat: u32,
    /// Run a load generator beside it, for the time of the recording
    #[arg(long, value_name = "CMD")]
    pub(crate) load: Option<String>,
    /// Take symbols from this binary, debug file or folder
    #[arg(long, value_name = "PATH", value_parser = existing_path(), value_hint = ValueHint::AnyPath)]
    pub(crate) binary: Vec<PathBuf>,
    /// Exit with status 1 when the recording is of poor quality
    #[arg(long)]
    pub(crate) strict: bool,
    /// Open the viewer afterwards
    #[arg(long)]
    pub(crate) view: bool,
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
        size => bytes(size)
            .map(Heap::Sampled)
            .map_err(|_| "this is neither all nor sampled nor a size such as 64KB".into()),
    }
}
