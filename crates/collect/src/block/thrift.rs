//! The structs of a Parquet file, in Thrift's compact protocol: what may be in them, and the numbers that they have.
//!
//! The reader of Parquet cuts the numbers of fields to 16 bits, takes a field for what the format says, whatever kind the
//! file gives it, and skips fields that it does not know in loops as long as the file wants. So only what the format says,
//! as it is usually written, may get there.

use flamelet_profile::protobuf::{unzigzag, varint};
use flamelet_profile::{Error, Result};

use super::damaged::damaged;

/// What a field is.
pub(super) enum Kind {
    Flag,
    Byte,
    Int,
    Bytes,
    Ints,
    Texts,
    Struct(Fields),
    Structs(Fields),
}

/// The fields of a struct, by their numbers.
pub(super) type Fields = &'static [(i64, Kind)];

/// Begins the path by which the number of structs in a list is told, instead of the number of a field.
pub(super) const LIST: i64 = -1;

/// `FileMetaData`.
pub(super) static FOOTER: Fields = &[
    (1, Kind::Int),
    (2, Kind::Structs(ELEMENT)),
    (3, Kind::Int),
    (4, Kind::Structs(GROUP)),
    (5, Kind::Structs(PAIR)),
    (6, Kind::Bytes),
    (7, Kind::Structs(ORDER)),
];

/// `PageHeader`.
pub(super) static PAGE: Fields = &[
    (1, Kind::Int),
    (2, Kind::Int),
    (3, Kind::Int),
    (4, Kind::Int),
    (5, Kind::Struct(DATA_PAGE)),
    (7, Kind::Struct(DICTIONARY_PAGE)),
    (8, Kind::Struct(DATA_PAGE_2)),
];

static EMPTY: Fields = &[];
static PAIR: Fields = &[(1, Kind::Bytes), (2, Kind::Bytes)];
static ORDER: Fields = &[(1, Kind::Struct(EMPTY)), (2, Kind::Struct(EMPTY))];
static ELEMENT: Fields = &[
    (1, Kind::Int),
    (2, Kind::Int),
    (3, Kind::Int),
    (4, Kind::Bytes),
    (5, Kind::Int),
    (6, Kind::Int),
    (7, Kind::Int),
    (8, Kind::Int),
    (9, Kind::Int),
    (10, Kind::Struct(LOGICAL_TYPE)),
];
static LOGICAL_TYPE: Fields = &[
    (1, Kind::Struct(EMPTY)),
    (2, Kind::Struct(EMPTY)),
    (3, Kind::Struct(EMPTY)),
    (8, Kind::Struct(TIMESTAMP)),
    (10, Kind::Struct(INTEGER)),
];
static TIMESTAMP: Fields = &[(1, Kind::Flag), (2, Kind::Struct(UNIT))];
static UNIT: Fields = &[(1, Kind::Struct(EMPTY)), (2, Kind::Struct(EMPTY)), (3, Kind::Struct(EMPTY))];
static INTEGER: Fields = &[(1, Kind::Byte), (2, Kind::Flag)];
static GROUP: Fields = &[
    (1, Kind::Structs(CHUNK)),
    (2, Kind::Int),
    (3, Kind::Int),
    (5, Kind::Int),
    (6, Kind::Int),
    (7, Kind::Int),
];
static CHUNK: Fields = &[
    (2, Kind::Int),
    (3, Kind::Struct(COLUMN)),
    (4, Kind::Int),
    (5, Kind::Int),
    (6, Kind::Int),
    (7, Kind::Int),
];
static COLUMN: Fields = &[
    (1, Kind::Int),
    (2, Kind::Ints),
    (3, Kind::Texts),
    (4, Kind::Int),
    (5, Kind::Int),
    (6, Kind::Int),
    (7, Kind::Int),
    (9, Kind::Int),
    (10, Kind::Int),
    (11, Kind::Int),
    (12, Kind::Struct(STATISTICS)),
    (13, Kind::Structs(ENCODING)),
    (14, Kind::Int),
    (15, Kind::Int),
    (16, Kind::Struct(SIZES)),
];
static STATISTICS: Fields = &[
    (1, Kind::Bytes),
    (2, Kind::Bytes),
    (3, Kind::Int),
    (4, Kind::Int),
    (5, Kind::Bytes),
    (6, Kind::Bytes),
    (7, Kind::Flag),
    (8, Kind::Flag),
];
static ENCODING: Fields = &[(1, Kind::Int), (2, Kind::Int), (3, Kind::Int)];
static SIZES: Fields = &[(1, Kind::Int), (2, Kind::Ints), (3, Kind::Ints)];
static DATA_PAGE: Fields =
    &[(1, Kind::Int), (2, Kind::Int), (3, Kind::Int), (4, Kind::Int), (5, Kind::Struct(STATISTICS))];
static DICTIONARY_PAGE: Fields = &[(1, Kind::Int), (2, Kind::Int), (3, Kind::Flag)];
static DATA_PAGE_2: Fields = &[
    (1, Kind::Int),
    (2, Kind::Int),
    (3, Kind::Int),
    (4, Kind::Int),
    (5, Kind::Int),
    (6, Kind::Int),
    (7, Kind::Flag),
    (8, Kind::Struct(STATISTICS)),
];

/// Numbers of the protocol.
mod wire {
    pub(super) const BYTE: u8 = 3;
    pub(super) const BYTES: u8 = 8;
    pub(super) const LIST: u8 = 9;
    pub(super) const STRUCT: u8 = 12;
}

