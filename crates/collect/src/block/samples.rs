//! The samples of a block: most of it, so they are written in groups, and read a number of rows at a time.

use std::sync::Arc;

use flamelet_profile::budget::Loan;
use flamelet_profile::{Budget, Result};

use super::columns::{self, Column, next, same_length};
use super::damaged::guarded;
use super::tables::SampleRow;

/// Times are stored in microseconds, which every engine reads.
const MICROSECOND: i64 = 1000;

const SAMPLES: &str = "message samples {
    required fixed_len_byte_array(16) series;
    required int64 time (TIMESTAMP(MICROS,true));
    required int64 duration;
    required fixed_len_byte_array(16) stack;
    required int64 value;
    optional binary trace (STRING);
    optional binary span (STRING);
    required fixed_len_byte_array(16) profile;
}";

/// The column that samples of the first format do not have.
const PROFILE: &str = "    required fixed_len_byte_array(16) profile;\n";

/// Rows of a group. A reader of one series skips groups that do not have it.
const GROUP: usize = 65_536;
/// The columns of samples by which groups are skipped.
const SERIES_COLUMN: usize = 0;
const TIME_COLUMN: usize = 1;

/// Writes the samples of a block, which need not be in memory all at once.
pub(crate) struct SampleWriter {
    writer: columns::Writer,
    rows: usize,
    span: Option<(i64, i64)>,
    waiting: Vec<SampleRow>,
}

impl SampleWriter {
    /// What rows take that are not written yet.
    pub(crate) const MEMORY: usize = 4 * GROUP * size_of::<SampleRow>();

    pub(crate) fn new() -> Result<Self> {
        let writer = columns::Writer::new(SAMPLES)?;
        Ok(Self { writer, rows: 0, span: None, waiting: Vec::new() })
    }

    /// Adds the next row; one that is equal except for its value is added to the row before.
    pub(crate) fn push(&mut self, row: SampleRow) -> Result<()> {
        if let Some(last) = self.waiting.last_mut().filter(|last| last.key() == row.key()) {
            last.value = last.value.saturating_add(row.value);
            return Ok(());
        }
        if self.waiting.len() >= GROUP {
            self.flush()?;
        }
        self.waiting.push(row);
        Ok(())
    }

    /// Adds all rows of a table.
    pub(crate) fn extend(&mut self, rows: &[SampleRow]) -> Result<()> {
        rows.chunks(GROUP).try_for_each(|rows| self.write(rows))
    }

    /// Returns how many bytes are written.
    pub(crate) fn length(&self) -> usize {
        self.writer.length()
    }

    /// Returns the file, the number of rows, and when the first and the last of their profiles begin.
    pub(crate) fn finish(mut self) -> Result<(Vec<u8>, usize, (i64, i64))> {
        self.flush()?;
        if self.rows == 0 {
            self.writer.group(&sample_columns(&[]))?;
        }
        Ok((self.writer.finish()?, self.rows, self.span.unwrap_or_default()))
    }

    fn flush(&mut self) -> Result<()> {
        let mut rows = std::mem::take(&mut self.waiting);
        if !rows.is_empty() {
            self.write(&rows)?;
        }
        rows.clear();
        self.waiting = rows;
        Ok(())
    }

    /// Writes rows, which are one group.
    fn write(&mut self, rows: &[SampleRow]) -> Result<()> {
        for row in rows {
            let (first, last) = self.span.unwrap_or((row.time, row.time));
            self.span = Some((first.min(row.time), last.max(row.time)));
        }
        self.rows += rows.len();
        self.writer.group(&sample_columns(rows))
    }
}

/// The samples of a block, which are read a number of rows at a time.
pub(crate) struct BlockSampleReader {
    file: columns::File,
    has_profiles: bool,
    /// The next group.
    group: usize,
    open: Option<columns::GroupReader>,
}

impl BlockSampleReader {
    /// Opens the samples; those of the first format have no profiles. What the footer takes is added to the loan.
    pub(crate) fn open(file: Vec<u8>, has_profiles: bool, loan: &mut Loan) -> Result<Self> {
        let first_format = || SAMPLES.replace(PROFILE, "");
        let file = guarded(|| match has_profiles {
            true => columns::File::open(SAMPLES, file, loan),
            false => columns::File::open(&first_format(), file, loan),
        })?;
        Ok(Self { file, has_profiles, group: 0, open: None })
    }

