//! The command line, as clap reads it. What an option means is said where it is used.

mod compare;
mod convert;
pub(crate) mod guide;
mod report;
mod shape;
mod source;
mod tools;
mod values;

use std::path::PathBuf;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};
use flamelet_report::Command as Report;

pub(crate) use compare::{CheckArgs, DiffArgs, HeapArgs, PairArgs};
pub(crate) use convert::{ConvertArgs, Made};
pub(crate) use report::{
    AboutArgs, CallgrindArgs, DisasmArgs, FlameArgs, GraphArgs, ListArgs, PeekArgs, Picture, ProtoArgs,
    RawArgs, TagsArgs, TopArgs, TopProtoArgs, TracesArgs, TreeArgs, ViewArgs,
};
pub(crate) use source::{FetchVerbArgs, MergeArgs, RecoverArgs, SymbolizeArgs};
pub(crate) use tools::{CPU_FILE, DemoArgs, HEAP_FILE, Heap, RecordArgs, RunArgs};

use crate::verbs;

/// One profiler for Rust services: records, opens, compares, checks and shows profiles.
#[derive(Parser)]
#[command(name = "flamelet", version, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Show the functions that cost most
    Top(TopArgs),
    /// Show functions with their callers and callees
    Tree(TreeArgs),
    /// Show callers and callees of the functions that match an expression
    Peek(PeekArgs),
    /// Show the source of the functions that match an expression, with the cost of each line
    List(ListArgs),
    /// Show the instructions of the functions that match an expression, with the cost of each
    Disasm(DisasmArgs),
    /// Show every stack
    Traces(TracesArgs),
    /// Show what each label value cost
    Tags(TagsArgs),
    /// Show everything in the profile as text
    Raw(RawArgs),
    /// Say what a profile is and how good it is
    Info(AboutArgs),
    /// Show the comments of a profile
    Comments(AboutArgs),
    /// Write the call graph for Graphviz
    Dot(GraphArgs),
    /// Draw the call graph: SVG, or DOT when the output's name ends in .dot
    Graph(GraphArgs),
    /// Write the call graph for KCachegrind and callgrind_annotate
    Callgrind(CallgrindArgs),
    /// Write what the filters leave as a pprof file
    Proto(ProtoArgs),
    /// Write the functions of `top` as a pprof file
    Topproto(TopProtoArgs),
    /// Draw a flame graph: SVG, or one interactive HTML file
    Flame(FlameArgs),
    /// Show who holds memory, who frees it, how long it lives, or what grows
    Heap(HeapArgs),
    /// Show what changed between two profiles, and whether it is more than noise
    Diff(DiffArgs),
    /// Fail when a function costs more than before: for CI
    Check(CheckArgs),
    /// Merge profiles into one file
    Merge(MergeArgs),
    /// Fill in names, files and lines, and write the profile
    Symbolize(SymbolizeArgs),
    /// Fetch a profile from a service and keep it as it came
    Fetch(FetchVerbArgs),
    /// Convert a profile to another format
    Convert(ConvertArgs),
    /// Sample a command or running processes
    Record(RecordArgs),
    /// Drive another tool (perf, strace, valgrind, heaptrack, bpftrace) and open what it wrote
    Run(RunArgs),
    /// Say what this machine, this user and a binary allow, and what would allow more
    Doctor {
        /// A binary, or the id of a running process
        #[arg(value_name = "PID|BINARY", value_hint = ValueHint::FilePath)]
        subject: Option<String>,
    },
    /// Make a heap profile of the file that a killed service left behind
    Recover(RecoverArgs),
    /// Look at profiles in the browser
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
        /// The folder, which is made if it is not there
        #[arg(value_hint = ValueHint::DirPath)]
        folder: PathBuf,
    },
}

/// Reads the command line of this process.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&command().try_get_matches()?)
}

/// The command line with everything that its help says.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command().after_help(guide::of_command().text());
    command.mut_subcommands(|verb| {
        let name = verb.get_name().to_owned();
        let text = guide::of(&name).text();
        let verb = if text.is_empty() { verb } else { verb.after_help(text) };
        with_own_defaults(verb, &name)
    })
}

/// Says what verbs take by default that others take differently.
fn with_own_defaults(verb: clap::Command, name: &str) -> clap::Command {
    let shows = |count: usize| if count == 0 { "all".to_owned() } else { count.to_string() };
    let rows = match name {
        "top" => Some(shows(Report::Top.usual_node_count())),
        "topproto" => Some(shows(Report::TopProto.usual_node_count())),
        "tree" => Some(shows(Report::Tree.usual_node_count())),
        "dot" | "graph" => Some(shows(Report::Dot.usual_node_count())),
        "diff" => Some(shows(verbs::diff::ROWS)),
        "heap" => Some(shows(verbs::heap::ROWS)),
        _ => None,
    };
    let verb = match rows {
        Some(rows) => verb.mut_arg("nodecount", |arg| {
            arg.help(format!("Show this many entries; 0 shows all [default: {rows}]"))
        }),
        None => verb,
    };
    match name {
        "view" => verb.mut_arg("seconds", |arg| {
            let seconds = verbs::view::LIVE_SECONDS;
            arg.help(format!("Ask the service for this many seconds [default: {seconds}]"))
        }),
        "heap" => verb
            .mut_arg("seconds", |arg| {
                let seconds = verbs::heap::GROWTH_SECONDS;
                arg.help(format!("Watch the service for this many seconds [default: {seconds} for --growth]"))
            })
            .mut_arg("granularity", |arg| {
                arg.help("functions, filefunctions, files, lines or addresses [default: filefunctions]")
            }),
        _ => verb,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a shell's line, up to what the shell does itself.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut is_quoted = false;
        for letter in line.split('>').next().unwrap_or(line).chars() {
            match letter {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(String::new()),
                '|' if !is_quoted => break,
                letter => words.last_mut().expect("one at least").push(letter),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_verb_shows_examples_that_it_accepts() {
        for verb in command().get_subcommands() {
            let examples = guide::of(verb.get_name()).examples;
            assert!(!examples.is_empty(), "{} has no example", verb.get_name());
            for (line, _) in examples {
                let words = words(line);
                assert_eq!(words[1], verb.get_name(), "{line}");
                // What a binary is taken from must be there when the line is read.
                let words = words.iter().map(|word| if word.starts_with("./service") { "/" } else { word });
                if let Err(error) = command().try_get_matches_from(words) {
                    panic!("{line}: {error}");
                }
            }
        }
    }
}
