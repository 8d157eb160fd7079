//! The command line, as clap reads it. What an option means is said where it is used.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use flamelet_profile::Granularity;
use flamelet_profile::filter::FilterOptions;
use flamelet_report::rust_names::NameFolding;
use flamelet_report::{ReportOptions, Sort};

use crate::fetch::FetchOptions;
use crate::source::{SourceOptions, SymbolOptions};

/// One profiler for Rust services: records, opens, compares, checks and shows profiles.
#[derive(Parser)]
#[command(name = "flamelet", version, max_term_width = 110, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  flamelet top cpu.pb.gz                     the functions that cost most
  flamelet top http://localhost:3000         30 s of CPU profile of a running service
  flamelet flame cpu.pb.gz -o cpu.html       a picture to look at or send
  flamelet diff before.pb.gz after.pb.gz     what changed, and is it more than noise
  flamelet check main.pb.gz branch.pb.gz --max-growth 5%
  flamelet pprof -top -cum cpu.pb.gz         go tool pprof's own command line

Exit status: 0 done, 1 the answer is no (check), 2 bad use or bad input.";

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Show the functions that cost most
    Top(ReportArgs),
    /// Show functions with their callers and callees
    Tree(ReportArgs),
    /// Show callers and callees of the functions that match an expression
    #[command(after_help = "Example: flamelet peek 'serde_json::de' cpu.pb.gz")]
    Peek(MatchArgs),
    /// Show the source of the functions that match an expression, with the cost of each line
    #[command(after_help = "Example: flamelet list my_service::handler cpu.pb.gz")]
    List(MatchArgs),
    /// Show the instructions of the functions that match an expression, with the cost of each
    #[command(after_help = "Example: flamelet disasm my_service::hot_loop cpu.pb.gz")]
    Disasm(MatchArgs),
    /// Show every stack
    Traces(ReportArgs),
    /// Show what each label value cost
    Tags(ReportArgs),
    /// Show everything in the profile as text
    Raw(ReportArgs),
    /// Say what a profile is and how good it is
    Info(ReportArgs),
    /// Show the comments of a profile
    Comments(ReportArgs),
    /// Write the call graph for Graphviz
    #[command(alias = "graph")]
    Dot(ReportArgs),
    /// Write the call graph for KCachegrind and callgrind_annotate
    Callgrind(ReportArgs),
    /// Write what the filters leave as a pprof file
    Proto(ReportArgs),
    /// Write the functions of `top` as a pprof file
    Topproto(ReportArgs),
    /// Draw a flame graph: SVG, or one interactive HTML file
    #[command(after_help = "Example: flamelet flame cpu.pb.gz -o cpu.html")]
    Flame(FlameArgs),
    /// Show what changed between two profiles, and whether it is more than noise
    #[command(after_help = "Example: flamelet diff before.pb.gz after.pb.gz --cum")]
    Diff(DiffArgs),
    /// Fail when a function costs more than before: for CI
    #[command(after_help = "Example: flamelet check main.pb.gz branch.pb.gz --max-growth 5%\n\
        Exit status 0: nothing grew; 1: something did; 2: bad input.")]
    Check(CheckArgs),
    /// Merge profiles into one file
    Merge(MergeArgs),
    /// Fill in names, files and lines, and write the profile
    #[command(after_help = "Example: flamelet symbolize raw.pb.gz --binary ./service.debug -o named.pb.gz")]
    Symbolize(MergeArgs),
    /// Fetch a profile from a service and keep it
    #[command(after_help = "Example: flamelet fetch http://localhost:3000 --seconds 10 -o cpu.pb.gz")]
    Fetch(MergeArgs),
    /// Convert a profile to another format
    #[command(after_help = "Example: flamelet convert perf.data -o cpu.speedscope.json")]
    Convert(ConvertArgs),
    /// Sample a command or running processes
    #[command(after_help = RECORD_EXAMPLES)]
    Record(RecordArgs),
    /// Drive another tool (perf, strace, valgrind, heaptrack, bpftrace) and open what it wrote
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Say what this machine, this user and a binary allow, and what would allow more
    #[command(
        after_help = "Examples:\n  flamelet doctor\n  flamelet doctor ./target/release/service\n  flamelet doctor 1234"
    )]
    Doctor {
        /// A binary, or the id of a running process
        #[arg(value_name = "PID|BINARY", value_hint = ValueHint::FilePath)]
        subject: Option<String>,
    },
    /// Make a heap profile of the file that a killed service left behind
    #[command(after_help = "Example: flamelet recover /var/lib/service/heap.ledger -o heap.pb.gz")]
    Recover(MergeArgs),
    /// Look at profiles in the browser
    #[command(after_help = "Examples:\n  flamelet view cpu.pb.gz\n  flamelet view http://localhost:3000\n  \
        flamelet view /opt/profiling/my-service")]
    View(ViewArgs),
    /// Profile a built-in busy service and look at it
    Demo(DemoArgs),
    /// Take go tool pprof's own command line: single-dash flags, and a shell when no report is named
    #[command(disable_help_flag = true)]
    Pprof {
        /// As go tool pprof takes them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write man pages into a folder
    Man {
        /// The folder
        #[arg(value_hint = ValueHint::DirPath)]
        folder: PathBuf,
    },
}

