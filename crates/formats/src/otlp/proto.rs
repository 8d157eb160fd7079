//! The messages as protobuf. Anything that does not fit the schema is an error.

use flamelet_profile::budget::ALLOCATION;
use flamelet_profile::protobuf::{FieldValue, Fields, MessageWriter, varint};
use flamelet_profile::{Budget, Error, ErrorKind, Result, hex};

use super::model::{
    AnyValue, Attribute, Dictionary, Function, IntText, KeyValue, Line, Link, Location, Mapping, OtlpProfile,
    ProfilesData, Resource, ResourceProfiles, Sample, ScopeProfiles, Stack, ValueType,
};

/// Returns whether `bytes` start like `ProfilesData` and like nothing else.
pub(super) fn looks_like_otlp(bytes: &[u8], is_all: bool) -> bool {
    let mut fields = Fields::new(bytes);
    let mut seen = false;
    loop {
        match fields.next() {
            Ok(Some((1, FieldValue::Bytes(inside)))) if is_message_of(inside, &[1, 2, 3]) => seen = true,
            Ok(Some((2, FieldValue::Bytes(inside)))) if is_message_of(inside, &[1, 2, 3, 4, 5, 6, 7]) => {
                seen = true;
            }
            Ok(None) => return seen,
            // The message may continue beyond `bytes`.
            Err(_) => return !is_all && starts_like_otlp(bytes),
            Ok(Some(_)) => return false,
        }
    }
}

/// Returns whether `inside` has only fields of these numbers, each a message or text.
fn is_message_of(inside: &[u8], numbers: &[u32]) -> bool {
    let mut fields = Fields::new(inside);
    loop {
        match fields.next() {
            Ok(Some((number, FieldValue::Bytes(_)))) if numbers.contains(&number) => {}
            Ok(None) => return !inside.is_empty(),
            _ => return false,
        }
    }
}

/// Returns whether `bytes` begin a long message: a resource with its scopes, or a dictionary. pprof starts with a
/// sample type, whose fields are numbers.
fn starts_like_otlp(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let tag = varint(&mut rest);
    let length = varint(&mut rest);
    let first = Fields::new(rest).next();
    matches!(tag, Ok(0x0a | 0x12))
        && length.is_ok_and(|length| length > 64)
        && matches!(first, Ok(Some((1 | 2, FieldValue::Bytes(_)))))
}

/// Decodes `ProfilesData`, charging `budget` for all of it: an empty message takes two bytes of the file.
pub(super) fn decode(bytes: &[u8], budget: &Budget) -> Result<ProfilesData> {
    let mut data = ProfilesData::default();
    data.read_all(bytes, budget)?;
    Ok(data)
}

/// Encodes `ProfilesData`.
pub(super) fn encode(data: &ProfilesData) -> Vec<u8> {
    let mut out = MessageWriter::default();
    data.write_all(&mut out);
    out.into_bytes()
}

