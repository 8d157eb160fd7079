//! Records what the watched process has mapped while it lives: bpftrace resolves names when it ends itself, by which
//! time the process is gone, and leaves addresses.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use super::ending::commands_of;
use super::{Drive, Subject};

/// How long to wait before the next look: doubles each time, within these limits.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// The memory map of the process as it was last seen.
pub(super) struct MemoryMap {
    text: String,
    first_seen: Option<Instant>,
    next_look: Instant,
    wait: Duration,
}

impl MemoryMap {
    pub(super) fn new() -> Self {
        Self { text: String::new(), first_seen: None, next_look: Instant::now(), wait: FIRST_WAIT }
    }

    /// Looks at the process that `tool` watches, if it is time.
    pub(super) fn look(&mut self, tool: u32, drive: &Drive) {
        let now = Instant::now();
        if now < self.next_look {
            return;
        }
        let process = match drive.subject {
            Subject::Pid(pid) => Some(pid),
            Subject::Command(_) => commands_of(tool, drive).first().copied(),
        };
        let text = process.and_then(|pid| fs::read_to_string(format!("/proc/{pid}/maps")).ok());
        // A process that has just ended has an empty map.
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.text = text;
            self.first_seen.get_or_insert(now);
            self.wait = (self.wait * 2).min(LONGEST_WAIT);
        }
        self.next_look = now + self.wait;
    }

    /// Returns when the process was first seen.
    pub(super) fn first_seen(&self) -> Option<Instant> {
        self.first_seen
    }

    /// Appends the map to the tool's file, as in pprof's text formats.
    pub(super) fn append_to(&self, raw: &Path) -> std::io::Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        let mut file = fs::OpenOptions::new().append(true).open(raw)?;
        write!(file, "\nMAPPED_LIBRARIES:\n{}", self.text)
    }
}
