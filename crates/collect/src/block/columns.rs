//! Columns of Parquet files: values, and for lists and missing values the levels that say where they belong.

use std::collections::HashSet;
use std::sync::Arc;

use axum::body::Bytes;
use flamelet_profile::budget::Loan;
use flamelet_profile::{Budget, Error, ErrorKind, Result};
use parquet::basic::Compression;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use rustc_hash::FxBuildHasher;

use super::damaged::damaged;
use super::pages;

/// Values of a column that are decoded at once, and what one of them takes until it is converted.
const BATCH: usize = 4096;
const DECODED: usize = 64;
/// What a text takes in memory without its bytes.
const TEXT: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    Hash(Vec<u128>),
    Int(Vec<i64>),
    Text(Vec<String>),
}

/// Whether a row of a column has one value, one or none, or a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    One,
    Optional,
    List,
}

/// A column as it is stored: its values, and the definition and repetition levels of a list or of optional values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    values: Values,
    shape: Shape,
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

impl Column {
    pub(crate) fn hashes(values: impl Iterator<Item = u128>) -> Self {
        Self::plain(Values::Hash(values.collect()))
    }

    pub(crate) fn ints(values: impl Iterator<Item = i64>) -> Self {
        Self::plain(Values::Int(values.collect()))
    }

    pub(crate) fn texts<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        Self::plain(Values::Text(values.map(str::to_owned).collect()))
    }

    pub(crate) fn optional_texts<'a>(values: impl Iterator<Item = Option<&'a str>>) -> Self {
        let (mut texts, mut definition) = (Vec::new(), Vec::new());
        for value in values {
            definition.push(i16::from(value.is_some()));
            texts.extend(value.map(str::to_owned));
        }
        Self { values: Values::Text(texts), shape: Shape::Optional, definition, repetition: Vec::new() }
    }

    /// A column of lists; `lengths` are those of the lists, and `values` have all their items.
    pub(crate) fn lists(lengths: impl Iterator<Item = usize>, values: Values) -> Self {
        let (mut definition, mut repetition) = (Vec::new(), Vec::new());
        for length in lengths {
            definition.push(i16::from(length > 0));
            repetition.push(0);
            definition.extend(std::iter::repeat_n(1, length.saturating_sub(1)));
            repetition.extend(std::iter::repeat_n(1, length.saturating_sub(1)));
        }
        Self { values, shape: Shape::List, definition, repetition }
    }

    fn plain(values: Values) -> Self {
        Self { values, shape: Shape::One, definition: Vec::new(), repetition: Vec::new() }
    }

    pub(crate) fn into_hashes(self) -> Result<Vec<u128>> {
        match self.values {
            Values::Hash(values) => Ok(values),
            _ => Err(damaged("a column has another type")),
        }
    }

    pub(crate) fn into_ints(self) -> Result<Vec<i64>> {
        match self.values {
            Values::Int(values) => Ok(values),
            _ => Err(damaged("a column has another type")),
        }
    }

    pub(crate) fn into_texts(self) -> Result<Vec<String>> {
        match self.values {
            Values::Text(values) => Ok(values),
            _ => Err(damaged("a column has another type")),
        }
    }

    /// Returns texts that rows with the same one share.
    pub(crate) fn into_optional_texts(mut self) -> Result<Vec<Option<Arc<str>>>> {
        let definition = std::mem::take(&mut self.definition);
        let mut values = self.into_texts()?.into_iter();
        let mut known: HashSet<Arc<str>, FxBuildHasher> = HashSet::default();
        let mut shared = |text: String| match known.get(&*text) {
            Some(known) => known.clone(),
            None => {
                let text: Arc<str> = text.into();
                known.insert(text.clone());
                text
            }
        };
        let of_level = |level: i16| if level == 0 { None } else { values.next().map(&mut shared) };
        Ok(definition.into_iter().map(of_level).collect())
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        match &self.values {
            Values::Hash(values) => values.len(),
            Values::Int(values) => values.len(),
            Values::Text(values) => values.len(),
        }
    }

    pub(crate) fn list_lengths(&self) -> Vec<usize> {
        let mut lengths: Vec<usize> = Vec::new();
        for (&definition, &repetition) in self.definition.iter().zip(&self.repetition) {
            if repetition == 0 {
                lengths.push(0);
            }
            if let Some(last) = lengths.last_mut() {
                *last += usize::from(definition > 0);
            }
        }
        lengths
    }
}

