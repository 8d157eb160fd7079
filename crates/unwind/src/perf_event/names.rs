//! The events that the kernel numbers itself, by the names that `perf list` shows.

use super::attr::{EventAttr, event_kind};

/// In the order of their numbers; the usual name of each comes first.
const HARDWARE: [&[&str]; 10] = [
    &["cycles", "cpu-cycles"],
    &["instructions"],
    &["cache-references"],
    &["cache-misses"],
    &["branches", "branch-instructions"],
    &["branch-misses"],
    &["bus-cycles"],
    &["stalled-cycles-frontend", "idle-cycles-frontend"],
    &["stalled-cycles-backend", "idle-cycles-backend"],
    &["ref-cycles"],
];

const SOFTWARE: [&[&str]; 12] = [
    &["cpu-clock"],
    &["task-clock"],
    &["page-faults", "faults"],
    &["context-switches", "cs"],
    &["cpu-migrations", "migrations"],
    &["minor-faults"],
    &["major-faults"],
    &["alignment-faults"],
    &["emulation-faults"],
    &["dummy"],
    &["bpf-output"],
    &["cgroup-switches"],
];

const TABLES: [(u32, &[&[&str]]); 2] = [(event_kind::SOFTWARE, &SOFTWARE), (event_kind::HARDWARE, &HARDWARE)];

impl EventAttr {
    /// Returns what the event is called if it was not given a name.
    pub fn plain_name(&self) -> String {
        let known = event_name(self.kind, self.config);
        known.map_or_else(|| format!("event {}:{:#x}", self.kind, self.config), str::to_owned)
    }
}

/// Returns the usual name of the hardware or software event with this number.
fn event_name(kind: u32, config: u64) -> Option<&'static str> {
    let (_, table) = TABLES.iter().find(|(known, _)| *known == kind)?;
    table.get(usize::try_from(config).ok()?)?.first().copied()
}

/// Returns the kind and the number of the hardware or software event with this name, in lower case.
pub fn event_of_name(name: &str) -> Option<(u32, u64)> {
    TABLES.iter().find_map(|(kind, table)| {
        let config = table.iter().position(|names| names.contains(&name))?;
        Some((*kind, config as u64))
    })
}
