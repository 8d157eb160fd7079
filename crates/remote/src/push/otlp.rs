//! OTLP's `ExportProfilesServiceRequest`, schema `v1development`, written straight from the columns of a profile.
//!
//! `flamelet-formats` also writes OTLP, as JSON and through a model that its reader needs; a service does not link that
//! crate.

use flamelet_profile::protobuf::MessageWriter;
use flamelet_profile::{Label, LabelSetId, Limits, Profile, Result, StackId, StringId, ValueType, pprof};
use rustc_hash::FxHashMap as HashMap;

use super::links::{self, Link, Links};
use super::{Series, parca};

const BUILD_ID: &str = "process.executable.build_id.gnu";

/// Returns the request, gzipped: one profile for each kind of value, and the tables that they share.
pub(super) fn body(profile: &Profile, series: &Series<'_>, id: u128) -> Result<Vec<u8>> {
    // A part of a profile has the tables of all of it, until it was written and read.
    let has_value = |row: usize| profile.sample(row).values.iter().any(|value| *value != 0);
    if profile.sample_count() < profile.stack_count() || !(0..profile.sample_count()).all(has_value) {
        let mut part = profile.clone();
        part.keep_rows(has_value);
        let part = pprof::decode(&pprof::encode(&part), &Limits::NONE)?;
        return parca::gzip(&request(&part, series, id));
    }
    parca::gzip(&request(profile, series, id))
}

fn request(profile: &Profile, series: &Series<'_>, id: u128) -> Vec<u8> {
    let mut tables = Tables::new(profile);
    let profiles: Vec<Vec<u8>> =
        (0..profile.sample_types().len()).map(|number| tables.profile(number, id)).collect();
    let mut out = MessageWriter::default();
    out.message(1, |out| {
        out.message(1, |resource| write_resource(series, resource));
        out.message(2, |scope| {
            scope.message(1, |out| out.bytes(1, b"flamelet"));
            profiles.iter().for_each(|profile| scope.bytes(2, profile));
        });
    });
    out.message(2, |out| tables.write(out));
    out.into_bytes()
}

fn write_resource(series: &Series<'_>, out: &mut MessageWriter) {
    let own = [
        ("service.name", series.service),
        ("telemetry.sdk.name", "flamelet"),
        ("telemetry.sdk.language", "rust"),
    ];
    let others = series.labels.iter().map(|(name, value)| (&**name, &**value));
    for (key, value) in own.into_iter().chain(others) {
        out.message(1, |pair| {
            pair.bytes(1, key.as_bytes());
            pair.message(2, |any| any.bytes(1, value.as_bytes()));
        });
    }
}

/// The tables that all profiles of a request share. Functions, locations and stacks keep their rows, shifted by entry 0,
/// which stands for nothing. Mappings and strings are included only if something refers to them.
struct Tables<'a> {
    profile: &'a Profile,
    strings: Vec<&'a str>,
    string_numbers: HashMap<&'a str, u64>,
    /// Attributes in the order of their numbers, as messages, and their numbers.
    attributes: Vec<Vec<u8>>,
    numbers: HashMap<Vec<u8>, u64>,
    links: Links,
    /// The numbers of mappings, 0 for those without a location.
    mappings: Vec<u64>,
    label_sets: HashMap<LabelSetId, Sets>,
}

/// What a set of labels becomes: attributes, and the number of a link, 0 for none.
type Sets = (Vec<u64>, u64);

impl<'a> Tables<'a> {
    fn new(profile: &'a Profile) -> Self {
        Self {
            profile,
            strings: vec![""],
            string_numbers: HashMap::from_iter([("", 0)]),
            attributes: vec![Vec::new()],
            numbers: HashMap::default(),
            links: Links::default(),
            mappings: mapping_numbers(profile),
            label_sets: HashMap::default(),
        }
    }

    /// Returns the number of a text.
    fn text(&mut self, text: &'a str) -> u64 {
        *self.string_numbers.entry(text).or_insert_with(|| {
            self.strings.push(text);
            self.strings.len() as u64 - 1
        })
    }

    /// Returns the number of a string of the profile.
    fn string(&mut self, id: StringId) -> u64 {
        self.text(self.profile.string(id))
    }

    fn attribute(&mut self, key: &'a str, unit: u64, value: impl FnOnce(&mut MessageWriter)) -> u64 {
        let mut message = MessageWriter::default();
        message.uint(1, self.text(key));
        message.message(2, value);
        message.uint(3, unit);
        let message = message.into_bytes();
        if let Some(&known) = self.numbers.get(&message) {
            return known;
        }
        let number = self.attributes.len() as u64;
        self.numbers.insert(message.clone(), number);
        self.attributes.push(message);
        number
    }

