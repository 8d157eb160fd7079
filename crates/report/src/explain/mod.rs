//! `explain`: reports in sentences what stands out in a profile, how certain that is, and what usually helps.

mod about;
mod changes;
mod checks;
mod facts;
mod functions;
mod language;
mod memory;
mod moments;
mod places;
mod rule;
mod rules;
mod scan;
mod shown;
mod waits;

use std::borrow::Cow;
use std::cmp::Reverse;

use flamelet_profile::Profile;
use flamelet_profile::observations::share_interval;
use flamelet_symbol::owner::Owners;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::by::add;
use crate::info::comment_lines;
use crate::report::Report;
use about::Subject;
use checks::Detected;
use facts::Facts;
use places::{CodePlace, Matches};
use rule::{Look, Rule};
use rules::RULES;
use scan::StackPattern;

pub use changes::{Change, Changes, PartChange, changes};
pub use checks::OVERFLOW_CHECKS;
pub use moments::explain_moments;
pub use places::FoundPlace;
pub use shown::{Closer, command_line};

/// The most findings that are reported.
const MOST: usize = 10;

/// A smaller share of a finding is shown as 0.0 %.
const SMALLEST_SHOWN: f64 = 0.0005;

/// The answer. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// What is explained: `cpu`, `inuse_space`, …
    pub sample_type: String,
    /// The unit of the total.
    pub unit: String,
    /// The base of shares.
    pub total: i64,
    /// How many observations the profile consists of.
    pub observations: u64,
    /// What the profile says about its own quality.
    pub quality: Vec<String>,
    /// What stands out, largest first; warnings about the profile itself come before everything else.
    pub findings: Vec<Finding>,
    /// The heaviest of your functions, with the code that it calls.
    pub heaviest: Option<FoundPlace>,
    /// The arguments of the command that shows your functions.
    pub dig: String,
}

/// One thing that stands out.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The stable name of the rule.
    pub rule: &'static str,
    /// What was found.
    pub title: String,
    /// The share of the total, from 0 to 1.
    pub share: f64,
    /// The 95 % confidence interval of the share, from the effective number of observations.
    pub range: (f64, f64),
    /// `high` if the whole range is above the rule's threshold, else `low`.
    pub confidence: &'static str,
    /// The places in your code that cause it, largest first.
    pub places: Vec<FoundPlace>,
    /// Why it matters.
    pub why: Cow<'static, str>,
    /// What usually helps.
    pub helps: Cow<'static, str>,
    /// The arguments of the command that shows more; without options and files of the caller, unless
    /// [`Explanation::complete_commands`] added them.
    pub dig: String,
    /// The view that shows more.
    pub closer: Closer,
}

impl Explanation {
    /// Replaces the command of each finding by the words that `command` returns for its view.
    pub fn complete_commands(&mut self, command: impl Fn(&Closer) -> Vec<String>) {
        for finding in &mut self.findings {
            finding.dig = command_line(&command(&finding.closer));
        }
        self.dig = command_line(&command(&yours()));
    }
}

/// Explains what stands out in `report`.
pub fn explain(report: &Report, owners: &Owners) -> Explanation {
    let wanted = RULES.iter().map(|rule| match &rule.look {
        Look::Anywhere(functions) => StackPattern::Anywhere(functions),
        Look::Both(functions, others) => StackPattern::Both(functions, others),
        Look::Leaf(functions) => StackPattern::Leaf(functions),
        Look::LeafWithout(functions, others) => StackPattern::LeafWithout(functions, others),
        Look::Innermost(functions) => StackPattern::Innermost(functions),
        Look::Check(_) => StackPattern::Nothing,
    });
    let facts = Facts::of(report, owners, &wanted.collect::<Vec<_>>());
    let mut findings: Vec<Finding> =
        RULES.iter().enumerate().filter_map(|(row, rule)| finding(&facts, row, rule)).collect();
    // Builds for development check arithmetic too, which their own rules say.
    let is_for_development =
        findings.iter().any(|finding| ["unoptimized", "debug-assertions"].contains(&finding.rule));
    findings.retain(|finding| !(is_for_development && finding.rule == "overflow-checks"));
    // A warning about the profile itself has no share, and comes first.
    findings.sort_by(|a, b| {
        let key = |finding: &Finding| if finding.rule == RULES[0].id { f64::INFINITY } else { finding.share };
        key(b).total_cmp(&key(a))
    });
    findings.truncate(MOST);
    Explanation {
        sample_type: report.value_name(),
        unit: report.unit().to_owned(),
        total: report.total,
        observations: facts.observations,
        quality: comment_lines(&report.profile),
        findings,
        heaviest: heaviest(&facts),
        dig: command_line(&yours().words()),
    }
}

