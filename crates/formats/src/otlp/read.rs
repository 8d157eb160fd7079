//! Converts the messages to a profile.

use flamelet_profile::budget::{ALLOCATION, hash_entry};
use flamelet_profile::{
    Budget, ErrorKind, Function as ProfileFunction, FunctionId, Label, LabelSetId, Line as ProfileLine,
    LocationId, Mapping as ProfileMapping, MappingId, MappingSymbols, Profile, Result, StackId, ThreadId,
};
use rustc_hash::FxHashMap as HashMap;

use super::links::{SPAN_ID, TRACE_ID};
use super::model::{
    AnyValue, Attribute, Dictionary, KeyValue, OtlpProfile, ProfilesData, ResourceProfiles, Sample, ValueType,
};
use super::write::{BUILD_ID, PROCESS_ID, THREAD_ID, THREAD_NAME};
use crate::assembly::Assembly;
use crate::{Error, FormatOptions, Notes};

/// What a row that was looked up costs, and a set of attributes.
const KNOWN: usize = hash_entry(size_of::<(i32, u32)>());
const ATTRIBUTES: usize = hash_entry(size_of::<(Vec<i32>, Attributes)>()) + ALLOCATION;

/// Converts everything in `data` to one profile; profiles with the same sample type are added up.
pub(super) fn to_profile(
    data: &ProfilesData,
    options: &FormatOptions,
    budget: &Budget,
    notes: &mut Notes,
) -> Result<Profile> {
    let mut reader = DictionaryReader::new(&data.dictionary, options, budget);
    for resource in &data.resource_profiles {
        for (key, value) in attributes_of(resource, &data.dictionary, budget)? {
            reader.assembly.builder.comment(&format!("{key}: {value}"));
        }
        for profile in resource.scope_profiles.iter().flat_map(|scope| &scope.profiles) {
            reader.profile(profile, notes)?;
        }
    }
    if reader.assembly.column_count() == 0 {
        return Err(Error::new(ErrorKind::Corrupt, "the OTLP message has no profile"));
    }
    reader.finish()
}

/// A resource of an OTLP message: a process, usually, and what was measured of it.
#[derive(Debug)]
pub struct OtlpResource {
    /// Its attributes, as (name, value); those that are texts, whole numbers, or yes and no.
    pub attributes: Vec<(String, String)>,
    /// Its profiles.
    pub profiles: Vec<Profile>,
}