    /// Returns OpenTelemetry's name of a label.
    fn key(&self, label: &Label) -> &'a str {
        match (self.profile.string(label.key), label.is_text()) {
            ("thread", true) => "thread.name",
            ("tid", false) => "thread.id",
            ("pid", false) => "process.pid",
            (key, _) => key,
        }
    }

    fn label(&mut self, label: &Label) -> u64 {
        let key = self.key(label);
        if label.is_text() {
            let text = self.profile.string(label.text);
            return self.attribute(key, 0, |any| any.bytes(1, text.as_bytes()));
        }
        let unit = self.string(label.unit);
        self.attribute(key, unit, |any| any.uint_of_oneof(3, label.number as u64))
    }

    /// Returns the attributes and the link of a set of labels. What the link says is no attribute.
    fn labels(&mut self, set: LabelSetId) -> Sets {
        if let Some(known) = self.label_sets.get(&set) {
            return known.clone();
        }
        let (profile, labels) = (self.profile, self.profile.labels(set));
        let link = Link::of(profile, labels);
        let is_attribute = |label: &&Label| link.is_none() || !links::is_part(profile.string(label.key));
        let mut attributes = Vec::new();
        for (at, label) in labels.iter().enumerate().filter(|(_, label)| is_attribute(label)) {
            // The name of an attribute occurs once: the first value counts.
            let key = self.key(label);
            if labels[..at].iter().all(|before| self.key(before) != key) {
                attributes.push(self.label(label));
            }
        }
        let both = (attributes, link.map_or(0, |link| self.links.number(link)));
        self.label_sets.insert(set, both.clone());
        both
    }

    /// Returns the profile of one kind of value.
    fn profile(&mut self, number: usize, id: u128) -> Vec<u8> {
        let (profile, mut out) = (self.profile, MessageWriter::default());
        out.message(1, |out| self.write_value_type(profile.sample_types()[number], out));
        for sample in profile.samples().filter(|sample| sample.values[number] != 0) {
            let (labels, link) = self.labels(sample.labels);
            out.message(2, |out| {
                out.uint(1, sample.stack.index() as u64 + 1);
                out.packed(2, labels.iter().copied());
                out.uint(3, link);
                out.packed(4, std::iter::once(sample.values[number] as u64));
            });
        }
        let header = &profile.header;
        out.fixed64(3, u64::try_from(header.time_nanos).unwrap_or(0));
        out.uint(4, u64::try_from(header.duration_nanos).unwrap_or(0));
        if let Some(period_type) = header.period_type {
            out.message(5, |out| self.write_value_type(period_type, out));
        }
        out.int(6, header.period);
        // Each kind of value is a profile of its own.
        out.bytes(7, &id.wrapping_add(number as u128).to_be_bytes());
        out.into_bytes()
    }

    fn write(&mut self, out: &mut MessageWriter) {
        let profile = self.profile;
        self.write_mappings(out);
        self.write_locations(out);
        out.bytes(3, &[]);
        for function in profile.functions() {
            out.message(3, |out| {
                out.uint(1, self.string(function.name));
                out.uint(2, self.string(function.system_name));
                out.uint(3, self.string(function.filename));
                out.int(4, function.start_line.max(0));
            });
        }
        self.links.write(out);
        self.strings.iter().for_each(|text| out.bytes(5, text.as_bytes()));
        self.attributes.iter().for_each(|attribute| out.bytes(6, attribute));
        out.bytes(7, &[]);
        for at in 0..profile.stack_count() {
            let stack = profile.stack(StackId::from_index(at));
            out.message(7, |out| out.packed(1, stack.iter().map(|id| id.index() as u64 + 1)));
        }
    }

    fn write_mappings(&mut self, out: &mut MessageWriter) {
        let profile = self.profile;
        out.bytes(1, &[]);
        for (at, mapping) in profile.mappings().iter().enumerate() {
            if self.mappings[at] == 0 {
                continue;
            }
            let build_id = profile.string(mapping.build_id);
            let attribute = (!build_id.is_empty())
                .then(|| self.attribute(BUILD_ID, 0, |any| any.bytes(1, build_id.as_bytes())));
            // An empty range is written as unknown.
            let range = Some((mapping.start, mapping.limit)).filter(|(start, limit)| start < limit);
            let (start, limit) = range.unwrap_or_default();
            out.message(1, |out| {
                out.uint(1, start);
                out.uint(2, limit);
                out.uint(3, mapping.offset);
                out.uint(4, self.string(mapping.filename));
                out.packed(5, attribute.into_iter());
            });
        }
    }

    fn write_locations(&self, out: &mut MessageWriter) {
        let profile = self.profile;
        out.bytes(2, &[]);
        for location in profile.locations() {
            out.message(2, |out| {
                out.uint(1, location.mapping.map_or(0, |id| self.mappings[id.index()]));
                out.uint(2, location.address);
                for line in profile.lines_of(location) {
                    out.message(3, |out| {
                        out.uint(1, line.function.map_or(0, |id| id.index() as u64 + 1));
                        out.int(2, line.line.max(0));
                        out.int(3, line.column.max(0));
                    });
                }
            });
        }
    }

    fn write_value_type(&mut self, value_type: ValueType, out: &mut MessageWriter) {
        out.uint(1, self.string(value_type.kind));
        out.uint(2, self.string(value_type.unit));
    }
}

/// Returns the number of each mapping that a location is in, and 0 for the others.
fn mapping_numbers(profile: &Profile) -> Vec<u64> {
    let mut numbers = vec![0; profile.mappings().len()];
    profile.locations().iter().filter_map(|location| location.mapping).for_each(|id| numbers[id.index()] = 1);
    let mut count = 0;
    for number in numbers.iter_mut().filter(|number| **number > 0) {
        count += 1;
        *number = count;
    }
    numbers
}
