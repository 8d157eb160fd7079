//! The symbolizer and its cache.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::MappedAt;
use crate::names::NameTable;
use crate::symbolize::Frame;
use crate::symbolize::module::KnownModule;
use crate::symbolize::options::{ModuleName, SymbolizeOptions};

/// Symbolizes, and caches files and answers for the next time, within [`Limits::memory`](crate::Limits::memory).
///
/// A service keeps one behind a lock and uses it for every profile it makes: the second profile of the same code
/// costs next to nothing.
pub struct Symbolizer {
    options: SymbolizeOptions,
    names: NameTable,
    modules: FxHashMap<ModuleName, KnownModule>,
    /// Counts requests, to find the least recently used module.
    questions: u64,
    /// The bytes of all answers so far.
    answered: u64,
}

impl Symbolizer {
    /// Creates a symbolizer with an empty cache.
    pub fn new(options: SymbolizeOptions) -> Self {
        let names = NameTable::new(options.demangle);
        Self { names, options, modules: FxHashMap::default(), questions: 0, answered: 0 }
    }

    /// Returns its options.
    pub fn options(&self) -> &SymbolizeOptions {
        &self.options
    }

    /// Returns the frames at each of `addresses`, in the order of the request: innermost inlined function first, the
    /// real function last; empty if nothing is known.
    ///
    /// The addresses are those of a process in which the module was mapped at `mapped`; with [`MappedAt::default`]
    /// they are the file's own. An address is used as it is: a capture that has return addresses stores the address
    /// of the call (one less), as pprof expects.
    pub fn frames(&mut self, module: &ModuleName, mapped: MappedAt, addresses: &[u64]) -> Vec<Arc<[Frame]>> {
        self.questions += 1;
        let (options, names) = (&self.options, &mut self.names);
        let known = self.modules.entry(module.clone()).or_insert_with(|| KnownModule::open(module, options));
        known.keep_up(module, options);
        known.last_question = self.questions;
        let before = names.memory();
        let frames = known.frames(mapped, addresses, names, options.limits);
        let count: usize = frames.iter().map(|frames| frames.len()).sum();
        self.answered += (count * size_of::<Frame>() + names.memory() - before) as u64;
        self.stay_within_limits();
        frames
    }

    /// Returns how many bytes all answers so far have taken.
    pub(super) fn answered(&self) -> u64 {
        self.answered
    }

    /// Returns what was found out about a module that was passed to [`Symbolizer::frames`].
    pub(super) fn module(&self, module: &ModuleName) -> Option<&KnownModule> {
        self.modules.get(module)
    }

    /// Returns roughly how many bytes of memory the cached answers take. The content of files is not cached between
    /// two requests; they stay open.
    pub fn memory(&self) -> usize {
        self.modules.values().map(KnownModule::memory).sum::<usize>() + self.names.memory()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.modules.clear();
        self.names = NameTable::new(self.options.demangle);
    }

    fn stay_within_limits(&mut self) {
        self.shrink_to(self.options.limits.memory);
    }

    /// Drops answers about the least recently used modules until the cache takes at most about `bytes`, then what helps
    /// to find others.
    pub fn shrink_to(&mut self, bytes: u64) {
        let limit = usize::try_from(bytes).unwrap_or(usize::MAX);
        if self.memory() <= limit {
            return;
        }
        let mut by_age: Vec<(u64, ModuleName)> =
            self.modules.iter().map(|(name, module)| (module.last_question, name.clone())).collect();
        by_age.sort_unstable_by_key(|&(age, _)| age);
        // The names are shared, so the memory they take is only known once they are dropped.
        self.names = NameTable::new(self.options.demangle);
        for forget in [KnownModule::forget_answers, KnownModule::forget_index] {
            for (_, name) in &by_age {
                if self.memory() <= limit {
                    return;
                }
                if let Some(module) = self.modules.get_mut(name) {
                    forget(module);
                }
            }
        }
    }
}
