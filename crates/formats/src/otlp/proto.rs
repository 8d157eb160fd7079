//! The messages as protobuf. Anything that does not fit the schema is an error.

use flamelet_profile::budget::ALLOCATION;
use flamelet_profile::protobuf::{FieldValue, Fields, MessageWriter, varint};
use flamelet_profile::{Budget, Error, ErrorKind, Result};

use super::links;
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

/// Calls `each` for every field, up to the first error.
fn each_field<'a>(bytes: &'a [u8], mut each: impl FnMut(u32, FieldValue<'a>) -> Result<()>) -> Result<()> {
    let mut fields = Fields::new(bytes);
    while let Some((number, value)) = fields.next()? {
        each(number, value)?;
    }
    Ok(())
}

fn text(value: FieldValue<'_>, budget: &Budget) -> Result<String> {
    let bytes = value.bytes()?;
    budget.charge(bytes.len() + ALLOCATION)?;
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.into()),
        Err(_) => {
            // Each invalid byte becomes a three-byte character.
            budget.charge(bytes.len() * 3)?;
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
    }
}

/// Reads the index of a table row.
fn index(value: FieldValue<'_>) -> Result<i32> {
    checked_index(value.uint()?)
}

fn checked_index(number: u64) -> Result<i32> {
    let damaged = |_| Error::new(ErrorKind::Corrupt, "the OTLP profile is damaged: an index is out of range");
    i32::try_from(number as i64).map_err(damaged)
}

/// Reads the indices of table rows.
fn push_indices(value: FieldValue<'_>, into: &mut Vec<i32>, budget: &Budget) -> Result<()> {
    budget.charge(value.count() * size_of::<i32>() + ALLOCATION)?;
    value.each_uint(|number| {
        into.push(checked_index(number)?);
        Ok(())
    })
}

/// Appends a message to its table; the first one allocates room for some more.
fn push<T>(table: &mut Vec<T>, row: T, budget: &Budget) -> Result<()> {
    let rows = if table.is_empty() { 4 } else { 1 };
    budget.charge(rows * size_of::<T>())?;
    table.push(row);
    Ok(())
}

