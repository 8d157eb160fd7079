//! Function and file names, each demangled and stored once.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::demangle::{Demangle, profile_names};

/// The names of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FunctionNames {
    pub(crate) name: Arc<str>,
    pub(crate) system_name: Arc<str>,
}

/// Interns strings and demangles symbols.
pub(crate) struct NameTable {
    how: Demangle,
    functions: FxHashMap<Box<[u8]>, FunctionNames>,
    strings: FxHashMap<Box<str>, Arc<str>>,
    empty: Arc<str>,
    memory: usize,
}

impl NameTable {
    pub(crate) fn new(how: Demangle) -> Self {
        Self {
            how,
            functions: FxHashMap::default(),
            strings: FxHashMap::default(),
            empty: "".into(),
            memory: 0,
        }
    }

    /// Returns roughly how many bytes the names take.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    pub(crate) fn empty(&self) -> Arc<str> {
        self.empty.clone()
    }

    /// Returns the names of the function with this symbol.
    pub(crate) fn function(&mut self, symbol: &[u8]) -> FunctionNames {
        if let Some(known) = self.functions.get(symbol) {
            return known.clone();
        }
        let text = String::from_utf8_lossy(symbol);
        let (name, system_name) = profile_names(&text, self.how);
        let name: Arc<str> = self.string(&name);
        let system_name = if *name == *system_name { name.clone() } else { self.string(system_name) };
        let names = FunctionNames { name, system_name };
        self.memory += symbol.len() + 64;
        self.functions.insert(symbol.into(), names.clone());
        names
    }

    /// Returns the shared copy of `text`.
    pub(crate) fn string(&mut self, text: &str) -> Arc<str> {
        if text.is_empty() {
            return self.empty();
        }
        if let Some(known) = self.strings.get(text) {
            return known.clone();
        }
        let shared: Arc<str> = text.into();
        self.memory += 2 * text.len() + 64;
        self.strings.insert(text.into(), shared.clone());
        shared
    }
}