/// The view of your functions.
fn yours() -> Closer {
    Closer::Yours { focus: String::new(), sample_type: "" }
}

fn heaviest(facts: &Facts<'_>) -> Option<FoundPlace> {
    let mut functions: FxHashMap<CodePlace, i64> = FxHashMap::default();
    for (&place, &value) in &facts.places {
        add(functions.entry(CodePlace { line: 0, ..place }).or_default(), value);
    }
    let (place, &value) = functions.iter().max_by_key(|(place, value)| (**value, Reverse(**place)))?;
    (value > 0).then(|| found(&facts.report.profile, place, facts.share(value)))
}

fn finding(facts: &Facts<'_>, row: usize, rule: &Rule) -> Option<Finding> {
    if rule.about != Subject::Any && rule.about != facts.about {
        return None;
    }
    let result = match &rule.look {
        Look::Check(check) => check(facts)?,
        Look::Anywhere(_) | Look::Both(..) | Look::Leaf(_) | Look::LeafWithout(..) | Look::Innermost(_) => {
            let Matches { value, places } = &facts.matches[row];
            Detected { value: *value, places: places.clone(), ..Detected::default() }
        }
    };
    let base = result.base.unwrap_or(facts.report.total);
    let share = share_of(result.value, base);
    if share < rule.least {
        return None;
    }
    let range = share_interval(share, facts.observations as f64);
    let title = match result.detail.as_str() {
        "" => rule.title.to_owned(),
        detail => format!("{}: {detail}", rule.title),
    };
    let mut places = places(facts, &result.places, base);
    places.retain(|place| place.share >= SMALLEST_SHOWN);
    let closer = rule.shown.closer(facts, &places);
    Some(Finding {
        rule: rule.id,
        title,
        share,
        range,
        // A finding without a share, such as one about the profile itself, estimates nothing.
        confidence: match share == 0.0 || range.0 >= rule.least && facts.observations > 0 {
            true => "high",
            false => "low",
        },
        places,
        why: result.why.map_or(rule.why.into(), Cow::Owned),
        helps: result.helps.map_or(rule.helps.of(facts.is_rust).into(), Cow::Owned),
        dig: command_line(&closer.words()),
        closer,
    })
}

fn share_of(value: i64, base: i64) -> f64 {
    if base == 0 { 0.0 } else { value as f64 / base as f64 }
}

fn places(facts: &Facts<'_>, places: &FxHashMap<CodePlace, i64>, base: i64) -> Vec<FoundPlace> {
    let mut places: Vec<(&CodePlace, &i64)> = places.iter().collect();
    places.sort_by_key(|(place, value)| (Reverse(**value), **place));
    places
        .into_iter()
        .take(3)
        .map(|(place, &value)| found(&facts.report.profile, place, share_of(value, base)))
        .collect()
}

fn found(profile: &Profile, place: &CodePlace, share: f64) -> FoundPlace {
    let function = profile.function(place.function);
    FoundPlace {
        function: profile.string(function.name).to_owned(),
        file: profile.string(function.filename).to_owned(),
        line: place.line,
        share,
    }
}

#[cfg(test)]
mod tests;
