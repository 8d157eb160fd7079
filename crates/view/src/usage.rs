//! How much a viewer keeps, and since when nobody has asked.

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

/// What is known of a viewer's memory without waiting for anybody.
#[derive(Debug)]
pub(crate) struct Usage {
    pub(crate) last_asked: Mutex<Instant>,
    pub(crate) bytes: AtomicUsize,
}

impl Default for Usage {
    fn default() -> Self {
        Self { last_asked: Mutex::new(Instant::now()), bytes: AtomicUsize::new(0) }
    }
}