pub(crate) fn next(columns: &mut impl Iterator<Item = Column>) -> Result<Column> {
    columns.next().ok_or_else(|| damaged("a column is missing"))
}

/// Fails unless all columns of a table have the same length.
pub(crate) fn same_length(lengths: &[usize]) -> Result<()> {
    let is_same = lengths.windows(2).all(|pair| pair[0] == pair[1]);
    if is_same { Ok(()) } else { Err(damaged("the columns of a table differ in length")) }
}

/// Cuts items into lists of these lengths.
pub(crate) fn cut<T>(lengths: &[usize], items: Vec<T>) -> Result<Vec<Vec<T>>> {
    if lengths.iter().sum::<usize>() != items.len() {
        return Err(damaged("the lists of a table do not fit together"));
    }
    let mut items = items.into_iter();
    Ok(lengths.iter().map(|&length| items.by_ref().take(length).collect()).collect())
}

/// Writes a file with these columns, in one group of rows.
pub(crate) fn write(schema: &str, columns: &[Column]) -> Result<Vec<u8>> {
    let mut writer = Writer::new(schema)?;
    writer.group(columns)?;
    writer.finish()
}

/// Writes a file, one group of rows after the other.
pub(crate) struct Writer {
    file: SerializedFileWriter<Vec<u8>>,
}

impl Writer {
    pub(crate) fn new(schema: &str) -> Result<Self> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_created_by("flamelet".to_owned())
            .build();
        let schema = parse_message_type(schema).map_err(|error| unwritten(&error))?;
        let file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties));
        Ok(Self { file: file.map_err(|error| unwritten(&error))? })
    }

    pub(crate) fn group(&mut self, columns: &[Column]) -> Result<()> {
        self.write_group(columns).map_err(|error| unwritten(&error))
    }

    /// Returns how many bytes the file has by now.
    pub(crate) fn length(&self) -> usize {
        self.file.bytes_written()
    }

    /// Returns the bytes of the file.
    pub(crate) fn finish(self) -> Result<Vec<u8>> {
        self.file.into_inner().map_err(|error| unwritten(&error))
    }

    fn write_group(&mut self, columns: &[Column]) -> std::result::Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        let mut columns = columns.iter();
        while let Some(mut into) = group.next_column()? {
            let Some(column) = columns.next() else { break };
            let definition = (column.shape != Shape::One).then_some(&*column.definition);
            let repetition = (column.shape == Shape::List).then_some(&*column.repetition);
            match &column.values {
                Values::Int(values) => {
                    into.typed::<Int64Type>().write_batch(values, definition, repetition)?
                }
                Values::Text(values) => {
                    let values: Vec<ByteArray> = values.iter().map(|text| ByteArray::from(&**text)).collect();
                    into.typed::<ByteArrayType>().write_batch(&values, definition, repetition)?
                }
                Values::Hash(values) => {
                    let fixed =
                        |hash: &u128| FixedLenByteArray::from(ByteArray::from(hash.to_be_bytes().to_vec()));
                    let values: Vec<FixedLenByteArray> = values.iter().map(fixed).collect();
                    into.typed::<FixedLenByteArrayType>().write_batch(&values, definition, repetition)?
                }
            };
            into.close()?;
        }
        group.close()?;
        Ok(())
    }
}

fn unwritten(error: &ParquetError) -> Error {
    Error::new(ErrorKind::Internal, format!("the block cannot be written: {error}"))
}

