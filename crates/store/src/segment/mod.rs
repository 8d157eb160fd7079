//! One segment: its header, and its windows in order.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod hash;
pub(crate) mod kind;
pub(crate) mod observed;
pub mod record;
pub(crate) mod span;
pub(crate) mod tables;

use flamelet_profile::{Budget, Error, ErrorKind, Result};

use crate::segment::decode::{SegmentTables, Window};
use crate::segment::record::Records;

/// How a segment begins: what it is, and the version of its format.
pub(crate) const HEADER: &[u8; 20] = b"flamelet history 1\r\n";

/// Does something with the windows of segments.
pub(crate) trait WindowVisitor {
    /// Called for each window, in the order of writing.
    fn window(&mut self, tables: &SegmentTables, window: &Window) -> Result<()>;

    /// Called after the last window of a segment.
    fn segment_end(&mut self, tables: &SegmentTables) -> Result<()>;

    /// Returns whether the rest of the segment need not be read.
    fn is_done(&self) -> bool {
        false
    }
}

/// Reads a segment, and returns how many of its records were skipped because they are damaged.
pub(crate) fn visit(bytes: &[u8], budget: &Budget, visitor: &mut impl WindowVisitor) -> Result<usize> {
    let Some(bytes) = bytes.strip_prefix(HEADER) else {
        return match bytes.len() < HEADER.len() {
            // Its writer ended before the first window.
            true => Ok(0),
            false => Err(Error::new(
                ErrorKind::WrongFormat,
                "is not a history that this version of flamelet reads",
            )),
        };
    };
    let (mut tables, mut lost) = (SegmentTables::default(), 0);
    let mut records = Records::new(bytes, budget);
    while let Some(body) = records.next()? {
        match tables.add(body, budget) {
            Ok(Some(window)) => {
                visitor.window(&tables, &window)?;
                if visitor.is_done() {
                    break;
                }
            }
            Ok(None) => lost += 1,
            // It has a good checksum but makes no sense: what follows cannot be trusted.
            Err(error) => {
                budget.check()?;
                debug_assert_ne!(error.kind(), ErrorKind::OutOfMemory);
                lost += 1;
                break;
            }
        }
    }
    visitor.segment_end(&tables)?;
    Ok(lost + records.damaged())
}
