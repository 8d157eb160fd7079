//! Converts a profile to the messages. Entry 0 of every table stands for nothing.

use flamelet_profile::{Label, LabelSetId, Profile, StringId, ValueType as ProfileValueType};
use rustc_hash::FxHashMap as HashMap;

use super::links;
use super::model::{
    AnyValue, Attribute, Dictionary, Function, IntText, KeyValue, Line, Link, Location, Mapping, OtlpProfile,
    ProfilesData, Resource, ResourceProfiles, Sample, ScopeProfiles, Stack, ValueType,
};
use crate::Notes;

/// Attribute names by OpenTelemetry's conventions.
pub(super) const BUILD_ID: &str = "process.executable.build_id.gnu";
pub(super) const THREAD_ID: &str = "thread.id";
pub(super) const THREAD_NAME: &str = "thread.name";
pub(super) const PROCESS_ID: &str = "process.pid";

/// Creates one OTLP profile per kind of value.
pub(super) fn from_profile(profile: &Profile, notes: &mut Notes) -> ProfilesData {
    let mut writer = DictionaryWriter::new(profile);
    writer.tables();
    let times = EventTimes::of(profile);
    let profiles = (0..profile.sample_types().len()).map(|index| writer.profile(index, &times)).collect();
    if profile.comments().next().is_some() {
        notes.push("comments become one attribute of the resource".into());
    }
    if profile.timeline.is_some() && times.by_row.is_empty() {
        notes.dropped_timeline(profile);
    }
    let text = |text: &str| AnyValue { string_value: Some(text.into()), ..AnyValue::default() };
    let pair = |key: &str, value| KeyValue { key: key.into(), value, ..KeyValue::default() };
    let mut attributes = vec![pair("telemetry.sdk.name", text("flamelet"))];
    let comments: Vec<_> = profile.comments().collect();
    if !comments.is_empty() {
        attributes.push(pair("pprof.profile.comment", text(&comments.join("\n"))));
    }
    let resource = Resource { attributes };
    let scope_profiles = vec![ScopeProfiles { profiles }];
    ProfilesData {
        resource_profiles: vec![ResourceProfiles { resource, scope_profiles }],
        dictionary: writer.dictionary,
    }
}

/// The events of each sample: times since 1970 and values.
struct EventTimes {
    by_row: HashMap<u32, Vec<(u64, i64)>>,
    value_type: usize,
}

impl EventTimes {
    fn of(profile: &Profile) -> Self {
        let mut times = Self { by_row: HashMap::default(), value_type: usize::MAX };
        let Some(timeline) = &profile.timeline else { return times };
        times.value_type = timeline.value_type;
        let start = u64::try_from(timeline.start_nanos).unwrap_or(0);
        for event in &timeline.events {
            times
                .by_row
                .entry(event.sample)
                .or_default()
                .push((start.saturating_add(event.time), event.value));
        }
        times
    }
}

struct DictionaryWriter<'a> {
    profile: &'a Profile,
    dictionary: Dictionary,
    strings: HashMap<StringId, i32>,
    texts: HashMap<String, i32>,
    attributes: HashMap<Attribute, i32>,
    links: HashMap<Link, i32>,
    /// The attributes and the link of each set of labels.
    label_sets: HashMap<LabelSetId, (Vec<i32>, i32)>,
}

fn index(at: usize) -> i32 {
    i32::try_from(at).unwrap_or(i32::MAX)
}

impl<'a> DictionaryWriter<'a> {
    fn new(profile: &'a Profile) -> Self {
        let dictionary = Dictionary {
            mapping_table: vec![Mapping::default()],
            location_table: vec![Location::default()],
            function_table: vec![Function::default()],
            link_table: vec![Link::default()],
            string_table: vec![String::new()],
            attribute_table: vec![Attribute::default()],
            stack_table: vec![Stack::default()],
        };
        Self {
            profile,
            dictionary,
            strings: HashMap::default(),
            texts: HashMap::default(),
            attributes: HashMap::default(),
            links: HashMap::default(),
            label_sets: HashMap::default(),
        }
    }

    fn text(&mut self, text: &str) -> i32 {
        if text.is_empty() {
            return 0;
        }
        if let Some(&known) = self.texts.get(text) {
            return known;
        }
        let at = index(self.dictionary.string_table.len());
        self.dictionary.string_table.push(text.into());
        self.texts.insert(text.into(), at);
        at
    }

    fn string(&mut self, id: StringId) -> i32 {
        if let Some(&known) = self.strings.get(&id) {
            return known;
        }
        let at = self.text(self.profile.string(id));
        self.strings.insert(id, at);
        at
    }

    fn value_type(&mut self, value_type: ProfileValueType) -> ValueType {
        ValueType { type_strindex: self.string(value_type.kind), unit_strindex: self.string(value_type.unit) }
    }

    fn attribute(&mut self, attribute: Attribute) -> i32 {
        if let Some(&known) = self.attributes.get(&attribute) {
            return known;
        }
        let at = index(self.dictionary.attribute_table.len());
        self.dictionary.attribute_table.push(attribute.clone());
        self.attributes.insert(attribute, at);
        at
    }