/// Reads all columns of a file that must have exactly this schema. What they take is added to the loan.
pub(crate) fn read(schema: &str, bytes: Vec<u8>, budget: &Budget, loan: &mut Loan) -> Result<Vec<Column>> {
    let mut footer = budget.lend(0)?;
    let file = File::open(schema, bytes, &mut footer)?;
    let mut all: Vec<Column> = Vec::new();
    for number in 0..file.groups() {
        let mut group = file.group(number, budget)?;
        let columns = group.next(usize::MAX, loan)?;
        match all.is_empty() {
            true => all = columns,
            false => all.iter_mut().zip(columns).try_for_each(|(all, more)| all.append(more))?,
        }
    }
    if all.is_empty() { Err(damaged("the file has no rows")) } else { Ok(all) }
}

/// A file whose columns are read group by group.
pub(crate) struct File {
    bytes: Bytes,
    reader: SerializedFileReader<Bytes>,
}

impl File {
    /// Opens a file that must have exactly this schema. What its footer takes is added to the loan.
    pub(crate) fn open(schema: &str, bytes: Vec<u8>, loan: &mut Loan) -> Result<Self> {
        pages::check_footer(&bytes, loan)?;
        let bytes = Bytes::from(bytes);
        let expected = parse_message_type(schema).map_err(|error| unreadable(&error))?;
        let reader = SerializedFileReader::new(bytes.clone()).map_err(|error| unreadable(&error))?;
        if *reader.metadata().file_metadata().schema() != expected {
            return Err(damaged("the file has other columns than a block of this version"));
        }
        Ok(Self { bytes, reader })
    }

    /// Returns the number of groups of rows.
    pub(crate) fn groups(&self) -> usize {
        self.reader.num_row_groups()
    }

    /// Returns the least and the greatest hash of a column in a group, if the file says them.
    pub(crate) fn hash_range(&self, group: usize, column: usize) -> Option<(u128, u128)> {
        let (least, greatest) = self.range(group, column)?;
        let hash = |bytes: &[u8]| bytes.try_into().ok().map(u128::from_be_bytes);
        Some((hash(least)?, hash(greatest)?))
    }

    /// Returns the least and the greatest number of a column in a group, if the file says them.
    pub(crate) fn int_range(&self, group: usize, column: usize) -> Option<(i64, i64)> {
        let (least, greatest) = self.range(group, column)?;
        let int = |bytes: &[u8]| bytes.try_into().ok().map(i64::from_le_bytes);
        Some((int(least)?, int(greatest)?))
    }

    fn range(&self, group: usize, column: usize) -> Option<(&[u8], &[u8])> {
        let statistics = self.reader.metadata().row_group(group).columns().get(column)?.statistics()?;
        Some((statistics.min_bytes_opt()?, statistics.max_bytes_opt()?))
    }

    /// Opens a group. What its pages take while they are decoded is charged until the reader is dropped.
    pub(crate) fn group(&self, number: usize, budget: &Budget) -> Result<GroupReader> {
        let mut loan = budget.lend(0)?;
        let metadata = self.reader.metadata().row_group(number);
        for chunk in metadata.columns() {
            pages::check(&self.bytes, chunk, &mut loan)?;
            loan.add(BATCH * DECODED)?;
        }
        let rows = usize::try_from(metadata.num_rows()).map_err(|_| damaged("a group has too many rows"))?;
        let group = self.reader.get_row_group(number).map_err(|error| unreadable(&error))?;
        let sources = (0..metadata.columns().len())
            .map(|at| ColumnSource::of(group.get_column_reader(at).map_err(|error| unreadable(&error))?))
            .collect::<Result<_>>()?;
        Ok(GroupReader { sources, rows, _loan: loan })
    }
}

/// The columns of a group, which are read together, a number of rows at a time.
pub(crate) struct GroupReader {
    sources: Vec<ColumnSource>,
    /// Rows that are left.
    rows: usize,
    _loan: Loan,
}

