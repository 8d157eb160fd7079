//! The messages as protobuf. Each `decode_…` answers `None` when a field does not fit the schema.

use flamelet_profile::Budget;
use flamelet_profile::budget::ALLOCATION;

use super::model::{
    AnyValue, Attribute, Dictionary, Function, IntText, KeyValue, Line, Link, Location, Mapping, OtlpProfile,
    ProfilesData, Resource, ResourceProfiles, Sample, ScopeProfiles, Stack, ValueType,
};
use super::wire::{Fields, Message, Value};

/// Whether `bytes` start like `ProfilesData` and like nothing else.
pub(super) fn looks_like_otlp(bytes: &[u8], is_all: bool) -> bool {
    let mut fields = Fields(bytes);
    let mut seen = false;
    loop {
        match fields.next() {
            Ok(Some((1, Value::Bytes(inside)))) if is_message_of(inside, &[1, 2, 3]) => seen = true,
            Ok(Some((2, Value::Bytes(inside)))) if is_message_of(inside, &[1, 2, 3, 4, 5, 6, 7]) => {
                seen = true;
            }
            Ok(None) => return seen,
            // The message may go on beyond what is at hand.
            Err(()) => return !is_all && starts_like_otlp(bytes),
            Ok(Some(_)) => return false,
        }
    }
}

/// Whether `inside` has only fields of these numbers, each a message or text.
fn is_message_of(inside: &[u8], numbers: &[u32]) -> bool {
    let mut fields = Fields(inside);
    let mut count = 0;
    while let Ok(Some((number, value))) = fields.next() {
        if !numbers.contains(&number) || !matches!(value, Value::Bytes(_)) {
            return false;
        }
        count += 1;
    }
    count > 0 && fields.0.is_empty()
}

/// The beginning of a long message: a resource with its scopes, or a dictionary. pprof starts with a sample type,
/// whose fields are numbers.
fn starts_like_otlp(bytes: &[u8]) -> bool {
    let mut fields = Fields(bytes);
    let tag = fields.varint();
    let length = fields.varint();
    let mut inside = Fields(fields.0);
    let first = inside.next();
    matches!(tag, Some(0x0a | 0x12))
        && length.is_some_and(|length| length > 64)
        && matches!(first, Ok(Some((1 | 2, Value::Bytes(_)))))
}

/// Calls `each` for every field; `None` when the message is damaged or `each` refuses a field.
fn each_field<'a>(bytes: &'a [u8], mut each: impl FnMut(u32, Value<'a>) -> Option<()>) -> Option<()> {
    let mut fields = Fields(bytes);
    while let Some((number, value)) = fields.next().ok()? {
        each(number, value)?;
    }
    Some(())
}

impl<'a> Value<'a> {
    fn message(self) -> Option<&'a [u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn text(self, budget: &Budget) -> Option<String> {
        let bytes = self.message()?;
        budget.charge(bytes.len() + ALLOCATION).ok()?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Some(text.into()),
            Err(_) => {
                // Each damaged byte becomes a character of three.
                budget.charge(bytes.len() * 3).ok()?;
                Some(String::from_utf8_lossy(bytes).into_owned())
            }
        }
    }

    fn u64(self) -> Option<u64> {
        match self {
            Value::Varint(number) | Value::Fixed64(number) => Some(number),
            Value::Fixed32(number) => Some(u64::from(number)),
            Value::Bytes(_) => None,
        }
    }

    fn i64(self) -> Option<i64> {
        self.u64().map(|number| number as i64)
    }

    fn index(self) -> Option<i32> {
        i32::try_from(self.i64()?).ok()
    }

    /// Numbers that may be packed.
    fn numbers(self, mut each: impl FnMut(u64) -> Option<()>) -> Option<()> {
        let Value::Bytes(bytes) = self else { return each(self.u64()?) };
        let mut packed = Fields(bytes);
        while !packed.0.is_empty() {
            each(packed.varint()?)?;
        }
        Some(())
    }

    fn indices(self, into: &mut Vec<i32>, budget: &Budget) -> Option<()> {
        self.charge_list::<i32>(budget)?;
        self.numbers(|number| {
            into.push(i32::try_from(number as i64).ok()?);
            Some(())
        })
    }

    /// Charges a list of numbers, each of which takes a byte at least.
    fn charge_list<T>(self, budget: &Budget) -> Option<()> {
        let count = match self {
            Value::Bytes(bytes) => bytes.iter().filter(|&&byte| byte < 0x80).count(),
            _ => 1,
        };
        budget.charge(count * size_of::<T>() + ALLOCATION).ok()
    }

    /// Fixed numbers that may be packed.
    fn fixed_numbers(self, into: &mut Vec<u64>, budget: &Budget) -> Option<()> {
        budget.charge(self.message().map_or(size_of::<u64>(), <[u8]>::len) + ALLOCATION).ok()?;
        let Value::Bytes(bytes) = self else {
            into.push(self.u64()?);
            return Some(());
        };
        into.extend(
            bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))),
        );
        bytes.len().is_multiple_of(8).then_some(())
    }
}