const RECORD_EXAMPLES: &str = "\
Examples:
  flamelet record -- ./service --port 3000       from its first instruction on; Ctrl-C ends the recording
  flamelet record -p 1234 --duration 10 -o cpu.html
  flamelet record --off-cpu -p 1234              where it waits, beside where it works
  flamelet record --syscalls -- ls -R /          counts, errors and latency of every call
  flamelet record -e syscalls:sys_enter_getrandom -- ./service
  flamelet record --load 'wrk http://localhost:3000' --duration 30 -- ./service";

/// `record`.
#[derive(Args, Clone)]
pub(crate) struct RecordArgs {
    /// The command, after --
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<String>,
    /// Record these processes, with their threads and children
    #[arg(short, long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,
    /// Record every process of the machine
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Samples a second of each running thread
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = 997)]
    pub(crate) frequency: u32,
    /// Write to this file; its name picks the format (.pb.gz, .svg, .html, .folded, .speedscope.json, …)
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// End after this many seconds, and ask a command to end too
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<std::time::Duration>,
    /// Record blocked time too
    #[arg(long)]
    pub(crate) off_cpu: bool,
    /// Record system calls: counts, errors, latency
    #[arg(long)]
    pub(crate) syscalls: bool,
    /// Record an event of `perf list` by its name
    #[arg(short, long, value_name = "EVENT")]
    pub(crate) event: Vec<String>,
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
    #[arg(long, value_name = "PATH")]
    pub(crate) binary: Vec<PathBuf>,
    /// Exit with status 1 when the recording is of poor quality
    #[arg(long)]
    pub(crate) strict: bool,
    /// Open the viewer afterwards
    #[arg(long)]
    pub(crate) view: bool,
}

/// Reads `10`, `10s` or `2.5`.
fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let number = text.trim().trim_end_matches('s');
    let parsed = number.parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
    let duration = parsed.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| format!("'{text}' is not a number of seconds such as 10"))
}

const RUN_EXAMPLES: &str = "\
Examples:
  flamelet run list                              what is installed, what each is good for, what it costs
  flamelet run callgrind --duration 60 -- ./service
  flamelet run strace -p 1234 --duration 10
  flamelet run massif --memory-limit 1GB -o /opt/profiling -- ./service
  flamelet run bpftrace --script 'tracepoint:syscalls:sys_enter_read { @ = hist(args->count); }' -- ls

Each run has a folder of its own, {output}/{name}/{time}-{tool}/, with the tool's file and a pprof made of it.";

/// `run`.
#[derive(Args, Clone)]
pub(crate) struct RunArgs {
    /// perf, strace, massif, callgrind, cachegrind, dhat, heaptrack, bpftrace; or list
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,
    /// The command, after --
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<String>,
    /// Attach to this process, where the tool can
    #[arg(short, long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// End politely after this many seconds, so that the tool writes its file
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<std::time::Duration>,
    /// The most memory the command may have, such as 512MB (ulimit -v)
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) memory_limit: Option<u64>,
    /// Where runs are kept
    #[arg(short, long, value_name = "FOLDER", default_value = "profiling", value_hint = ValueHint::DirPath)]
    pub(crate) output: PathBuf,
    /// The name of the service; by default that of the command
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// One more option for the tool itself
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub(crate) tool_option: Vec<String>,
    /// A bpftrace program: a file or its text
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) script: Option<String>,
    /// Open the viewer instead of printing the top functions
    #[arg(long)]
    pub(crate) view: bool,
}

