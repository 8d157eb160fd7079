//! One segment: its header, and its windows in order.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod hash;
pub(crate) mod kind;
pub(crate) mod new_window;
pub(crate) mod observed;
pub mod record;
pub(crate) mod span;
pub(crate) mod sum;
pub(crate) mod tables;

use flamelet_profile::{Budget, Error, ErrorKind, Result};

use crate::segment::decode::{Added, SegmentTables, Window};
use crate::segment::kind::Kind;
use crate::segment::record::{Record, Records};

/// How a segment begins: what it is, and the version of its format.
pub(crate) const HEADER: &[u8; 20] = b"flamelet history 2\r\n";

/// Does something with the windows of segments.
pub(crate) trait WindowVisitor {
    /// Returns whether the rows of a window are needed; of others, only time and kind are read.
    fn needs_rows(&self, kind: &Kind, window: &Window) -> bool {
        let _ = (kind, window);
        true
    }

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
    visit_records(bytes, budget, visitor)
}

/// Reads the records that follow a header.
fn visit_records(bytes: &[u8], budget: &Budget, visitor: &mut impl WindowVisitor) -> Result<usize> {
    let (mut tables, mut lost) = (SegmentTables::default(), 0);
    let mut records = Records::new(bytes, budget);
    loop {
        let needs_rows = |tag: &_| {
            let window = Window::of_tag(tag);
            tables.kind(window.kind).is_none_or(|kind| visitor.needs_rows(kind, &window))
        };
        let Some(Record { tag, body }) = records.next_tagged(needs_rows)? else { break };
        let added = match (tag, body) {
            (tag, Some(body)) => tables.add(tag.as_ref(), body, budget),
            (Some(tag), None) => Ok(Added::Window(Window::of_tag(&tag))),
            (None, None) => Ok(Added::Rows),
        };
        match added {
            Ok(Added::Window(window)) => {
                visitor.window(&tables, &window)?;
                if visitor.is_done() {
                    break;
                }
            }
            Ok(Added::Rows) => {}
            Ok(Added::Lost) => lost += 1,
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
