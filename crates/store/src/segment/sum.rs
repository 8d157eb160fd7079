//! The sum of a segment, in a file next to it: for each kind one window, which adds up all windows of the segment. A range that
//! covers the whole segment is read from it, which is many times faster.
//!
//! The file has the same records as a segment, with tables of their own. Where it is missing or damaged, readers take the
//! segment.

use std::fs;
use std::io;

use flamelet_profile::{Budget, Error, Result};

use crate::files::folder::{HistoryFolder, SegmentName};
use crate::files::sys;
use crate::segment::encode::Encoder;
use crate::segment::{WindowVisitor, record, visit_records};

/// How a sum begins: what it is and the version of its format. The number of its records follows (little endian).
const HEADER: &[u8; 16] = b"flamelet sum 1\r\n";

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
