//! callgrind's output file: what each function cost by line, and what its calls cost.
//!
//! callgrind records callers and callees, not whole stacks. Stacks are derived from the graph (see [`expand`]): a
//! function's own cost is exact, and is spread over its callers in proportion to what their calls cost, so cumulative
//! figures are estimates where a function has several callers that have several callers.
//!
//! Each event (`Ir`, `Dr`, `D1mr`, …) is a kind of value. A function is split by source file where code from other
//! files was inlined into it, as `callgrind_annotate` does.

mod expand;
mod graph;
mod read;
mod write;

pub(crate) use read::{read, recognise};
pub(crate) use write::write;
