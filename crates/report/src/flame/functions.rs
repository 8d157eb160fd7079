//! Flat and cumulative values by function name.

use flamelet_profile::Profile;

use super::frames::{Frames, NameId};
use super::weights::{Part, StackWeights, Value};

/// A function's row in the table of functions.
#[derive(Clone, Copy, Debug)]
pub struct FunctionRow {
    /// Its name.
    pub name: NameId,
    /// What stacks weigh in which it is the innermost frame.
    pub flat: Value,
    /// What stacks weigh that hold it anywhere; a recursive one counts once.
    pub cumulative: Value,
}

/// Every function that any stack with a weight holds, the heaviest cumulative first.
pub fn functions(profile: &Profile, frames: &Frames, weights: &StackWeights) -> Vec<FunctionRow> {
    let new = sums(profile, frames, weights, false);
    let base = if weights.is_diff() { sums(profile, frames, weights, true) } else { Vec::new() };
    let row = |name: NameId| {
        let mut row = FunctionRow { name, flat: Value::default(), cumulative: Value::default() };
        for (side, is_base) in [(&new, false), (&base, true)] {
            let Some(sum) = side.get(name.index()) else { continue };
            row.flat += Value::signed(sum.flat, sum.flat_size, is_base);
            row.cumulative += Value::signed(sum.cumulative, sum.cumulative_size, is_base);
        }
        row
    };
    let mut rows: Vec<_> = frames.name_ids().map(row).filter(|row| row.cumulative.weight() != 0).collect();
    rows.sort_by(|a, b| {
        let text = |row: &FunctionRow| frames.text(profile, row.name);
        b.cumulative.weight().cmp(&a.cumulative.weight()).then_with(|| text(a).cmp(text(b)))
    });
    rows
}

#[derive(Clone, Copy, Default)]
struct Sum {
    cumulative: i64,
    cumulative_size: u64,
    flat: i64,
    flat_size: u64,
}

/// The sums of one side, by [`NameId::index`].
fn sums(profile: &Profile, frames: &Frames, weights: &StackWeights, is_base: bool) -> Vec<Sum> {
    let mut sums = vec![Sum::default(); frames.name_count()];
    // The last stack that counted for a name, so that recursion counts once.
    let mut seen = vec![u32::MAX; frames.name_count()];
    for (stack, part) in weights.parts().filter(|(_, part)| part.is_base == is_base) {
        let Part { value, .. } = part;
        let stamp = stack.index() as u32;
        let locations = profile.stack(stack);
        if let Some(&leaf) = locations.first() {
            let sum = &mut sums[frames.raw(leaf)[0] as usize];
            sum.flat = sum.flat.saturating_add(value);
            sum.flat_size = sum.flat_size.saturating_add(value.unsigned_abs());
        }
        let mut count = |name: u32| {
            if seen[name as usize] != stamp {
                seen[name as usize] = stamp;
                let sum = &mut sums[name as usize];
                sum.cumulative = sum.cumulative.saturating_add(value);
                sum.cumulative_size = sum.cumulative_size.saturating_add(value.unsigned_abs());
            }
        };
        for &location in locations {
            match frames.only(location) {
                Some(name) => count(name),
                None => frames.raw(location).iter().for_each(|&name| count(name)),
            }
        }
    }
    sums
}
