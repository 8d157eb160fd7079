//! Everything that rules look at, computed once.

use flamelet_profile::{FunctionId, LocationId, Profile, Sample};
use flamelet_symbol::owner::Owners;
use rustc_hash::FxHashMap;

use super::functions::Functions;
use crate::by::{add, path_of};
use crate::observations::effective_observations;
use crate::report::Report;

/// Which profiles a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// Time, or samples of it.
    Time,
    /// Memory in use or allocated.
    Memory,
    /// Any profile.
    Any,
}

/// What a rule looks for in each stack.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'r> {
    Anywhere(&'r Functions),
    Innermost(&'r Functions),
    Nothing,
}

/// A place in your code: the function, and the line if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) function: FunctionId,
    pub(super) line: i64,
}

/// What one rule found in the samples.
#[derive(Clone, Debug, Default)]
pub(super) struct Matches {
    pub(super) value: i64,
    /// How much of it is charged to each place in your code.
    pub(super) places: FxHashMap<Place, i64>,
}

/// Everything that rules look at.
pub(super) struct Facts<'a> {
    pub(super) report: &'a Report,
    /// How many observations the profile consists of.
    pub(super) observations: u64,
    pub(super) about: About,
    /// What the rules that look for functions found, by the index of the rule.
    pub(super) matches: Vec<Matches>,
    /// The total by thread.
    pub(super) threads: FxHashMap<String, i64>,
    /// The total by place in your code.
    pub(super) places: FxHashMap<Place, i64>,
    /// The total by system call, with the places in your code that make it.
    pub(super) calls: FxHashMap<String, Matches>,
    /// The total of stacks whose innermost frame has no name.
    pub(super) unnamed: i64,
}

/// Which rules a function matches: one bit each.
#[derive(Clone, Copy, Default)]
struct Masks {
    anywhere: u64,
    innermost: u64,
}

impl<'a> Facts<'a> {
    /// Goes through the samples once, for all rules: `wanted` has one entry per rule, at most 64.
    pub(super) fn of(report: &'a Report, owners: &Owners, wanted: &[Wanted<'_>]) -> Self {
        let profile = &report.profile;
        let mut facts = Self {
            report,
            observations: observations(report),
            about: about(report),
            matches: vec![Matches::default(); wanted.len()],
            threads: FxHashMap::default(),
            places: FxHashMap::default(),
            calls: FxHashMap::default(),
            unnamed: 0,
        };
        let masks = masks(profile, wanted);
        for sample in profile.samples() {
            facts.add(profile, owners, &masks, &sample);
        }
        facts
    }

    /// Returns the share of the total.
    pub(super) fn share(&self, value: i64) -> f64 {
        if self.report.total == 0 { 0.0 } else { value as f64 / self.report.total as f64 }
    }

    fn add(&mut self, profile: &Profile, owners: &Owners, masks: &[Masks], sample: &Sample<'_>) {
        let value = self.report.value(sample);
        if value == 0 {
            return;
        }
        let stack = profile.stack(sample.stack);
        let (mut found, mut yours, mut call) = (0, None, None);
        for &location in stack {
            for line in profile.lines(location) {
                let Some(function) = line.function else { continue };
                found |= masks[function.index()].anywhere;
                if yours.is_none() && owners.of_function(function).is_yours() {
                    yours = Some(Place { function, line: line.line });
                }
                call = call.or_else(|| system_call(profile.string(profile.function(function).name)));
            }
        }
        found |= innermost(profile, stack).map_or(0, |function| masks[function.index()].innermost);
        for (_, matches) in self.matches.iter_mut().enumerate().filter(|(rule, _)| found >> rule & 1 == 1) {
            matches.add(yours, value);
        }
        if let Some(call) = call {
            self.calls.entry(call.to_owned()).or_default().add(yours, value);
        }
        if let Some(place) = yours {
            add(self.places.entry(place).or_default(), value);
        }
        if innermost(profile, stack).is_none() {
            add(&mut self.unnamed, value);
        }
        add(self.threads.entry(crate::by::thread_of(profile, sample)).or_default(), value);
    }
}

impl Matches {
    fn add(&mut self, place: Option<Place>, value: i64) {
        add(&mut self.value, value);
        if let Some(place) = place {
            add(self.places.entry(place).or_default(), value);
        }
    }
}

/// Returns the function that the innermost frame is compiled into, not one that was inlined there.
fn innermost(profile: &Profile, stack: &[LocationId]) -> Option<FunctionId> {
    profile.lines(*stack.first()?).last()?.function
}

fn masks(profile: &Profile, wanted: &[Wanted<'_>]) -> Vec<Masks> {
    let functions = profile.functions().iter();
    let masks = functions.map(|function| {
        let (name, file) = (profile.string(function.name), profile.string(function.filename));
        let path = path_of(name, file);
        wanted.iter().enumerate().fold(Masks::default(), |masks, (bit, wanted)| match wanted {
            Wanted::Anywhere(functions) if functions.has(&path, name) => {
                Masks { anywhere: masks.anywhere | 1 << bit, ..masks }
            }
            Wanted::Innermost(functions) if functions.has(&path, name) => {
                Masks { innermost: masks.innermost | 1 << bit, ..masks }
            }
            _ => masks,
        })
    });
    masks.collect()
}

/// Returns the system call of a kernel entry function: `read` for `__x64_sys_read`.
fn system_call(name: &str) -> Option<&str> {
    ["__x64_sys_", "__arm64_sys_", "__do_sys_", "__se_sys_", "ksys_"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
}

/// Returns the effective number of observations; where the profile does not tell, that of its events or rows.
fn observations(report: &Report) -> u64 {
    let profile = &report.profile;
    if let Some(effective) = effective_observations(profile, report.value_index) {
        return effective as u64;
    }
    let events = profile.timeline.as_ref().map(|timeline| timeline.events.len() as u64);
    events.filter(|&events| events > 0).unwrap_or(profile.sample_count() as u64)
}

fn about(report: &Report) -> About {
    match report.unit() {
        "bytes" | "byte" => About::Memory,
        _ if report.value_name().ends_with("_objects") => About::Memory,
        _ => About::Time,
    }
}
