//! The functions on some stacks of this process.

use std::collections::HashMap;
use std::fmt::Write;

use flamelet_symbol::symbolize::Frame;

use crate::symbols::Symbols;

/// The functions at some addresses, innermost first.
pub(super) struct Names {
    frames: HashMap<u64, Vec<Frame>>,
}

impl Names {
    pub(super) fn of(symbols: &Symbols, addresses: impl Iterator<Item = u64>) -> Self {
        let mut addresses: Vec<u64> = addresses.collect();
        addresses.sort_unstable();
        addresses.dedup();
        let frames = symbols.inlined_frames(&addresses);
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

    /// Writes the functions at an address as Go writes the frames of a goroutine.
    pub(super) fn write_at(&self, address: u64, out: &mut String) {
        let frames = self.at(address);
        if frames.is_empty() {
            let _ = writeln!(out, "{address:#x}(...)");
        }
        for frame in frames {
            let _ = writeln!(out, "{}(...)\n\t{}:{}", frame.name, frame.file, frame.line);
        }
    }
}

/// Returns a frame of a stack as JSON.
#[cfg(feature = "http")]
pub(super) fn json_frame(frame: &Frame) -> String {
    use crate::anatomy::json_text as text;

    let (name, file) = (text(&frame.name), text(&frame.file));
    format!("{{\"function\": {name}, \"file\": {file}, \"line\": {}}}", frame.line)
}
