//! Memory for records that are held back.
//!
//! The file is read into blocks, and records stay where they were read: most of a recording with stack dumps is never
//! looked at, so it is copied only once, from the kernel. A block is reused when nothing in it is held.

use flamelet_profile::Budget;

/// The size of a block; a record is shorter than a quarter of it.
pub(super) const BLOCK: usize = 256 << 10;
/// The most blocks in use; beyond that some records must be released.
const MAX_BLOCKS: usize = 512;
/// Blocks take at most this fraction of a budget, apart from the few that are always needed.
const BUDGET_PART: usize = 8;
const FEWEST_BLOCKS: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct RecordPlace {
    pub(super) block: u32,
    pub(super) start: u32,
    pub(super) length: u32,
}

struct RecordBlock {
    bytes: Box<[u8]>,
    /// How many records and readers use it.
    users: u32,
}

pub(super) struct RecordBlocks {
    budget: Budget,
    most: usize,
    blocks: Vec<RecordBlock>,
    free: Vec<u32>,
    /// The block that copies go to, and how full it is.
    copies: Option<(u32, usize)>,
}

impl RecordBlocks {
    /// Creates an empty set of blocks, which are charged to `budget` as they are added.
    pub(super) fn within(budget: &Budget) -> Self {
        let most = usize::try_from(budget.room()).unwrap_or(usize::MAX) / BUDGET_PART / BLOCK;
        let most = most.clamp(FEWEST_BLOCKS, MAX_BLOCKS);
        Self { budget: budget.clone(), most, blocks: Vec::new(), free: Vec::new(), copies: None }
    }

    /// Returns a block for the caller, which must [`RecordBlocks::let_go`] of it.
    pub(super) fn take(&mut self) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            // The caller that reads the records checks for room; only a few blocks can be added after it ran out.
            self.budget.has_room(BLOCK);
            self.blocks.push(RecordBlock { bytes: vec![0; BLOCK].into(), users: 0 });
            self.blocks.len() as u32 - 1
        });
        self.blocks[number as usize].users = 1;
        number
    }

    pub(super) fn bytes_mut(&mut self, block: u32) -> &mut [u8] {
        &mut self.blocks[block as usize].bytes
    }

    pub(super) fn bytes(&self, block: u32) -> &[u8] {
        &self.blocks[block as usize].bytes
    }

    pub(super) fn record(&self, place: RecordPlace) -> &[u8] {
        &self.bytes(place.block)[place.start as usize..][..place.length as usize]
    }

    /// Adds a user of the block.
    pub(super) fn hold(&mut self, block: u32) {
        self.blocks[block as usize].users += 1;
    }

    /// Removes a user of the block.
    pub(super) fn let_go(&mut self, block: u32) {
        let users = &mut self.blocks[block as usize].users;
        *users -= 1;
        if *users == 0 {
            self.free.push(block);
        }
    }

    /// Copies the beginning of a record, or all of it, from one block to the start of another.
    pub(super) fn move_to(&mut self, from: RecordPlace, to: u32) {
        let mut target = std::mem::take(&mut self.blocks[to as usize].bytes);
        let record = self.record(from);
        target[..record.len()].copy_from_slice(record);
        self.blocks[to as usize].bytes = target;
    }

    /// Copies a record from outside into a block.
    pub(super) fn store(&mut self, record: &[u8]) -> RecordPlace {
        let (block, start) = match self.copies {
            Some((block, used)) if used + record.len() <= BLOCK => (block, used),
            full => {
                full.into_iter().for_each(|(block, _)| self.let_go(block));
                (self.take(), 0)
            }
        };
        self.bytes_mut(block)[start..start + record.len()].copy_from_slice(record);
        self.copies = Some((block, start + record.len()));
        RecordPlace { block, start: start as u32, length: record.len() as u32 }
    }

    /// Returns whether so much is held that less of each record should be kept.
    pub(super) fn is_half_full(&self) -> bool {
        self.blocks.len() - self.free.len() > self.most / 2
    }

    /// Returns whether so much is held that some records must be released.
    pub(super) fn is_full(&self) -> bool {
        self.blocks.len() - self.free.len() > self.most
    }
}
