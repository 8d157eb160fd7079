//! Encodes a [`Profile`] as a pprof message: equal profiles give equal bytes.

use std::io::Write;

use super::schema;
use crate::protobuf::{MessageWriter, zigzag};
use crate::{
    HeapSize, KnownCrate, Label, LocationId, Observations, Profile, Quality, Result, Sample, StringId,
    StringTable, Timeline, ValueType,
};

/// Writes `profile` to `out`, gzipped as `go tool pprof` and all scrapers expect.
pub fn write_gzip(profile: &Profile, out: impl Write) -> Result<()> {
    let mut gzip = flate2::GzBuilder::new().mtime(0).write(out, flate2::Compression::new(5));
    gzip.write_all(&encode(profile))?;
    gzip.finish()?.flush()?;
    Ok(())
}

/// Writes `profile` to `out` as a bare message.
pub fn write(profile: &Profile, mut out: impl Write) -> Result<()> {
    out.write_all(&encode(profile))?;
    out.flush()?;
    Ok(())
}

/// Returns the bare pprof message of `profile`.
///
/// It contains only what samples use, and all mappings. Rows are numbered in the order of their first use and strings
/// in the order of their first mention, so the bytes depend only on the samples and the header.
pub fn encode(profile: &Profile) -> Vec<u8> {
    Encoder::new(profile).run()
}

/// Numbers rows in the order of their first use.
struct Renumber {
    ids: Vec<u32>,
    order: Vec<u32>,
}

impl Renumber {
    fn new(rows: usize) -> Self {
        Self { ids: vec![0; rows], order: Vec::new() }
    }

    /// Returns the id of `row` in the file; ids start at 1.
    fn id(&mut self, row: usize) -> u64 {
        if self.ids[row] == 0 {
            self.order.push(row as u32);
            self.ids[row] = self.order.len() as u32;
        }
        u64::from(self.ids[row])
    }
}

struct Encoder<'a> {
    profile: &'a Profile,
    out: MessageWriter,
    part: MessageWriter,
    inner: MessageWriter,
    strings: Renumber,
    mappings: Renumber,
    locations: Renumber,
    functions: Renumber,
}

impl<'a> Encoder<'a> {
    fn new(profile: &'a Profile) -> Self {
        let frames = profile.stacks.items.len();
        Self {
            profile,
            out: MessageWriter::with_capacity(frames * 2 + profile.sample_count() * 12 + 4096),
            part: MessageWriter::default(),
            inner: MessageWriter::default(),
            strings: Renumber::new(profile.strings.len()),
            mappings: Renumber::new(profile.mappings.len()),
            locations: Renumber::new(profile.locations.len()),
            functions: Renumber::new(profile.functions.len()),
        }
    }

    fn run(mut self) -> Vec<u8> {
        let profile = self.profile;
        self.strings.id(0);
        for &value_type in &profile.sample_types {
            self.value_type(schema::profile::SAMPLE_TYPE, value_type);
        }
        // All mappings keep their place: the first is the main binary by convention, and the others say what
        // was loaded even where nothing was sampled.
        for row in 0..profile.mappings.len() {
            self.mappings.id(row);
        }
        for sample in profile.samples() {
            self.sample(sample);
        }
        // Locations name mappings and functions, so those are complete only after the locations.
        let locations = std::mem::take(&mut self.locations.order);
        let mut location_bytes = MessageWriter::default();
        std::mem::swap(&mut self.out, &mut location_bytes);
        for (at, &row) in locations.iter().enumerate() {
            self.location(at as u64 + 1, LocationId::from_index(row as usize));
        }
        std::mem::swap(&mut self.out, &mut location_bytes);
        for (at, row) in std::mem::take(&mut self.mappings.order).into_iter().enumerate() {
            self.mapping(at as u64 + 1, row as usize);
        }
        self.out.append(location_bytes.as_bytes());
        for (at, row) in std::mem::take(&mut self.functions.order).into_iter().enumerate() {
            self.function(at as u64 + 1, row as usize);
        }
        self.header();
        if let Some(timeline) = &profile.timeline {
            self.timeline(timeline);
        }
        if let Some(quality) = &profile.quality {
            self.quality(quality);
        }
        if let Some(observations) = &profile.observations {
            self.observations(observations);
        }
        for known in &profile.known_crates {
            self.known_crate(known);
        }
        if !profile.heap_sizes.is_empty() {
            self.heap_sizes(&profile.heap_sizes);
        }
        self.finish()
    }

    /// Writes the string table last, since all strings are known only then. The quality's comment lines are not in
    /// the profile's own table, so they follow it.
    fn finish(mut self) -> Vec<u8> {
        let table: &StringTable = &self.profile.strings;
        for &row in &self.strings.order {
            let text = table.get(StringId::from_index(row as usize));
            self.out.bytes(schema::profile::STRING_TABLE, text.as_bytes());
        }
        if let Some(quality) = &self.profile.quality {
            let next = self.strings.order.len() as u64;
            let lines = quality.comment_lines(table.get(quality.engine));
            for line in &lines {
                self.out.bytes(schema::profile::STRING_TABLE, line.as_bytes());
            }
            self.out.packed(schema::profile::COMMENT, next..next + lines.len() as u64);
        }
        self.out.into_bytes()
    }

