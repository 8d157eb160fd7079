//! OTLP's `ExportProfilesServiceRequest`, schema `v1development`, written straight from the columns of a profile.
//!
//! `flamelet-formats` also writes OTLP, as JSON and through a model that its reader needs; a service does not link that
//! crate.

use flamelet_profile::protobuf::MessageWriter;
use flamelet_profile::{Label, LabelSetId, Limits, Profile, Result, StackId, ValueType, pprof};
use rustc_hash::FxHashMap as HashMap;

use super::links::{self, Link, Links};
use super::{Series, parca};

const BUILD_ID: &str = "process.executable.build_id.gnu";

/// Returns the request, gzipped: one profile for each kind of value, and the tables that they share.
pub(super) fn body(profile: &Profile, series: &Series<'_>, id: u128) -> Result<Vec<u8>> {
    // A part of a profile has the tables of all of it, until it was written and read.
    if profile.sample_count() < profile.stack_count() {
        let part = pprof::decode(&pprof::encode(profile), &Limits::NONE)?;
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

/// The tables that all profiles of a request share. Mappings, functions, locations and stacks keep their rows, shifted
/// by entry 0, which stands for nothing; strings keep their numbers.
struct Tables<'a> {
    profile: &'a Profile,
    /// Strings that the profile does not have.
    further: Vec<&'a str>,
    /// Attributes in the order of their numbers, as messages, and their numbers.
    attributes: Vec<Vec<u8>>,
    numbers: HashMap<Vec<u8>, u64>,
    links: Links,
    label_sets: HashMap<LabelSetId, Sets>,
}

/// What a set of labels becomes: attributes, and the number of a link, 0 for none.
type Sets = (Vec<u64>, u64);

impl<'a> Tables<'a> {
    fn new(profile: &'a Profile) -> Self {
        Self {
            profile,
            further: Vec::new(),
            attributes: vec![Vec::new()],
            numbers: HashMap::default(),
            links: Links::default(),
            label_sets: HashMap::default(),
        }
    }

    /// Returns the number of a string.
    fn text(&mut self, text: &'a str) -> u64 {
        if let Some(id) = self.profile.strings().find(text) {
            return id.index() as u64;
        }
        let at = self.further.iter().position(|known| *known == text).unwrap_or_else(|| {
            self.further.push(text);
            self.further.len() - 1
        });
        (self.profile.strings().len() + at) as u64
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

    fn label(&mut self, label: &Label) -> u64 {
        let profile = self.profile;
        let key = match (profile.string(label.key), label.is_text()) {
            ("thread", true) => "thread.name",
            ("tid", false) => "thread.id",
            ("pid", false) => "process.pid",
            (key, _) => key,
        };
        if label.is_text() {
            let text = profile.string(label.text);
            return self.attribute(key, 0, |any| any.bytes(1, text.as_bytes()));
        }
        self.attribute(key, label.unit.index() as u64, |any| any.uint_of_oneof(3, label.number as u64))
    }

    /// Returns the attributes and the link of a set of labels. What the link says is no attribute.
    fn labels(&mut self, set: LabelSetId) -> Sets {
        if let Some(known) = self.label_sets.get(&set) {
            return known.clone();
        }
        let (profile, labels) = (self.profile, self.profile.labels(set));
        let link = Link::of(profile, labels);
        let is_attribute = |label: &&Label| link.is_none() || !links::is_part(profile.string(label.key));
        let attributes = labels.iter().filter(is_attribute).map(|label| self.label(label)).collect();
        let both = (attributes, link.map_or(0, |link| self.links.number(link)));
        self.label_sets.insert(set, both.clone());
        both
    }

    /// Returns the profile of one kind of value.
    fn profile(&mut self, number: usize, id: u128) -> Vec<u8> {
        let (profile, mut out) = (self.profile, MessageWriter::default());
        out.message(1, |out| write_value_type(profile.sample_types()[number], out));
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
            out.message(5, |out| write_value_type(period_type, out));
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
                out.uint(1, function.name.index() as u64);
                out.uint(2, function.system_name.index() as u64);
                out.uint(3, function.filename.index() as u64);
                out.int(4, function.start_line);
            });
        }
        self.links.write(out);
        profile.strings().iter().for_each(|text| out.bytes(5, text.as_bytes()));
        self.further.iter().for_each(|text| out.bytes(5, text.as_bytes()));
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
        for mapping in profile.mappings() {
            let build_id = profile.string(mapping.build_id);
            let attribute = (!build_id.is_empty())
                .then(|| self.attribute(BUILD_ID, 0, |any| any.bytes(1, build_id.as_bytes())));
            out.message(1, |out| {
                out.uint(1, mapping.start);
                out.uint(2, mapping.limit);
                out.uint(3, mapping.offset);
                out.uint(4, mapping.filename.index() as u64);
                out.packed(5, attribute.into_iter());
            });
        }
    }

    fn write_locations(&self, out: &mut MessageWriter) {
        let profile = self.profile;
        out.bytes(2, &[]);
        for location in profile.locations() {
            out.message(2, |out| {
                out.uint(1, location.mapping.map_or(0, |id| id.index() as u64 + 1));
                out.uint(2, location.address);
                for line in profile.lines_of(location) {
                    out.message(3, |out| {
                        out.uint(1, line.function.map_or(0, |id| id.index() as u64 + 1));
                        out.int(2, line.line);
                        out.int(3, line.column);
                    });
                }
            });
        }
    }
}

fn write_value_type(value_type: ValueType, out: &mut MessageWriter) {
    out.uint(1, value_type.kind.index() as u64);
    out.uint(2, value_type.unit.index() as u64);
}
