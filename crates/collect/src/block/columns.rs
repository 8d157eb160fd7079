//! Columns of Parquet files: values, and for lists and missing values the levels that say where they belong.

use std::sync::Arc;

use axum::body::Bytes;
use flamelet_profile::budget::Loan;
use flamelet_profile::{Error, ErrorKind, Result};
use parquet::basic::Compression;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;

use super::damaged::damaged;
use super::pages;

/// Records that are read at once: so much memory is charged before it is used.
const BATCH: usize = 4096;

/// The values of a column.
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

    pub(crate) fn into_optional_texts(self) -> Result<Vec<Option<Box<str>>>> {
        let definition = self.definition.clone();
        let mut values = self.into_texts()?.into_iter();
        let of_level = |level: i16| if level == 0 { None } else { values.next().map(String::into_boxed_str) };
        Ok(definition.into_iter().map(of_level).collect())
    }

    /// Returns the lengths of the lists.
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

/// Cuts items into lists of these lengths.
pub(crate) fn cut<T>(lengths: &[usize], items: Vec<T>) -> Result<Vec<Vec<T>>> {
    if lengths.iter().sum::<usize>() != items.len() {
        return Err(damaged("the lists of a table do not fit together"));
    }
    let mut items = items.into_iter();
    Ok(lengths.iter().map(|&length| items.by_ref().take(length).collect()).collect())
}

/// Writes a file with these columns.
pub(crate) fn write(schema: &str, columns: &[Column]) -> Result<Vec<u8>> {
    write_file(schema, columns)
        .map_err(|error| Error::new(ErrorKind::Internal, format!("the block cannot be written: {error}")))
}

fn write_file(schema: &str, columns: &[Column]) -> std::result::Result<Vec<u8>, ParquetError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by("flamelet".to_owned())
        .build();
    let schema = Arc::new(parse_message_type(schema)?);
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    let mut columns = columns.iter();
    while let Some(mut into) = group.next_column()? {
        let Some(column) = columns.next() else { break };
        let definition = (column.shape != Shape::One).then_some(&*column.definition);
        let repetition = (column.shape == Shape::List).then_some(&*column.repetition);
        match &column.values {
            Values::Int(values) => into.typed::<Int64Type>().write_batch(values, definition, repetition)?,
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
    writer.close()?;
    Ok(bytes)
}

/// Reads the columns of a file that must have exactly this schema. What they take is added to the loan.
pub(crate) fn read(schema: &str, bytes: Vec<u8>, loan: &mut Loan) -> Result<Vec<Column>> {
    pages::check_footer(&bytes)?;
    let bytes = Bytes::from(bytes);
    let expected = parse_message_type(schema).map_err(|error| damaged(&error.to_string()))?;
    let reader = SerializedFileReader::new(bytes.clone()).map_err(|error| damaged(&error.to_string()))?;
    let metadata = reader.metadata();
    if !is_same(metadata.file_metadata().schema(), &expected) {
        return Err(damaged("the file has other columns than a block of this version"));
    }
    for group in metadata.row_groups() {
        for chunk in group.columns() {
            pages::check(&bytes, chunk, loan)?;
        }
    }
    let count = metadata.file_metadata().schema_descr().num_columns();
    let mut columns: Vec<Option<Column>> = vec![None; count];
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(|error| damaged(&error.to_string()))?;
        for (at, column) in columns.iter_mut().enumerate() {
            let chunk = group.get_column_reader(at).map_err(|error| damaged(&error.to_string()))?;
            let read = read_column(chunk, loan)?;
            match column {
                None => *column = Some(read),
                Some(all) => all.append(read)?,
            }
        }
    }
    columns.into_iter().map(|column| column.ok_or_else(|| damaged("the file has no rows"))).collect()
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

/// Returns whether two schemas have the same columns.
fn is_same(one: &Type, other: &Type) -> bool {
    one.name() == other.name() && format!("{one:?}") == format!("{other:?}")
}

fn read_column(reader: ColumnReader, loan: &mut Loan) -> Result<Column> {
    match reader {
        ColumnReader::Int64ColumnReader(_) => {
            let (values, definition, repetition) =
                read_all::<Int64Type>(get_typed_column_reader(reader), loan, |_| 8)?;
            Ok(Column { values: Values::Int(values), shape: Shape::One, definition, repetition })
        }
        ColumnReader::ByteArrayColumnReader(_) => {
            let size = |value: &ByteArray| value.len() + 64;
            let (values, definition, repetition) =
                read_all::<ByteArrayType>(get_typed_column_reader(reader), loan, size)?;
            let text = |value: &ByteArray| {
                let text = value.as_utf8().map_err(|_| damaged("a text is not UTF-8"))?;
                Ok(text.to_owned())
            };
            let texts: Result<Vec<String>> = values.iter().map(text).collect();
            Ok(Column { values: Values::Text(texts?), shape: Shape::One, definition, repetition })
        }
        ColumnReader::FixedLenByteArrayColumnReader(_) => {
            let (values, definition, repetition) =
                read_all::<FixedLenByteArrayType>(get_typed_column_reader(reader), loan, |_| 80)?;
            let hash = |value: &FixedLenByteArray| {
                let bytes = value.data().first_chunk().copied();
                bytes.map(u128::from_be_bytes).ok_or_else(|| damaged("a hash is too short"))
            };
            let hashes: Result<Vec<u128>> = values.iter().map(hash).collect();
            Ok(Column { values: Values::Hash(hashes?), shape: Shape::One, definition, repetition })
        }
        _ => Err(damaged("a column has a type that blocks do not have")),
    }
}

type Read<T> = (Vec<T>, Vec<i16>, Vec<i16>);

fn read_all<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    loan: &mut Loan,
    size: impl Fn(&T::T) -> usize,
) -> Result<Read<T::T>> {
    let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let before = values.len();
        let levels = definition.len() + repetition.len();
        let read = reader.read_records(BATCH, Some(&mut definition), Some(&mut repetition), &mut values);
        let (records, _, _) = read.map_err(|error| damaged(&error.to_string()))?;
        // Tables are copied while they grow.
        let new: usize = values[before..].iter().map(|value| 2 * size(value)).sum();
        loan.add(new + 4 * (definition.len() + repetition.len() - levels))?;
        if records == 0 {
            return Ok((values, definition, repetition));
        }
    }
}
