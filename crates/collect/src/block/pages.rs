//! What the pages of a Parquet file claim, checked before anything is unpacked.
//!
//! A page says how large it is unpacked and how many values it has, and the reader reserves that much. A file that lies
//! could so take any amount of memory. Headers are Thrift structs in its compact protocol.

use flamelet_profile::budget::Loan;
use flamelet_profile::protobuf::{unzigzag, varint};
use flamelet_profile::{Error, ErrorKind, Result};
use parquet::basic::Compression;
use parquet::file::metadata::ColumnChunkMetaData;

use super::damaged::damaged;

/// The largest page after unpacking; the writer begins a new one at 1 MiB, and a single value may be larger.
const MAX_PAGE: u64 = 64 << 20;
/// What a value of a dictionary takes in memory without its bytes.
const DICTIONARY_VALUE: usize = 64;
/// What a value of a list takes while it is decoded, with its levels: one row may have all values of a column.
const LIST_VALUE: usize = 48;
const MAX_DEPTH: usize = 16;

/// Checks that a file is long enough for its own footer.
pub(super) fn check_footer(bytes: &[u8]) -> Result<()> {
    let length = bytes.len().checked_sub(8).and_then(|at| bytes[at..].first_chunk::<4>());
    let length = length.map(|length| u32::from_le_bytes(*length) as usize);
    let is_good = bytes.starts_with(b"PAR1")
        && bytes.ends_with(b"PAR1")
        && length.is_some_and(|length| length <= bytes.len().saturating_sub(12));
    if is_good { Ok(()) } else { Err(damaged("it is not a whole Parquet file")) }
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
        each_field(rest, 0, &mut |field, number| match *field {
            [2] => page.unpacked = number,
            [3] => page.packed = number,
            [5 | 8, 1] => page.values = number,
            [7, 1] => page.dictionary_values = number,
            _ => {}
        })?;
        Ok(page)
    }
}

/// Calls `each` for the integers of a struct and of the structs in it, with the numbers of the fields that lead there.
fn each_field(rest: &mut &[u8], depth: usize, each: &mut dyn FnMut(&[i64], u64)) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    let mut id = 0i64;
    loop {
        let header = byte(rest)?;
        let (delta, kind) = (i64::from(header >> 4), header & 15);
        if kind == 0 {
            return Ok(());
        }
        id = if delta == 0 { unzigzag(varint(rest)?) } else { id + delta };
        match kind {
            12 => each_field(rest, depth + 1, &mut |inner, number| {
                let path: Vec<i64> = std::iter::once(id).chain(inner.iter().copied()).collect();
                each(&path, number);
            })?,
            // A negative number is a very large one, which no check lets pass.
            4..=6 => each(&[id], unzigzag(varint(rest)?) as u64),
            1 | 2 => {}
            kind => skip(rest, kind, depth)?,
        }
    }
}

/// Skips a value that is not a field of its own.
fn skip(rest: &mut &[u8], kind: u8, depth: usize) -> Result<()> {
    match kind {
        1..=3 => drop(byte(rest)?),
        4..=6 => drop(varint(rest)?),
        7 => take(rest, 8)?,
        8 => {
            let length = varint(rest)?;
            take(rest, length)?;
        }
        9 | 10 => {
            let header = byte(rest)?;
            let count = if header >> 4 == 15 { varint(rest)? } else { u64::from(header >> 4) };
            // Each item takes a byte at least.
            if count > rest.len() as u64 || depth > MAX_DEPTH {
                return Err(too_deep());
            }
            (0..count).try_for_each(|_| skip(rest, header & 15, depth + 1))?;
        }
        12 => each_field(rest, depth + 1, &mut |_, _| {})?,
        _ => return Err(damaged("the header of a page is damaged")),
    }
    Ok(())
}

fn byte(rest: &mut &[u8]) -> Result<u8> {
    let (&first, others) =
        rest.split_first().ok_or_else(|| Error::new(ErrorKind::Truncated, "a page ends too early"))?;
    *rest = others;
    Ok(first)
}

fn take(rest: &mut &[u8], length: u64) -> Result<()> {
    let length = usize::try_from(length).ok().filter(|&length| length <= rest.len());
    *rest = &rest[length.ok_or_else(|| damaged("a page ends too early"))?..];
    Ok(())
}

fn too_deep() -> Error {
    damaged("the header of a page is damaged")
}
