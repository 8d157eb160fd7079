//! The verbs of the command: a file or a folder for each, with its arguments, its help and its code; those that are one
//! report each are entries of [`reports`].
//!
//! A verb's module has `Args` (for clap), `guide` (its help and examples) and `run`. Its name is the verb's.

mod check;
mod collect;
mod completions;
mod convert;
#[cfg(target_os = "linux")]
mod demo;
mod diff;
#[cfg(target_os = "linux")]
mod doctor;
mod dot;
mod explain;
mod fetch;
mod flame;
mod graph;
mod heap;
#[cfg(any(test, not(target_os = "linux")))]
mod linux_only;
mod man;
mod mcp;
mod merge;
mod pprof;
mod push;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
mod recover;
mod reports;
mod requests;
#[cfg(target_os = "linux")]
mod run;
mod symbolize;
mod symbols;
mod tasks;
mod top;
mod view;

use std::process::{ExitCode, Termination};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::arguments::guide::Guide;
use crate::error::Result;
#[cfg(not(target_os = "linux"))]
use linux_only::{demo, doctor, record, recover, run};
use reports::{callgrind, comments, disasm, info, list, peek, proto, raw, tags, topproto, traces, tree};

/// Every verb, in the order of the help: how it is called and parsed, its help, and its code.
macro_rules! verbs {
    ($($module:ident => $variant:ident,)*) => {
        #[derive(Subcommand)]
        pub(crate) enum Verb {
            $($variant($module::Args),)*
        }

        impl Verb {
            pub(crate) fn run(&self) -> Result<ExitCode> {
                match self {
                    $(Self::$variant(args) => $module::run(args).map(Termination::report),)*
                }
            }
        }

        /// The help of each verb, by its name.
        fn guides() -> Vec<(&'static str, Guide)> {
            vec![$((stringify!($module), $module::guide()),)*]
        }
    };
}

verbs! {
    top => Top,
    explain => Explain,
    tree => Tree,
    peek => Peek,
    list => List,
    disasm => Disasm,
    traces => Traces,
    tags => Tags,
    raw => Raw,
    info => Info,
    comments => Comments,
    dot => Dot,
    graph => Graph,
    callgrind => Callgrind,
    proto => Proto,
    topproto => Topproto,
    flame => Flame,
    heap => Heap,
    requests => Requests,
    tasks => Tasks,
    diff => Diff,
    check => Check,
    merge => Merge,
    symbolize => Symbolize,
    fetch => Fetch,
    push => Push,
    collect => Collect,
    symbols => Symbols,
    convert => Convert,
    record => Record,
    run => Run,
    doctor => Doctor,
    recover => Recover,
    view => View,
    demo => Demo,
    mcp => Mcp,
    pprof => Pprof,
    completions => Completions,
    man => Man,
}

#[derive(Parser)]
#[command(name = "flamelet", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

/// Reads the command line of this process.
pub(crate) fn parse() -> Result<Verb, clap::Error> {
    let cli = Cli::from_arg_matches(&command().try_get_matches()?)?;
    Ok(cli.verb)
}

/// Returns the command line definition with all help texts.
fn command() -> clap::Command {
    let verbs = guides().into_iter();
    let command = guide().put_on(Cli::command());
    verbs.fold(command, |command, (name, guide)| command.mut_subcommand(name, |verb| guide.put_on(verb)))
}

