//! `flamelet run`: runs other tools and opens what they wrote.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueHint;
use flamelet_profile::{moment, pprof};
use flamelet_record::drive::{Drive, Driven, Subject, Tool, drive};
use flamelet_report::ReportOptions;
use flamelet_view::ServeOptions;

use super::record::{Interruptions, exit_code};
use crate::arguments::guide::Guide;
use crate::arguments::values::{bytes, seconds};
use crate::error::{About, Failure, Result};
use crate::job::{Ask, Question, answer_to};
use crate::output;
use crate::profiles::{SourceOptions, SymbolOptions};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// perf, strace, massif, callgrind, cachegrind, dhat, heaptrack or bpftrace; `list` describes them
    #[arg(value_name = "TOOL")]
    tool: String,
    /// The command, after --; flamelet exits with its status (except with bpftrace)
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<String>,
    /// Attach to this process, if the tool can
    #[arg(short, long, value_name = "PID")]
    pid: Option<u32>,
    /// Stop the tool after this many seconds, so that it writes its file
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    duration: Option<std::time::Duration>,
    /// Limit the command's memory, such as 512MB (ulimit -v)
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    memory_limit: Option<u64>,
    /// The folder for all runs; each run gets its own subfolder
    #[arg(short, long, value_name = "FOLDER", default_value = "profiling", value_hint = ValueHint::DirPath)]
    output: PathBuf,
    /// The name of the service [default: that of the command]
    #[arg(long)]
    name: Option<String>,
    /// Pass an option to the tool (may be given several times)
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    tool_option: Vec<String>,
    /// A bpftrace program: a file or the text itself
    #[arg(long, value_name = "PROGRAM")]
    script: Option<String>,
    /// Open the viewer instead of printing the top functions
    #[arg(long)]
    view: bool,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Run another profiler (perf, strace, valgrind, heaptrack, bpftrace) and open its result",
        examples: &[
            ("flamelet run list", "the tools, their use and cost"),
            ("flamelet run callgrind --duration 60 -- ./service", "for a minute, then show the result"),
            ("flamelet run strace -p 1234 --duration 10", "a running process"),
            ("flamelet run massif --memory-limit 1GB -o /opt/profiling -- ./service", "with a memory limit, to another folder"),
            (
                "flamelet run bpftrace --script 'tracepoint:syscalls:sys_enter_read { @[ustack] = count(); }' -- ls",
                "with any bpftrace program",
            ),
        ],
        more: "Each run has its own folder, {output}/{name}/{time}-{tool}/, with the tool's file and a pprof file."
            .to_owned(),
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.tool == "list" {
        return output::text::write(None, list).map(|()| ExitCode::SUCCESS);
    }
    let interruptions = Interruptions::watch()?;
    let driven =
        drive(&plan(args)?, interruptions.flag()).map_err(|error| Failure::new(error.to_string()))?;
    note!("Wrote {}", driven.raw.display());
    if args.tool == Tool::Bpftrace.name() {
        check_maps(&driven, args.script.is_some())?;
    }
    interruptions.end();
    show(&driven, args)?;
    Ok(status_of_command(&driven, args))
}

/// Returns the command's own status if the tool passes it on: the tool's status, unless the tool was told to end.
fn status_of_command(driven: &Driven, args: &Args) -> ExitCode {
    let is_commands = !args.command.is_empty() && !driven.was_asked;
    exit_code(Some(driven.status).filter(|_| is_commands), false)
}

