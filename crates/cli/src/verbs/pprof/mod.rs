//! `flamelet pprof`: go tool pprof's command line.

mod away;
mod command_line;
mod help;
mod shell;

use std::path::Path;

use flamelet_profile::Profile;
use flamelet_report::{Report, ReportKind, ReportOptions};
use flamelet_view::{ServeOptions, Source};

use super::view;
use crate::arguments::guide::Guide;
use crate::error::{About, Failure, Result};
use crate::job::{Ask, Job, Question, answer_to};
use crate::output;
use command_line::{PprofCommand, ReportFlag};

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// The arguments of go tool pprof
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Accept go tool pprof's command line: single-dash flags, and a shell if no report is given",
        examples: &[
            ("flamelet pprof -top -cum cpu.pb.gz", "one report"),
            ("flamelet pprof -http=:8080 cpu.pb.gz", "the viewer, on that port"),
            ("flamelet pprof -top -inuse_space ./service heap.pb.gz", "with a binary for symbols"),
            ("flamelet pprof http://localhost:3000", "take 30 s of CPU, then a shell"),
            ("flamelet pprof cpu.pb.gz", "a shell: top, list main, help, quit"),
        ],
        more: help::flags(),
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let arguments = args.arguments.as_slice();
    let is_help = |word: &String| matches!(word.as_str(), "-h" | "-help" | "--help" | "help");
    if arguments.is_empty() || arguments.iter().any(is_help) {
        let text = guide().text();
        return output::line(&format!("flamelet pprof accepts go tool pprof's command line.\n\n{text}"));
    }
    let command = command_line::parse(arguments)?;
    if command.source.sources.is_empty() {
        return Err(Failure::new("no profile source specified; give a file, '-' or a URL"));
    }
    if let Some(address) = &command.http {
        if command.report.is_some() || command.output.is_some() {
            return Err(Failure::new("-http cannot be used with a report or -output"));
        }
        return serve(&command, &listen_on(address)?);
    }
    if command.no_browser {
        return Err(Failure::new("-no_browser needs -http"));
    }
    match command.report.clone() {
        Some(ReportFlag::Report(question)) => {
            let (source, options) = (command.source, command.options);
            away::from_terminal(&question.clone(), command.output.as_deref(), |output| {
                Job { question, source, options, output: output.map(Path::to_owned), json: false }.run()
            })
        }
        Some(ReportFlag::Web) => {
            let opened = command.source.open()?;
            opened.notes.iter().for_each(|note| note!("{note}"));
            let ask = Ask { options: &command.options, symbols: &command.source.symbols, json: false };
            show_in_browser(opened.profile, &ask)
        }
        None => shell::run(command),
    }
}

/// Draws the call graph to a file that is kept, and opens it on the desktop.
fn show_in_browser(profile: Profile, ask: &Ask<'_>) -> Result<()> {
    let mut name = tempfile::Builder::new();
    let file = name.prefix("flamelet-graph-").suffix(".svg").tempfile().about("a file for the picture")?;
    let (_, path) = file.keep().map_err(|error| error.error).about("a file for the picture")?;
    answer_to(&Question::Graph, profile, ask, Some(&path))?;
    note!("Wrote {}; open it in a browser", path.display());
    view::open_in_browser(&path.to_string_lossy());
    Ok(())
}

/// Reads `host:port` as pprof does: either may be left out.
fn listen_on(address: &str) -> Result<ServeOptions> {
    let wrong =
        || Failure::new(format!("-http={address}: expected HOST:PORT, such as localhost:8080 or :8080"));
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    let port = if port.is_empty() { 0 } else { port.parse().map_err(|_| wrong())? };
    Ok(view::listen_on(host, port))
}

/// Returns whether the options leave the profile that the page shows unchanged.
fn leaves_profile_alone(options: &ReportOptions) -> bool {
    let usual = ReportOptions::default();
    options.filters == usual.filters
        && options.sample_index == usual.sample_index
        && (&options.tag_root, &options.tag_leaf) == (&usual.tag_root, &usual.tag_leaf)
        && (options.no_inlines, options.folding) == (usual.no_inlines, usual.folding)
}

fn serve(command: &PprofCommand, listen: &ServeOptions) -> Result<()> {
    let mut options = command.source.clone();
    options.take_binary();
    let source =
        if options.sources.len() == 1 && !options.has_base() && leaves_profile_alone(&command.options) {
            view::source(&options)?
        } else {
            // Several profiles are merged, as in the reports, and the page shows the filtered result.
            let opened = options.open()?;
            opened.notes.iter().for_each(|note| note!("{note}"));
            let report = Report::new(opened.profile, &command.options, ReportKind::Proto)?;
            report.warnings.iter().for_each(|warning| note!("{warning}"));
            let first = report.value_index();
            let mut profile = report.into_profile();
            profile.header.default_sample_type = profile.sample_types()[first].kind;
            Source::profile(&options.sources.join(" + "), profile)
        };
    let code = flamelet_view::CodeOptions {
        source_path: command.options.source_path.clone(),
        trim_path: command.options.trim_path.clone(),
        ..view::code_options(&options.symbols)
    };
    view::serve(source.with_code(code), listen, !command.no_browser)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_that_pprof_takes() {
        let read = |text: &str| listen_on(text).map(|options| (options.host, options.port)).ok();
        let named = |host: &str, port| Some((Some(host.to_owned()), port));
        assert_eq!(read(":8080"), Some((None, 8080)));
        assert_eq!(read("localhost:"), Some((None, 0)));
        assert_eq!(read("0.0.0.0:80"), named("0.0.0.0", 80));
        assert_eq!(read("[::1]:80"), named("::1", 80));
        assert_eq!(read("8080"), None);
        assert_eq!(read("localhost:99999"), None);
    }
}
