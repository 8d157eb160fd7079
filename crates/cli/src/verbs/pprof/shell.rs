//! The shell of `flamelet pprof FILE`, with pprof's commands.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

use flamelet_profile::Profile;
use flamelet_report::{OPTIONS, Report, ReportKind, ReportOption, ReportOptions};

use super::away;
use super::command_line::{PprofCommand, plain_question, set_option};
use super::help;
use crate::error::{Failure, Result};
use crate::job::{Ask, Question, answer_to};
use crate::note::escaped;
use crate::output;

const HELP: &str = "\
Reports:   top [N] [FOCUS] [-IGNORE]   tree  peek REGEX  list REGEX  disasm REGEX  traces  tags
           raw  comments  dot  callgrind  proto  topproto  svg  png  web  flamegraph  html  (> FILE writes to a file)
Options:   `options` lists them; name=value sets one, a name alone turns a switch on:
           focus=REGEX  ignore=REGEX  hide=REGEX  cum  flat  granularity=lines  sample_index=inuse_space
Other:     help  help OPTION  quit";

/// Reads commands until the input ends.
pub(super) fn run(mut command: PprofCommand) -> Result<()> {
    let opened = command.source.open()?;
    opened.notes.iter().for_each(|note| note!("{note}"));
    let profile = opened.profile;
    // Printed once; the reports leave it out.
    let heading = Report::new(profile.clone(), &command.options, ReportKind::Top)?.heading("minimum");
    heading.iter().for_each(|line| note!("{line}"));
    command.options.compact_labels = true;
    let is_watched = io::stdin().is_terminal();
    if is_watched {
        note!("Entering interactive mode (type \"help\" for commands, \"o\" for options)");
    }
    let mut input = io::stdin().lock();
    let mut line = String::new();
    loop {
        if is_watched {
            write!(io::stdout(), "(pprof) ")?;
            io::stdout().flush()?;
        }
        line.clear();
        if input.read_line(&mut line)? == 0 {
            return Ok(());
        }
        match execute(line.trim(), &mut command, &profile) {
            Ok(ShellStep::Continue) => {}
            Ok(ShellStep::Quit) => return Ok(()),
            Err(failure) if failure.is_closed_pipe() => return Err(failure),
            Err(failure) => note!("{failure}"),
        }
    }
}

enum ShellStep {
    Continue,
    Quit,
}

fn execute(line: &str, command: &mut PprofCommand, profile: &Profile) -> Result<ShellStep> {
    match line {
        "" => return Ok(ShellStep::Continue),
        "quit" | "exit" | "^D" | "q" => return Ok(ShellStep::Quit),
        "help" | "h" | "?" => output::line(HELP)?,
        _ if line.starts_with("help ") => output::line(&help::of_option(line[5..].trim())?)?,
        "o" | "options" => output::line(&option_lines(&command.options).join("\n"))?,
        _ if is_assignment(line) => {
            let (name, value) = line.split_once('=').unwrap_or((line, "true"));
            set(command, profile, name.trim(), value.trim().trim_matches('"'))?;
        }
        _ => report(line, command, profile)?,
    }
    Ok(ShellStep::Continue)
}

/// Every option with its value, by name.
fn option_lines(options: &ReportOptions) -> Vec<String> {
    let shown =
        |value: String| if value.is_empty() { "\"\"".to_owned() } else { escaped(&value).into_owned() };
    let line = |option: &ReportOption| format!("  {:<25} = {}", option.name, shown(option.get(options)));
    let mut lines: Vec<String> = OPTIONS.iter().map(line).collect();
    lines.sort();
    lines
}

/// Returns whether the line sets an option: `name=value` before any space.
fn is_assignment(line: &str) -> bool {
    let name = line.split(['=', ' ']).next().unwrap_or("").trim_end_matches(|c: char| c.is_ascii_digit());
    let is_report = plain_question(name).is_some()
        || matches!(name, "peek" | "list" | "disasm" | "web")
        || help::instead_of(name).is_some();
    !is_report && (line.contains('=') || !line.contains(' '))
}

fn set(command: &mut PprofCommand, profile: &Profile, name: &str, value: &str) -> Result<()> {
    let mut options = command.options.clone();
    set_option(&mut options, name, value)?;
    // If the profile does not have this sample type, every report from now on would fail.
    flamelet_report::sample_index(profile, &options.sample_index)?;
    command.options = options;
    Ok(())
}

fn report(line: &str, command: &PprofCommand, profile: &Profile) -> Result<()> {
    let (line, file) = match line.split_once('>') {
        Some((line, file)) => (line.trim(), Some(PathBuf::from(file.trim()))),
        None => (line, None),
    };
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or("");
    let mut options = command.options.clone();
    // `top5` is `top 5`.
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let name = if digits.parse::<usize>().is_ok() { name.trim_end_matches(digits) } else { name };
    options.node_count = digits.parse().ok().or(options.node_count);
    let (mut focus, mut ignore) = (Vec::new(), Vec::new());
    let question = match name {
        "peek" | "list" | "disasm" => {
            let expression =
                words.next().ok_or_else(|| Failure::new(format!("{name} needs a regular expression")))?;
            match name {
                "peek" => Question::Peek(expression.into()),
                "list" => Question::List(expression.into()),
                _ => Question::Disasm(expression.into()),
            }
        }
        // The browser opens the picture once the options are known.
        "web" => Question::Graph,
        _ => plain_question(name).ok_or_else(|| unrecognized(name))?,
    };
    if matches!(question, Question::Top) && options.node_count.is_none() {
        options.node_count = Some(10);
    }
    for word in words {
        match (word.parse::<usize>(), word.strip_prefix('-')) {
            (Ok(count), _) => options.node_count = Some(count),
            (_, Some("cum")) => options.sort = flamelet_report::Sort::Cum,
            (_, Some(ignored)) => ignore.push(ignored),
            (_, None) => focus.push(word),
        }
    }
    if !focus.is_empty() {
        options.filters.focus = focus.join("|");
    }
    if !ignore.is_empty() {
        options.filters.ignore = ignore.join("|");
    }
    let ask = Ask { options: &options, symbols: &command.source.symbols, json: false };
    if name == "web" {
        return super::show_in_browser(profile.clone(), &ask);
    }
    away::from_terminal(&question, file.as_deref(), |file| answer_to(&question, profile.clone(), &ask, file))
}

fn unrecognized(name: &str) -> Failure {
    Failure::new(match help::instead_of(name) {
        Some(instead) => format!("{name}: {instead}"),
        None => format!("unrecognized command: \"{name}\" (type help)"),
    })
}
