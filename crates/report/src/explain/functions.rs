//! Functions that a rule looks for.

use crate::by::begins;

/// Functions by their path.
pub(super) struct Functions {
    /// How their paths begin.
    pub(super) starts: &'static [&'static str],
    /// What their names contain.
    pub(super) parts: &'static [&'static str],
    /// Left out nevertheless: how their paths begin, or what their names contain.
    pub(super) except: &'static [&'static str],
}

/// Shorthand for a row of the table.
pub(super) const fn functions(starts: &'static [&'static str], parts: &'static [&'static str]) -> Functions {
    Functions { starts, parts, except: &[] }
}

impl Functions {
    /// Leaves out functions whose paths begin so, or whose names contain it.
    pub(super) const fn except(self, except: &'static [&'static str]) -> Self {
        Self { except, ..self }
    }

    pub(super) fn has(&self, path: &str, name: &str) -> bool {
        let is_found = self.starts.iter().any(|start| begins(path, start))
            || self.parts.iter().any(|part| name.contains(part));
        is_found && !self.except.iter().any(|text| path.starts_with(text) || name.contains(text))
    }
}
