//! The answers for a terminal, in `go tool pprof`'s words and columns where it has the same report.

mod by;
mod diff;
mod explain;
mod heading;
mod heap;
mod info;
mod labels;
mod list;
mod top;
mod traces;
mod tree;

pub(crate) use heading::heading;
pub use traces::write_text as write_traces;
