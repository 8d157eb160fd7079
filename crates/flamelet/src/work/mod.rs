//! The profiler's own threads: starting and ending their work, the locks that they share, and reporting their errors.

#[cfg(any(feature = "cpu", feature = "http"))]
pub(crate) mod background;
#[cfg(any(feature = "cpu", feature = "heap", feature = "http"))]
pub(crate) mod lock;
#[cfg(feature = "history")]
pub(crate) mod own_thread;
#[cfg(feature = "cpu")]
pub(crate) mod problem;
#[cfg(feature = "http")]
pub(crate) mod workshop;
