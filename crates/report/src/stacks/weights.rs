//! The weight of each stack, for one kind of value.

use std::iter::Sum;
use std::ops::AddAssign;

use flamelet_profile::{LabelSetId, Profile, StackId};

use super::chains::Chains;
use super::frames::{Frames, NameId};

/// The label of samples that are the base of a diff, as pprof names it.
pub const DIFF_BASE_LABEL: &str = "pprof::base";

/// The value of a stack, a box or a function: in the profile itself and, in a diff, in its base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// The sum in the profile. In a diff, the new side alone.
    pub new: i64,
    /// The sum in the base of a diff, else 0.
    pub base: i64,
    /// The sum of absolute values. [`Value::weight`] is the width of a box.
    size: u64,
}

/// One side of a stack's value: in the profile, or in the base of a diff.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValuePart {
    pub(crate) value: i64,
    pub(crate) is_base: bool,
}

impl ValuePart {
    /// Returns the value of a sample on its side: base samples are negative, and count with their original value.
    pub(crate) const fn of(value: i64, is_base: bool) -> Self {
        Self { value: if is_base { value.saturating_neg() } else { value }, is_base }
    }
}

impl From<ValuePart> for Value {
    fn from(part: ValuePart) -> Self {
        let size = part.value.unsigned_abs();
        match part.is_base {
            true => Self { new: 0, base: part.value, size },
            false => Self { new: part.value, base: 0, size },
        }
    }
}

impl Value {
    /// Returns the width of a box: the sum of absolute values, so that what a diff removed is as visible as what it
    /// added.
    pub const fn weight(&self) -> u64 {
        self.size
    }

    /// Returns new minus base.
    pub const fn delta(&self) -> i64 {
        self.new.saturating_sub(self.base)
    }
}

impl AddAssign for Value {
    fn add_assign(&mut self, other: Self) {
        self.new = self.new.saturating_add(other.new);
        self.base = self.base.saturating_add(other.base);
        self.size = self.size.saturating_add(other.size);
    }
}

impl Sum for Value {
    fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
        values.fold(Self::default(), |mut sum, value| {
            sum += value;
            sum
        })
    }
}

/// The stacks of a profile with a weight, in the order of their ids; in a diff, those of the base follow those of the
/// profile.
///
/// A profile that is a diff contains its base as samples of negative value with the label `pprof::base` = `true`, as
/// pprof writes them; those count as [`Value::base`].
#[derive(Clone, Debug, Default)]
pub struct StackWeights {
    stacks: Vec<StackId>,
    values: Vec<i64>,
    /// The index from which `stacks` and `values` are those of the base.
    first_of_base: usize,
    total: Value,
    is_diff: bool,
}

impl StackWeights {
    /// Sums the values of the sample type at `sample_type` (a row of [`Profile::sample_types`]).
    pub fn new(profile: &Profile, sample_type: usize) -> Self {
        let base_sets = base_label_sets(profile);
        let mut weights = Self { is_diff: base_sets.contains(&true), ..Self::default() };
        weights.add_side(profile, sample_type, &base_sets, false);
        weights.first_of_base = weights.stacks.len();
        if weights.is_diff {
            weights.add_side(profile, sample_type, &base_sets, true);
        }
        weights
    }

    fn add_side(&mut self, profile: &Profile, sample_type: usize, base_sets: &[bool], is_base: bool) {
        let mut sums = vec![0i64; profile.stack_count()];
        for sample in profile.samples().filter(|sample| base_sets[sample.labels.index()] == is_base) {
            let Some(&value) = sample.values.get(sample_type) else { continue };
            let sum = &mut sums[sample.stack.index()];
            *sum = sum.saturating_add(ValuePart::of(value, is_base).value);
        }
        for (index, value) in sums.into_iter().enumerate().filter(|&(_, value)| value != 0) {
            self.stacks.push(StackId::from_index(index));
            self.values.push(value);
            self.total += ValuePart { value, is_base }.into();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.stacks.len()
    }

    /// Returns about how many bytes it takes.
    pub fn byte_size(&self) -> usize {
        size_of_val(&*self.stacks) + size_of_val(&*self.values)
    }

    pub(crate) fn parts(&self) -> impl ExactSizeIterator<Item = (StackId, ValuePart)> + '_ {
        let part = |(at, &value): (usize, &i64)| ValuePart { value, is_base: at >= self.first_of_base };
        self.stacks.iter().copied().zip(self.values.iter().enumerate().map(part))
    }

    /// Returns each stack and its weight; twice in a diff if it has a weight on both sides.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (StackId, Value)> + '_ {
        self.parts().map(|(stack, part)| (stack, part.into()))
    }

    /// Returns the sum over all stacks.
    pub fn total(&self) -> Value {
        self.total
    }

    /// Returns whether the profile is a diff.
    pub fn is_diff(&self) -> bool {
        self.is_diff
    }

    /// Returns the total of the stacks that contain a frame for which `wanted` (by [`NameId::index`]) is true.
    pub fn matching(&self, profile: &Profile, frames: &Frames, wanted: &[bool]) -> Value {
        let locations = location_flags(profile, frames, wanted);
        self.iter()
            .filter(|&(stack, _)| profile.stack(stack).iter().any(|location| locations[location.index()]))
            .map(|(_, value)| value)
            .sum()
    }

    /// Returns what [`StackWeights::matching`] returns, of those stacks in which all frames that match belong to chains
    /// that a flame graph folds.
    pub fn matching_folded(&self, profile: &Profile, frames: &Frames, wanted: &[bool]) -> Value {
        let locations = location_flags(profile, frames, wanted);
        let chains = Chains::of(profile, frames);
        let mut marks = Vec::new();
        let mut is_folded = |stack: StackId| {
            let stack = profile.stack(stack);
            if !stack.iter().any(|location| locations[location.index()]) {
                return false;
            }
            chains.of_stack(frames, stack, &mut marks);
            let names = stack.iter().flat_map(|&location| frames.of(location));
            names.zip(&marks).all(|(name, chain)| chain.is_some() || !wanted[name.index()])
        };
        self.iter().filter(|&(stack, _)| is_folded(stack)).map(|(_, value)| value).sum()
    }
}

fn location_flags(profile: &Profile, frames: &Frames, wanted: &[bool]) -> Vec<bool> {
    let ids = (0..profile.locations().len()).map(flamelet_profile::LocationId::from_index);
    ids.map(|id| frames.of(id).any(|name: NameId| wanted[name.index()])).collect()
}

/// Returns for each label set whether it marks the base of a diff.
pub(crate) fn base_label_sets(profile: &Profile) -> Vec<bool> {
    let (key, text) = (profile.strings().find(DIFF_BASE_LABEL), profile.strings().find("true"));
    let mut sets = vec![false; profile.label_set_count().max(1)];
    if let (Some(key), Some(text)) = (key, text) {
        for (index, set) in sets.iter_mut().enumerate().take(profile.label_set_count()) {
            let labels = profile.labels(LabelSetId::from_index(index));
            *set = labels.iter().any(|label| label.key == key && label.text == text);
        }
    }
    sets
}