/// The help of the command itself.
fn guide() -> Guide {
    Guide {
        about: "A profiler for Rust services: record, fetch, view, compare and check profiles",
        examples: &[
            ("flamelet top cpu.pb.gz", "the most expensive functions"),
            ("flamelet explain cpu.pb.gz", "what stands out, and what usually helps"),
            ("flamelet top http://localhost:3000", "30 s of a running service"),
            ("flamelet flame cpu.pb.gz -o cpu.html", "an interactive flame graph"),
            ("flamelet diff before.pb.gz after.pb.gz", "what changed, beyond noise"),
            ("flamelet check main.pb.gz branch.pb.gz --max-growth 5%", "fail CI if a function got slower"),
            ("flamelet pprof -top -cum cpu.pb.gz", "go tool pprof's command line"),
        ],
        more: "Options have pprof's names (--nodecount, --tagfocus); dashes between words work too (--node-count)."
            .to_owned(),
        exit_status: Some(
            "0 success; 1 the check failed (check, collect changes, doctor, record --strict); 2 bad usage or bad input. \
             record exits with the status of its command.",
        ),
        ..Guide::default()
    }
}

#[cfg(test)]
mod tests {
    use flamelet_report::OPTIONS;

    use super::*;

    /// Returns the words of a shell command line, up to the first that the shell itself interprets.
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

    /// clap ends a line where a help text has this.
    #[test]
    fn no_help_text_has_a_place_that_clap_replaces() {
        for verb in command().get_subcommands() {
            let helps =
                verb.get_arguments().flat_map(|argument| [argument.get_help(), argument.get_long_help()]);
            let texts = helps.flatten().map(ToString::to_string);
            let examples = guides().into_iter().flat_map(|(_, guide)| guide.examples.iter());
            for text in texts.chain(examples.map(|(line, _)| (*line).to_owned())) {
                assert!(!text.contains("{n}"), "{}: {text}", verb.get_name());
            }
        }
    }

    #[test]
    fn every_verb_shows_examples_that_it_accepts() {
        let names: Vec<String> = command().get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
        assert_eq!(names, guides().iter().map(|(name, _)| *name).collect::<Vec<_>>());
        for (name, guide) in guides() {
            assert!(!guide.about.is_empty() && !guide.examples.is_empty(), "{name} has no example");
            for (line, _) in guide.examples {
                let words = words(line);
                assert_eq!(words[1], name, "{line}");
                // The binary to take symbols from must exist when the command line is read.
                let words = words.iter().map(|word| if word.starts_with("./service") { "/" } else { word });
                if let Err(error) = command().try_get_matches_from(words) {
                    panic!("{line}: {error}");
                }
            }
        }
    }

    /// Returns whether a line of `help` begins with `--flag`, or with its letter and `--flag`.
    fn lists(help: &str, flag: &str) -> bool {
        help.lines().any(|line| line.split_whitespace().find(|word| word.starts_with("--")) == Some(flag))
    }

    #[test]
    fn options_are_in_the_help_of_the_reports_that_take_them_and_of_no_others() {
        let mut command = command();
        let verbs = command.get_subcommands_mut();
        let helps: Vec<(String, String)> =
            verbs.map(|verb| (verb.get_name().to_owned(), verb.render_help().to_string())).collect();
        for option in OPTIONS {
            let flag = option.flag.map_or(option.name, |(flag, _)| flag).replace('_', "-");
            for (verb, help) in &helps {
                let is_expected = match (verb.as_str(), option.name) {
                    ("view", name) => ["source_path", "trim_path"].contains(&name),
                    ("graph", _) => option.reports.contains(&flamelet_report::ReportKind::Dot),
                    (verb, _) => {
                        option.reports.iter().any(|report| format!("{report:?}").eq_ignore_ascii_case(verb))
                    }
                };
                assert_eq!(lists(help, &format!("--{flag}")), is_expected, "{verb} --{flag}");
            }
        }
    }

    #[test]
    fn options_are_in_the_help_of_pprof() {
        let help = pprof::guide().more;
        for option in OPTIONS {
            let flags = std::iter::once(option.name).chain(option.choices.iter().copied());
            for flag in flags {
                let flag = format!("-{flag}");
                assert!(help.split([' ', ',', '=', '\n']).any(|word| word == flag), "{flag}");
            }
            assert!(help.contains(option.help), "{}", option.name);
        }
    }
}
