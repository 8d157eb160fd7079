//! Flat and cum values by function name.

use flamelet_profile::Profile;

use crate::stacks::{EntryCost, Frames, NameId, StackWeights, Value, costs};

/// A function's row in the table of functions.
#[derive(Clone, Copy, Debug)]
pub struct FunctionRow {
    /// Its name.
    pub name: NameId,
    /// The total of the stacks in which it is the innermost frame.
    pub flat: Value,
    /// The total of the stacks that contain it anywhere; recursion counts once.
    pub cum: Value,
}

/// Returns every function in a stack with a weight, sorted by cum, heaviest first.
pub fn functions(profile: &Profile, frames: &Frames, weights: &StackWeights) -> Vec<FunctionRow> {
    let costs = costs(profile, &frames.table, frames.name_count(), weights.iter());
    let row =
        |(name, cost): (NameId, &EntryCost<Value>)| FunctionRow { name, flat: cost.flat, cum: cost.cum };
    let mut rows: Vec<_> =
        frames.name_ids().zip(&costs).map(row).filter(|row| row.cum.weight() != 0).collect();
    flamelet_profile::sort_rows(&mut rows, |a, b| {
        let text = |row: &FunctionRow| frames.text(profile, row.name);
        b.cum.weight().cmp(&a.cum.weight()).then_with(|| text(a).cmp(text(b)))
    });
    rows
}
