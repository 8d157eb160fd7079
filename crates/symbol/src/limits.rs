//! Limits on the time and memory that an untrusted file may cost.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::section::SectionBlocks;
use crate::{Error, ErrorKind, Result};

/// How many steps pass between two checks of the clock.
const STEPS_A_LOOK: u64 = 1 << 16;

/// Bounds on what symbolizing one file may cost. A hostile file can cause any amount of work with few bytes (a
/// thousand entries that share one huge range list); with these limits it fails instead of running forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most memory to spend on symbol tables and decompressed sections of one file, and on remembered answers.
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

/// Counts down the [`Limits`] of one job.
pub(crate) struct Patience {
    deadline: Option<Instant>,
    steps: Cell<u64>,
    memory: Cell<u64>,
    memory_limit: u64,
    blocks: SectionBlocks,
}

impl Patience {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            blocks: SectionBlocks::new(limits.held),
            deadline: Instant::now().checked_add(limits.time),
            steps: Cell::new(0),
            memory: Cell::new(limits.memory),
            memory_limit: limits.memory,
        }
    }

    /// Charges `steps` of work.
    #[inline]
    pub(crate) fn spend(&self, steps: usize) -> Result<()> {
        let total = self.steps.get() + steps as u64;
        if total < STEPS_A_LOOK {
            self.steps.set(total);
            return Ok(());
        }
        self.look_at_clock()
    }

    #[cold]
    fn look_at_clock(&self) -> Result<()> {
        self.steps.set(0);
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => {
                Err(Error::new(ErrorKind::TooSlow, "its debug information takes longer to read than allowed"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the most memory that the job may take.
    pub(crate) fn memory_limit(&self) -> u64 {
        self.memory_limit
    }

    /// Returns the blocks held of the files that the job reads.
    pub(crate) fn blocks(&self) -> &SectionBlocks {
        &self.blocks
    }

    /// Charges `bytes` of memory that stay allocated until the job is done.
    pub(crate) fn allocate(&self, bytes: u64) -> Result<()> {
        match self.memory.get().checked_sub(bytes) {
            Some(rest) => {
                self.memory.set(rest);
                Ok(())
            }
            None => Err(Error::new(
                ErrorKind::TooLarge,
                format!("its sections decompress to more than the allowed {} bytes", self.memory_limit),
            )),
        }
    }
}