/// Converts each resource of `data`. Its profiles of the same time and period, each of which has one value, become one
/// profile with several values.
pub(super) fn by_resource(
    data: &ProfilesData,
    options: &FormatOptions,
    budget: &Budget,
    notes: &mut Notes,
) -> Result<Vec<OtlpResource>> {
    let (mut resources, mut count) = (Vec::new(), 0);
    for resource in &data.resource_profiles {
        let mut groups: Vec<(Together, DictionaryReader<'_>)> = Vec::new();
        for profile in resource.scope_profiles.iter().flat_map(|scope| &scope.profiles) {
            let together = Together::of(profile);
            if groups.last().is_none_or(|(last, _)| *last != together) {
                count += 1;
                budget.charge(GROUP)?;
                groups.push((together, DictionaryReader::new(&data.dictionary, options, budget)));
            }
            if let Some((_, reader)) = groups.last_mut() {
                reader.profile(profile, notes)?;
            }
        }
        if count > MAX_GROUPS {
            let message = format!("the OTLP message has profiles of more than {MAX_GROUPS} times");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let profiles = groups.into_iter().map(|(_, reader)| reader.finish()).collect::<Result<_>>()?;
        let attributes = attributes_of(resource, &data.dictionary, budget)?;
        resources.push(OtlpResource { attributes, profiles });
    }
    Ok(resources)
}

/// Profiles of a message at most, after those that belong together were joined.
const MAX_GROUPS: usize = 10_000;
/// What a profile takes at least while it is read.
const GROUP: usize = 4096;

/// What profiles have in common that are values of the same samples.
#[derive(PartialEq, Eq)]
struct Together {
    time: u64,
    duration: u64,
    period_type: ValueType,
    period: i64,
}

impl Together {
    fn of(profile: &OtlpProfile) -> Self {
        Self {
            time: profile.time_unix_nano,
            duration: profile.duration_nano,
            period_type: profile.period_type,
            period: profile.period,
        }
    }
}

/// Returns the attributes of a resource as texts.
fn attributes_of(
    resource: &ResourceProfiles,
    dictionary: &Dictionary,
    budget: &Budget,
) -> Result<Vec<(String, String)>> {
    let read = |pair: &KeyValue| {
        let key = if pair.key.is_empty() { string(dictionary, pair.key_strindex)? } else { &pair.key };
        let (value, text) = (&pair.value, text_of(&pair.value, dictionary)?);
        // A few bytes may refer to a long text.
        budget.charge(key.len() + text.map_or(0, str::len) + 2 * ALLOCATION)?;
        let number = value.int_value.map(|number| number.0.to_string());
        let text = text.map(str::to_owned).or(number).or(value.bool_value.map(|flag| flag.to_string()));
        Ok((key.to_owned(), text.unwrap_or_default()))
    };
    resource.resource.attributes.iter().map(read).collect()
}

/// Returns a value that is a text, which may be in the dictionary.
fn text_of<'a>(value: &'a AnyValue, dictionary: &'a Dictionary) -> Result<Option<&'a str>> {
    match (&value.string_value, value.string_value_strindex) {
        (Some(text), _) => Ok(Some(text)),
        (None, Some(at)) => string(dictionary, at).map(Some),
        (None, None) => Ok(None),
    }
}

fn string(dictionary: &Dictionary, at: i32) -> Result<&str> {
    if at == 0 { Ok("") } else { row(&dictionary.string_table, at, "string").map(|text| &**text) }
}

/// The labels of a sample, and its thread.
#[derive(Clone, Copy)]
struct Attributes {
    labels: LabelSetId,
    thread: ThreadId,
}

struct DictionaryReader<'a> {
    dictionary: &'a Dictionary,
    assembly: Assembly,
    mappings: HashMap<i32, MappingId>,
    locations: HashMap<i32, LocationId>,
    stacks: HashMap<i32, StackId>,
    attributes: HashMap<Vec<i32>, Attributes>,
    /// Sets of labels together with a link.
    linked: HashMap<(LabelSetId, i32), LabelSetId>,
    /// The column whose samples have times; only one can.
    timed: Option<usize>,
}

fn row<'t, T>(table: &'t [T], at: i32, what: &str) -> Result<&'t T> {
    usize::try_from(at)
        .ok()
        .and_then(|at| table.get(at))
        .ok_or_else(|| Error::new(ErrorKind::Corrupt, format!("the OTLP dictionary has no {what} {at}")))
}

impl<'a> DictionaryReader<'a> {
    fn new(dictionary: &'a Dictionary, options: &FormatOptions, budget: &Budget) -> Self {
        Self {
            dictionary,
            assembly: Assembly::new(options.timeline, budget),
            mappings: HashMap::default(),
            locations: HashMap::default(),
            stacks: HashMap::default(),
            attributes: HashMap::default(),
            linked: HashMap::default(),
            timed: None,
        }
    }

    fn finish(mut self) -> Result<Profile> {
        if let Some(column) = self.timed {
            self.assembly.events_count(column);
        }
        self.assembly.finish()
    }