    /// Returns the next rows, `most` at most; none at the end. Groups are skipped whose series and times `is_wanted`
    /// does not want, given the first and last of each. The memory of the rows is added to the loan.
    pub(crate) fn next(
        &mut self,
        most: usize,
        is_wanted: &dyn Fn((u128, u128), (i64, i64)) -> bool,
        budget: &Budget,
        loan: &mut Loan,
    ) -> Result<Vec<SampleRow>> {
        guarded(|| {
            loop {
                if self.open.is_none() && !self.open_next(is_wanted, budget)? {
                    return Ok(Vec::new());
                }
                let Some(group) = &mut self.open else { return Ok(Vec::new()) };
                // The columns are freed when the rows are made of them.
                let mut columns = budget.lend(0)?;
                let read = group.next(most, &mut columns)?;
                let rows = read.first().map_or(0, Column::len);
                loan.add(rows * size_of::<SampleRow>())?;
                let rows = samples_of(read.into_iter(), self.has_profiles)?;
                loan.add(rows.iter().map(|row| id_bytes(&row.trace) + id_bytes(&row.span)).sum())?;
                budget.work(rows.len())?;
                if !rows.is_empty() {
                    return Ok(rows);
                }
                self.open = None;
            }
        })
    }

    /// Opens the next group that is wanted, and returns whether there is one.
    fn open_next(
        &mut self,
        is_wanted: &dyn Fn((u128, u128), (i64, i64)) -> bool,
        budget: &Budget,
    ) -> Result<bool> {
        while self.group < self.file.groups() {
            let number = self.group;
            self.group += 1;
            let series = self.file.hash_range(number, SERIES_COLUMN).unwrap_or((0, u128::MAX));
            let times = self.file.int_range(number, TIME_COLUMN).unwrap_or((i64::MIN, i64::MAX));
            let nanos = |time: i64| time.saturating_mul(MICROSECOND);
            if is_wanted(series, (nanos(times.0), nanos(times.1))) {
                self.open = Some(self.file.group(number, budget)?);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What an id takes in a row that shares it with others: the id of a trace is in many rows.
fn id_bytes(id: &Option<Arc<str>>) -> usize {
    id.as_ref().map_or(0, |id| (id.len() + 32) / Arc::strong_count(id).max(1) + 1)
}

fn sample_columns(rows: &[SampleRow]) -> Vec<Column> {
    vec![
        Column::hashes(rows.iter().map(|row| row.series)),
        Column::ints(rows.iter().map(|row| row.time.div_euclid(MICROSECOND))),
        Column::ints(rows.iter().map(|row| row.duration)),
        Column::hashes(rows.iter().map(|row| row.stack)),
        Column::ints(rows.iter().map(|row| row.value)),
        Column::optional_texts(rows.iter().map(|row| row.trace.as_deref())),
        Column::optional_texts(rows.iter().map(|row| row.span.as_deref())),
        Column::hashes(rows.iter().map(|row| row.profile)),
    ]
}

fn samples_of(mut columns: impl Iterator<Item = Column>, has_profiles: bool) -> Result<Vec<SampleRow>> {
    let series = next(&mut columns)?.into_hashes()?;
    let (times, durations) = (next(&mut columns)?.into_ints()?, next(&mut columns)?.into_ints()?);
    let stacks = next(&mut columns)?.into_hashes()?;
    let values = next(&mut columns)?.into_ints()?;
    let traces = next(&mut columns)?.into_optional_texts()?;
    let spans = next(&mut columns)?.into_optional_texts()?;
    let profiles = match has_profiles {
        true => next(&mut columns)?.into_hashes()?,
        false => vec![0; series.len()],
    };
    same_length(&[
        series.len(),
        times.len(),
        durations.len(),
        stacks.len(),
        values.len(),
        traces.len(),
        spans.len(),
        profiles.len(),
    ])?;
    let ids = traces.into_iter().zip(spans).zip(profiles);
    let numbers = times.into_iter().zip(durations).zip(values);
    let rows = series.into_iter().zip(stacks).zip(numbers).zip(ids).map(
        |(((series, stack), ((time, duration), value)), ((trace, span), profile))| SampleRow {
            series,
            time: time.saturating_mul(MICROSECOND),
            duration,
            profile,
            stack,
            value,
            trace,
            span,
        },
    );
    Ok(rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Block, BlockTables, write};
    use crate::series::Series;
    use flamelet_profile::{ErrorKind, Limits};

    fn example(rows: Vec<SampleRow>) -> BlockTables {
        let series = (0..4).map(|hash| (hash, Series::default())).collect();
        BlockTables { samples: rows, stacks: vec![(1, Vec::new())], series, ..BlockTables::default() }
    }

    fn row(series: u128, time: i64) -> SampleRow {
        SampleRow { series, time, stack: 1, value: 1, profile: 7, ..SampleRow::default() }
    }

    #[test]
    fn samples_of_the_first_format_are_of_no_profile() {
        let tables = example(vec![row(1, 5000); 2]);
        let mut files = write(&tables).expect("written").files;
        let columns = sample_columns(&tables.samples);
        files[0] =
            columns::write(&SAMPLES.replace(PROFILE, ""), &columns[..columns.len() - 1]).expect("written");
        let budget = Budget::new(Limits::SERVICE);
        assert!(
            Block::open(files.clone(), true, Vec::new(), &budget).is_err(),
            "the manifest says which format it is"
        );
        let mut block = Block::open(files, false, Vec::new(), &budget).expect("opened");
        let mut loan = budget.lend(0).expect("room");
        let mut read = block.next(10, &|_, _| true, &budget, &mut loan).expect("read");
        assert!(read.iter().all(|row| row.profile == 0));
        read.iter_mut().for_each(|row| row.profile = 7);
        assert_eq!(read, tables.samples);
    }

    #[test]
    fn rows_are_charged_to_the_budget_and_need_not_be_in_memory_at_once() {
        let tables = example(vec![row(1, 5000); 1_000_000]);
        let files = write(&tables).expect("written").files;
        assert!(files[0].len() < 100_000, "{} bytes for a million equal rows", files[0].len());
        let limits = Limits::of_memory(32 << 20);
        let read = |forgets: bool| -> Result<usize> {
            let budget = Budget::new(limits);
            let mut block = Block::open(files.clone(), true, Vec::new(), &budget)?;
            let (mut loan, mut count) = (budget.lend(0)?, 0);
            loop {
                let rows = block.next(32_768, &|_, _| true, &budget, &mut loan)?.len();
                if rows == 0 {
                    return Ok(count);
                }
                count += rows;
                if forgets {
                    loan = budget.lend(0)?;
                }
            }
        };
        assert_eq!(read(false).expect_err("too large").kind(), ErrorKind::OutOfMemory);
        assert_eq!(read(true).expect("read"), 1_000_000);
    }

    #[test]
    fn groups_without_wanted_rows_are_skipped() {
        let rows = (0..4 * GROUP).map(|at| row((at / GROUP) as u128, at as i64 * MICROSECOND));
        let files = write(&example(rows.collect())).expect("written").files;
        let budget = Budget::new(Limits::PERSON);
        let seen = std::cell::RefCell::new(Vec::new());
        let wants = |series: (u128, u128), times: (i64, i64)| {
            seen.borrow_mut().push((series, times));
            series.0 == 2
        };
        let mut block = Block::open(files, true, Vec::new(), &budget).expect("opened");
        let rows = block.next(usize::MAX, &wants, &budget, &mut budget.lend(0).expect("room")).expect("read");
        assert!(rows.iter().all(|row| row.series == 2), "{:?}", rows.first());
        let last = |group: usize| ((group + 1) * GROUP - 1) as i64 * MICROSECOND;
        let first = |group: usize| (group * GROUP) as i64 * MICROSECOND;
        assert_eq!(seen.borrow()[..3], [0, 1, 2].map(|at| ((at as u128, at as u128), (first(at), last(at)))));
    }
}