    fn string(&mut self, id: StringId) -> u64 {
        // Id 1 is the empty string, which the file numbers 0.
        self.strings.id(id.index()) - 1
    }

    fn value_type(&mut self, number: u32, value_type: ValueType) {
        let (kind, unit) = (self.string(value_type.kind), self.string(value_type.unit));
        self.part.clear();
        self.part.uint(schema::value_type::TYPE, kind);
        self.part.uint(schema::value_type::UNIT, unit);
        self.out.bytes(number, self.part.as_bytes());
    }

    fn sample(&mut self, sample: Sample<'_>) {
        let profile = self.profile;
        self.part.clear();
        let stack = profile.stack(sample.stack);
        for &location in stack {
            self.locations.id(location.index());
        }
        let ids = &self.locations.ids;
        self.part.packed(
            schema::sample::LOCATION_ID,
            stack.iter().map(|location| u64::from(ids[location.index()])),
        );
        self.part.packed(schema::sample::VALUE, sample.values.iter().map(|&value| value as u64));
        for &label in profile.labels(sample.labels) {
            self.label(label);
        }
        self.out.bytes(schema::profile::SAMPLE, self.part.as_bytes());
    }

    fn label(&mut self, label: Label) {
        let (key, text, unit) = (self.string(label.key), self.string(label.text), self.string(label.unit));
        self.inner.clear();
        self.inner.uint(schema::label::KEY, key);
        self.inner.uint(schema::label::STR, text);
        self.inner.int(schema::label::NUM, label.number);
        self.inner.uint(schema::label::NUM_UNIT, unit);
        self.part.bytes(schema::sample::LABEL, self.inner.as_bytes());
    }

    fn location(&mut self, id: u64, row: LocationId) {
        let profile = self.profile;
        let location = profile.location(row);
        let mapping = location.mapping.map_or(0, |mapping| self.mappings.id(mapping.index()));
        self.part.clear();
        self.part.uint(schema::location::ID, id);
        self.part.uint(schema::location::MAPPING_ID, mapping);
        self.part.uint(schema::location::ADDRESS, location.address);
        for line in profile.lines(row) {
            let function = line.function.map_or(0, |function| self.functions.id(function.index()));
            self.inner.clear();
            self.inner.uint(schema::line::FUNCTION_ID, function);
            self.inner.int(schema::line::LINE, line.line);
            self.inner.int(schema::line::COLUMN, line.column);
            self.part.bytes(schema::location::LINE, self.inner.as_bytes());
        }
        self.part.bool(schema::location::IS_FOLDED, location.is_folded);
        self.out.bytes(schema::profile::LOCATION, self.part.as_bytes());
    }

    fn mapping(&mut self, id: u64, row: usize) {
        let mapping = self.profile.mappings[row];
        let (filename, build_id) = (self.string(mapping.filename), self.string(mapping.build_id));
        self.part.clear();
        self.part.uint(schema::mapping::ID, id);
        self.part.uint(schema::mapping::MEMORY_START, mapping.start);
        self.part.uint(schema::mapping::MEMORY_LIMIT, mapping.limit);
        self.part.uint(schema::mapping::FILE_OFFSET, mapping.offset);
        self.part.uint(schema::mapping::FILENAME, filename);
        self.part.uint(schema::mapping::BUILD_ID, build_id);
        self.part.bool(schema::mapping::HAS_FUNCTIONS, mapping.symbols.functions);
        self.part.bool(schema::mapping::HAS_FILENAMES, mapping.symbols.filenames);
        self.part.bool(schema::mapping::HAS_LINE_NUMBERS, mapping.symbols.line_numbers);
        self.part.bool(schema::mapping::HAS_INLINE_FRAMES, mapping.symbols.inline_frames);
        self.out.bytes(schema::profile::MAPPING, self.part.as_bytes());
    }

    fn function(&mut self, id: u64, row: usize) {
        let function = self.profile.functions[row];
        let name = self.string(function.name);
        let system_name = self.string(function.system_name);
        let filename = self.string(function.filename);
        self.part.clear();
        self.part.uint(schema::function::ID, id);
        self.part.uint(schema::function::NAME, name);
        self.part.uint(schema::function::SYSTEM_NAME, system_name);
        self.part.uint(schema::function::FILENAME, filename);
        self.part.int(schema::function::START_LINE, function.start_line);
        self.out.bytes(schema::profile::FUNCTION, self.part.as_bytes());
    }

