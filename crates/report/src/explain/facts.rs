//! Everything that rules look at, computed once.

use flamelet_profile::{MappingId, Profile};
use flamelet_symbol::owner::{Owner, Owners};
use rustc_hash::FxHashMap;

use super::about::{Subject, about};
use super::memory::MemoryFacts;
use super::places::{CodePlace, Matches};
use super::scan::{StackFindings, StackPattern, scan, system_call};
use super::waits::WaitFacts;
use crate::by::{add, totals_by_process_and_thread};
use crate::names::crate_name;
use crate::observations::effective_observations;
use crate::report::Report;

/// Everything that rules look at.
pub(super) struct Facts<'a> {
    pub(super) report: &'a Report,
    /// How many observations the profile consists of.
    pub(super) observations: u64,
    pub(super) about: Subject,
    /// The program is in Rust, as far as names and paths say.
    pub(super) is_rust: bool,
    /// The interpreter that runs the program.
    pub(super) interpreter: Option<String>,
    /// What the rules that look for functions found, by the index of the rule.
    pub(super) matches: Vec<Matches>,
    /// The total by process and thread.
    pub(super) threads: FxHashMap<(String, String), i64>,
    /// The total by place in your code.
    pub(super) places: FxHashMap<CodePlace, i64>,
    /// The total by system call, with the places in your code that make it; those that left no frame of their own have
    /// no name.
    pub(super) calls: FxHashMap<String, Matches>,
    /// The total of stacks whose innermost frame has no name.
    pub(super) unnamed: i64,
    /// The total of stacks with a frame of yours.
    pub(super) with_yours: i64,
    pub(super) memory: MemoryFacts,
    pub(super) waits: WaitFacts,
}

impl<'a> Facts<'a> {
    /// Collects the facts for all rules: `wanted` has one entry per rule, at most 64.
    pub(super) fn of(report: &'a Report, owners: &Owners, wanted: &[StackPattern<'_>]) -> Self {
        let profile = &report.profile;
        let mut facts = Self {
            report,
            observations: observations(report),
            about: about(report),
            is_rust: is_rust(profile),
            interpreter: interpreter(profile, owners),
            matches: vec![Matches::default(); wanted.len()],
            threads: totals_by_process_and_thread(profile, |sample| report.value(sample)),
            places: FxHashMap::default(),
            calls: FxHashMap::default(),
            unnamed: 0,
            with_yours: 0,
            memory: MemoryFacts::of(profile, owners),
            waits: WaitFacts::of(report, owners),
        };
        for (seen, value) in scan(report, owners, wanted) {
            facts.add(profile, &seen, value);
        }
        facts
    }

    /// Returns the share of the total.
    pub(super) fn share(&self, value: i64) -> f64 {
        if self.report.total == 0 { 0.0 } else { value as f64 / self.report.total as f64 }
    }

    fn add(&mut self, profile: &Profile, seen: &StackFindings, value: i64) {
        let rules = self.matches.iter_mut().enumerate();
        for (_, matches) in rules.filter(|(rule, _)| seen.rules >> rule & 1 == 1) {
            matches.add(seen.place, value);
        }
        let call = seen.call.and_then(|id| system_call(profile.string(profile.function(id).name)));
        if let Some(call) = call {
            self.calls.entry(call.to_owned()).or_default().add(seen.place, value);
        }
        if let Some(place) = seen.place {
            add(self.places.entry(place).or_default(), value);
        }
        if seen.has_yours {
            add(&mut self.with_yours, value);
        }
        if seen.is_unnamed {
            add(&mut self.unnamed, value);
        }
    }
}

/// Returns whether a profile has functions that are in Rust.
pub(super) fn is_rust(profile: &Profile) -> bool {
    profile.functions().iter().any(|function| {
        profile.string(function.filename).ends_with(".rs")
            || crate_name(profile.string(function.name))
                .is_some_and(|krate| ["core", "alloc"].contains(&krate))
    })
}

/// Returns the name of the interpreter whose code the profile has: of binaries, only that is a dependency.
fn interpreter(profile: &Profile, owners: &Owners) -> Option<String> {
    let mappings = (0..profile.mappings().len()).map(MappingId::from_index);
    mappings.into_iter().find_map(|id| match owners.of_mapping(Some(id)) {
        Owner::Dependency(package) => {
            // `libpython3.12.so.1.0`
            let library = package.name.split_once(".so").and_then(|(name, _)| name.strip_prefix("lib"));
            Some(library.unwrap_or(&package.name).to_owned())
        }
        _ => None,
    })
}

/// Returns how many allocations a profile counts, if it does.
fn allocations(profile: &Profile) -> u64 {
    let kinds = profile.sample_types().iter().map(|value| profile.string(value.kind));
    let column = kinds.into_iter().position(|kind| kind == "alloc_objects");
    column.map_or(0, |column| profile.total(column).unsigned_abs())
}

/// Returns the effective number of observations; or the number of its events or rows if the profile does not have it. Memory is
/// sampled by bytes, so its observations are how often its total has what one sample stands for.
fn observations(report: &Report) -> u64 {
    let profile = &report.profile;
    // Rows without a value say nothing about it: what was freed is in a profile of what is in use, too.
    let rows = || profile.samples().filter(|sample| report.value(sample) != 0).count() as u64;
    if about(report) == Subject::Memory {
        return match effective_observations(profile, report.value_index) {
            Some(effective) => effective.round() as u64,
            // Every allocation was recorded.
            None if profile.header.period <= 1 => allocations(profile).max(rows()),
            None => (report.total.unsigned_abs() / profile.header.period as u64).max(rows()),
        };
    }
    if matches!(about(report), Subject::Locks | Subject::Awaits | Subject::Polls) {
        // Their first value counts them.
        return profile.total(0).unsigned_abs();
    }
    match effective_observations(profile, report.value_index) {
        Some(effective) if effective >= 1.0 => return effective as u64,
        // Blocked time, next to CPU time: the samples count only the latter.
        Some(_) => return rows(),
        // Every event was recorded: system calls, page faults.
        None if report.unit() == "count" => return report.total.unsigned_abs().max(rows()),
        None => {}
    }
    let events = profile.timeline.as_ref().map(|timeline| timeline.events.len() as u64);
    events.filter(|&events| events > 0).unwrap_or(profile.sample_count() as u64)
}
