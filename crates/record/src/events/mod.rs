//! Perf events: which ones a recording opens, on whom, their rings, and what their records say.

pub(crate) mod chunk;
mod name;
pub(crate) mod plan;
pub(crate) mod ring_records;
pub(crate) mod session;
mod uprobe;
pub(crate) mod watch;