impl GroupReader {
    /// Returns the next rows of all columns, `most` at most; they are empty at the end. What they take is added to the
    /// loan.
    pub(crate) fn next(&mut self, most: usize, loan: &mut Loan) -> Result<Vec<Column>> {
        let rows = most.min(self.rows);
        self.rows -= rows;
        self.sources.iter_mut().map(|source| source.next(rows, loan)).collect()
    }
}

/// The reader of a column.
enum ColumnSource {
    Int(ColumnReaderImpl<Int64Type>),
    Text(ColumnReaderImpl<ByteArrayType>),
    Hash(ColumnReaderImpl<FixedLenByteArrayType>),
}

impl ColumnSource {
    fn of(reader: ColumnReader) -> Result<Self> {
        match reader {
            ColumnReader::Int64ColumnReader(reader) => Ok(Self::Int(reader)),
            ColumnReader::ByteArrayColumnReader(reader) => Ok(Self::Text(reader)),
            ColumnReader::FixedLenByteArrayColumnReader(reader) => Ok(Self::Hash(reader)),
            _ => Err(damaged("a column has a type that blocks do not have")),
        }
    }

    fn next(&mut self, rows: usize, loan: &mut Loan) -> Result<Column> {
        match self {
            Self::Int(reader) => read_rows(reader, rows, loan, |value| Ok((*value, 0)), Values::Int),
            Self::Text(reader) => {
                let text = |value: &ByteArray| {
                    let text = value.as_utf8().map_err(|_| damaged("a text is not UTF-8"))?;
                    Ok((text.to_owned(), text.len() + TEXT))
                };
                read_rows(reader, rows, loan, text, Values::Text)
            }
            Self::Hash(reader) => {
                let hash = |value: &FixedLenByteArray| {
                    let bytes = value.data().first_chunk().copied();
                    let hash =
                        bytes.map(u128::from_be_bytes).ok_or_else(|| damaged("a hash is too short"))?;
                    Ok((hash, 0))
                };
                read_rows(reader, rows, loan, hash, Values::Hash)
            }
        }
    }
}

/// Reads rows of a column. `convert` returns a value and what it takes outside of the table.
fn read_rows<T: DataType, V>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    loan: &mut Loan,
    convert: impl Fn(&T::T) -> Result<(V, usize)>,
    values: fn(Vec<V>) -> Values,
) -> Result<Column> {
    // A row may have no value or several; then the table is copied while it grows.
    loan.add(rows.saturating_mul(size_of::<V>()))?;
    let mut all: Vec<V> = Vec::new();
    all.reserve_exact(rows);
    let (mut definition, mut repetition) = (Vec::new(), Vec::new());
    let (mut left, mut batch) = (rows, Vec::new());
    while left > 0 {
        let levels = definition.len() + repetition.len();
        let most = left.min(BATCH);
        let read = reader.read_records(most, Some(&mut definition), Some(&mut repetition), &mut batch);
        let (records, ..) = read.map_err(|error| unreadable(&error))?;
        if records == 0 {
            return Err(damaged("a column has fewer rows than its group"));
        }
        left -= records;
        let more = (all.len() + batch.len()).saturating_sub(rows).min(batch.len());
        loan.add(4 * (definition.len() + repetition.len() - levels) + 3 * more * size_of::<V>())?;
        for value in batch.drain(..) {
            let (value, size) = convert(&value)?;
            loan.add(size)?;
            all.push(value);
        }
    }
    Ok(Column { values: values(all), shape: Shape::One, definition, repetition })
}

impl Column {
    fn append(&mut self, more: Self) -> Result<()> {
        match (&mut self.values, more.values) {
            (Values::Hash(all), Values::Hash(more)) => all.extend(more),
            (Values::Int(all), Values::Int(more)) => all.extend(more),
            (Values::Text(all), Values::Text(more)) => all.extend(more),
            _ => return Err(damaged("a column has two types")),
        }
        self.definition.extend(more.definition);
        self.repetition.extend(more.repetition);
        Ok(())
    }
}

fn unreadable(error: &ParquetError) -> Error {
    damaged(&error.to_string())
}
