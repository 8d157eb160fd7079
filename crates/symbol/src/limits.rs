//! Limits on the time and memory that an untrusted file may cost.

use std::time::Duration;

/// Bounds on what symbolizing one file may cost. A hostile file can cause any amount of work with few bytes (a
/// thousand entries that share one huge range list); with these limits it fails instead of running forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most memory to spend on one file's symbol tables, decompressed sections, and inlined calls together; as much again
    /// on its names; and as much on remembered answers.
    pub memory: u64,
    /// The most time to spend on one file.
    pub time: Duration,
    /// About how much of the debug information in files to hold at a time: beyond that, blocks are dropped, and read
    /// again if necessary. `u64::MAX` keeps everything that was read, which is faster.
    pub held: u64,
}

impl Default for Limits {
    /// What a user at a terminal accepts: 2 GiB and a minute.
    fn default() -> Self {
        Self { memory: 2 << 30, time: Duration::from_secs(60), held: u64::MAX }
    }
}

impl Limits {
    /// What a service in production can afford besides its own work: 64 MiB and ten seconds, and 4 MiB of debug
    /// information at a time.
    pub const SERVICE: Self = Self { memory: 64 << 20, time: Duration::from_secs(10), held: 4 << 20 };
}
