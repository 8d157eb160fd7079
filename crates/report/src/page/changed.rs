//! What changed between the two sides of a difference, as `flamelet diff` says.

use flamelet_profile::Profile;
use flamelet_symbol::owner::Owners;
use rustc_hash::FxHashMap;

use crate::diff::{Comparison, Diff, Run, diff};
use crate::options::{ReportKind, ReportOptions};
use crate::report::Report;
use crate::stacks::DIFF_BASE_LABEL;

/// The functions whose cost changed by more than noise.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// Whether the own cost and the cumulative cost of a function changed, for functions of which one did.
    functions: FxHashMap<String, [bool; 2]>,
}

impl Changed {
    /// Compares the two sides of `profile`, a difference, by the sample type at `sample_type`.
    pub fn between_sides(profile: &Profile, owners: &Owners, sample_type: usize) -> Self {
        let compared = compared(&side(profile, true), &side(profile, false), owners, sample_type);
        let rows = compared.into_iter().flat_map(|compared| compared.rows).filter(|row| row.is_real());
        Self { functions: rows.map(|row| (row.name, [row.flat_is_real, row.cum_is_real])).collect() }
    }

    /// Returns whether the own cost and the cumulative cost of the function `name` changed by more than noise.
    pub(super) fn of(&self, name: &str) -> [bool; 2] {
        self.functions.get(name).copied().unwrap_or_default()
    }

    /// Returns about how many bytes it takes.
    pub fn byte_size(&self) -> usize {
        self.functions.iter().map(|(name, real)| size_of_val(name) + name.len() + size_of_val(real)).sum()
    }
}

/// Returns one side of a difference.
pub(super) fn side(profile: &Profile, is_base: bool) -> Profile {
    let mut side = profile.clone();
    side.keep_labelled(DIFF_BASE_LABEL, "true", is_base);
    if is_base {
        side.scale(-1.0);
    }
    side
}

/// Compares two sides as `flamelet diff` does.
pub(super) fn compared(base: &Profile, new: &Profile, owners: &Owners, sample_type: usize) -> Option<Diff> {
    let options = ReportOptions { sample_index: sample_type.to_string(), ..ReportOptions::default() };
    let run = |side: &Profile| {
        let prepare = |profile| Report::new(profile, &options, ReportKind::Diff);
        Run::new(side.clone(), owners.clone(), prepare).ok()
    };
    Some(diff(&[run(base)?], &[run(new)?], &Comparison::default()))
}
