//! How a collector keeps profiles.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::caps::Caps;
use crate::keep::Keep;

/// Memory for profiles that are in no block yet; when they take that much, blocks are made at once.
const RECENT: usize = 64 << 20;
/// Memory for recently read blocks.
pub(crate) const READ: usize = 64 << 20;

/// How a collector keeps profiles.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of the log, and of the blocks unless they are in a store of their own.
    pub store: PathBuf,
    /// What is accepted.
    pub caps: Caps,
    /// How long after it was accepted a profile becomes part of a block, at most.
    pub flush: Duration,
    /// Bytes in logs after which blocks are made at once: a collector that restarts, and readers of the folder, have to
    /// read the logs.
    pub max_log: u64,
    /// How long profiles are kept.
    pub keep: Duration,
    /// How long those of some services are kept; the first match applies.
    pub keep_of: Vec<Keep>,
    /// The most bytes of all blocks together; the oldest hours are removed first.
    pub max_bytes: u64,
    /// How long a block that was merged into another one stays, because readers may be about to read it.
    pub grace: Duration,
    /// How long to wait before removing, by their age, nearly all profiles of a folder: the clock may be wrong.
    pub doubt: Duration,
    /// How often versions are compared; never if it is `None`.
    pub watch: Option<Duration>,
    /// What a core costs in an hour, for answers in money.
    pub price: Option<f64>,
    /// Servers that are asked for symbols by build id (debuginfod's protocol), in this order.
    pub debuginfod: Vec<String>,
    /// How many collectors share the memory for what they remember of earlier profiles.
    pub share: usize,
}

impl Options {
    /// Returns the defaults for a folder: blocks every five minutes, kept for seven days and up to 50 GiB.
    pub fn new(store: &Path) -> Self {
        Self {
            store: store.to_owned(),
            caps: Caps::default(),
            flush: Duration::from_secs(300),
            max_log: 256 << 20,
            keep: Duration::from_secs(7 * 86_400),
            keep_of: Vec::new(),
            max_bytes: 50 << 30,
            grace: Duration::ZERO,
            doubt: Duration::from_secs(86_400),
            watch: None,
            price: None,
            debuginfod: Vec::new(),
            share: 1,
        }
    }

    /// Returns the memory for profiles that are in no block yet.
    pub(crate) fn recent(&self) -> usize {
        RECENT / self.share.max(1)
    }

    /// Returns the memory for recently read blocks.
    pub(crate) fn read(&self) -> usize {
        READ / self.share.max(1)
    }

    /// Returns how long profiles of a service are kept.
    pub(crate) fn kept_for(&self, service: &str) -> Duration {
        self.keep_of.iter().find(|keep| keep.is_of(service)).map_or(self.keep, Keep::age)
    }

    /// Returns the defaults for a store that many collectors share; the folder is for the log of this one.
    pub fn shared(log: &Path) -> Self {
        Self { grace: Duration::from_secs(900), max_bytes: u64::MAX, ..Self::new(log) }
    }
}
