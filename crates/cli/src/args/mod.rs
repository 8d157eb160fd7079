//! The command line, as clap reads it. What an option means is said where it is used.

mod report;
mod source;
mod tools;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueHint};

use report::HEAP_EXAMPLES;
pub(crate) use report::{
    CheckArgs, DiffArgs, FlameArgs, HeapArgs, MatchArgs, Picture, ReportArgs, ShapeArgs,
};
pub(crate) use source::{ConvertArgs, MergeArgs, SourceArgs};
pub(crate) use tools::{DemoArgs, Heap, RecordArgs, RunArgs, ViewArgs};
use tools::{RECORD_EXAMPLES, RUN_EXAMPLES};

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
    Dot(ReportArgs),
    /// Draw the call graph: SVG, or DOT when the output's name ends in .dot
    #[command(after_help = "Example: flamelet graph cpu.pb.gz -o cpu.svg")]
    Graph(ReportArgs),
    /// Write the call graph for KCachegrind and callgrind_annotate
    Callgrind(ReportArgs),
    /// Write what the filters leave as a pprof file
    Proto(ReportArgs),
    /// Write the functions of `top` as a pprof file
    Topproto(ReportArgs),
    /// Draw a flame graph: SVG, or one interactive HTML file
    #[command(after_help = "Example: flamelet flame cpu.pb.gz -o cpu.html")]
    Flame(FlameArgs),
    /// Show who holds memory, who frees it, how long it lives, or what grows
    #[command(after_help = HEAP_EXAMPLES)]
    Heap(HeapArgs),
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
