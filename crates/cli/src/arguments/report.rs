//! Arguments that the reports on one profile share, and the job they describe.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use super::options::{OptionArgs, Takes};
use super::source::{RangeArgs, SourceArgs, Sources};
use crate::error::Result;
use crate::job::{Job, Question};
use crate::profiles::SourceOptions;
use crate::profiles::fetch;

/// Where a report goes.
#[derive(Args)]
pub(crate) struct OutputArgs {
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

/// Reports that are data too.
#[derive(Args)]
pub(crate) struct JsonArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Whose code is yours, where paths and names do not say.
#[derive(Args)]
pub(crate) struct MineArgs {
    /// Treat functions whose name or file matches as your code (may be given several times)
    #[arg(long, value_name = "REGEX")]
    pub(crate) mine: Vec<String>,
}

/// What every report takes.
#[derive(Args)]
pub(crate) struct ReportArgs<T: Takes> {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    options: OptionArgs<T>,
    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    source: SourceArgs,
}

impl<T: Takes> ReportArgs<T> {
    pub(crate) fn job(&self, question: Question, sources: &[String], json: bool) -> Job {
        Job {
            question,
            source: SourceOptions {
                range: self.range.range(),
                which: self.range.which(),
                ..self.source.options(sources.to_vec())
            },
            options: self.options.options.clone(),
            output: self.output.output.clone(),
            json,
        }
    }

    pub(crate) fn output(&self) -> Option<&Path> {
        self.output.output.as_deref()
    }
}

/// An expression and the profiles, for reports on the functions that match.
#[derive(Args)]
pub(crate) struct MatchArgs {
    /// A regular expression for functions (all if omitted), then files, '-' or URLs
    #[arg(required = true, value_name = "[REGEX] SOURCE", value_hint = ValueHint::FilePath)]
    words: Vec<String>,
}

impl MatchArgs {
    /// Separates the expression, which is the first or last word that is not a source, from the sources. Without one,
    /// every function matches.
    pub(crate) fn expression_and_sources(&self) -> (String, &[String]) {
        let is_source = |word: &str| {
            word == "-"
                || Path::new(word).metadata().is_ok_and(|about| !about.is_dir())
                || fetch::profile_url(word, None).is_some()
        };
        match self.words.as_slice() {
            [first, sources @ ..] if !sources.is_empty() && !is_source(first) => (first.clone(), sources),
            [sources @ .., last] if !sources.is_empty() && !is_source(last) => (last.clone(), sources),
            sources => (String::new(), sources),
        }
    }
}

/// All arguments of a report that is data too.
#[derive(Args)]
pub(crate) struct DataReport<T: Takes> {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    report: ReportArgs<T>,
    #[command(flatten)]
    json: JsonArgs,
}

impl<T: Takes> DataReport<T> {
    pub(crate) fn answer(&self, question: Question) -> Result<()> {
        self.report.job(question, &self.sources.sources, self.json.json).run()
    }

    pub(crate) fn output(&self) -> Option<&Path> {
        self.report.output()
    }
}

/// All arguments of a report on the functions that match an expression.
#[derive(Args)]
pub(crate) struct MatchReport<T: Takes> {
    #[command(flatten)]
    matched: MatchArgs,
    #[command(flatten)]
    report: ReportArgs<T>,
    #[command(flatten)]
    json: JsonArgs,
}

impl<T: Takes> MatchReport<T> {
    /// Answers a question about an expression.
    pub(crate) fn answer(&self, question: impl FnOnce(String) -> Question) -> Result<()> {
        let (expression, sources) = self.matched.expression_and_sources();
        self.report.job(question(expression), sources, self.json.json).run()
    }
}

/// All arguments of a report that is a file for another program.
#[derive(Args)]
pub(crate) struct FileReport<T: Takes> {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    report: ReportArgs<T>,
}

impl<T: Takes> FileReport<T> {
    pub(crate) fn answer(&self, question: Question) -> Result<()> {
        self.report.job(question, &self.sources.sources, false).run()
    }
}
