//! The costs of one run: by function, and charged to your code.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use flamelet_profile::{Observed, Profile, Sample, StackId};
use flamelet_symbol::owner::Owners;
use rustc_hash::FxHashMap;

use super::kernel_noise::KernelNoise;
use crate::report::Report;
use crate::stacks::{NodeId, Nodes, costs};

/// A value and what it is based on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Amount {
    pub(super) value: f64,
    pub(super) observed: Observed,
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.value += other.value;
        self.observed += other.observed;
    }
}

impl Amount {
    fn scaled(self, factor: f64) -> Self {
        let squares = self.observed.squares * factor * factor;
        Self { value: self.value * factor, observed: Observed { squares, ..self.observed } }
    }
}

/// What one function costs in one run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FunctionCost {
    pub(super) flat: Amount,
    pub(super) cum: Amount,
    /// The cost of a function of yours and of others' code that it calls.
    pub(super) charged: f64,
    /// Whose code it is, in one word.
    pub(super) owner: &'static str,
}

/// What the functions of one run cost: all that a comparison needs of it.
pub struct RunCosts {
    pub(super) functions: FxHashMap<String, FunctionCost>,
    pub(super) total: Amount,
    /// The value of the samples that were set aside.
    pub(super) set_aside: f64,
}

impl RunCosts {
    /// Sums the costs, each multiplied by `factor`.
    pub(super) fn of(report: &Report, owners: &Owners, factor: f64) -> Self {
        let mut runs = Self::by(report, owners, factor, |_| Some(()));
        runs.remove(&()).unwrap_or_else(Self::empty)
    }

    /// Sums the costs for each value of a text label; samples without the label are left out.
    pub(super) fn by_label(report: &Report, owners: &Owners, key: &str) -> Vec<(String, Self)> {
        let profile = &report.profile;
        let value_of = |sample: &Sample<'_>| {
            let mut labels = profile.labels(sample.labels).iter().filter(|label| label.is_text());
            labels.find(|label| profile.string(label.key) == key).map(|label| profile.string(label.text))
        };
        let runs = Self::by(report, owners, 1.0, value_of);
        runs.into_iter().map(|(value, run)| (value.to_owned(), run)).collect()
    }

    fn empty() -> Self {
        Self { functions: FxHashMap::default(), total: Amount::default(), set_aside: 0.0 }
    }

    /// Sums the costs of each part of the samples.
    fn by<K: Ord>(
        report: &Report,
        owners: &Owners,
        factor: f64,
        part_of: impl Fn(&Sample<'_>) -> Option<K>,
    ) -> BTreeMap<K, Self> {
        let profile = &report.profile;
        let nodes = Nodes::of(profile, false);
        let noise = KernelNoise::of(profile);
        let observed = profile.observed(report.value_index);
        let mut parts: BTreeMap<K, RunSums> = BTreeMap::new();
        for (sample, observed) in profile.samples().zip(observed) {
            let Some(key) = part_of(&sample) else { continue };
            let part = parts.entry(key).or_insert_with(|| RunSums {
                run: Self::empty(),
                charged: vec![0.0; nodes.len()],
                weights: Vec::new(),
            });
            let amount = Amount { value: report.value(&sample) as f64, observed }.scaled(factor);
            if noise.has(profile, profile.stack(sample.stack)) {
                part.run.set_aside += amount.value;
                continue;
            }
            part.run.total += amount;
            if let Some(node) = charged_to(profile, owners, &nodes, &sample) {
                part.charged[node as usize] += amount.value;
            }
            part.weights.push((sample.stack, amount));
        }
        let kinds = owner_kinds(profile, owners, &nodes);
        parts.into_iter().map(|(key, part)| (key, part.finish(profile, &nodes, &kinds))).collect()
    }

    /// Returns the same with every cost multiplied by `factor`.
    pub(super) fn scaled(&self, factor: f64) -> Self {
        let scaled = |cost: &FunctionCost| FunctionCost {
            flat: cost.flat.scaled(factor),
            cum: cost.cum.scaled(factor),
            charged: cost.charged * factor,
            owner: cost.owner,
        };
        let functions = self.functions.iter().map(|(name, cost)| (name.clone(), scaled(cost)));
        Self {
            functions: functions.collect(),
            total: self.total.scaled(factor),
            set_aside: self.set_aside * factor,
        }
    }

    /// Returns the sum of the costs, in the unit of the profile.
    pub fn total(&self) -> f64 {
        self.total.value
    }
}

/// A run that is being summed up.
struct RunSums {
    run: RunCosts,
    charged: Vec<f64>,
    weights: Vec<(StackId, Amount)>,
}

impl RunSums {
    fn finish(self, profile: &Profile, nodes: &Nodes, kinds: &[&'static str]) -> RunCosts {
        let mut run = self.run;
        let sums = costs(profile, &nodes.table, nodes.len(), self.weights.into_iter());
        // A profile of several runs has functions that are in some of them only.
        for (at, cost) in sums.iter().enumerate().filter(|(_, cost)| cost.cum != Amount::default()) {
            // Several nodes can have the same name: unnamed functions in files with equal base names.
            let function = run.functions.entry(nodes.infos[at].printable(profile)).or_default();
            function.flat += cost.flat;
            function.cum += cost.cum;
            function.charged += self.charged[at];
            function.owner = kinds[at];
        }
        run
    }
}

/// Returns the node of the innermost frame of yours.
fn charged_to(profile: &Profile, owners: &Owners, nodes: &Nodes, sample: &Sample<'_>) -> Option<NodeId> {
    let frames = profile.stack(sample.stack).iter().flat_map(|&location| {
        let lines = profile.lines(location).iter();
        lines.zip(nodes.at(location))
    });
    let is_yours = |function| owners.of_function(function).is_yours();
    frames.filter(|(line, _)| line.function.is_some_and(is_yours)).map(|(_, &node)| node).next()
}

/// Returns whose code each node is, in one word.
fn owner_kinds(profile: &Profile, owners: &Owners, nodes: &Nodes) -> Vec<&'static str> {
    let mut kinds = vec!["unknown"; nodes.len()];
    for (at, location) in profile.locations().iter().enumerate() {
        let nodes = nodes.at(flamelet_profile::LocationId::from_index(at));
        let lines = profile.lines_of(location);
        if let ([], [node]) = (lines, nodes) {
            kinds[*node as usize] = owners.of_mapping(location.mapping).kind();
        }
        for (line, &node) in lines.iter().zip(nodes) {
            let owner = line.function.map(|function| owners.of_function(function));
            kinds[node as usize] = owner.unwrap_or(owners.of_mapping(location.mapping)).kind();
        }
    }
    kinds
}
