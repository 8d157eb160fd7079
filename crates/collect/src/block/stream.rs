//! A block that is read: its samples a number of rows at a time, so that a block of any size takes little memory.

use std::collections::HashSet;
use std::sync::Arc;

use flamelet_profile::budget::{Loan, hash_entry};
use flamelet_profile::{Budget, Result};
use rustc_hash::FxBuildHasher;

use super::files::{misfit, read_tables};
use super::samples::BlockSampleReader;
use super::tables::{BlockTables, SampleRow, SharedCode};

/// Rows of one series and moment are kept together up to this number.
const TOGETHER: usize = 65_536;

/// Decides by the first and last series and time of a group of rows whether it has to be read.
pub(crate) type WantsGroup<'a> = dyn Fn((u128, u128), (i64, i64)) -> bool + 'a;

/// A block that is being read.
pub(crate) struct Block {
    /// All tables except the samples.
    pub(crate) tables: BlockTables,
    tables_loan: Loan,
    /// What rows may refer to.
    series: HashSet<u128, FxBuildHasher>,
    stacks: HashSet<u128, FxBuildHasher>,
    shared: Vec<Arc<SharedCode>>,
    samples: BlockSampleReader,
    /// Rows that come with the next ones.
    rest: Vec<SampleRow>,
    rest_loan: Loan,
    is_over: bool,
    _loan: Loan,
    _unkept: Loan,
}

impl Block {
    /// Opens a block, given its files in the order of [`super::NAMES`]; those of the first format have no profiles.
    /// `shared` has code that is not in these files.
    pub(crate) fn open(
        files: [Vec<u8>; 4],
        has_profiles: bool,
        shared: Vec<Arc<SharedCode>>,
        budget: &Budget,
    ) -> Result<Self> {
        let mut loan = budget.lend(files[0].len())?;
        let [samples, stacks, locations, series] = files;
        // These are freed when they are decoded.
        let packed = budget.lend(stacks.len() + locations.len() + series.len())?;
        let mut tables_loan = budget.lend(0)?;
        let mut tables = read_tables([stacks, locations, series], budget, &mut tables_loan)?;
        tables.shared.clone_from(&shared);
        drop(packed);
        loan.add((tables.stacks.len() + tables.series.len()) * hash_entry(size_of::<u128>()))?;
        Ok(Self {
            series: tables.series.iter().map(|(hash, _)| *hash).collect(),
            stacks: tables.stacks.iter().map(|(hash, _)| *hash).collect(),
            shared,
            tables,
            tables_loan,
            samples: BlockSampleReader::open(samples, has_profiles, &mut loan)?,
            rest: Vec::new(),
            rest_loan: budget.lend(0)?,
            is_over: false,
            _loan: loan,
            _unkept: budget.lend(0)?,
        })
    }

    /// Keeps a loan as long as the block: for shared code that nobody else has in memory.
    pub(crate) fn with_loan(self, loan: Loan) -> Self {
        Self { _unkept: loan, ..self }
    }

    /// Takes the tables out, with what is charged for them.
    pub(crate) fn take_tables(&mut self, budget: &Budget) -> Result<(BlockTables, Loan)> {
        let loan = std::mem::replace(&mut self.tables_loan, budget.lend(0)?);
        Ok((std::mem::take(&mut self.tables), loan))
    }

    /// Returns the next rows, about `most`; none at the end. Rows of one series and moment come together. What the rows
    /// take is added to the loan.
    pub(crate) fn next(
        &mut self,
        most: usize,
        wants_group: &WantsGroup<'_>,
        budget: &Budget,
        loan: &mut Loan,
    ) -> Result<Vec<SampleRow>> {
        loan.add(size_of_val(&*self.rest))?;
        let mut rows = std::mem::take(&mut self.rest);
        self.rest_loan = budget.lend(0)?;
        while !self.is_over {
            let more = self.samples.next(most, wants_group, budget, loan)?;
            self.is_over = more.is_empty();
            self.check(&more)?;
            rows.extend(more);
            let last = rows.last().map(|row| (row.series, row.time));
            let is_of_last = |row: &SampleRow| Some((row.series, row.time)) == last;
            let whole = rows.iter().rposition(|row| !is_of_last(row)).map_or(0, |at| at + 1);
            if self.is_over || rows.len() - whole > TOGETHER {
                break;
            }
            if whole > 0 {
                self.rest = rows.split_off(whole);
                self.rest_loan.add(size_of_val(&*self.rest))?;
                break;
            }
        }
        Ok(rows)
    }

    /// Refuses rows that refer to rows that are not there.
    fn check(&self, rows: &[SampleRow]) -> Result<()> {
        let has_stack = |hash: u128| {
            self.stacks.contains(&hash) || self.shared.iter().any(|code| code.stack(hash).is_some())
        };
        let is_whole = rows.iter().all(|row| self.series.contains(&row.series) && has_stack(row.stack));
        if is_whole { Ok(()) } else { Err(misfit()) }
    }
}
