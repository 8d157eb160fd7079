//! Names for this process' addresses, remembered between profiles.

use std::sync::Mutex;

use flamelet_capture::profile::Profile;
use flamelet_symbol::Limits;
#[cfg(any(feature = "heap", feature = "http"))]
use flamelet_symbol::symbolize::Frame;
use flamelet_symbol::symbolize::{Options, Symbolizer};

use crate::lock::lock;

/// One symbolizer for all captures: the second profile of the same code costs next to nothing.
pub(crate) struct Symbols {
    symbolizer: Mutex<Symbolizer>,
}

impl Symbols {
    /// Remembers at most about `memory` bytes.
    pub(crate) fn new(memory: u64) -> Self {
        let limits = Limits { memory, ..Limits::SERVICE };
        let options = Options { limits, only_symbols_of_libraries: true, ..Options::default() };
        Self { symbolizer: Mutex::new(Symbolizer::new(options)) }
    }

    pub(super) fn memory(&self) -> usize {
        lock(&self.symbolizer).memory()
    }

    pub(super) fn symbolize(&self, profile: &mut Profile) {
        #[cfg(target_os = "linux")]
        let summary =
            flamelet_capture::heap::unaccounted(|| lock(&self.symbolizer).symbolize_profile(profile));
        #[cfg(not(target_os = "linux"))]
        let summary = lock(&self.symbolizer).symbolize_profile(profile);
        if let Some(quality) = &mut profile.quality {
            quality.unresolved = summary.asked.saturating_sub(summary.resolved) as u64;
        }
    }

    /// The innermost function at each of `addresses` of this process, where it is known.
    #[cfg(any(feature = "heap", feature = "http"))]
    pub(crate) fn frames(&self, addresses: &[u64]) -> Vec<Option<Frame>> {
        use flamelet_symbol::MappedAt;
        use flamelet_symbol::process::{Process, code_mappings};
        use flamelet_symbol::symbolize::ModuleName;

        let mut found = vec![None; addresses.len()];
        // All addresses of a file at once: that is what makes looking them up cheap.
        for mapping in code_mappings(Process::Own).unwrap_or_default() {
            let holds = |&at: &usize| (mapping.start..mapping.limit).contains(&addresses[at]);
            let asked: Vec<usize> = (0..addresses.len()).filter(holds).collect();
            if asked.is_empty() {
                continue;
            }
            let build_id = mapping.build_id.map(|id| id.to_string()).unwrap_or_default();
            let module = ModuleName { path: mapping.path, build_id };
            let mapped = MappedAt { start: mapping.start, limit: mapping.limit, offset: mapping.offset };
            let there: Vec<u64> = asked.iter().map(|&at| addresses[at]).collect();
            let frames = lock(&self.symbolizer).frames(&module, mapped, &there);
            for (at, frames) in asked.into_iter().zip(frames) {
                found[at] = frames.first().cloned();
            }
        }
        found
    }
}
