//! What a Parquet file claims in its footer and its pages, checked before anything is unpacked.
//!
//! A page says how large it is unpacked and how many values it has, and the reader reserves that much; a schema says how
//! many children a group has, and the reader recurses into them. A file that lies could so take any amount of memory, or
//! end the process. Both are Thrift structs in its compact protocol, see [`thrift`].

use flamelet_profile::Result;
use flamelet_profile::budget::Loan;
use parquet::basic::Compression;
use parquet::file::metadata::ColumnChunkMetaData;

use super::damaged::damaged;
use super::thrift;

/// The largest page after unpacking; the writer begins a new one at 1 MiB, and a single value may be larger.
const MAX_PAGE: u64 = 64 << 20;
/// What a value of a dictionary takes in memory without its bytes.
const DICTIONARY_VALUE: usize = 64;
/// What a value of a list takes while it is decoded, with its levels: one row may have all values of a column.
const LIST_VALUE: usize = 48;
/// Columns and groups of columns in a schema, and children of one of them; blocks have fewer than half as many.
const MOST_ELEMENTS: u64 = 64;
/// What a struct in a list of the footer takes in memory, and a byte of other things.
const LISTED: usize = 1024;
const FOOTER_BYTE: usize = 8;

/// Checks the footer of a file, and charges what it takes while the file is read.
pub(super) fn check_footer(bytes: &[u8], loan: &mut Loan) -> Result<()> {
    let mut rest = footer(bytes).ok_or_else(|| damaged("it is not a whole Parquet file"))?;
    loan.add(rest.len().saturating_mul(FOOTER_BYTE))?;
    let (mut listed, mut largest) = (0usize, 0);
    thrift::read(&mut rest, thrift::FOOTER, &mut |path, value| match *path {
        [thrift::LIST, 2] | [2, 5] => largest = largest.max(value),
        [thrift::LIST, ..] => listed = listed.saturating_add(value as usize),
        _ => {}
    })?;
    loan.add(listed.saturating_mul(LISTED))?;
    if largest > MOST_ELEMENTS { Err(damaged("its schema is too large")) } else { Ok(()) }
}

/// Returns the footer of a file that is long enough for it.
fn footer(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.len().checked_sub(8)?;
    let length = u32::from_le_bytes(*bytes[end..].first_chunk()?) as usize;
    let start = end.checked_sub(length).filter(|&start| start >= 4)?;
    (bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1")).then(|| &bytes[start..end])
}

/// Checks the pages of a column, and charges what they take while they are read one after the other: its dictionary, and
/// the largest of them.
pub(super) fn check(file: &[u8], chunk: &ColumnChunkMetaData, loan: &mut Loan) -> Result<()> {
    if !matches!(chunk.compression(), Compression::SNAPPY | Compression::UNCOMPRESSED) {
        return Err(damaged("its compression is not snappy"));
    }
    let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
    let end = start.saturating_add(chunk.compressed_size());
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let pages = range.filter(|_| chunk.compressed_size() >= 0).and_then(|(start, end)| file.get(start..end));
    let mut rest = pages.ok_or_else(|| damaged("a column is outside the file"))?;
    let is_list = chunk.column_descr().max_rep_level() > 0;
    let (mut dictionaries, mut largest) = (0, 0);
    while !rest.is_empty() {
        let page = Page::read(&mut rest)?;
        let unpacked = page.unpacked.min(MAX_PAGE + 1);
        let is_lying = page.packed > rest.len() as u64
            || unpacked > MAX_PAGE
            // A dictionary's values take a byte each at least.
            || page.dictionary_values > unpacked;
        if is_lying {
            return Err(damaged("a page is larger than the file allows"));
        }
        let values = u32::try_from(page.values).map_err(|_| damaged("a page has too many values"))?;
        if is_list {
            loan.add((values as usize).saturating_mul(LIST_VALUE))?;
        }
        match page.dictionary_values {
            0 => largest = largest.max(unpacked as usize),
            values => dictionaries += unpacked as usize + values as usize * DICTIONARY_VALUE,
        }
        rest = &rest[page.packed as usize..];
    }
    // While a page is unpacked, the one before it may still be in use.
    loan.add(dictionaries + 2 * largest)
}

/// What the header of a page says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Page {
    unpacked: u64,
    packed: u64,
    values: u64,
    dictionary_values: u64,
}

impl Page {
    /// Reads the header at the beginning of `rest`, which then begins after it.
    fn read(rest: &mut &[u8]) -> Result<Self> {
        let mut page = Self::default();
        thrift::read(rest, thrift::PAGE, &mut |path, number| match *path {
            [2] => page.unpacked = number,
            [3] => page.packed = number,
            [5 | 8, 1] => page.values = number,
            [7, 1] => page.dictionary_values = number,
            _ => {}
        })?;
        Ok(page)
    }
}