    fn string(&self, at: i32) -> Result<&'a str> {
        string(self.dictionary, at)
    }

    fn profile(&mut self, profile: &OtlpProfile, notes: &mut Notes) -> Result<()> {
        let (kind, unit) = (
            self.string(profile.sample_type.type_strindex)?,
            self.string(profile.sample_type.unit_strindex)?,
        );
        let column = match (kind, unit) {
            ("", "") => self.assembly.column("samples", "count"),
            _ => self.assembly.column(kind, unit),
        };
        let (period_kind, period_unit) = (
            self.string(profile.period_type.type_strindex)?,
            self.string(profile.period_type.unit_strindex)?,
        );
        let period_type = self.assembly.builder.value_type(period_kind, period_unit);
        let header = self.assembly.builder.header_mut();
        if !period_kind.is_empty() {
            header.period_type = Some(period_type);
        }
        header.period = header.period.max(profile.period);
        header.time_nanos = header.time_nanos.max(i64::try_from(profile.time_unix_nano).unwrap_or(0));
        header.duration_nanos = header.duration_nanos.max(i64::try_from(profile.duration_nano).unwrap_or(0));
        profile.samples.iter().try_for_each(|sample| self.sample(sample, column, notes))
    }

    fn sample(&mut self, sample: &Sample, column: usize, notes: &mut Notes) -> Result<()> {
        let stack = self.stack(sample.stack_index)?;
        let attributes = self.attributes(&sample.attribute_indices)?;
        let labels = self.linked(attributes.labels, sample.link_index)?;
        let at = self.assembly.row_of(stack, labels);
        self.assembly.check_room()?;
        let times = &sample.timestamps_unix_nano;
        let total = match sample.values.is_empty() {
            true => i64::try_from(times.len()).unwrap_or(i64::MAX),
            false => sample.values.iter().fold(0i64, |sum, value| sum.saturating_add(*value)),
        };
        self.assembly.add(at, column, total);
        if times.is_empty() {
            return Ok(());
        }
        if *self.timed.get_or_insert(column) != column {
            notes.push("times are kept only for the first sample type that has them".into());
            return Ok(());
        }
        self.assembly.starts_at(1);
        for (index, &time) in times.iter().enumerate() {
            let share = if sample.values.len() == times.len() {
                sample.values[index]
            } else {
                total / times.len() as i64
            };
            self.assembly.event(time, at, attributes.thread, share);
        }
        Ok(())
    }

    /// Returns the stack of a table row, which is built once, however many samples have it.
    fn stack(&mut self, at: i32) -> Result<StackId> {
        if let Some(&known) = self.stacks.get(&at) {
            return Ok(known);
        }
        let locations = match self.dictionary.stack_table.is_empty() && at == 0 {
            true => Vec::new(),
            false => {
                let stack = row(&self.dictionary.stack_table, at, "stack")?;
                stack.location_indices.iter().map(|&at| self.location(at)).collect::<Result<_>>()?
            }
        };
        let stack = self.assembly.builder.stack(&locations);
        self.assembly.budget().charge(KNOWN)?;
        self.stacks.insert(at, stack);
        Ok(stack)
    }

    fn attributes(&mut self, indices: &[i32]) -> Result<Attributes> {
        if let Some(&known) = self.attributes.get(indices) {
            return Ok(known);
        }
        let mut labels: Vec<Label> = Vec::new();
        let (mut pid, mut tid, mut name) = (0, 0, String::new());
        for &at in indices {
            let attribute: &Attribute = row(&self.dictionary.attribute_table, at, "attribute")?;
            let key = self.string(attribute.key_strindex)?;
            let number = attribute.value.int_value.map_or(0, |number| number.0);
            let text = text_of(&attribute.value, self.dictionary)?.map(str::to_owned);
            match key {
                THREAD_NAME => name = text.unwrap_or_default(),
                THREAD_ID => tid = number as u64,
                PROCESS_ID => pid = number as u64,
                _ => {
                    let unit = self.string(attribute.unit_strindex)?;
                    let text = text.or(attribute.value.bool_value.map(|flag| flag.to_string()));
                    labels.push(match text {
                        Some(text) => self.assembly.builder.text_label(key, &text),
                        None => self.assembly.builder.number_label(key, number, unit),
                    });
                }
            }
        }
        let thread = self.assembly.thread(pid, tid, &name, "");
        let mut all = self.assembly.builder.profile().labels(thread.labels).to_vec();
        all.extend(labels);
        let attributes = Attributes { labels: self.assembly.builder.labels(&all), thread: thread.id };
        self.assembly.budget().charge(ATTRIBUTES + size_of_val(indices))?;
        self.attributes.insert(indices.to_vec(), attributes);
        Ok(attributes)
    }

    /// Returns these labels and those of a link.
    fn linked(&mut self, labels: LabelSetId, at: i32) -> Result<LabelSetId> {
        if at == 0 {
            return Ok(labels);
        }
        if let Some(&known) = self.linked.get(&(labels, at)) {
            return Ok(known);
        }
        let link = row(&self.dictionary.link_table, at, "link")?;
        let builder = &mut self.assembly.builder;
        let mut all = builder.profile().labels(labels).to_vec();
        let ids = [(TRACE_ID, &link.trace_id), (SPAN_ID, &link.span_id)];
        for (key, id) in ids.into_iter().filter(|_| !link.is_none()) {
            all.push(builder.text_label(key, id));
        }
        let linked = builder.labels(&all);
        self.assembly.budget().charge(KNOWN)?;
        self.linked.insert((labels, at), linked);
        Ok(linked)
    }

    fn location(&mut self, at: i32) -> Result<LocationId> {
        if let Some(&known) = self.locations.get(&at) {
            return Ok(known);
        }
        let location = row(&self.dictionary.location_table, at, "location")?;
        let mapping = match location.mapping_index {
            0 => None,
            at => Some(self.mapping(at)?),
        };
        let mut lines = Vec::new();
        for line in &location.lines {
            let function = match line.function_index {
                0 => None,
                at => Some(self.function(at)?),
            };
            lines.push(ProfileLine { function, line: line.line, column: line.column });
        }
        let id = self.assembly.builder.location(mapping, location.address, &lines);
        self.assembly.budget().charge(KNOWN)?;
        self.locations.insert(at, id);
        Ok(id)
    }

    fn function(&mut self, at: i32) -> Result<FunctionId> {
        let function = row(&self.dictionary.function_table, at, "function")?;
        let [name, system_name, filename] =
            [function.name_strindex, function.system_name_strindex, function.filename_strindex]
                .map(|at| self.string(at));
        let (name, system_name, filename) = (name?, system_name?, filename?);
        let builder = &mut self.assembly.builder;
        let (name, system_name, filename) =
            (builder.string(name), builder.string(system_name), builder.string(filename));
        Ok(builder.function(ProfileFunction { name, system_name, filename, start_line: function.start_line }))
    }

    fn mapping(&mut self, at: i32) -> Result<MappingId> {
        if let Some(&known) = self.mappings.get(&at) {
            return Ok(known);
        }
        let mapping = row(&self.dictionary.mapping_table, at, "mapping")?;
        let mut build_id = String::new();
        for &at in &mapping.attribute_indices {
            let attribute = row(&self.dictionary.attribute_table, at, "attribute")?;
            if self.string(attribute.key_strindex)? == BUILD_ID {
                build_id = text_of(&attribute.value, self.dictionary)?.unwrap_or_default().to_owned();
            }
        }
        let filename = self.string(mapping.filename_strindex)?;
        let builder = &mut self.assembly.builder;
        let (filename, build_id) = (builder.string(filename), builder.string(&build_id));
        let id = builder.mapping(ProfileMapping {
            start: mapping.memory_start,
            limit: mapping.memory_limit,
            offset: mapping.file_offset,
            filename,
            build_id,
            symbols: MappingSymbols::default(),
        });
        self.assembly.budget().charge(KNOWN)?;
        self.mappings.insert(at, id);
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use flamelet_profile::Limits;
    use flamelet_profile::protobuf::MessageWriter;

    use super::super::proto;
    use super::*;

    /// Returns the attributes of a resource that has this one this often, with its name and value in the dictionary.
    fn attributes(pair: &[u8], count: usize, budget: &Budget) -> Result<Vec<(String, String)>> {
        let mut message = MessageWriter::default();
        message.message(1, |resource| {
            resource.message(1, |out| (0..count).for_each(|_| out.bytes(1, pair)));
        });
        message.message(2, |dictionary| {
            for text in ["", "service.name", &"long ".repeat(1000)] {
                dictionary.bytes(5, text.as_bytes());
            }
        });
        let data = proto::decode(&message.into_bytes(), &Budget::new(Limits::SERVICE))?;
        attributes_of(&data.resource_profiles[0], &data.dictionary, budget)
    }

    /// As OpenTelemetry's collector sends them on.
    #[test]
    fn attributes_of_a_resource_may_be_in_the_dictionary() {
        // The name has field 3; the value, which has field 2, has field 8 for its text.
        let pair = [0x12, 2, 0x40, 2, 0x18, 1];
        let budget = Budget::new(Limits::SERVICE);
        let read = attributes(&pair, 1, &budget).expect("read");
        assert_eq!(read, [("service.name".to_owned(), "long ".repeat(1000))]);
        for at in [3, 0x7f] {
            let error = attributes(&[0x12, 2, 0x40, at, 0x18, 1], 1, &budget).expect_err("out of range");
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        let error = attributes(&pair, 1000, &Budget::new(Limits::of_memory(1 << 20))).expect_err("too much");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    }
}
