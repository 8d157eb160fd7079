//! Filters on the names of frames: focus, ignore, hide, show, show_from.

use regex::Regex;

use super::{Filter, FilterOutcome};
use crate::{Line, Location, LocationId, Profile};

/// For each row of a table, whether an expression matches it. Each text is matched once.
pub(super) struct Matches {
    functions: Vec<bool>,
    mappings: Vec<bool>,
}

impl Matches {
    /// Functions match by name or file, mappings by file.
    pub(super) fn of(profile: &Profile, regex: &Regex) -> Self {
        let matches = |id| regex.is_match(profile.string(id));
        Self {
            functions: profile.functions.iter().map(|f| matches(f.name) || matches(f.filename)).collect(),
            mappings: profile.mappings.iter().map(|mapping| matches(mapping.filename)).collect(),
        }
    }

    fn mapping(&self, location: &Location) -> bool {
        location.mapping.is_some_and(|mapping| self.mappings[mapping.index()])
    }

    fn line(&self, line: &Line) -> bool {
        line.function.is_some_and(|function| self.functions[function.index()])
    }

    fn location(&self, profile: &Profile, location: &Location) -> bool {
        profile.lines_of(location).iter().any(|line| self.line(line)) || self.mapping(location)
    }
}

/// What focus and ignore say about a location.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LocationMatch {
    Indifferent,
    Focused,
    Ignored,
}

pub(super) fn by_name(profile: &mut Profile, filter: &Filter, outcome: &mut FilterOutcome) {
    if [&filter.focus, &filter.ignore, &filter.hide, &filter.show].iter().all(|regex| regex.is_none()) {
        return;
    }
    let verdicts = verdicts(profile, filter, outcome);
    let hidden = hide_lines(profile, filter, outcome);
    let is_wanted = |stack: &[LocationId]| {
        let is_ignored = stack.iter().any(|id| verdicts[id.index()] == LocationMatch::Ignored);
        !is_ignored && stack.iter().any(|id| verdicts[id.index()] == LocationMatch::Focused)
    };
    // Stacks are shared between samples, so each is judged and cut once.
    profile.rewrite_stacks(|_, stack, into| {
        let before = into.len();
        if is_wanted(stack) {
            into.extend(stack.iter().copied().filter(|id| !hidden[id.index()]));
        }
        into.len() > before
    });
}

fn verdicts(profile: &Profile, filter: &Filter, outcome: &mut FilterOutcome) -> Vec<LocationMatch> {
    let focus = filter.focus.as_ref().map(|regex| Matches::of(profile, regex));
    let ignore = filter.ignore.as_ref().map(|regex| Matches::of(profile, regex));
    let verdict = |location: &Location| {
        if ignore.as_ref().is_some_and(|ignore| ignore.location(profile, location)) {
            LocationMatch::Ignored
        } else if focus.as_ref().is_none_or(|focus| focus.location(profile, location)) {
            LocationMatch::Focused
        } else {
            LocationMatch::Indifferent
        }
    };
    let verdicts: Vec<LocationMatch> = profile.locations.iter().map(verdict).collect();
    outcome.report("Focus", focus.is_some(), verdicts.contains(&LocationMatch::Focused));
    outcome.report("Ignore", ignore.is_some(), verdicts.contains(&LocationMatch::Ignored));
    verdicts
}

/// Removes lines from locations, and returns which locations have none left.
fn hide_lines(profile: &mut Profile, filter: &Filter, outcome: &mut FilterOutcome) -> Vec<bool> {
    let mut hidden = vec![false; profile.locations.len()];
    if let Some(regex) = &filter.hide {
        let hide = Matches::of(profile, regex);
        let mut has_matched = false;
        for (row, hidden) in hidden.iter_mut().enumerate() {
            let location = profile.locations[row];
            if !hide.location(profile, &location) {
                continue;
            }
            has_matched = true;
            let all = hide.mapping(&location);
            *hidden = profile.retain_lines(row, |line| !all && !hide.line(line)) == 0;
        }
        outcome.report("Hide", true, has_matched);
    }
    if let Some(regex) = &filter.show {
        let show = Matches::of(profile, regex);
        let mut has_matched = false;
        for (row, hidden) in hidden.iter_mut().enumerate() {
            let location = profile.locations[row];
            let all = show.mapping(&location);
            let left = profile.retain_lines(row, |line| all || line.function.is_none() || show.line(line));
            *hidden |= left == 0;
            has_matched |= left > 0;
        }
        outcome.report("Show", true, has_matched);
    }
    hidden
}

pub(super) fn show_from(profile: &mut Profile, regex: Option<&Regex>, outcome: &mut FilterOutcome) {
    let Some(regex) = regex else { return };
    let matches = Matches::of(profile, regex);
    let mut is_top = vec![false; profile.locations.len()];
    for (row, is_top) in is_top.iter_mut().enumerate() {
        let location = profile.locations[row];
        let last = profile.lines_of(&location).iter().rposition(|line| matches.line(line));
        if matches.mapping(&location) {
            *is_top = true;
        } else if let Some(last) = last {
            *is_top = true;
            profile.locations[row].line_count = last as u32 + 1;
        }
    }
    outcome.report("ShowFrom", true, is_top.contains(&true));
    profile.rewrite_stacks(|_, stack, into| match stack.iter().rposition(|id| is_top[id.index()]) {
        Some(top) => {
            into.extend_from_slice(&stack[..=top]);
            true
        }
        None => false,
    });
}

impl Profile {
    /// Keeps the lines of a location for which `keep` returns true, and returns how many are left.
    pub(crate) fn retain_lines(&mut self, row: usize, keep: impl Fn(&Line) -> bool) -> u32 {
        let location = self.locations[row];
        let range = location.first_line as usize..(location.first_line + location.line_count) as usize;
        if self.lines[range.clone()].iter().all(&keep) {
            return location.line_count;
        }
        let first_line = self.lines.len() as u32;
        let kept: Vec<Line> = self.lines[range].iter().copied().filter(|line| keep(line)).collect();
        self.lines.extend_from_slice(&kept);
        let location = &mut self.locations[row];
        (location.first_line, location.line_count) = (first_line, kept.len() as u32);
        location.line_count
    }
}
