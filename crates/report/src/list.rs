//! `list`: the source of functions, with the cost of each line.

use std::collections::BTreeSet;

use flamelet_symbol::source::{Reach, SourcePath, annotate};
use regex::Regex;
use serde::Serialize;

use crate::report::{Measure, Report};

/// A line of source with its cost.
#[derive(Clone, Debug, Serialize)]
pub struct ListedLine {
    /// Its number.
    pub line: i64,
    /// Its own cost.
    pub flat: i64,
    /// Its cost, including everything it called.
    pub cum: i64,
    /// The text; empty when the file was not found.
    pub text: String,
}

/// A function with the cost of each of its lines.
#[derive(Clone, Debug, Serialize)]
pub struct ListedFunction {
    /// The function.
    pub name: String,
    /// Its file, as the profile names it.
    pub file: String,
    /// Why there is no source, if there is none.
    pub missing: Option<String>,
    /// The own cost of its lines.
    pub flat: i64,
    /// The cost of its lines, including everything they called.
    pub cum: i64,
    /// Its lines.
    pub lines: Vec<ListedLine>,
}

/// The answer of `list`. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct List {
    /// What the values count.
    #[serde(flatten)]
    pub measure: Measure,
    /// The functions, costliest first.
    pub functions: Vec<ListedFunction>,
}

/// Lists the functions that match `wanted`. Reads any file that the profile names.
pub fn list(report: &Report, wanted: Option<&Regex>) -> List {
    list_within(report, wanted, Reach::Anywhere)
}

/// Like [`list()`], for users who may not read all files of this machine: only source files are shown, which are those
/// below the source path, those of toolchains, and those `confirmed` by the profile's own binaries
/// ([`confirmed_sources`](flamelet_symbol::source::confirmed_sources)).
pub fn list_confined(report: &Report, wanted: Option<&Regex>, confirmed: BTreeSet<String>) -> List {
    list_within(report, wanted, Reach::Confined(confirmed))
}

fn list_within(report: &Report, wanted: Option<&Regex>, reach: Reach) -> List {
    let sources = SourcePath::from_arguments(&report.options.source_path, &report.options.trim_path);
    let sources = SourcePath { reach, ..sources };
    let is_wanted = |name: &str| wanted.is_none_or(|wanted| wanted.is_match(name));
    let functions = annotate(&report.profile, report.value_index, is_wanted, &sources)
        .into_iter()
        .filter(|function| function.flat != 0 || function.cumulative != 0)
        .map(|function| ListedFunction {
            name: function.name,
            file: function.file,
            missing: function.found.err(),
            flat: function.flat,
            cum: function.cumulative,
            lines: function
                .lines
                .into_iter()
                .map(|line| ListedLine {
                    line: line.line,
                    flat: line.flat,
                    cum: line.cumulative,
                    text: line.text,
                })
                .collect(),
        })
        .collect();
    List { measure: report.measure(), functions }
}
