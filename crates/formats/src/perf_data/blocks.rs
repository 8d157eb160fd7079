//! Memory that records lie in while they are held back.
//!
//! The file is read into blocks, and records stay where they were read to: most of a recording with stack dumps is
//! never looked at, so it is copied once, from the kernel, and no more. A block is used again when nothing in it is
//! held.

use flamelet_profile::Budget;

/// The size of a block; a record is shorter than a quarter of it.
pub(super) const BLOCK: usize = 256 << 10;
/// The most blocks in use; beyond that some records must go.
const MAX_BLOCKS: usize = 512;
/// Blocks take this part of a budget at most, but for the few that are needed in any case.
const BUDGET_PART: usize = 8;
const FEWEST_BLOCKS: usize = 16;

/// Where a record lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordPlace {
    pub(super) block: u32,
    pub(super) start: u32,
    pub(super) length: u32,
}

struct Block {
    bytes: Box<[u8]>,
    /// How many records and readers need it.
    users: u32,
}

/// All blocks.
pub(super) struct Blocks {
    budget: Budget,
    most: usize,
    blocks: Vec<Block>,
    free: Vec<u32>,
    /// The block that copies are put into, and how full it is.
    copies: Option<(u32, usize)>,
}

impl Blocks {
    /// No blocks yet; those to come are charged to `budget`.
    pub(super) fn within(budget: &Budget) -> Self {
        let most = usize::try_from(budget.room()).unwrap_or(usize::MAX) / BUDGET_PART / BLOCK;
        let most = most.clamp(FEWEST_BLOCKS, MAX_BLOCKS);
        Self { budget: budget.clone(), most, blocks: Vec::new(), free: Vec::new(), copies: None }
    }

    /// A block for the caller, who must [`Blocks::let_go`] of it.
    pub(super) fn take(&mut self) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            // Who reads the records asks whether there was room; there are only a few blocks more than that.
            self.budget.has_room(BLOCK);
            self.blocks.push(Block { bytes: vec![0; BLOCK].into(), users: 0 });
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

    /// The bytes of a record.
    pub(super) fn record(&self, place: RecordPlace) -> &[u8] {
        &self.bytes(place.block)[place.start as usize..][..place.length as usize]
    }

    /// One more needs the block.
    pub(super) fn hold(&mut self, block: u32) {
        self.blocks[block as usize].users += 1;
    }

    /// One less needs the block.
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

    /// Stores a record that lies elsewhere.
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

    /// Whether so much is held that less of each record should be.
    pub(super) fn is_half_full(&self) -> bool {
        self.blocks.len() - self.free.len() > self.most / 2
    }

    /// Whether so much is held that some must go.
    pub(super) fn is_full(&self) -> bool {
        self.blocks.len() - self.free.len() > self.most
    }
}