fn plan(args: &Args) -> Result<Drive> {
    let tool: Tool =
        args.tool.parse().map_err(|error: flamelet_record::Error| Failure::new(error.to_string()))?;
    if args.script.is_some() && tool != Tool::Bpftrace {
        return Err(Failure::new(format!("--script is only for bpftrace, not for {tool}")));
    }
    let subject = match (args.pid, args.command.is_empty()) {
        (Some(pid), true) => Subject::Pid(pid),
        (None, false) => Subject::Command(args.command.iter().map(OsString::from).collect()),
        _ => return Err(Failure::new("give a command after --, or a process with -p PID")),
    };
    // 2026-11-15T12-34-56Z: sorts by time, and is valid on every file system.
    let time = moment::format(moment::now()).replace(':', "-");
    Ok(Drive {
        tool,
        subject,
        folder: args.output.clone(),
        name: args.name.clone(),
        time,
        duration: args.duration,
        memory_limit: args.memory_limit,
        options: args.tool_option.clone(),
        script: args.script.clone(),
    })
}

/// Checks that a probe fired: without that, bpftrace writes its file, but no map.
fn check_maps(driven: &Driven, has_script: bool) -> Result<()> {
    let name = driven.raw.display();
    let text = std::fs::read_to_string(&driven.raw).about(&name)?;
    if text.lines().any(|line| line.starts_with('@')) {
        return Ok(());
    }
    Err(Failure::new(match has_script {
        true => {
            format!(
                "{name}: the bpftrace program counted nothing in a map (@…), so there is no profile to show"
            )
        }
        false => format!(
            "{name}: bpftrace took no samples; the command may have ended too soon. Use one that runs longer, or \
             flamelet record"
        ),
    }))
}

/// Writes a pprof file next to the raw one, and shows it.
fn show(driven: &Driven, args: &Args) -> Result<()> {
    let source = SourceOptions::of_file(&driven.raw);
    let opened = source.open()?;
    opened.notes.iter().for_each(|note| note!("{note}"));
    let path = driven.folder.join("profile.pb.gz");
    output::write(Some(&path), |out| Ok(pprof::write_gzip(&opened.profile, out)?))?;
    note!("Wrote {}", path.display());
    if args.view {
        let source = flamelet_view::Source::profile(&driven.raw.to_string_lossy(), opened.profile);
        return super::view::serve(source, &ServeOptions::default(), true);
    }
    let options = ReportOptions { node_count: Some(20), ..ReportOptions::default() };
    let symbols = SymbolOptions::default();
    let ask = Ask { options: &options, symbols: &symbols, json: false };
    answer_to(&Question::Top, opened.profile, &ask, None)
}

fn list(out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{:<11} {:<52} {:<52} installed", "tool", "good for", "slowdown")?;
    for tool in Tool::ALL {
        let installed = match tool.installed() {
            Some(path) => Path::display(&path).to_string(),
            None => format!("no: apt-get install {}", tool.package()),
        };
        writeln!(out, "{:<11} {:<52} {:<52} {installed}", tool.name(), tool.good_for(), tool.slowdown())?;
    }
    writeln!(
        out,
        "\nThe slowdowns are worst cases, loops that do nothing but that work; real programs suffer less.\nMeasured by \
         `cargo xtask bench tools` on {}.",
        Tool::slowdowns_measured()
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_file_of_bpftrace_without_a_map_says_why() {
        let folder = tempfile::tempdir().expect("a folder");
        let raw = folder.path().join("bpftrace.txt");
        let status = std::process::ExitStatus::from_raw(0);
        let driven = Driven { folder: folder.path().to_owned(), raw: raw.clone(), status, was_asked: false };
        let told = |text: &str, has_script| {
            std::fs::write(&raw, text).expect("written");
            check_maps(&driven, has_script).map_err(|failure| failure.to_string())
        };
        assert_eq!(told("Attached 1 probe\n\n@[\n    main+4\n]: 3\n", false), Ok(()));
        let nothing = "Attached 1 probe\n\nMAPPED_LIBRARIES:\n00400000-00401000 r-xp 00000000 00:00 0 /a@b\n";
        assert!(told(nothing, false).is_err_and(|told| told.contains("flamelet record")));
        assert!(told(nothing, true).is_err_and(|told| told.contains("counted nothing")));
    }
}
