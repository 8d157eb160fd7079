//! Several heap profiles of one program, in time order: what grows from one to the next.

use flamelet_profile::{Result, unit};
use flamelet_symbol::owner::Owners;

use super::facts::is_rust;
use super::rules::RULES;
use super::{Closer, Explanation, Finding, FoundPlace, MOST, command_line, explain, share_of};
use crate::heap::{Growth, GrowthRow, growth_between};
use crate::report::Report;

/// Explains the `last` of several heap profiles, and what grew since the first.
///
/// `moments` are reports for the heap view on all of them, in time order; `owners` belong to `last`.
pub fn explain_moments(moments: &[Report], last: &Report, owners: &Owners) -> Result<Explanation> {
    let growth = growth_between(moments)?;
    let mut explanation = explain(last, owners);
    if let Some(finding) = leak(&growth, moments.len(), last.total, is_rust(&last.profile)) {
        let warnings = explanation.findings.iter().filter(|finding| finding.rule == RULES[0].id).count();
        explanation.findings.insert(warnings, finding);
        explanation.findings.truncate(MOST);
    }
    Ok(explanation)
}

/// Returns a finding about what grew by more than noise, and steadily where there are enough moments to say so.
fn leak(growth: &Growth, moments: usize, total: i64, is_rust: bool) -> Option<Finding> {
    let rule = RULES.iter().find(|rule| rule.id == "leak")?;
    let suspects: Vec<&GrowthRow> = growth.rows.iter().filter(|row| row.suspect).collect();
    let grown: i64 = suspects.iter().map(|row| row.bytes).sum();
    let share = share_of(grown, total);
    if share < rule.least {
        return None;
    }
    let is_steady = suspects.iter().any(|row| row.steady == Some(true));
    let label = unit::label(grown, "bytes");
    let time = format!("{label} more in {:.0} s over {moments} profiles", growth.seconds);
    let place = |row: &&GrowthRow| FoundPlace {
        function: row.own.first().or(row.stack.first()).cloned().unwrap_or_default(),
        file: String::new(),
        line: 0,
        share: share_of(row.bytes, total),
    };
    let closer = Closer::Heap { what: "growth" };
    Some(Finding {
        rule: rule.id,
        title: match is_steady {
            true => format!("{}: {time}, steadily", rule.title),
            false => format!("memory that grew: {time}; four profiles or more would say whether steadily"),
        },
        share,
        range: (share, share),
        confidence: if is_steady { "high" } else { "low" },
        places: suspects.iter().take(3).map(place).collect(),
        why: rule.why.into(),
        helps: rule.helps.of(is_rust).into(),
        dig: command_line(&closer.words()),
        closer,
    })
}