    fn text_attribute(&mut self, key: &str, text: &str) -> i32 {
        let value = AnyValue { string_value: Some(text.into()), ..AnyValue::default() };
        let key_strindex = self.text(key);
        self.attribute(Attribute { key_strindex, value, unit_strindex: 0 })
    }

    /// Fills the tables. Mappings, functions, locations and stacks keep their rows, shifted by entry 0.
    fn tables(&mut self) {
        let profile = self.profile;
        for mapping in profile.mappings() {
            let mut attribute_indices = Vec::new();
            if !mapping.build_id.is_empty() {
                attribute_indices.push(self.text_attribute(BUILD_ID, profile.string(mapping.build_id)));
            }
            let filename_strindex = self.string(mapping.filename);
            self.dictionary.mapping_table.push(Mapping {
                memory_start: mapping.start,
                memory_limit: mapping.limit,
                file_offset: mapping.offset,
                filename_strindex,
                attribute_indices,
            });
        }
        for function in profile.functions() {
            let function = Function {
                name_strindex: self.string(function.name),
                system_name_strindex: self.string(function.system_name),
                filename_strindex: self.string(function.filename),
                start_line: function.start_line,
            };
            self.dictionary.function_table.push(function);
        }
        for location in profile.locations() {
            let lines = profile.lines_of(location).iter().map(|line| Line {
                function_index: line.function.map_or(0, |id| index(id.index() + 1)),
                line: line.line,
                column: line.column,
            });
            let mapping_index = location.mapping.map_or(0, |id| index(id.index() + 1));
            let location = Location { mapping_index, address: location.address, lines: lines.collect() };
            self.dictionary.location_table.push(location);
        }
        for at in 0..profile.stack_count() {
            let stack = profile.stack(flamelet_profile::StackId::from_index(at));
            let location_indices = stack.iter().map(|id| index(id.index() + 1)).collect();
            self.dictionary.stack_table.push(Stack { location_indices });
        }
    }

    fn profile(&mut self, number: usize, times: &EventTimes) -> OtlpProfile {
        let header = &self.profile.header;
        let mut samples = Vec::new();
        for (row, sample) in self.profile.samples().enumerate() {
            let value = sample.values[number];
            if value == 0 {
                continue;
            }
            let (attribute_indices, link_index) = self.labels(sample.labels);
            let stack_index = index(sample.stack.index() + 1);
            let events = times.by_row.get(&(row as u32)).filter(|_| times.value_type == number);
            let (values, timestamps_unix_nano) = match events {
                // Times are kept only if their values add up to the sample's value.
                Some(events) if events.iter().map(|event| event.1).sum::<i64>() == value => (
                    events.iter().map(|event| event.1).collect(),
                    events.iter().map(|event| event.0).collect(),
                ),
                _ => (vec![value], Vec::new()),
            };
            samples.push(Sample { stack_index, attribute_indices, link_index, values, timestamps_unix_nano });
        }
        OtlpProfile {
            sample_type: self.value_type(self.profile.sample_types()[number]),
            samples,
            time_unix_nano: u64::try_from(header.time_nanos).unwrap_or(0),
            duration_nano: u64::try_from(header.duration_nanos).unwrap_or(0),
            period_type: header
                .period_type
                .map(|period_type| self.value_type(period_type))
                .unwrap_or_default(),
            period: header.period,
        }
    }

    fn labels(&mut self, id: LabelSetId) -> (Vec<i32>, i32) {
        if let Some(known) = self.label_sets.get(&id) {
            return known.clone();
        }
        let profile = self.profile;
        let labels = profile.labels(id);
        let link = Link::of_labels(profile, labels);
        let is_linked = |label: &&Label| link.is_some() && links::is_part(profile.string(label.key));
        let others = labels.iter().filter(|label| !is_linked(label));
        let attributes: Vec<i32> = others.map(|label| self.label(label)).collect();
        let known = (attributes, link.map_or(0, |link| self.link(link)));
        self.label_sets.insert(id, known.clone());
        known
    }

    fn link(&mut self, link: Link) -> i32 {
        let table = &mut self.dictionary.link_table;
        *self.links.entry(link).or_insert_with_key(|link| {
            table.push(link.clone());
            index(table.len() - 1)
        })
    }

    fn label(&mut self, label: &Label) -> i32 {
        let key = match self.profile.string(label.key) {
            "thread" if label.is_text() => THREAD_NAME,
            "tid" if !label.is_text() => THREAD_ID,
            "pid" if !label.is_text() => PROCESS_ID,
            other => other,
        };
        if label.is_text() {
            return self.text_attribute(key, self.profile.string(label.text));
        }
        let value = AnyValue { int_value: Some(IntText(label.number)), ..AnyValue::default() };
        let (key_strindex, unit_strindex) = (self.text(key), self.string(label.unit));
        self.attribute(Attribute { key_strindex, value, unit_strindex })
    }
}