/// Reads `512MB`, `1GB`, `65536`.
fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = if unit.is_empty() { "b" } else { unit };
    let known = flamelet_profile::unit::are_compatible(unit, "b");
    let scale = flamelet_profile::unit::ratio(unit, "b");
    match number.parse::<u64>() {
        Ok(number) if known && number > 0 => Ok((number as f64 * scale) as u64),
        _ => Err(format!("'{text}' is not a size such as 512MB")),
    }
}

/// `view`.
#[derive(Args, Clone)]
pub(crate) struct ViewArgs {
    /// Files, a folder of files, '-', or the address of a service
    #[arg(required = true, value_name = "SOURCE", value_hint = ValueHint::AnyPath)]
    pub(crate) sources: Vec<String>,
    /// The port on loopback; 0 takes one that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
    /// Only print the address
    #[arg(long, alias = "no_browser")]
    pub(crate) no_browser: bool,
    /// Where source files are, separated by colons
    #[arg(long, value_name = "PATHS", default_value = "", hide_default_value = true)]
    pub(crate) source_path: String,
    /// What to remove from the start of source paths, separated by colons
    #[arg(long, value_name = "PATHS", default_value = "", hide_default_value = true)]
    pub(crate) trim_path: String,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
}

/// `demo`.
#[derive(Args, Clone)]
pub(crate) struct DemoArgs {
    /// End by itself instead of opening the viewer
    #[arg(long)]
    pub(crate) once: bool,
    /// How long to profile, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub(crate) duration: std::time::Duration,
    /// Where to keep the files
    #[arg(short, long, value_name = "FOLDER", default_value = "flamelet-demo", value_hint = ValueHint::DirPath)]
    pub(crate) output: PathBuf,
    /// The port of the viewer; 0 takes one that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
    /// Only print the viewer's address
    #[arg(long, alias = "no_browser")]
    pub(crate) no_browser: bool,
}

/// Where profiles come from.
#[derive(Args, Clone, Default)]
pub(crate) struct SourceArgs {
    /// Subtract these profiles
    #[arg(long, value_name = "SOURCE", help_heading = "Compare")]
    base: Vec<String>,
    /// Compare with these profiles; percentages are of them
    #[arg(long, value_name = "SOURCE", alias = "diff_base", help_heading = "Compare")]
    diff_base: Vec<String>,
    /// Scale the profile so that its total equals the base's
    #[arg(long, help_heading = "Compare")]
    normalize: bool,
    /// Ask the service for this many seconds
    #[arg(long, value_name = "N", help_heading = "Fetch")]
    seconds: Option<u64>,
    /// Wait this many seconds for an answer
    #[arg(long, value_name = "N", help_heading = "Fetch")]
    timeout: Option<u64>,
    /// Send a header, as 'Name: value'
    #[arg(long, value_name = "HEADER", help_heading = "Fetch")]
    header: Vec<String>,
    /// Trust this certificate (PEM)
    #[arg(long, value_name = "FILE", alias = "tls_ca", help_heading = "Fetch")]
    tls_ca: Option<PathBuf>,
    /// Show this certificate to the service (PEM)
    #[arg(long, value_name = "FILE", alias = "tls_cert", requires = "tls_key", help_heading = "Fetch")]
    tls_cert: Option<PathBuf>,
    /// The key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE", alias = "tls_key", requires = "tls_cert", help_heading = "Fetch")]
    tls_key: Option<PathBuf>,
    /// Do not check the service's certificate
    #[arg(long, help_heading = "Fetch")]
    insecure: bool,
    /// Take symbols from this binary, debug file or folder
    #[arg(long, value_name = "PATH", help_heading = "Symbols")]
    binary: Vec<PathBuf>,
    /// Whether to look for names that the profile does not have
    #[arg(long, value_enum, default_value_t, value_name = "HOW", help_heading = "Symbols")]
    symbolize: Symbolize,
    /// The most memory that a profile may take, in GiB
    #[arg(long, value_name = "GIB", default_value_t = 2, alias = "max_memory")]
    max_memory: u64,
}