/// Called with the numbers of the fields that lead to an integer, and the integer. A negative one is a very large one.
type Each<'e> = dyn FnMut(&[i64], u64) + 'e;

/// Reads a struct at the beginning of `rest`, which then begins after it.
pub(super) fn read(rest: &mut &[u8], fields: Fields, each: &mut Each<'_>) -> Result<()> {
    read_struct(rest, fields, &mut Vec::new(), each)
}

fn read_struct(rest: &mut &[u8], fields: Fields, path: &mut Vec<i64>, each: &mut Each<'_>) -> Result<()> {
    let mut id = 0i64;
    loop {
        let header = byte(rest)?;
        let (delta, kind) = (i64::from(header >> 4), header & 15);
        if kind == 0 {
            return Ok(());
        }
        id += delta;
        // No struct has so many fields that a number is written out, for which `delta` would be 0.
        let field = fields.iter().find(|(known, _)| *known == id && delta != 0).map(|(_, field)| field);
        path.push(id);
        read_value(rest, (field.ok_or_else(unusual)?, kind), path, each)?;
        path.pop();
    }
}

fn read_value(
    rest: &mut &[u8],
    (field, kind): (&Kind, u8),
    path: &mut Vec<i64>,
    each: &mut Each<'_>,
) -> Result<()> {
    match (field, kind) {
        (Kind::Flag, 1 | 2) => {}
        (Kind::Byte, wire::BYTE) => drop(byte(rest)?),
        (Kind::Int, 4..=6) => each(path, unzigzag(varint(rest)?) as u64),
        (Kind::Bytes, wire::BYTES) => take_bytes(rest)?,
        (Kind::Struct(fields), wire::STRUCT) => read_struct(rest, fields, path, each)?,
        (Kind::Ints | Kind::Texts | Kind::Structs(_), wire::LIST) => read_list(rest, field, path, each)?,
        _ => return Err(unusual()),
    }
    Ok(())
}

fn read_list(rest: &mut &[u8], field: &Kind, path: &mut Vec<i64>, each: &mut Each<'_>) -> Result<()> {
    let header = byte(rest)?;
    let count = if header >> 4 == 15 { varint(rest)? } else { u64::from(header >> 4) };
    for _ in 0..count {
        match (field, header & 15) {
            (Kind::Ints, 4..=6) => drop(varint(rest)?),
            (Kind::Texts, wire::BYTES) => take_bytes(rest)?,
            (Kind::Structs(fields), wire::STRUCT) => read_struct(rest, fields, path, each)?,
            _ => return Err(unusual()),
        }
    }
    if let Kind::Structs(_) = field {
        let whose: Vec<i64> = std::iter::once(LIST).chain(path.iter().copied()).collect();
        each(&whose, count);
    }
    Ok(())
}

fn byte(rest: &mut &[u8]) -> Result<u8> {
    let (&first, others) = rest.split_first().ok_or_else(truncated)?;
    *rest = others;
    Ok(first)
}

fn take_bytes(rest: &mut &[u8]) -> Result<()> {
    let length = usize::try_from(varint(rest)?).ok().filter(|&length| length <= rest.len());
    *rest = &rest[length.ok_or_else(truncated)?..];
    Ok(())
}

fn truncated() -> Error {
    damaged("a struct of it ends too early")
}

fn unusual() -> Error {
    damaged("it has a field that blocks do not have")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(bytes: &[u8], fields: Fields) -> Result<Vec<(Vec<i64>, u64)>> {
        let (mut rest, mut found) = (bytes, Vec::new());
        read(&mut rest, fields, &mut |path, number| found.push((path.to_vec(), number)))?;
        assert!(rest.is_empty(), "{} bytes are left", rest.len());
        Ok(found)
    }

    #[test]
    fn the_numbers_of_a_page_are_found() {
        // Type 0, 100 bytes, 50 packed; then a data page of 7 values with statistics.
        let page = [0x15, 0, 0x15, 200, 1, 0x15, 100, 0x2c, 0x15, 14, 0x15, 0, 0x15, 0, 0x15, 0];
        let page = [&page[..], &[0x1c, 0x18, 1, b'x', 0x61, 0x11, 0, 0, 0]].concat();
        let found = numbers(&page, PAGE).expect("read");
        let wanted: [(&[i64], u64); 7] =
            [(&[1], 0), (&[2], 100), (&[3], 50), (&[5, 1], 7), (&[5, 2], 0), (&[5, 3], 0), (&[5, 4], 0)];
        assert_eq!(found, wanted.map(|(path, number)| (path.to_vec(), number)));
        for end in 0..page.len() {
            assert!(numbers(&page[..end], PAGE).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn what_the_reader_would_take_for_something_else_is_refused() {
        assert!(numbers(&[0x25, 200, 1, 0], PAGE).is_ok(), "a size");
        for (bytes, what) in [
            (&[0x05, 132, 128, 8, 200, 1, 0][..], "field 65538, which is 2 in 16 bits"),
            (&[0x05, 4, 200, 1, 0], "a number that is written out"),
            (&[0x21, 200, 1, 0], "a size that is a flag"),
            (&[0x28, 0, 0], "a size that is a text"),
            (&[0x95, 0, 0], "an unknown field"),
            (&[0x99, 0xf1, 255, 255, 255, 255, 7, 0], "a list of very many flags, which have no bytes"),
        ] {
            assert!(numbers(bytes, PAGE).is_err(), "{what}");
        }
        assert!(numbers(&[0x49, 0xf1, 255, 255, 255, 255, 7, 0], FOOTER).is_err(), "the same as groups");
    }
}