/// Appends a message to its table; the first one makes room for some more.
fn push<T>(table: &mut Vec<T>, row: T, budget: &Budget) -> Option<()> {
    let rows = if table.is_empty() { 4 } else { 1 };
    budget.charge(rows * size_of::<T>()).ok()?;
    table.push(row);
    Some(())
}

/// Decodes `ProfilesData`, charging `budget` for all of it: an empty message takes two bytes of the file.
pub(super) fn decode(bytes: &[u8], budget: &Budget) -> Option<ProfilesData> {
    let mut data = ProfilesData::default();
    each_field(bytes, |number, value| {
        match number {
            1 => push(
                &mut data.resource_profiles,
                decode_resource_profiles(value.message()?, budget)?,
                budget,
            )?,
            2 => decode_dictionary(value.message()?, &mut data.dictionary, budget)?,
            _ => {}
        }
        Some(())
    })?;
    Some(data)
}

fn decode_resource_profiles(bytes: &[u8], budget: &Budget) -> Option<ResourceProfiles> {
    let mut profiles = ResourceProfiles::default();
    each_field(bytes, |number, value| {
        match number {
            1 => profiles.resource = decode_resource(value.message()?, budget)?,
            2 => push(&mut profiles.scope_profiles, decode_scope(value.message()?, budget)?, budget)?,
            _ => {}
        }
        Some(())
    })?;
    Some(profiles)
}

fn decode_resource(bytes: &[u8], budget: &Budget) -> Option<Resource> {
    let mut resource = Resource::default();
    each_field(bytes, |number, value| {
        if number == 1 {
            let mut pair = KeyValue::default();
            each_field(value.message()?, |number, value| {
                match number {
                    1 => pair.key = value.text(budget)?,
                    2 => pair.value = decode_any(value.message()?, budget)?,
                    _ => {}
                }
                Some(())
            })?;
            push(&mut resource.attributes, pair, budget)?;
        }
        Some(())
    })?;
    Some(resource)
}

fn decode_any(bytes: &[u8], budget: &Budget) -> Option<AnyValue> {
    let mut any = AnyValue::default();
    each_field(bytes, |number, value| {
        match number {
            1 => any.string_value = Some(value.text(budget)?),
            2 => any.bool_value = Some(value.u64()? != 0),
            3 => any.int_value = Some(IntText(value.i64()?)),
            _ => {}
        }
        Some(())
    })?;
    Some(any)
}

fn decode_scope(bytes: &[u8], budget: &Budget) -> Option<ScopeProfiles> {
    let mut scope = ScopeProfiles::default();
    each_field(bytes, |number, value| {
        if number == 2 {
            push(&mut scope.profiles, decode_profile(value.message()?, budget)?, budget)?;
        }
        Some(())
    })?;
    Some(scope)
}

fn decode_profile(bytes: &[u8], budget: &Budget) -> Option<OtlpProfile> {
    let mut profile = OtlpProfile::default();
    each_field(bytes, |number, value| {
        match number {
            1 => profile.sample_type = decode_value_type(value.message()?)?,
            2 => push(&mut profile.samples, decode_sample(value.message()?, budget)?, budget)?,
            3 => profile.time_unix_nano = value.u64()?,
            4 => profile.duration_nano = value.u64()?,
            5 => profile.period_type = decode_value_type(value.message()?)?,
            6 => profile.period = value.i64()?,
            _ => {}
        }
        Some(())
    })?;
    Some(profile)
}

fn decode_value_type(bytes: &[u8]) -> Option<ValueType> {
    let mut value_type = ValueType::default();
    each_field(bytes, |number, value| {
        match number {
            1 => value_type.type_strindex = value.index()?,
            2 => value_type.unit_strindex = value.index()?,
            _ => {}
        }
        Some(())
    })?;
    Some(value_type)
}

