//! Rollups of a block, from which long ranges are read: `hour.parquet` has a row for each series and stack of the whole block, with
//! the columns of the samples, and `minutes.parquet` has the total of each series in each minute.
//!
//! They repeat what the samples say. A block that would gain little has none, and readers that find none, or only need a
//! part of the block, read the samples.

use std::collections::HashMap;
use std::sync::Arc;

use flamelet_profile::budget::{Loan, hash_entry};
use flamelet_profile::{Budget, Limits, Result};
use rustc_hash::FxBuildHasher;

use super::columns::{self, Column, next, same_length};
use super::damaged::guarded;
use super::samples::SampleWriter;
use super::tables::{BlockTables, SampleRow};

pub(crate) const HOUR_FILE: &str = "hour.parquet";
pub(crate) const MINUTES_FILE: &str = "minutes.parquet";

/// The memory for making rollups. A block that needs more has none.
const MEMORY: Limits = Limits::of_memory(96 << 20);
/// Blocks with fewer rows have no rollups, and a rollup is kept if it has at most this part of the rows.
const FEWEST_ROWS: usize = 1024;
const LEAST_GAIN: usize = 2;

const MINUTE: i64 = 60_000_000_000;
const MICROSECOND: i64 = 1000;

const MINUTES: &str = "message minutes {
    required fixed_len_byte_array(16) series;
    required int64 time (TIMESTAMP(MICROS,true));
    required int64 duration;
    required int64 value;
}";

/// How much of one series was observed in one minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MinuteRow {
    pub(crate) series: u128,
    /// When the first profile that begins in this minute begins, in nanoseconds since 1970.
    pub(crate) time: i64,
    /// How long it is from there to the end of the last one.
    pub(crate) duration: i64,
    pub(crate) value: i64,
}

impl MinuteRow {
    /// Returns a sample as a total of its own.
    pub(crate) fn of(row: &SampleRow) -> Self {
        Self { series: row.series, time: row.time, duration: row.duration.max(0), value: row.value }
    }
}

/// A rollup: the name of its file, its bytes, and how many rows it has.
pub(crate) type Rollup = (&'static str, Vec<u8>, usize);

/// Makes the rollups of a block from its rows, which come sorted.
pub(crate) struct RollupWriter<'t> {
    /// `None` if there was not enough memory.
    making: Option<Making>,
    tables: &'t BlockTables,
    rows: usize,
}

struct Making {
    budget: Budget,
    hour: SampleWriter,
    minutes: Vec<MinuteRow>,
    sum: Option<SeriesSum>,
    _loan: Loan,
}

type Key = (u128, Option<Arc<str>>, Option<Arc<str>>);

struct SeriesSum {
    series: u128,
    is_gauge: bool,
    /// When the first profile and the last one begin, and when the last one ends.
    first: i64,
    last: i64,
    end: i64,
    /// By stack, trace and span; of a series that says how much there is at a moment, those of the last one.
    values: HashMap<Key, i64, FxBuildHasher>,
    loan: Loan,
}

impl<'t> RollupWriter<'t> {
    /// Begins; `tables` has the series.
    pub(crate) fn new(tables: &'t BlockTables) -> Self {
        Self { making: Making::new().ok(), tables, rows: 0 }
    }

    pub(crate) fn push(&mut self, row: &SampleRow) {
        self.rows += 1;
        let is_gauge = self.tables.series(row.series).is_some_and(|series| series.is_gauge());
        if let Some(making) = &mut self.making
            && making.push(row, is_gauge).is_err()
        {
            self.making = None;
        }
    }

    /// Returns the rollups that are worth it.
    pub(crate) fn finish(self) -> Vec<Rollup> {
        let rows = self.rows;
        let made = self.making.filter(|_| rows >= FEWEST_ROWS).and_then(|making| making.finish().ok());
        let is_smaller = |rollup: &Rollup| rollup.2 * LEAST_GAIN <= rows;
        made.into_iter().flatten().filter(is_smaller).collect()
    }
}

impl Making {
    fn new() -> Result<Self> {
        let budget = Budget::new(MEMORY);
        let loan = budget.lend(SampleWriter::MEMORY)?;
        Ok(Self { hour: SampleWriter::new()?, minutes: Vec::new(), sum: None, _loan: loan, budget })
    }

    fn push(&mut self, row: &SampleRow, is_gauge: bool) -> Result<()> {
        if self.sum.as_ref().is_none_or(|sum| sum.series != row.series) {
            self.end_series()?;
            let (series, first, loan) = (row.series, row.time, self.budget.lend(0)?);
            let values = HashMap::default();
            self.sum = Some(SeriesSum { series, is_gauge, first, last: first, end: first, values, loan });
        }
        self.push_minute(row, is_gauge)?;
        match &mut self.sum {
            Some(sum) => sum.add(row, &self.budget),
            None => Ok(()),
        }
    }

