//! Source and instructions of a function, with the cost of each line.

use std::collections::BTreeSet;

use flamelet_report::disasm::{Disassembly, ListedInstruction};
use flamelet_report::list::{List, ListedFunction, list_confined};
use flamelet_report::page::escaped_pattern;
use flamelet_report::profile::{Profile, filter};
use flamelet_report::{Report, ReportKind, ReportOptions};
use serde::Serialize;

use crate::Error;

/// Finds binaries, asks them for their source files, and disassembles functions. The caller provides the symbolizer.
pub trait Disassemble: Send + Sync {
    /// Returns the source files of the profile that its own binaries confirm, under the names that those use. Other
    /// files are shown only if they are below [`CodeOptions::source_path`].
    fn confirmed_sources(&self, report: &Report) -> BTreeSet<String>;

    /// Returns the instructions of the functions that match `pattern`; `report` was made for [`ReportKind::Disasm`].
    fn disassemble(&self, report: &Report, pattern: &str) -> Result<Disassembly, String>;
}

/// Where source and binaries are found.
#[derive(Default)]
pub struct CodeOptions {
    /// Folders with source files, separated by colons; the working folder if empty.
    pub source_path: String,
    /// Prefixes to remove from source paths, separated by colons.
    pub trim_path: String,
    /// The disassembler; without it the page shows source only.
    pub disassembler: Option<Box<dyn Disassemble>>,
}

/// What the page shows of a function.
#[derive(Serialize)]
pub(crate) struct Code {
    function: String,
    /// The function's lines in each file that has some.
    files: Vec<ListedFunction>,
    instructions: Vec<ListedInstruction>,
    note: String,
}

/// Reads the code of the function called `name`.
pub(crate) fn code_of(
    profile: &Profile,
    sample_type: usize,
    name: &str,
    options: &CodeOptions,
) -> Result<Code, Error> {
    if name.is_empty() {
        return Err(Error::invalid("no function selected"));
    }
    let pattern = format!("^{}$", escaped_pattern(name));
    let function = name.to_owned();
    let Some(disassembler) = &options.disassembler else {
        let (files, note) = sources(profile, sample_type, &pattern, options, BTreeSet::new())?;
        return Ok(Code { function, files, instructions: Vec::new(), note });
    };
    // With addresses, which a report on source lines lacks.
    let report = report(profile, sample_type, &pattern, options, ReportKind::Disasm)?;
    let confirmed = disassembler.confirmed_sources(&report);
    let (files, mut note) = sources(profile, sample_type, &pattern, options, confirmed)?;
    let instructions = match disassembler.disassemble(&report, &pattern) {
        Ok(found) => {
            if let Some(warning) = found.warnings.first().filter(|_| found.functions.is_empty()) {
                note = warning.clone();
            }
            found.functions.into_iter().flat_map(|function| function.instructions).collect()
        }
        Err(message) => {
            note = message;
            Vec::new()
        }
    };
    Ok(Code { function, files, instructions, note })
}

/// Keeps only the stacks of the function, so that the rest of the profile is not processed again.
fn report(
    profile: &Profile,
    sample_type: usize,
    pattern: &str,
    options: &CodeOptions,
    command: ReportKind,
) -> Result<Report, Error> {
    let mut wanted = ReportOptions {
        sample_index: sample_type.to_string(),
        source_path: options.source_path.clone(),
        trim_path: options.trim_path.clone(),
        ..ReportOptions::default()
    };
    wanted.filters.focus = pattern.to_owned();
    Report::new(profile.clone(), &wanted, command).map_err(|error| Error::invalid(error.to_string()))
}

fn sources(
    profile: &Profile,
    sample_type: usize,
    pattern: &str,
    options: &CodeOptions,
    confirmed: BTreeSet<String>,
) -> Result<(Vec<ListedFunction>, String), Error> {
    let report = report(profile, sample_type, pattern, options, ReportKind::List)?;
    let regex = filter::regex("function", pattern).map_err(|error| Error::invalid(error.to_string()))?;
    let found: List = list_confined(&report, regex.as_ref(), confirmed);
    let note = match found.functions.is_empty() {
        true => "The profile has no source lines for this function.".to_owned(),
        false => String::new(),
    };
    Ok((found.functions, note))
}
