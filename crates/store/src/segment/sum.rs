//! The sum of a segment, in a file next to it: for each kind one window, which adds up all windows of the segment. A range that
//! covers the whole segment is read from it, which is many times faster.
//!
//! The file has the same records as a segment, with tables of their own. Where it is missing or damaged, readers take the
//! segment.

use std::fs;
use std::io;

use flamelet_profile::{Budget, Error, Observed, Quality, Result};

use crate::files::folder::{HistoryFolder, SegmentName};
use crate::files::sys;
use crate::segment::encode::{Encoder, NewSample, NewWindow};
use crate::segment::{WindowVisitor, record, visit_records};

/// How a sum begins: what it is and the version of its format. The number of its records follows (little endian).
const HEADER: &[u8; 16] = b"flamelet sum 1\r\n";

/// Adds up the windows of a kind.
#[derive(Debug)]
pub(crate) struct KindSum {
    start: i64,
    duration: i64,
    kind: u32,
    windows: u64,
    /// How many values a row has.
    width: usize,
    /// By row.
    values: Vec<i64>,
    /// The value whose observations all windows state, and the observations by row.
    observed: Option<(usize, Vec<Observed>)>,
    quality: Option<(u32, Quality)>,
}

impl KindSum {
    /// Begins with the first window.
    pub(crate) fn new(first: &NewWindow, width: usize) -> Self {
        let mut sum = Self {
            start: first.start,
            duration: 0,
            kind: first.kind,
            windows: 0,
            width,
            values: Vec::new(),
            observed: first.observed.map(|value_type| (value_type, Vec::new())),
            quality: None,
        };
        sum.add(first);
        sum
    }

    pub(crate) fn add(&mut self, window: &NewWindow) {
        self.start = self.start.min(window.start);
        self.duration = self.duration.saturating_add(window.duration);
        self.windows += window.windows;
        let rows = window.samples.last().map_or(0, |last| last.row as usize + 1);
        if self.values.len() < rows * self.width {
            self.values.resize(rows * self.width, 0);
        }
        for sample in &window.samples {
            let sums = &mut self.values[sample.row as usize * self.width..][..self.width];
            sums.iter_mut().zip(&sample.values).for_each(|(sum, value)| *sum = sum.saturating_add(*value));
        }
        self.observed = self.observed.take().filter(|(value_type, _)| window.observed == Some(*value_type));
        if let Some((_, observed)) = &mut self.observed {
            observed.resize(rows.max(observed.len()), Observed::default());
            window.samples.iter().for_each(|sample| observed[sample.row as usize] += sample.observed);
        }
        if let Some((engine, other)) = window.quality {
            self.quality =
                Some(self.quality.map_or((engine, other), |(engine, mine)| (engine, mine.and(other))));
        }
    }

    pub(crate) fn kind(&self) -> u32 {
        self.kind
    }

    /// Returns the bytes that it takes.
    pub(crate) fn memory(&self) -> usize {
        let observed = self.observed.as_ref().map_or(0, |(_, rows)| rows.capacity() * size_of::<Observed>());
        self.values.capacity() * size_of::<i64>() + observed
    }

    /// Returns the sum as a window. Its time is that of the first one, and as long as all together.
    pub(crate) fn window(&self) -> NewWindow {
        let rows = self.values.chunks_exact(self.width.max(1)).enumerate();
        let samples = rows.filter(|(_, values)| values.iter().any(|&sum| sum != 0)).map(|(row, values)| {
            let observed = self.observed.as_ref().and_then(|(_, rows)| rows.get(row)).copied();
            NewSample { row: row as u32, values: values.to_vec(), observed: observed.unwrap_or_default() }
        });
        NewWindow {
            start: self.start,
            duration: self.duration,
            kind: self.kind,
            windows: self.windows,
            samples: samples.collect(),
            observed: self.observed.as_ref().map(|(value_type, _)| *value_type),
            quality: self.quality,
        }
    }
}

/// Writes the sum of a finished segment that has so many bytes, unless it would be read about as fast itself. If this fails,
/// readers take the segment.
pub(crate) fn write(folder: &HistoryFolder, name: &SegmentName, length: u64, encoder: Encoder) -> Result<()> {
    if !encoder.is_worth_a_sum() {
        return Ok(());
    }
    let (count, records) = encoder.into_sum()?;
    if records.len() as u64 > length / 2 {
        return Ok(());
    }
    let bytes = [HEADER, &count.to_le_bytes()[..], &records].concat();
    let (path, new) = (folder.sum(name), folder.sum(name).with_extension("sum-new"));
    // Left by a process that was killed.
    folder.remove(&new);
    let written = write_whole(&new, &bytes).and_then(|()| fs::rename(&new, &path));
    written.map_err(|error| {
        folder.remove(&new);
        Error::of_file(&path, &error)
    })
}

fn write_whole(path: &std::path::Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = sys::create(path)?;
    sys::check_length(bytes.len() as u64)?;
    sys::write(&mut file, bytes)?;
    // Without the sync, a machine that loses power may keep the name and lose what is in the file.
    file.sync_data()
}

/// Shows `visitor` the windows of a segment's sum. Returns `None` if there is no good one, and else how many of its records
/// were skipped.
pub(crate) fn visit(
    folder: &HistoryFolder,
    name: &SegmentName,
    budget: &Budget,
    visitor: &mut impl WindowVisitor,
) -> Result<Option<usize>> {
    let Ok((bytes, _loan)) = folder.read(&folder.sum(name), budget) else {
        budget.check()?;
        return Ok(None);
    };
    let Some((count, records)) = bytes.strip_prefix(HEADER).and_then(|rest| rest.split_first_chunk::<4>())
    else {
        return Ok(None);
    };
    if record::count(records) != usize::try_from(u32::from_le_bytes(*count)).ok() {
        return Ok(None);
    }
    visit_records(records, budget, visitor).map(Some)
}