trait Message: Default {
    /// Reads a field; unknown ones are skipped.
    fn read_field(&mut self, number: u32, value: FieldValue<'_>, budget: &Budget) -> Result<()>;

    /// Writes all fields.
    fn write_all(&self, out: &mut MessageWriter);

    fn read_all(&mut self, bytes: &[u8], budget: &Budget) -> Result<()> {
        let mut fields = Fields::new(bytes);
        while let Some((number, value)) = fields.next()? {
            self.read_field(number, value, budget)?;
        }
        Ok(())
    }
}

/// What a field of a message holds.
trait FieldContent {
    fn read(&mut self, value: FieldValue<'_>, budget: &Budget) -> Result<()>;
    fn write(&self, number: u32, out: &mut MessageWriter);
}

/// Messages: the number and the name of each field.
macro_rules! messages {
    ($($message:ident { $($number:literal $field:ident),* })*) => {$(
        impl Message for $message {
            fn read_field(&mut self, number: u32, value: FieldValue<'_>, budget: &Budget) -> Result<()> {
                match number {
                    $($number => self.$field.read(value, budget),)*
                    _ => Ok(()),
                }
            }

            fn write_all(&self, out: &mut MessageWriter) {
                $(self.$field.write($number, out);)*
            }
        }
    )*};
}

messages! {
    ProfilesData { 1 resource_profiles, 2 dictionary }
    ResourceProfiles { 1 resource, 2 scope_profiles }
    Resource { 1 attributes }
    KeyValue { 1 key, 2 value, 3 key_strindex }
    AnyValue { 1 string_value, 2 bool_value, 3 int_value, 8 string_value_strindex }
    ScopeProfiles { 2 profiles }
    ValueType { 1 type_strindex, 2 unit_strindex }
    Sample { 1 stack_index, 2 attribute_indices, 3 link_index, 4 values, 5 timestamps_unix_nano }
    Dictionary {
        1 mapping_table, 2 location_table, 3 function_table, 4 link_table, 5 string_table, 6 attribute_table,
        7 stack_table
    }
    Mapping { 1 memory_start, 2 memory_limit, 3 file_offset, 4 filename_strindex, 5 attribute_indices }
    Location { 1 mapping_index, 2 address, 3 lines }
    Line { 1 function_index, 2 line, 3 column }
    Function { 1 name_strindex, 2 system_name_strindex, 3 filename_strindex, 4 start_line }
    Attribute { 1 key_strindex, 2 value, 3 unit_strindex }
    Stack { 1 location_indices }
}

impl Message for OtlpProfile {
    fn read_field(&mut self, number: u32, value: FieldValue<'_>, budget: &Budget) -> Result<()> {
        match number {
            1 => self.sample_type.read(value, budget)?,
            2 => self.samples.read(value, budget)?,
            3 => self.time_unix_nano = value.fixed64()?,
            4 => self.duration_nano.read(value, budget)?,
            5 => self.period_type.read(value, budget)?,
            6 => self.period.read(value, budget)?,
            _ => {}
        }
        Ok(())
    }

    fn write_all(&self, out: &mut MessageWriter) {
        self.sample_type.write(1, out);
        self.samples.write(2, out);
        out.fixed64(3, self.time_unix_nano);
        self.duration_nano.write(4, out);
        if self.period_type != ValueType::default() {
            self.period_type.write(5, out);
        }
        self.period.write(6, out);
    }
}

impl Message for Link {
    fn read_field(&mut self, number: u32, value: FieldValue<'_>, budget: &Budget) -> Result<()> {
        let id = match number {
            1 => &mut self.trace_id,
            2 => &mut self.span_id,
            _ => return Ok(()),
        };
        let bytes = value.bytes()?;
        budget.charge(2 * bytes.len() + ALLOCATION)?;
        *id = hex::encode(bytes);
        Ok(())
    }

    fn write_all(&self, out: &mut MessageWriter) {
        for (number, digits) in [(1, &self.trace_id), (2, &self.span_id)] {
            let id = hex::decode(digits).unwrap_or_default();
            if !id.is_empty() {
                out.bytes(number, &id);
            }
        }
    }
}

impl<M: Message> FieldContent for M {
    fn read(&mut self, value: FieldValue<'_>, budget: &Budget) -> Result<()> {
        self.read_all(value.bytes()?, budget)
    }

    fn write(&self, number: u32, out: &mut MessageWriter) {
        out.message(number, |out| self.write_all(out));
    }
}

/// A table.
impl<M: Message> FieldContent for Vec<M> {
    fn read(&mut self, value: FieldValue<'_>, budget: &Budget) -> Result<()> {
        let mut row = M::default();
        row.read(value, budget)?;
        push(self, row, budget)
    }

    fn write(&self, number: u32, out: &mut MessageWriter) {
        self.iter().for_each(|row| row.write(number, out));
    }
}

impl FieldContent for Vec<String> {
    fn read(&mut self, value: FieldValue<'_>, budget: &Budget) -> Result<()> {
        let mut text = String::new();
        text.read(value, budget)?;
        push(self, text, budget)
    }

