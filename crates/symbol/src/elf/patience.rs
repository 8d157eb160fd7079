//! What a job that reads files has left of its limits, and the blocks that it holds of them.

use std::cell::Cell;
use std::time::Instant;

use super::section::SectionBlocks;
use crate::limits::Limits;
use crate::{Error, ErrorKind, Result};

/// How many steps pass between two checks of the clock.
const STEPS_A_LOOK: u64 = 1 << 16;

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
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => {
                // The next step looks again, and fails too.
                self.steps.set(STEPS_A_LOOK);
                Err(Error::new(ErrorKind::TooSlow, "its debug information takes longer to read than allowed"))
            }
            _ => {
                self.steps.set(0);
                Ok(())
            }
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
                format!("its debug information takes more than the allowed {} bytes", self.memory_limit),
            )),
        }
    }
}
