//! A viewer's memory use, and the time of its last request.

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

/// What can be read about a viewer's memory without waiting.
#[derive(Debug)]
pub(crate) struct ViewerUsage {
    pub(crate) last_asked: Mutex<Instant>,
    pub(crate) bytes: AtomicUsize,
}

impl Default for ViewerUsage {
    fn default() -> Self {
        Self { last_asked: Mutex::new(Instant::now()), bytes: AtomicUsize::new(0) }
    }
}
