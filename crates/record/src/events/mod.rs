//! Perf events: which ones a recording opens and on what, their rings, and the contents of their records.

pub(crate) mod chunk;
mod name;
pub(crate) mod plan;
pub(crate) mod ring_records;
pub(crate) mod session;
mod uprobe;
pub(crate) mod watch;
