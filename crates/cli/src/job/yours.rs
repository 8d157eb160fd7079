//! Answers that depend on whose code a function is.

use std::cell::Cell;
use std::io::Write;

use flamelet_profile::filter;
use flamelet_report::Report;
use flamelet_report::by::{Grouping, by};
use flamelet_report::explain::explain;
use flamelet_symbol::owner::Owners;
use regex::Regex;

use super::write_json;
use crate::error::Result;

pub(super) fn write_groups(
    report: &Report,
    grouping: Grouping,
    mine: &[String],
    json: bool,
    mut out: &mut dyn Write,
) -> Result<()> {
    let groups = by(report, grouping, &owners(report, mine)?);
    if json { write_json(&groups, out) } else { Ok(groups.write_text(report, &mut out)?) }
}

pub(super) fn write_explanation(
    report: &Report,
    mine: &[String],
    file: &str,
    json: bool,
    mut out: &mut dyn Write,
) -> Result<()> {
    let explanation = explain(report, &owners(report, mine)?);
    if json { write_json(&explanation, out) } else { Ok(explanation.write_text(file, &mut out)?) }
}

/// Returns whose code each function is; functions that match an expression of `mine` are yours.
fn owners(report: &Report, mine: &[String]) -> Result<Owners> {
    let expressions = mine.iter().map(|text| filter::regex("mine", text));
    let expressions: Vec<Option<Regex>> = expressions.collect::<std::result::Result<_, _>>()?;
    let matched: Vec<Cell<bool>> = vec![Cell::new(false); expressions.len()];
    let owners = Owners::of(report.profile(), |name, file| {
        let matches = |expression: &Option<Regex>| {
            expression
                .as_ref()
                .is_some_and(|expression| expression.is_match(name) || expression.is_match(file))
        };
        // Try every expression, so that one made redundant by another is not reported as matching nothing.
        let found = expressions.iter().zip(&matched).filter(|(expression, _)| matches(expression));
        found.map(|(_, matched)| matched.set(true)).count() > 0
    });
    for (text, matched) in mine.iter().zip(&matched) {
        if !matched.get() {
            note!("--mine '{text}' matches no function or file in this profile");
        }
    }
    Ok(owners)
}
