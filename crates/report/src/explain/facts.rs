//! Everything that rules look at, computed once.

use flamelet_profile::{FunctionId, LocationId, Profile, Sample};
use flamelet_symbol::owner::Owners;
use rustc_hash::FxHashMap;

use super::functions::Functions;
use super::memory::MemoryFacts;
use super::places::{Matches, Place};
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
    Both(&'r Functions, &'r Functions),
    Leaf(&'r Functions),
    Innermost(&'r Functions),
    Nothing,
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
    /// The total of stacks with a frame of yours.
    pub(super) with_yours: i64,
    pub(super) memory: MemoryFacts,
    /// The rules that look for two functions: one bit each.
    both: u64,
}

/// Which rules a function matches: one bit each.
#[derive(Clone, Copy, Default)]
struct Masks {
    anywhere: u64,
    /// The other function of rules that look for two.
    other: u64,
    leaf: u64,
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
            with_yours: 0,
            memory: MemoryFacts::of(profile),
            both: wanted.iter().enumerate().fold(0, |bits, (bit, wanted)| match wanted {
                Wanted::Both(..) => bits | 1 << bit,
                _ => bits,
            }),
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
        let stack = profile.stack(sample.stack);
        self.memory.add(profile, owners, sample);
        if value == 0 {
            return;
        }
        let (mut found, mut others, mut yours, mut call) = (0, !self.both, None, None);
        let mut has_yours = false;
        for &location in stack {
            if profile.lines(location).is_empty() {
                has_yours |= owners.of_mapping(profile.location(location).mapping).is_yours();
            }
            for line in profile.lines(location) {
                let Some(function) = line.function else { continue };
                found |= masks[function.index()].anywhere;
                others |= masks[function.index()].other;
                if yours.is_none() && owners.of_function(function).is_yours() {
                    yours = Some(Place { function, line: line.line });
                }
                call = call.or_else(|| system_call(profile.string(profile.function(function).name)));
            }
        }
        found &= others;
        let leaf = stack.first().map_or(&[][..], |&leaf| profile.lines(leaf));
        found |=
            leaf.iter().filter_map(|line| line.function).fold(0, |bits, it| bits | masks[it.index()].leaf);
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
        if has_yours || yours.is_some() {
            add(&mut self.with_yours, value);
        }
        if innermost(profile, stack).is_none() {
            add(&mut self.unnamed, value);
        }
        add(self.threads.entry(crate::by::thread_of(profile, sample)).or_default(), value);
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
            Wanted::Both(functions, others) => Masks {
                anywhere: masks.anywhere | u64::from(functions.has(&path, name)) << bit,
                other: masks.other | u64::from(others.has(&path, name)) << bit,
                ..masks
            },
            Wanted::Leaf(functions) if functions.has(&path, name) => {
                Masks { leaf: masks.leaf | 1 << bit, ..masks }
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

/// Returns the effective number of observations; where the profile does not tell, that of its events or rows. Memory is
/// sampled by bytes, so its observations are what one sample stands for in its total.
fn observations(report: &Report) -> u64 {
    let profile = &report.profile;
    if about(report) == About::Memory {
        let period = profile.header.period.max(1) as u64;
        return (report.total.unsigned_abs() / period).max(profile.sample_count() as u64);
    }
    if let Some(effective) = effective_observations(profile, report.value_index) {
        return effective as u64;
    }
    let events = profile.timeline.as_ref().map(|timeline| timeline.events.len() as u64);
    events.filter(|&events| events > 0).unwrap_or(profile.sample_count() as u64)
}

pub(super) fn about(report: &Report) -> About {
    match report.unit() {
        "bytes" | "byte" => About::Memory,
        _ if report.value_name().ends_with("_objects") => About::Memory,
        _ => About::Time,
    }
}
