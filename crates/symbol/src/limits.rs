//! How much time and memory a file from outside may cost.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::section::Blocks;
use crate::{Error, ErrorKind, Result};

/// How many steps pass between two looks at the clock.
const STEPS_A_LOOK: u64 = 1 << 16;

/// Bounds on what symbolizing one file may cost. A hostile file can make any amount of work out of few
/// bytes (a thousand entries that share one huge range list); it ends here instead of never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most memory to spend on symbol tables and decompressed sections of one file, and on remembered answers.
    pub memory: u64,
    /// The most time to spend on one file.
    pub time: Duration,
    /// About how much of the debug information in files is held at a time: what was read is let go when it gets more,
    /// and read again if need be. `u64::MAX` for all that is read, which is faster.
    pub held: u64,
}

impl Default for Limits {
    /// What a person at a terminal accepts: 2 GiB and a minute.
    fn default() -> Self {
        Self { memory: 2 << 30, time: Duration::from_secs(60), held: u64::MAX }
    }
}

impl Limits {
    /// What a service in production can afford besides its own work: 64 MiB and ten seconds, and
    /// 4 MiB of debug information at a time.
    pub const SERVICE: Self = Self { memory: 64 << 20, time: Duration::from_secs(10), held: 4 << 20 };
}

/// Counts down the [`Limits`] of one piece of work.
pub(crate) struct Patience {
    deadline: Option<Instant>,
    steps: Cell<u64>,
    memory: Cell<u64>,
    memory_limit: u64,
    blocks: Blocks,
}

impl Patience {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            blocks: Blocks::new(limits.held),
            deadline: Instant::now().checked_add(limits.time),
            steps: Cell::new(0),
            memory: Cell::new(limits.memory),
            memory_limit: limits.memory,
        }
    }

    /// Pays for `steps` of work.
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

    /// The most memory that the work may take.
    pub(crate) fn memory_limit(&self) -> u64 {
        self.memory_limit
    }

    /// What is held of the files that the work reads.
    pub(crate) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Pays for `bytes` of memory that stay until the work is done.
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
