//! Several blocks become one, row by row: only their other tables are in memory.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use flamelet_profile::budget::Loan;
use flamelet_profile::{Budget, Error, ErrorKind, Result};

use super::build::BlockBuilder;
use super::files::{Written, write_with};
use super::rollup::RollupWriter;
use super::samples::SampleWriter;
use super::stream::Block;
use super::tables::{BlockTables, SampleRow};

/// Rows of each block that are in memory.
const ROWS: usize = 4096;

/// Decides which rows of a block are taken.
pub(crate) type Keeps<'a> = Box<dyn Fn(&SampleRow) -> bool + 'a>;

/// A block whose rows are taken one by one.
struct JoinedBlock<'a> {
    block: Block,
    keeps: Keeps<'a>,
    rows: VecDeque<SampleRow>,
    loan: Loan,
}

/// The next row of a source; the least is the greatest, for the heap.
struct Head {
    row: SampleRow,
    source: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        other.row.key().cmp(&self.row.key()).then_with(|| other.source.cmp(&self.source))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

/// Makes one block of several, each with what decides which of its rows are taken. Fails with `TooLarge` if the samples
/// would have more than `most` bytes. Returns also the tables of the block without its samples.
pub(crate) fn join<'a>(
    blocks: impl Iterator<Item = Result<(Block, Keeps<'a>)>>,
    most: usize,
    budget: &Budget,
) -> Result<(Written, BlockTables)> {
    let mut builder = BlockBuilder::new(budget);
    let mut sources: Vec<JoinedBlock<'a>> = Vec::new();
    for opened in blocks {
        let (mut block, keeps) = opened?;
        let (tables, _loan) = block.take_tables(budget)?;
        builder.merge(tables)?;
        sources.push(JoinedBlock { block, keeps, rows: VecDeque::new(), loan: budget.lend(0)? });
    }
    let tables = builder.finish();
    let _waiting = budget.lend(SampleWriter::MEMORY)?;
    let mut written = budget.lend(0)?;
    let mut writer = SampleWriter::new()?;
    let mut rollups = RollupWriter::new(&tables);
    let mut heads = BinaryHeap::new();
    for (source, of) in sources.iter_mut().enumerate() {
        heads.extend(of.next(budget)?.map(|row| Head { row, source }));
    }
    while let Some(Head { row, source }) = heads.pop() {
        let before = writer.length();
        rollups.push(&row);
        writer.push(row)?;
        written.add(2 * (writer.length() - before))?;
        if writer.length() > most {
            return Err(Error::new(ErrorKind::TooLarge, "the merged block would be too large"));
        }
        heads.extend(sources[source].next(budget)?.map(|row| Head { row, source }));
    }
    let rollups = rollups.finish();
    Ok((write_with(writer, rollups, &tables)?, tables))
}

impl JoinedBlock<'_> {
    fn next(&mut self, budget: &Budget) -> Result<Option<SampleRow>> {
        loop {
            if let Some(row) = self.rows.pop_front() {
                return Ok(Some(row));
            }
            self.loan = budget.lend(0)?;
            let rows = self.block.next(ROWS, &|_, _| true, budget, &mut self.loan)?;
            if rows.is_empty() {
                return Ok(None);
            }
            self.rows = rows.into_iter().filter(|row| (self.keeps)(row)).collect();
        }
    }
}
