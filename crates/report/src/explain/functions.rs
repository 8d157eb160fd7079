//! Functions that a rule looks for.

/// Functions by their path.
pub(super) struct Functions {
    /// How their paths begin.
    pub(super) starts: &'static [&'static str],
    /// What their names contain.
    pub(super) parts: &'static [&'static str],
}

/// Shorthand for a row of the table.
pub(super) const fn functions(starts: &'static [&'static str], parts: &'static [&'static str]) -> Functions {
    Functions { starts, parts }
}

impl Functions {
    pub(super) fn has(&self, path: &str, name: &str) -> bool {
        self.starts.iter().any(|start| path.starts_with(start))
            || self.parts.iter().any(|part| name.contains(part))
    }
}