/// Decodes `ProfilesData`, charging `budget` for all of it: an empty message takes two bytes of the file.
pub(super) fn decode(bytes: &[u8], budget: &Budget) -> Result<ProfilesData> {
    let mut data = ProfilesData::default();
    each_field(bytes, |number, value| {
        match number {
            1 => {
                push(&mut data.resource_profiles, decode_resource_profiles(value.bytes()?, budget)?, budget)?;
            }
            2 => decode_dictionary(value.bytes()?, &mut data.dictionary, budget)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(data)
}

fn decode_resource_profiles(bytes: &[u8], budget: &Budget) -> Result<ResourceProfiles> {
    let mut profiles = ResourceProfiles::default();
    each_field(bytes, |number, value| {
        match number {
            1 => profiles.resource = decode_resource(value.bytes()?, budget)?,
            2 => push(&mut profiles.scope_profiles, decode_scope(value.bytes()?, budget)?, budget)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(profiles)
}

fn decode_resource(bytes: &[u8], budget: &Budget) -> Result<Resource> {
    let mut resource = Resource::default();
    each_field(bytes, |number, value| {
        if number == 1 {
            let mut pair = KeyValue::default();
            each_field(value.bytes()?, |number, value| {
                match number {
                    1 => pair.key = text(value, budget)?,
                    2 => pair.value = decode_any(value.bytes()?, budget)?,
                    _ => {}
                }
                Ok(())
            })?;
            push(&mut resource.attributes, pair, budget)?;
        }
        Ok(())
    })?;
    Ok(resource)
}

fn decode_any(bytes: &[u8], budget: &Budget) -> Result<AnyValue> {
    let mut any = AnyValue::default();
    each_field(bytes, |number, value| {
        match number {
            1 => any.string_value = Some(text(value, budget)?),
            2 => any.bool_value = Some(value.bool()?),
            3 => any.int_value = Some(IntText(value.int()?)),
            _ => {}
        }
        Ok(())
    })?;
    Ok(any)
}

fn decode_scope(bytes: &[u8], budget: &Budget) -> Result<ScopeProfiles> {
    let mut scope = ScopeProfiles::default();
    each_field(bytes, |number, value| {
        if number == 2 {
            push(&mut scope.profiles, decode_profile(value.bytes()?, budget)?, budget)?;
        }
        Ok(())
    })?;
    Ok(scope)
}

fn decode_profile(bytes: &[u8], budget: &Budget) -> Result<OtlpProfile> {
    let mut profile = OtlpProfile::default();
    each_field(bytes, |number, value| {
        match number {
            1 => profile.sample_type = decode_value_type(value.bytes()?)?,
            2 => push(&mut profile.samples, decode_sample(value.bytes()?, budget)?, budget)?,
            3 => profile.time_unix_nano = value.fixed64()?,
            4 => profile.duration_nano = value.uint()?,
            5 => profile.period_type = decode_value_type(value.bytes()?)?,
            6 => profile.period = value.int()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(profile)
}

fn decode_value_type(bytes: &[u8]) -> Result<ValueType> {
    let mut value_type = ValueType::default();
    each_field(bytes, |number, value| {
        match number {
            1 => value_type.type_strindex = index(value)?,
            2 => value_type.unit_strindex = index(value)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(value_type)
}

fn decode_sample(bytes: &[u8], budget: &Budget) -> Result<Sample> {
    let mut sample = Sample::default();
    each_field(bytes, |number, value| {
        match number {
            1 => sample.stack_index = index(value)?,
            2 => push_indices(value, &mut sample.attribute_indices, budget)?,
            3 => sample.link_index = index(value)?,
            4 => {
                budget.charge(value.count() * size_of::<i64>() + ALLOCATION)?;
                value.each_uint(|number| {
                    sample.values.push(number as i64);
                    Ok(())
                })?;
            }
            5 => {
                let numbers = value.fixed64s()?;
                budget.charge(numbers.size_hint().0 * size_of::<u64>() + ALLOCATION)?;
                sample.timestamps_unix_nano.extend(numbers);
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(sample)
}

fn decode_dictionary(bytes: &[u8], dictionary: &mut Dictionary, budget: &Budget) -> Result<()> {
    each_field(bytes, |number, value| {
        match number {
            1 => push(&mut dictionary.mapping_table, decode_mapping(value.bytes()?, budget)?, budget)?,
            2 => push(&mut dictionary.location_table, decode_location(value.bytes()?, budget)?, budget)?,
            3 => push(&mut dictionary.function_table, decode_function(value.bytes()?)?, budget)?,
            4 => push(&mut dictionary.link_table, decode_link(value.bytes()?, budget)?, budget)?,
            5 => push(&mut dictionary.string_table, text(value, budget)?, budget)?,
            6 => push(&mut dictionary.attribute_table, decode_attribute(value.bytes()?, budget)?, budget)?,
            7 => {
                let mut stack = Stack::default();
                each_field(value.bytes()?, |number, value| match number {
                    1 => push_indices(value, &mut stack.location_indices, budget),
                    _ => Ok(()),
                })?;
                push(&mut dictionary.stack_table, stack, budget)?;
            }
            _ => {}
        }
        Ok(())
    })
}

fn decode_link(bytes: &[u8], budget: &Budget) -> Result<Link> {
    let digits = |value: FieldValue<'_>| -> Result<String> {
        let id = value.bytes()?;
        budget.charge(2 * id.len() + ALLOCATION)?;
        Ok(links::digits_of(id))
    };
    let mut link = Link::default();
    each_field(bytes, |number, value| {
        match number {
            1 => link.trace_id = digits(value)?,
            2 => link.span_id = digits(value)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(link)
}

fn decode_mapping(bytes: &[u8], budget: &Budget) -> Result<Mapping> {
    let mut mapping = Mapping::default();
    each_field(bytes, |number, value| {
        match number {
            1 => mapping.memory_start = value.uint()?,
            2 => mapping.memory_limit = value.uint()?,
            3 => mapping.file_offset = value.uint()?,
            4 => mapping.filename_strindex = index(value)?,
            5 => push_indices(value, &mut mapping.attribute_indices, budget)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(mapping)
}

fn decode_location(bytes: &[u8], budget: &Budget) -> Result<Location> {
    let mut location = Location::default();
    each_field(bytes, |number, value| {
        match number {
            1 => location.mapping_index = index(value)?,
            2 => location.address = value.uint()?,
            3 => {
                let mut line = Line::default();
                each_field(value.bytes()?, |number, value| {
                    match number {
                        1 => line.function_index = index(value)?,
                        2 => line.line = value.int()?,
                        3 => line.column = value.int()?,
                        _ => {}
                    }
                    Ok(())
                })?;
                push(&mut location.lines, line, budget)?;
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(location)
}

fn decode_function(bytes: &[u8]) -> Result<Function> {
    let mut function = Function::default();
    each_field(bytes, |number, value| {
        match number {
            1 => function.name_strindex = index(value)?,
            2 => function.system_name_strindex = index(value)?,
            3 => function.filename_strindex = index(value)?,
            4 => function.start_line = value.int()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(function)
}

fn decode_attribute(bytes: &[u8], budget: &Budget) -> Result<Attribute> {
    let mut attribute = Attribute::default();
    each_field(bytes, |number, value| {
        match number {
            1 => attribute.key_strindex = index(value)?,
            2 => attribute.value = decode_any(value.bytes()?, budget)?,
            3 => attribute.unit_strindex = index(value)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(attribute)
}

fn indices(numbers: &[i32]) -> impl Iterator<Item = u64> + Clone {
    numbers.iter().map(|&number| i64::from(number) as u64)
}

/// Encodes `ProfilesData`.
pub(super) fn encode(data: &ProfilesData) -> Vec<u8> {
    let mut out = MessageWriter::default();
    for resource in &data.resource_profiles {
        out.message(1, |out| encode_resource_profiles(resource, out));
    }
    out.message(2, |out| encode_dictionary(&data.dictionary, out));
    out.into_bytes()
}

fn encode_resource_profiles(profiles: &ResourceProfiles, out: &mut MessageWriter) {
    out.message(1, |out| {
        for pair in &profiles.resource.attributes {
            out.message(1, |out| {
                out.bytes(1, pair.key.as_bytes());
                out.message(2, |out| encode_any(&pair.value, out));
            });
        }
    });
    for scope in &profiles.scope_profiles {
        out.message(2, |out| {
            for profile in &scope.profiles {
                out.message(2, |out| encode_profile(profile, out));
            }
        });
    }
}

fn encode_any(any: &AnyValue, out: &mut MessageWriter) {
    match (&any.string_value, any.bool_value, any.int_value) {
        (Some(text), _, _) => out.bytes(1, text.as_bytes()),
        (_, Some(flag), _) => out.uint_of_oneof(2, u64::from(flag)),
        (_, _, Some(IntText(number))) => out.uint_of_oneof(3, number as u64),
        _ => {}
    }
}

fn encode_value_type(value_type: ValueType, out: &mut MessageWriter) {
    out.int(1, i64::from(value_type.type_strindex));
    out.int(2, i64::from(value_type.unit_strindex));
}

fn encode_profile(profile: &OtlpProfile, out: &mut MessageWriter) {
    out.message(1, |out| encode_value_type(profile.sample_type, out));
    for sample in &profile.samples {
        out.message(2, |out| {
            out.int(1, i64::from(sample.stack_index));
            out.packed(2, indices(&sample.attribute_indices));
            out.int(3, i64::from(sample.link_index));
            out.packed(4, sample.values.iter().map(|&value| value as u64));
            out.packed_fixed64(5, &sample.timestamps_unix_nano);
        });
    }
    out.fixed64(3, profile.time_unix_nano);
    out.uint(4, profile.duration_nano);
    if profile.period_type != ValueType::default() {
        out.message(5, |out| encode_value_type(profile.period_type, out));
    }
    out.int(6, profile.period);
}

fn encode_dictionary(dictionary: &Dictionary, out: &mut MessageWriter) {
    for mapping in &dictionary.mapping_table {
        out.message(1, |out| {
            out.uint(1, mapping.memory_start);
            out.uint(2, mapping.memory_limit);
            out.uint(3, mapping.file_offset);
            out.int(4, i64::from(mapping.filename_strindex));
            out.packed(5, indices(&mapping.attribute_indices));
        });
    }
    for location in &dictionary.location_table {
        out.message(2, |out| encode_location(location, out));
    }
    for function in &dictionary.function_table {
        out.message(3, |out| {
            out.int(1, i64::from(function.name_strindex));
            out.int(2, i64::from(function.system_name_strindex));
            out.int(3, i64::from(function.filename_strindex));
            out.int(4, function.start_line);
        });
    }
    for link in &dictionary.link_table {
        out.message(4, |out| {
            for (number, digits) in [(1, &link.trace_id), (2, &link.span_id)] {
                let id = links::bytes_of(digits).unwrap_or_default();
                if !id.is_empty() {
                    out.bytes(number, &id);
                }
            }
        });
    }
    dictionary.string_table.iter().for_each(|text| out.bytes(5, text.as_bytes()));
    for attribute in &dictionary.attribute_table {
        out.message(6, |out| {
            out.int(1, i64::from(attribute.key_strindex));
            out.message(2, |out| encode_any(&attribute.value, out));
            out.int(3, i64::from(attribute.unit_strindex));
        });
    }
    for stack in &dictionary.stack_table {
        out.message(7, |out| out.packed(1, indices(&stack.location_indices)));
    }
}

fn encode_location(location: &Location, out: &mut MessageWriter) {
    out.int(1, i64::from(location.mapping_index));
    out.uint(2, location.address);
    for line in &location.lines {
        out.message(3, |out| {
            out.int(1, i64::from(line.function_index));
            out.int(2, line.line);
            out.int(3, line.column);
        });
    }
}