    fn write(&self, number: u32, out: &mut MessageWriter) {
        self.iter().for_each(|text| text.write(number, out));
    }
}

/// Appends a row to its table; the first one allocates room for some more.
fn push<T>(table: &mut Vec<T>, row: T, budget: &Budget) -> Result<()> {
    let rows = if table.is_empty() { 4 } else { 1 };
    budget.charge(rows * size_of::<T>())?;
    table.push(row);
    Ok(())
}

impl FieldContent for String {
    fn read(&mut self, value: FieldValue<'_>, budget: &Budget) -> Result<()> {
        let bytes = value.bytes()?;
        budget.charge(bytes.len() + ALLOCATION)?;
        *self = match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => {
                // Each invalid byte becomes a three-byte character.
                budget.charge(bytes.len() * 3)?;
                String::from_utf8_lossy(bytes).into_owned()
            }
        };
        Ok(())
    }

    fn write(&self, number: u32, out: &mut MessageWriter) {
        out.bytes(number, self.as_bytes());
    }
}

/// One of several values, only one of which is there.
impl<T: FieldContent + Default> FieldContent for Option<T> {
    fn read(&mut self, value: FieldValue<'_>, budget: &Budget) -> Result<()> {
        self.get_or_insert_default().read(value, budget)
    }

    fn write(&self, number: u32, out: &mut MessageWriter) {
        self.iter().for_each(|value| value.write(number, out));
    }
}

/// Numbers: how each is written, and how it is made from the bits and the bits from it.
macro_rules! numbers {
    ($($content:ty, $write:ident: $bits:ident => $content_of:expr, $number:ident => $bits_of:expr;)*) => {$(
        impl FieldContent for $content {
            fn read(&mut self, value: FieldValue<'_>, _: &Budget) -> Result<()> {
                let $bits = value.uint()?;
                *self = $content_of;
                Ok(())
            }

            fn write(&self, field: u32, out: &mut MessageWriter) {
                let $number = *self;
                out.$write(field, $bits_of);
            }
        }
    )*};
}

numbers! {
    u64, uint: bits => bits, number => number;
    i64, uint: bits => bits as i64, number => number as u64;
    i32, uint: bits => row_index(bits)?, number => i64::from(number) as u64;
    bool, uint_of_oneof: bits => bits != 0, flag => u64::from(flag);
    IntText, uint_of_oneof: bits => IntText(bits as i64), text => text.0 as u64;
}

fn row_index(bits: u64) -> Result<i32> {
    let damaged = |_| Error::new(ErrorKind::Corrupt, "the OTLP profile is damaged: an index is out of range");
    i32::try_from(bits as i64).map_err(damaged)
}

impl FieldContent for Vec<i32> {
    fn read(&mut self, value: FieldValue<'_>, budget: &Budget) -> Result<()> {
        read_list(self, value, budget, row_index)
    }

    fn write(&self, number: u32, out: &mut MessageWriter) {
        out.packed(number, self.iter().map(|&index| i64::from(index) as u64));
    }
}

impl FieldContent for Vec<i64> {
    fn read(&mut self, value: FieldValue<'_>, budget: &Budget) -> Result<()> {
        read_list(self, value, budget, |bits| Ok(bits as i64))
    }

    fn write(&self, number: u32, out: &mut MessageWriter) {
        out.packed(number, self.iter().map(|&value| value as u64));
    }
}

fn read_list<T>(
    list: &mut Vec<T>,
    value: FieldValue<'_>,
    budget: &Budget,
    of: impl Fn(u64) -> Result<T>,
) -> Result<()> {
    budget.charge(value.count() * size_of::<T>() + ALLOCATION)?;
    value.each_uint(|bits| {
        list.push(of(bits)?);
        Ok(())
    })
}

/// Times, which have a fixed length.
impl FieldContent for Vec<u64> {
    fn read(&mut self, value: FieldValue<'_>, budget: &Budget) -> Result<()> {
        let numbers = value.fixed64s()?;
        budget.charge(numbers.size_hint().0 * size_of::<u64>() + ALLOCATION)?;
        self.extend(numbers);
        Ok(())
    }

    fn write(&self, number: u32, out: &mut MessageWriter) {
        out.packed_fixed64(number, self);
    }
}