fn decode_sample(bytes: &[u8], budget: &Budget) -> Option<Sample> {
    let mut sample = Sample::default();
    each_field(bytes, |number, value| {
        match number {
            1 => sample.stack_index = value.index()?,
            2 => value.indices(&mut sample.attribute_indices, budget)?,
            4 => {
                value.charge_list::<i64>(budget)?;
                value.numbers(|number| {
                    sample.values.push(number as i64);
                    Some(())
                })?;
            }
            5 => value.fixed_numbers(&mut sample.timestamps_unix_nano, budget)?,
            _ => {}
        }
        Some(())
    })?;
    Some(sample)
}

fn decode_dictionary(bytes: &[u8], dictionary: &mut Dictionary, budget: &Budget) -> Option<()> {
    each_field(bytes, |number, value| {
        match number {
            1 => push(&mut dictionary.mapping_table, decode_mapping(value.message()?, budget)?, budget)?,
            2 => push(&mut dictionary.location_table, decode_location(value.message()?, budget)?, budget)?,
            3 => push(&mut dictionary.function_table, decode_function(value.message()?)?, budget)?,
            4 => push(&mut dictionary.link_table, Link {}, budget)?,
            5 => push(&mut dictionary.string_table, value.text(budget)?, budget)?,
            6 => push(&mut dictionary.attribute_table, decode_attribute(value.message()?, budget)?, budget)?,
            7 => {
                let mut stack = Stack::default();
                each_field(value.message()?, |number, value| match number {
                    1 => value.indices(&mut stack.location_indices, budget),
                    _ => Some(()),
                })?;
                push(&mut dictionary.stack_table, stack, budget)?;
            }
            _ => {}
        }
        Some(())
    })
}

fn decode_mapping(bytes: &[u8], budget: &Budget) -> Option<Mapping> {
    let mut mapping = Mapping::default();
    each_field(bytes, |number, value| {
        match number {
            1 => mapping.memory_start = value.u64()?,
            2 => mapping.memory_limit = value.u64()?,
            3 => mapping.file_offset = value.u64()?,
            4 => mapping.filename_strindex = value.index()?,
            5 => value.indices(&mut mapping.attribute_indices, budget)?,
            _ => {}
        }
        Some(())
    })?;
    Some(mapping)
}

fn decode_location(bytes: &[u8], budget: &Budget) -> Option<Location> {
    let mut location = Location::default();
    each_field(bytes, |number, value| {
        match number {
            1 => location.mapping_index = value.index()?,
            2 => location.address = value.u64()?,
            3 => {
                let mut line = Line::default();
                each_field(value.message()?, |number, value| {
                    match number {
                        1 => line.function_index = value.index()?,
                        2 => line.line = value.i64()?,
                        3 => line.column = value.i64()?,
                        _ => {}
                    }
                    Some(())
                })?;
                push(&mut location.lines, line, budget)?;
            }
            _ => {}
        }
        Some(())
    })?;
    Some(location)
}

fn decode_function(bytes: &[u8]) -> Option<Function> {
    let mut function = Function::default();
    each_field(bytes, |number, value| {
        match number {
            1 => function.name_strindex = value.index()?,
            2 => function.system_name_strindex = value.index()?,
            3 => function.filename_strindex = value.index()?,
            4 => function.start_line = value.i64()?,
            _ => {}
        }
        Some(())
    })?;
    Some(function)
}

fn decode_attribute(bytes: &[u8], budget: &Budget) -> Option<Attribute> {
    let mut attribute = Attribute::default();
    each_field(bytes, |number, value| {
        match number {
            1 => attribute.key_strindex = value.index()?,
            2 => attribute.value = decode_any(value.message()?, budget)?,
            3 => attribute.unit_strindex = value.index()?,
            _ => {}
        }
        Some(())
    })?;
    Some(attribute)
}

/// Builds a message.
fn message(build: impl FnOnce(&mut Message)) -> Vec<u8> {
    let mut message = Message::default();
    build(&mut message);
    message.0
}

fn indices(numbers: &[i32]) -> impl Iterator<Item = u64> {
    numbers.iter().map(|&number| i64::from(number) as u64)
}