/// When to look for names.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Symbolize {
    /// For addresses without a name
    #[default]
    Auto,
    /// For all addresses, again
    Force,
    /// Never
    None,
}

/// What every report takes.
#[derive(Args, Clone)]
pub(crate) struct ReportArgs {
    /// Files, '-', or addresses of services; several are merged
    #[arg(required = true, value_name = "SOURCE", value_hint = ValueHint::FilePath)]
    sources: Vec<String>,
    #[command(flatten)]
    shape: ShapeArgs,
}

/// A report about functions that match an expression.
#[derive(Args, Clone)]
pub(crate) struct MatchArgs {
    /// The expression (a regular expression; every function when left out), then files, '-' or addresses
    #[arg(required = true, value_name = "[REGEX] SOURCE", value_hint = ValueHint::FilePath)]
    words: Vec<String>,
    #[command(flatten)]
    shape: ShapeArgs,
}

/// How a report is shaped, wherever its profile comes from.
#[derive(Args, Clone)]
pub(crate) struct ShapeArgs {
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    filters: FilterArgs,
    /// The sample type by name or number
    #[arg(
        long,
        short = 'i',
        value_name = "TYPE",
        default_value = "",
        alias = "sample_index",
        hide_default_value = true,
        help_heading = "Values"
    )]
    sample_index: String,
    /// Divide each value by the first sample type's
    #[arg(long, help_heading = "Values")]
    mean: bool,
    /// Divide all values by this
    #[arg(long, value_name = "X", default_value_t = 1.0, alias = "divide_by", help_heading = "Values")]
    divide_by: f64,
    /// The unit of all values
    #[arg(long, value_name = "UNIT", default_value = "minimum", help_heading = "Values")]
    unit: String,
    /// Percentages of what the filters leave
    #[arg(long, alias = "relative_percentages", help_heading = "Values")]
    relative_percentages: bool,
    /// functions, filefunctions, files, lines or addresses
    #[arg(long, value_name = "HOW", help_heading = "Grouping")]
    granularity: Option<Granularity>,
    /// Do not show inlined functions of their own
    #[arg(long, alias = "no-inlines", help_heading = "Grouping")]
    noinlines: bool,
    /// Show columns where lines are shown
    #[arg(long, alias = "show-columns", help_heading = "Grouping")]
    showcolumns: bool,
    /// Leave type parameters out of Rust names
    #[arg(long, help_heading = "Grouping")]
    fold_generics: bool,
    /// Fold the frames of async and std glue into one
    #[arg(long, help_heading = "Grouping")]
    fold_runtime: bool,
    /// Show crates instead of functions
    #[arg(long = "crate", help_heading = "Grouping")]
    by_crate: bool,
    /// Show these labels as frames at the root
    #[arg(
        long,
        value_name = "KEYS",
        default_value = "",
        hide_default_value = true,
        help_heading = "Grouping"
    )]
    tagroot: String,
    /// Show these labels as frames at the leaf
    #[arg(
        long,
        value_name = "KEYS",
        default_value = "",
        hide_default_value = true,
        help_heading = "Grouping"
    )]
    tagleaf: String,
    /// A call tree instead of a call graph (dot, callgrind)
    #[arg(long, alias = "call_tree", help_heading = "Grouping")]
    call_tree: bool,
    /// Sort by what functions cost with all they call
    #[arg(long, help_heading = "Trim")]
    cum: bool,
    /// Show this many entries; 0 shows all
    #[arg(long, short = 'n', value_name = "N", help_heading = "Trim")]
    nodecount: Option<usize>,
    /// Hide entries below this share
    #[arg(long, value_name = "F", default_value_t = 0.005, help_heading = "Trim")]
    nodefraction: f64,
    /// Hide calls below this share
    #[arg(long, value_name = "F", default_value_t = 0.001, help_heading = "Trim")]
    edgefraction: f64,
    /// Show everything, however small
    #[arg(long, help_heading = "Trim")]
    no_trim: bool,
    /// Leave negative entries out
    #[arg(long, alias = "drop_negative", help_heading = "Trim")]
    drop_negative: bool,
    /// Leave the lines about the file out of the heading
    #[arg(long, alias = "compact_labels")]
    compact_labels: bool,
    /// Where source files are, separated by colons
    #[arg(
        long,
        value_name = "PATHS",
        default_value = "",
        hide_default_value = true,
        alias = "source_path",
        help_heading = "Symbols"
    )]
    source_path: String,
    /// What to remove from the start of source paths, separated by colons
    #[arg(
        long,
        value_name = "PATHS",
        default_value = "",
        hide_default_value = true,
        alias = "trim_path",
        help_heading = "Symbols"
    )]
    trim_path: String,
    /// Intel's syntax for instructions
    #[arg(long, alias = "intel_syntax", help_heading = "Symbols")]
    intel_syntax: bool,
}

