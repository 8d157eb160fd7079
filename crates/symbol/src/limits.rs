//! How much time and memory a file from outside may cost.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::file::{Bytes, Resident};
use crate::{Error, ErrorKind, Result};

/// How many steps pass between two looks at the clock.
const STEPS_A_LOOK: u64 = 1 << 16;

/// Bounds on what symbolizing one file may cost. A hostile file can make any amount of work out of few
/// bytes (a thousand entries that share one huge range list); it ends here instead of never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most memory to spend on decompressed sections of one file, and on remembered answers.
    pub memory: u64,
    /// The most time to spend on one file.
    pub time: Duration,
    /// About how much of mapped files may be resident at a time: what was read is given back to the kernel's
    /// cache when it gets more. `u64::MAX` for as much as is read, which is faster.
    pub mapped: u64,
}

impl Default for Limits {
    /// What a person at a terminal accepts: 2 GiB and a minute.
    fn default() -> Self {
        Self { memory: 2 << 30, time: Duration::from_secs(60), mapped: u64::MAX }
    }
}

impl Limits {
    /// What a service in production can afford besides its own work: 64 MiB and ten seconds, and
    /// 4 MiB of mapped files at a time.
    pub const SERVICE: Self = Self { memory: 64 << 20, time: Duration::from_secs(10), mapped: 4 << 20 };
}

/// Counts down the [`Limits`] of one piece of work.
pub(crate) struct Patience {
    deadline: Option<Instant>,
    steps: Cell<u64>,
    memory: Cell<u64>,
    memory_limit: u64,
    resident: Resident,
}

impl Patience {
    pub(crate) fn new(limits: Limits) -> Self {
        Self::with_files(limits, Vec::new())
    }

    /// Like [`Patience::new`], for work that reads these files.
    pub(crate) fn with_files(limits: Limits, files: Vec<Bytes>) -> Self {
        Self {
            resident: Resident::new(files, limits.mapped),
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
        self.between_units();
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => {
                Err(Error::new(ErrorKind::TooSlow, "its debug information takes longer to read than allowed"))
            }
            _ => Ok(()),
        }
    }

    /// To be called now and then, whenever another part of the files is about to be read.
    pub(crate) fn between_units(&self) {
        self.resident.stay_small();
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