/// Encodes `ProfilesData`.
pub(super) fn encode(data: &ProfilesData) -> Vec<u8> {
    message(|out| {
        for resource in &data.resource_profiles {
            out.bytes(1, &encode_resource_profiles(resource));
        }
        out.bytes(2, &encode_dictionary(&data.dictionary));
    })
}

fn encode_resource_profiles(profiles: &ResourceProfiles) -> Vec<u8> {
    message(|out| {
        let resource = message(|out| {
            for pair in &profiles.resource.attributes {
                let pair = message(|out| {
                    out.bytes(1, pair.key.as_bytes());
                    out.bytes(2, &encode_any(&pair.value));
                });
                out.bytes(1, &pair);
            }
        });
        out.bytes(1, &resource);
        for scope in &profiles.scope_profiles {
            let scope = message(|out| {
                scope.profiles.iter().for_each(|profile| out.bytes(2, &encode_profile(profile)));
            });
            out.bytes(2, &scope);
        }
    })
}

fn encode_any(any: &AnyValue) -> Vec<u8> {
    message(|out| match (&any.string_value, any.bool_value, any.int_value) {
        (Some(text), _, _) => out.bytes(1, text.as_bytes()),
        // One of several: written also when it is 0.
        (_, Some(flag), _) => out.0.extend([2 << 3, u8::from(flag)]),
        (_, _, Some(IntText(0))) => out.0.extend([3 << 3, 0]),
        (_, _, Some(IntText(number))) => out.signed(3, number),
        _ => {}
    })
}

fn encode_value_type(value_type: ValueType) -> Vec<u8> {
    message(|out| {
        out.signed(1, i64::from(value_type.type_strindex));
        out.signed(2, i64::from(value_type.unit_strindex));
    })
}

fn encode_profile(profile: &OtlpProfile) -> Vec<u8> {
    message(|out| {
        out.bytes(1, &encode_value_type(profile.sample_type));
        for sample in &profile.samples {
            let sample = message(|out| {
                out.signed(1, i64::from(sample.stack_index));
                out.packed(2, indices(&sample.attribute_indices));
                out.packed(4, sample.values.iter().map(|&value| value as u64));
                out.packed_fixed64(5, &sample.timestamps_unix_nano);
            });
            out.bytes(2, &sample);
        }
        out.fixed64(3, profile.time_unix_nano);
        out.varint(4, profile.duration_nano);
        if profile.period_type != ValueType::default() {
            out.bytes(5, &encode_value_type(profile.period_type));
        }
        out.signed(6, profile.period);
    })
}

fn encode_dictionary(dictionary: &Dictionary) -> Vec<u8> {
    message(|out| {
        for mapping in &dictionary.mapping_table {
            let mapping = message(|out| {
                out.varint(1, mapping.memory_start);
                out.varint(2, mapping.memory_limit);
                out.varint(3, mapping.file_offset);
                out.signed(4, i64::from(mapping.filename_strindex));
                out.packed(5, indices(&mapping.attribute_indices));
            });
            out.bytes(1, &mapping);
        }
        dictionary.location_table.iter().for_each(|location| out.bytes(2, &encode_location(location)));
        for function in &dictionary.function_table {
            let function = message(|out| {
                out.signed(1, i64::from(function.name_strindex));
                out.signed(2, i64::from(function.system_name_strindex));
                out.signed(3, i64::from(function.filename_strindex));
                out.signed(4, function.start_line);
            });
            out.bytes(3, &function);
        }
        dictionary.link_table.iter().for_each(|_| out.bytes(4, &[]));
        dictionary.string_table.iter().for_each(|text| out.bytes(5, text.as_bytes()));
        for attribute in &dictionary.attribute_table {
            let attribute = message(|out| {
                out.signed(1, i64::from(attribute.key_strindex));
                out.bytes(2, &encode_any(&attribute.value));
                out.signed(3, i64::from(attribute.unit_strindex));
            });
            out.bytes(6, &attribute);
        }
        for stack in &dictionary.stack_table {
            out.bytes(7, &message(|out| out.packed(1, indices(&stack.location_indices))));
        }
    })
}

fn encode_location(location: &Location) -> Vec<u8> {
    message(|out| {
        out.signed(1, i64::from(location.mapping_index));
        out.varint(2, location.address);
        for line in &location.lines {
            let line = message(|out| {
                out.signed(1, i64::from(line.function_index));
                out.signed(2, line.line);
                out.signed(3, line.column);
            });
            out.bytes(3, &line);
        }
    })
}
