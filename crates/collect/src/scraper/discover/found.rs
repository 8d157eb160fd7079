//! Targets that were found, within bounds.

use flamelet_profile::{Budget, Limits};

use crate::scraper::labels::LabelSet;

/// The most targets of a source.
const MAX_TARGETS: usize = 20_000;
/// The memory that the labels of all targets of a source may take: a group's labels are copied to each of its targets.
const MAX_MEMORY: u64 = 64 << 20;
/// The memory that a label takes without its texts.
const LABEL: usize = 64;

pub(super) struct FoundTargets {
    targets: Vec<LabelSet>,
    budget: Budget,
}

impl FoundTargets {
    pub(super) fn new() -> Self {
        Self { targets: Vec::new(), budget: Budget::new(Limits::of_memory(MAX_MEMORY)) }
    }

    /// Adds a target with labels of its own and labels that several have, which lose against its own.
    pub(super) fn push(&mut self, common: &LabelSet, own: LabelSet) -> Result<(), String> {
        let size = |labels: &LabelSet| -> usize {
            labels.iter().map(|(name, value)| LABEL + name.len() + value.len()).sum()
        };
        if self.targets.len() >= MAX_TARGETS {
            return Err(format!("more than {MAX_TARGETS} targets; request fewer"));
        }
        let charged = self.budget.charge(size(common) + size(&own));
        charged.map_err(|_| format!("the labels of the targets exceed {} MiB", MAX_MEMORY >> 20))?;
        let mut labels = common.clone();
        labels.extend(own);
        self.targets.push(labels);
        Ok(())
    }

    pub(super) fn into_targets(self) -> Vec<LabelSet> {
        self.targets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_are_copied_are_counted_each_time() {
        let common: LabelSet = [("a".to_owned(), "x".repeat(1 << 20))].into();
        let mut found = FoundTargets::new();
        let pushed = (0..1000).take_while(|_| found.push(&common, LabelSet::new()).is_ok()).count();
        assert!((32..=64).contains(&pushed), "{pushed}");
        assert_eq!(found.into_targets().len(), pushed);
    }

    #[test]
    fn targets_are_counted() {
        let mut found = FoundTargets::new();
        for _ in 0..MAX_TARGETS {
            found.push(&LabelSet::new(), LabelSet::new()).expect("room");
        }
        assert!(found.push(&LabelSet::new(), LabelSet::new()).expect_err("full").contains("20000 targets"));
    }
}
