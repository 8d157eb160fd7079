//! flamelet-symbol.

use flamelet_symbol::MappedAt;
use flamelet_symbol::symbolize::{ModuleName, SymbolizeOptions, Symbolizer};

use crate::{Engine, Found};

pub struct Flamelet {
    symbolizer: Symbolizer,
    module: ModuleName,
}

impl Flamelet {
    pub fn open(binary: &str) -> Self {
        let module = ModuleName { path: binary.to_owned(), build_id: String::new() };
        Self { symbolizer: Symbolizer::new(SymbolizeOptions::default()), module }
    }
}

impl Engine for Flamelet {
    fn pass(&mut self, addresses: &[u64]) -> Found {
        let mut found = Found::default();
        for frames in self.symbolizer.frames(&self.module, MappedAt::default(), addresses) {
            found.named += usize::from(frames.iter().any(|frame| !frame.name.is_empty()));
            for frame in frames.iter() {
                found.frame(&frame.name, &frame.file, frame.line);
            }
        }
        found
    }
}