    fn push_minute(&mut self, row: &SampleRow, is_gauge: bool) -> Result<()> {
        let minute = |time: i64| time.div_euclid(MINUTE);
        let end = row.time.saturating_add(row.duration.max(0));
        let before = self.sum.as_ref().map_or(row.time, |sum| sum.last);
        let known = self.minutes.last_mut();
        match known.filter(|last| last.series == row.series && minute(last.time) == minute(row.time)) {
            Some(last) => {
                let value = if is_gauge && row.time != before { 0 } else { last.value };
                last.value = value.saturating_add(row.value);
                last.duration = last.duration.max(end.saturating_sub(last.time));
            }
            None => {
                self.budget.charge(2 * size_of::<MinuteRow>())?;
                let (series, time, value) = (row.series, row.time, row.value);
                self.minutes.push(MinuteRow { series, time, duration: end.saturating_sub(time), value });
            }
        }
        Ok(())
    }

    /// Writes the rows of the series that was added up.
    fn end_series(&mut self) -> Result<()> {
        let Some(sum) = self.sum.take() else { return Ok(()) };
        let duration = sum.end.saturating_sub(sum.first);
        let mut rows: Vec<(Key, i64)> = sum.values.into_iter().collect();
        rows.sort_unstable();
        let row = |time: i64, duration: i64, ((stack, trace, span), value): (Key, i64)| SampleRow {
            series: sum.series,
            time,
            duration,
            profile: 0,
            stack,
            value,
            trace,
            span,
        };
        let is_at_end = sum.is_gauge && sum.last > sum.first;
        if let Some(((stack, ..), _)) = rows.first().filter(|_| is_at_end) {
            // What was before the last moment does not count, but shows when the profiles begin.
            self.hour.push(row(sum.first, duration, ((*stack, None, None), 0)))?;
        }
        let (time, duration) =
            if is_at_end { (sum.last, sum.end.saturating_sub(sum.last)) } else { (sum.first, duration) };
        rows.into_iter().try_for_each(|one| self.hour.push(row(time, duration, one)))
    }

    fn finish(mut self) -> Result<Vec<Rollup>> {
        self.end_series()?;
        let (hour, rows, _) = self.hour.finish()?;
        let minutes = columns::write(MINUTES, &minute_columns(&self.minutes))?;
        Ok(vec![(HOUR_FILE, hour, rows), (MINUTES_FILE, minutes, self.minutes.len())])
    }
}

impl SeriesSum {
    fn add(&mut self, row: &SampleRow, budget: &Budget) -> Result<()> {
        self.end = self.end.max(row.time.saturating_add(row.duration.max(0)));
        if row.time > self.last {
            self.last = row.time;
            if self.is_gauge {
                self.values.clear();
                self.loan = budget.lend(0)?;
            }
        }
        let key = (row.stack, row.trace.clone(), row.span.clone());
        if let Some(value) = self.values.get_mut(&key) {
            *value = value.saturating_add(row.value);
            return Ok(());
        }
        let ids = [&row.trace, &row.span].into_iter().flatten().map(|id| id.len() + 32).sum::<usize>();
        self.loan.add(2 * hash_entry(size_of::<(Key, i64)>()) + ids)?;
        self.values.insert(key, row.value);
        Ok(())
    }
}

fn minute_columns(rows: &[MinuteRow]) -> Vec<Column> {
    vec![
        Column::hashes(rows.iter().map(|row| row.series)),
        Column::ints(rows.iter().map(|row| row.time.div_euclid(MICROSECOND))),
        Column::ints(rows.iter().map(|row| row.duration)),
        Column::ints(rows.iter().map(|row| row.value)),
    ]
}

/// Reads the totals of minutes. The memory that they take is added to the loan.
pub(crate) fn read_minutes(file: Vec<u8>, budget: &Budget, loan: &mut Loan) -> Result<Vec<MinuteRow>> {
    guarded(|| {
        let mut columns = columns::read(MINUTES, file, budget, loan)?.into_iter();
        let series = next(&mut columns)?.into_hashes()?;
        let (times, durations) = (next(&mut columns)?.into_ints()?, next(&mut columns)?.into_ints()?);
        let values = next(&mut columns)?.into_ints()?;
        same_length(&[series.len(), times.len(), durations.len(), values.len()])?;
        let rows = series.into_iter().zip(times).zip(durations.into_iter().zip(values));
        let row = |((series, time), (duration, value)): ((u128, i64), (i64, i64))| MinuteRow {
            series,
            time: time.saturating_mul(MICROSECOND),
            duration,
            value,
        };
        Ok(rows.map(row).collect())
    })
}
