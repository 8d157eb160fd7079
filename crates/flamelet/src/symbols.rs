//! Names for this process' addresses, cached between profiles.

#[cfg(test)]
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

#[cfg(target_os = "linux")]
use flamelet_capture::heap::unaccounted;
use flamelet_capture::profile::Profile;
use flamelet_symbol::Limits;
#[cfg(any(feature = "heap", feature = "http", target_os = "linux"))]
use flamelet_symbol::symbolize::Frame;
use flamelet_symbol::symbolize::{SymbolizeOptions, Symbolizer};

use crate::work::lock::ProcessMutex;
#[cfg(test)]
use crate::work::lock::lock;

/// One symbolizer for all captures: the second profile of the same code costs next to nothing. Its allocations do not
/// count as the service's, and appear in no heap profile.
pub(crate) struct Symbols {
    symbolizer: ProcessMutex<Symbolizer>,
    /// How many bytes may be cached.
    most: u64,
    /// The symbolizer's memory when it was last used: readable while the symbolizer works, which can take seconds.
    memory: AtomicUsize,
    /// Called while names are looked up, for tests.
    #[cfg(test)]
    pub(crate) meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Symbols {
    /// Returns a cache of at most about `memory` bytes.
    pub(crate) fn new(memory: u64) -> Self {
        Self {
            symbolizer: ProcessMutex::new(),
            most: memory,
            memory: AtomicUsize::new(0),
            #[cfg(test)]
            meanwhile: Mutex::default(),
        }
    }

    /// Returns the bytes that are cached, without waiting for the symbolizer.
    pub(crate) fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    fn new_symbolizer(&self) -> Symbolizer {
        // Reading a file needs more for a moment, whatever the cache size: with less, a large program would have no
        // names.
        let limits = Limits { memory: self.most.max(Limits::SERVICE.memory), ..Limits::SERVICE };
        Symbolizer::new(SymbolizeOptions {
            limits,
            only_symbols_of_libraries: true,
            ..SymbolizeOptions::default()
        })
    }

    fn using<T>(&self, work: impl FnOnce(&mut Symbolizer) -> T) -> T {
        let mut symbolizer = self.symbolizer.lock(|| self.new_symbolizer());
        #[cfg(test)]
        let _: Option<()> = lock(&self.meanwhile).take().map(|test| test());
        let result = work(&mut symbolizer);
        symbolizer.shrink_to(self.most);
        self.memory.store(symbolizer.memory(), Ordering::Relaxed);
        result
    }

    pub(crate) fn symbolize(&self, profile: &mut Profile) {
        let summary = unaccounted(|| self.using(|symbolizer| symbolizer.symbolize_profile(profile)));
        if let Some(quality) = &mut profile.quality {
            quality.unresolved = summary.asked.saturating_sub(summary.resolved) as u64;
        }
    }

    /// Returns the innermost function at each of `addresses` of this process, where it is known.
    #[cfg(any(feature = "heap", feature = "http"))]
    pub(crate) fn frames(&self, addresses: &[u64]) -> Vec<Option<Frame>> {
        let innermost = |frames: Vec<Frame>| frames.into_iter().next();
        unaccounted(|| self.find_frames(addresses).into_iter().map(innermost).collect())
    }

    /// Returns all functions at each of `addresses` of this process, where they are known: those that the compiler has put
    /// into another one first.
    #[cfg(any(feature = "heap", feature = "http", target_os = "linux"))]
    pub(crate) fn inlined_frames(&self, addresses: &[u64]) -> Vec<Vec<Frame>> {
        unaccounted(|| self.find_frames(addresses))
    }

    #[cfg(any(feature = "heap", feature = "http", target_os = "linux"))]
    fn find_frames(&self, addresses: &[u64]) -> Vec<Vec<Frame>> {
        use flamelet_symbol::MappedAt;
        use flamelet_symbol::process::{Process, code_mappings};
        use flamelet_symbol::symbolize::ModuleName;

        let mut found = vec![Vec::new(); addresses.len()];
        // Look up all addresses of a file together, which makes it cheap.
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
            let frames = self.using(|symbolizer| symbolizer.frames(&module, mapped, &there));
            for (at, frames) in asked.into_iter().zip(frames) {
                found[at] = frames.to_vec();
            }
        }
        found
    }
}

#[cfg(not(target_os = "linux"))]
fn unaccounted<T>(work: impl FnOnce() -> T) -> T {
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_child_forked_during_a_lookup_looks_up_its_own_names() {
        let symbols = Symbols::new(1 << 20);
        symbols.using(|_| assert!(flamelet_test_support::holds_in_child(|| symbols.using(|_| true))));
        assert!(symbols.using(|_| true));
    }

    #[test]
    fn its_memory_use_can_be_read_while_it_works() {
        let symbols = std::sync::Arc::new(Symbols::new(1 << 20));
        let (asked, answer) = std::sync::mpsc::channel();
        let theirs = symbols.clone();
        symbols.using(|_| {
            std::thread::spawn(move || asked.send(theirs.memory()));
            let answer = answer.recv_timeout(std::time::Duration::from_secs(60));
            assert_eq!(answer, Ok(0));
        });
    }
}
