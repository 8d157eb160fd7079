//! Allocation budgets for tests, with function names in their messages.

use std::sync::Once;

use flamelet_capture::fork::PerProcess;
use flamelet_capture::heap::budget::{Budget, set_resolver};

use crate::symbols::Symbols;

/// Returns a budget without limits, for a test to add some. A test that exceeds it fails with the stacks that
/// allocated, as functions and lines.
///
/// ```
/// flamelet::global_allocator!();
///
/// # fn main() {
/// let text = flamelet::heap::budget().allocations(1).bytes(64).assert(|| String::with_capacity(64));
/// # drop(text);
/// # }
/// ```
pub fn budget() -> Budget {
    static NAMED: Once = Once::new();
    NAMED.call_once(|| set_resolver(resolve));
    Budget::new()
}

/// Returns a line for each address: the function and its place in the source.
fn resolve(addresses: &[u64]) -> Vec<String> {
    static SYMBOLS: PerProcess<Symbols> = PerProcess::new();
    let symbols = SYMBOLS.get(|_| Symbols::new(flamelet_symbol::Limits::SERVICE.memory));
    let frames = symbols.frames(addresses);
    let line = |(address, frame): (&u64, Option<flamelet_symbol::symbolize::Frame>)| match frame {
        Some(frame) if frame.line != 0 => format!("{} ({}:{})", frame.name, frame.file, frame.line),
        Some(frame) => frame.name.to_string(),
        None => format!("{address:#x}"),
    };
    addresses.iter().zip(frames).map(line).collect()
}
