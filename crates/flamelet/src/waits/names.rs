//! The functions on some stacks of this process.

use std::collections::HashMap;

use flamelet_symbol::symbolize::Frame;

use crate::Profiler;

/// The functions at some addresses, innermost first.
pub(super) struct Names {
    frames: HashMap<u64, Vec<Frame>>,
}

impl Names {
    pub(super) fn of(profiler: &Profiler, addresses: impl Iterator<Item = u64>) -> Self {
        let mut addresses: Vec<u64> = addresses.collect();
        addresses.sort_unstable();
        addresses.dedup();
        let frames = profiler.symbols().inlined_frames(&addresses);
        Self { frames: addresses.into_iter().zip(frames).collect() }
    }

    /// Returns the functions at an address; none if it has no name.
    pub(super) fn at(&self, address: u64) -> &[Frame] {
        self.frames.get(&address).map_or(&[], Vec::as_slice)
    }

    /// Returns the names of all functions on a stack, leaf first.
    pub(super) fn on<'a>(&'a self, stack: &'a [u64]) -> impl Iterator<Item = &'a str> {
        stack.iter().flat_map(|&address| self.at(address)).map(|frame| &*frame.name)
    }
}