    fn header(&mut self) {
        let header = &self.profile.header;
        let drop_frames = self.string(header.drop_frames);
        let keep_frames = self.string(header.keep_frames);
        self.out.uint(schema::profile::DROP_FRAMES, drop_frames);
        self.out.uint(schema::profile::KEEP_FRAMES, keep_frames);
        self.out.int(schema::profile::TIME_NANOS, header.time_nanos);
        self.out.int(schema::profile::DURATION_NANOS, header.duration_nanos);
        if let Some(period_type) = header.period_type {
            self.value_type(schema::profile::PERIOD_TYPE, period_type);
        }
        self.out.int(schema::profile::PERIOD, header.period);
        let comments: Vec<u64> = header.comments.iter().map(|&id| self.string(id)).collect();
        self.out.packed(schema::profile::COMMENT, comments.into_iter());
        let default_sample_type = self.string(header.default_sample_type);
        let doc_url = self.string(header.doc_url);
        self.out.uint(schema::profile::DEFAULT_SAMPLE_TYPE, default_sample_type);
        self.out.uint(schema::profile::DOC_URL, doc_url);
    }

    fn timeline(&mut self, timeline: &Timeline) {
        self.part.clear();
        self.part.int(schema::timeline::START_NANOS, timeline.start_nanos);
        for thread in &timeline.threads {
            let (name, process) = (self.string(thread.name), self.string(thread.process));
            self.inner.clear();
            self.inner.uint(schema::thread::PID, thread.pid);
            self.inner.uint(schema::thread::TID, thread.tid);
            self.inner.uint(schema::thread::NAME, name);
            self.inner.uint(schema::thread::PROCESS, process);
            self.part.bytes(schema::timeline::THREAD, self.inner.as_bytes());
        }
        let events = &timeline.events;
        let deltas = (0..events.len()).map(|at| {
            let before = if at == 0 { 0 } else { events[at - 1].time };
            events[at].time.saturating_sub(before)
        });
        self.part.packed(schema::timeline::TIME_DELTA, deltas);
        self.part.packed(schema::timeline::SAMPLE, events.iter().map(|event| u64::from(event.sample)));
        self.part
            .packed(schema::timeline::EVENT_THREAD, events.iter().map(|event| event.thread.index() as u64));
        if events.iter().any(|event| event.value != 1) {
            self.part.packed(schema::timeline::VALUE, events.iter().map(|event| zigzag(event.value)));
        }
        self.part.uint(schema::timeline::VALUE_TYPE, timeline.value_type as u64);
        self.out.bytes(schema::profile::TIMELINE, self.part.as_bytes());
    }

    fn observations(&mut self, observations: &Observations) {
        let (profile, rows) = (self.profile, &observations.rows);
        self.part.clear();
        self.part.uint(schema::observations::VALUE_TYPE, observations.value_type as u64);
        self.part.packed(schema::observations::COUNT, rows.iter().map(|row| row.count.round() as u64));
        if !observations.has_equal_weights(|row| profile.sample(row).values[observations.value_type]) {
            let squares: Vec<u64> = rows.iter().map(|row| row.squares.to_bits()).collect();
            self.part.packed_fixed64(schema::observations::SQUARES, &squares);
        }
        self.out.bytes(schema::profile::OBSERVATIONS, self.part.as_bytes());
    }

    fn heap_sizes(&mut self, sizes: &[HeapSize]) {
        let before = std::iter::once(0).chain(sizes.iter().map(|size| size.time));
        let deltas = sizes.iter().zip(before).map(|(size, before)| size.time.saturating_sub(before));
        self.part.clear();
        self.part.packed(schema::heap_sizes::TIME_DELTA, deltas);
        self.part.packed(schema::heap_sizes::BYTES, sizes.iter().map(|size| size.bytes));
        self.out.bytes(schema::profile::HEAP_SIZES, self.part.as_bytes());
    }

    fn known_crate(&mut self, known: &KnownCrate) {
        let (name, version) = (self.string(known.name), self.string(known.version));
        self.part.clear();
        self.part.uint(schema::known_crate::NAME, name);
        self.part.uint(schema::known_crate::VERSION, version);
        self.part.bool(schema::known_crate::IS_YOURS, known.is_yours);
        self.out.bytes(schema::profile::KNOWN_CRATE, self.part.as_bytes());
    }

    fn quality(&mut self, quality: &Quality) {
        let engine = self.string(quality.engine);
        self.part.clear();
        self.part.uint(schema::quality::ENGINE, engine);
        self.part.uint(schema::quality::ASKED_MILLIHERTZ, quality.asked_millihertz);
        self.part.uint(schema::quality::ACHIEVED_MILLIHERTZ, quality.achieved_millihertz);
        self.part.uint(schema::quality::SAMPLES, quality.samples);
        self.part.uint(schema::quality::LOST, quality.lost);
        self.part.uint(schema::quality::TRUNCATED, quality.truncated);
        self.part.uint(schema::quality::UNRESOLVED, quality.unresolved);
        self.part.uint(schema::quality::OWN_CPU_NANOS, quality.own_cpu_nanos);
        self.out.bytes(schema::profile::QUALITY, self.part.as_bytes());
    }
}
