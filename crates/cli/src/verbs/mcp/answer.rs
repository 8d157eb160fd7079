//! The tools that answer questions about a profile, by the jobs of the other verbs.

use std::fmt::Write as _;
use std::fs::DirEntry;
use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

use flamelet_profile::Profile;
use flamelet_report::by::Grouping;
use flamelet_report::diff::Comparison;
use flamelet_report::info;
use flamelet_report::{ReportKind, ReportOption, ReportOptions, Sort};

use super::capped::Capped;
use super::parameters::Arguments;
use super::server::McpServer;
use crate::error::{About, Failure, Result};
use crate::job::{self, Ask, Question, Repeat, RepeatedOption};
use crate::note::escaped;
use crate::output;
use crate::verbs::diff as diff_verb;

/// How long an answer may be, in bytes: some thousand words.
const LONGEST_ANSWER: usize = 20_000;
const USUAL_ROWS: usize = 20;
/// How many files of a folder are listed.
const MOST_FILES: usize = 100;

/// Why an answer may be too long, and what to do.
const ADVICE: &str = "narrow it down with focus, or with an expression that matches less";

pub(super) fn open(server: &McpServer, arguments: &Arguments<'_>) -> Result<String> {
    let Some(name) = arguments.text("path") else { return folders(server) };
    if server.shelf().find(name).is_none() {
        let path = server.reach.path(name)?;
        if path.is_dir() {
            return folder(&path);
        }
    }
    ask(server, &server.profile(name)?, &Question::Info, &ReportOptions::default())
}

/// Lists all allowed folders, and what is kept.
fn folders(server: &McpServer) -> Result<String> {
    let mut text = String::new();
    for path in server.reach.folders() {
        text += &folder(path)?;
    }
    for name in server.shelf().names() {
        let _ = writeln!(text, "Kept in memory: {name}");
    }
    Ok(text)
}

/// Lists the files of a folder, the newest first, and its subfolders.
fn folder(path: &Path) -> Result<String> {
    let name = |entry: &DirEntry| entry.file_name().to_string_lossy().into_owned();
    let time = |entry: &DirEntry| {
        entry.metadata().and_then(|about| about.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
    };
    let entries = std::fs::read_dir(path).about(path.display())?.flatten();
    let mut entries: Vec<DirEntry> = entries.filter(|entry| !name(entry).starts_with('.')).collect();
    entries.sort_by_cached_key(|entry| (std::cmp::Reverse(time(entry)), name(entry)));
    let mut text = format!("{}\n", path.display());
    for entry in entries.iter().take(MOST_FILES) {
        // A link is not followed: what it leads to may be elsewhere.
        let line = match entry.metadata() {
            Ok(about) if about.is_dir() => format!("  {}/\n", name(entry)),
            Ok(about) if about.is_file() => format!("  {}  {} bytes\n", name(entry), about.len()),
            _ => continue,
        };
        text += &line;
    }
    if entries.len() > MOST_FILES {
        let _ = writeln!(text, "[{} more entries are left out]", entries.len() - MOST_FILES);
    }
    Ok(escaped(&text).into_owned())
}

pub(super) fn explain(server: &McpServer, arguments: &Arguments<'_>) -> Result<String> {
    let given = FILTERS.iter().filter_map(|name| Some((*name, arguments.text(name)?.to_owned())));
    let mine = arguments.texts("mine");
    let given = given.chain(mine.iter().map(|text| ("mine", text.clone())));
    let source = vec![arguments.needed("profile").to_owned()];
    let repeat = Repeat {
        options: given.map(|(name, value)| RepeatedOption::named(name, value)).collect(),
        sources: source.clone(),
        one: source,
    };
    let question = Question::Explain { mine, repeat };
    report(server, arguments, &question)
}

pub(super) fn top(server: &McpServer, arguments: &Arguments<'_>) -> Result<String> {
    let question = match arguments.text("by").map(str::parse::<Grouping>) {
        Some(grouping) => Question::By(grouping.map_err(Failure::new)?, arguments.texts("mine")),
        None => Question::Top,
    };
    report(server, arguments, &question)
}

pub(super) fn peek(server: &McpServer, arguments: &Arguments<'_>) -> Result<String> {
    report(server, arguments, &Question::Peek(arguments.needed("function").to_owned()))
}

pub(super) fn list(server: &McpServer, arguments: &Arguments<'_>) -> Result<String> {
    report(server, arguments, &Question::List(arguments.needed("function").to_owned()))
}

pub(super) fn diff(server: &McpServer, arguments: &Arguments<'_>) -> Result<String> {
    let options = options(server, arguments)?;
    let before = server.profile(arguments.needed("before")).about("before")?;
    let after = server.profile(arguments.needed("after")).about("after")?;
    let mut text = format!("before: {}after: {}", quality(&before), quality(&after));
    let (rows, normalize) = (options.node_count.unwrap_or(USUAL_ROWS), arguments.switch("normalize"));
    let run = |profile| diff_verb::run_of(profile, &options, ReportKind::Diff);
    let comparison = Comparison { normalize, ..Comparison::default() };
    let answer = diff_verb::compare_runs(&[run(before)?], &[run(after)?], &options, comparison)?;
    text += &capped(|out| output::text::plainly(out, |mut out| Ok(answer.write_text(&mut out, rows)?)))?;
    Ok(text)
}

/// Answers a question about the profile that the arguments name.
fn report(server: &McpServer, arguments: &Arguments<'_>, question: &Question) -> Result<String> {
    let options = options(server, arguments)?;
    let profile = server.profile(arguments.needed("profile"))?;
    let quality = quality(&profile);
    Ok(quality + &ask(server, &profile, question, &options)?)
}

fn ask(
    server: &McpServer,
    profile: &Profile,
    question: &Question,
    options: &ReportOptions,
) -> Result<String> {
    let symbols = server.source_options().symbols;
    let ask = Ask { options, symbols: &symbols, json: false };
    capped(|out| job::answer_as_text(question, profile.clone(), &ask, out))
}

/// Runs `produce` and returns what it wrote, as far as that is not too long.
fn capped(produce: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<String> {
    let mut text = Capped::new(LONGEST_ANSWER);
    produce(&mut text)?;
    Ok(text.finish(ADVICE))
}

/// Reads the options of a report that are among the arguments.
/// The options of reports that tools take.
const FILTERS: [&str; 4] = ["sample_index", "focus", "ignore", "tagfocus"];

fn options(server: &McpServer, arguments: &Arguments<'_>) -> Result<ReportOptions> {
    let mut options = ReportOptions::default();
    for name in FILTERS {
        if let Some((option, value)) = ReportOption::named(name).zip(arguments.text(name)) {
            option.set(&mut options, value).about(name)?;
        }
    }
    let rows = arguments.count("rows").and_then(|rows| usize::try_from(rows).ok());
    options.node_count = Some(rows.unwrap_or(USUAL_ROWS));
    options.sort = if arguments.switch("cum") { Sort::Cum } else { Sort::Flat };
    // Only below these are sources looked for.
    let folders: Vec<_> = server.reach.folders().iter().map(|folder| folder.to_string_lossy()).collect();
    options.source_path = folders.join(":");
    Ok(options)
}

/// Says how much the profile can be trusted, and why not more.
pub(super) fn quality(profile: &Profile) -> String {
    let lines = info::info(profile).verdict_lines();
    escaped(&format!("{}\n", lines.join("\n"))).into_owned()
}