/// Which part of a profile to keep.
#[derive(Args, Clone)]
#[command(next_help_heading = "Filter")]
pub(crate) struct FilterArgs {
    /// Keep samples with a frame that matches
    #[arg(long, value_name = "REGEX", default_value = "", hide_default_value = true)]
    focus: String,
    /// Drop samples with a frame that matches
    #[arg(long, value_name = "REGEX", default_value = "", hide_default_value = true)]
    ignore: String,
    /// Remove frames that match
    #[arg(long, value_name = "REGEX", default_value = "", hide_default_value = true)]
    hide: String,
    /// Remove frames that do not match
    #[arg(long, value_name = "REGEX", default_value = "", hide_default_value = true)]
    show: String,
    /// Remove frames above the highest one that matches
    #[arg(long, value_name = "REGEX", default_value = "", hide_default_value = true, alias = "show_from")]
    show_from: String,
    /// Remove frames below the lowest one that matches
    #[arg(long, value_name = "REGEX", default_value = "", hide_default_value = true, alias = "prune_from")]
    prune_from: String,
    /// Keep samples whose label matches: a regex, key=regex, or a range such as 128kb:512kb
    #[arg(long, value_name = "TAG", default_value = "", hide_default_value = true, alias = "tag-focus")]
    tagfocus: String,
    /// Drop samples whose label matches
    #[arg(long, value_name = "TAG", default_value = "", hide_default_value = true, alias = "tag-ignore")]
    tagignore: String,
    /// Keep only labels whose key matches
    #[arg(long, value_name = "REGEX", default_value = "", hide_default_value = true, alias = "tag-show")]
    tagshow: String,
    /// Remove labels whose key matches
    #[arg(long, value_name = "REGEX", default_value = "", hide_default_value = true, alias = "tag-hide")]
    taghide: String,
}

/// `flame`.
#[derive(Args, Clone)]
pub(crate) struct FlameArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// svg or html; without it, the output's name decides
    #[arg(long, value_enum)]
    pub(crate) format: Option<Picture>,
    /// Callers below callees: the leaves become the roots
    #[arg(long)]
    pub(crate) inverted: bool,
    /// Roots at the top
    #[arg(long)]
    pub(crate) icicle: bool,
    /// The width of an SVG in pixels
    #[arg(long, value_name = "PIXELS", alias = "image_width", value_parser = clap::value_parser!(u32).range(200..=20_000))]
    pub(crate) image_width: Option<u32>,
    /// The title
    #[arg(long)]
    pub(crate) title: Option<String>,
}

/// What a picture is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Picture {
    /// A picture with search and zoom
    Svg,
    /// One interactive page
    Html,
}

/// `diff`.
#[derive(Args, Clone)]
pub(crate) struct DiffArgs {
    /// The profile before
    #[arg(value_name = "BASE", value_hint = ValueHint::FilePath)]
    pub(crate) before: String,
    /// The profile after
    #[arg(value_name = "NEW", value_hint = ValueHint::FilePath)]
    pub(crate) after: String,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
}

/// `check`.
#[derive(Args, Clone)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) diff: DiffArgs,
    /// How much a function may grow
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent)]
    pub(crate) max_growth: f64,
    /// Functions below this share of the total do not count
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = percent)]
    pub(crate) min_share: f64,
}

/// Reads `5%`, `5` (percent) or `0.5%` as a fraction.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim();
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value / 100.0),
        _ => Err(format!("'{text}' is not a percentage such as 5%")),
    }
}

/// `merge`, `symbolize` and `fetch`: profiles in, a pprof file out.
#[derive(Args, Clone)]
pub(crate) struct MergeArgs {
    /// Files, '-', or addresses of services
    #[arg(required = true, value_name = "SOURCE", value_hint = ValueHint::FilePath)]
    pub(crate) sources: Vec<String>,
    /// Write to this file; '-' is standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
}

/// `convert`.
#[derive(Args, Clone)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    pub(crate) merge: MergeArgs,
    /// The format; without it, the output's name decides
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<String>,
}

impl SourceArgs {
    pub(crate) fn options(&self, sources: Vec<String>) -> SourceOptions {
        SourceOptions {
            sources,
            base: self.base.clone(),
            diff_base: self.diff_base.clone(),
            normalize: self.normalize,
            fetch: FetchOptions {
                seconds: self.seconds,
                timeout: self.timeout,
                headers: self.header.clone(),
                tls_ca: self.tls_ca.clone(),
                tls_cert: self.tls_cert.clone(),
                tls_key: self.tls_key.clone(),
                insecure: self.insecure,
                max_bytes: 0,
            },
            max_memory: self.max_memory,
            symbols: SymbolOptions {
                skip: self.symbolize == Symbolize::None,
                force: self.symbolize == Symbolize::Force,
                binaries: self.binary.clone(),
            },
        }
    }
}

impl ShapeArgs {
    pub(crate) fn source_options(&self, sources: Vec<String>) -> SourceOptions {
        self.source.options(sources)
    }

    pub(crate) fn report_options(&self) -> ReportOptions {
        ReportOptions {
            sample_index: self.sample_index.clone(),
            mean: self.mean,
            filters: self.filters.options(),
            relative_percentages: self.relative_percentages,
            granularity: self.granularity,
            no_inlines: self.noinlines,
            show_columns: self.showcolumns,
            tag_root: self.tagroot.clone(),
            tag_leaf: self.tagleaf.clone(),
            unit: self.unit.clone(),
            divide_by: self.divide_by,
            node_count: self.nodecount,
            node_fraction: self.nodefraction,
            edge_fraction: self.edgefraction,
            trim: !self.no_trim,
            sort: if self.cum { Sort::Cum } else { Sort::Flat },
            call_tree: self.call_tree,
            drop_negative: self.drop_negative,
            compact_labels: self.compact_labels,
            source_path: self.source_path.clone(),
            trim_path: self.trim_path.clone(),
            intel_syntax: self.intel_syntax,
            folding: NameFolding {
                generics: self.fold_generics,
                runtime: self.fold_runtime,
                crates: self.by_crate,
            },
        }
    }
}

impl FilterArgs {
    fn options(&self) -> FilterOptions {
        FilterOptions {
            focus: self.focus.clone(),
            ignore: self.ignore.clone(),
            hide: self.hide.clone(),
            show: self.show.clone(),
            show_from: self.show_from.clone(),
            prune_from: self.prune_from.clone(),
            tag_focus: self.tagfocus.clone(),
            tag_ignore: self.tagignore.clone(),
            tag_show: self.tagshow.clone(),
            tag_hide: self.taghide.clone(),
        }
    }
}

impl ReportArgs {
    /// Takes the arguments apart: the sources, and how to shape the report.
    pub(crate) fn parts(self) -> (Vec<String>, ShapeArgs) {
        (self.sources, self.shape)
    }
}

impl MatchArgs {
    /// Takes the arguments apart: the expression, the sources, and how to shape the report. The expression
    /// is the first or last word that names no source; without one, every function matches.
    pub(crate) fn parts(self) -> (String, Vec<String>, ShapeArgs) {
        let is_source = |word: &str| {
            word == "-"
                || std::path::Path::new(word).exists()
                || crate::fetch::profile_url(word, None).is_some()
        };
        let mut words = self.words;
        let expression = match words.as_slice() {
            [_] => String::new(),
            [first, ..] if !is_source(first) => words.remove(0),
            [.., last] if !is_source(last) => words.pop().unwrap_or_default(),
            _ => String::new(),
        };
        (expression, words, self.shape)
    }
}
