//! Decodes a pprof message into the columns of a [`Profile`].
//!
//! Samples come first in most files and name locations that come later, so a first walk reads the samples with the
//! numbers of the file and notes where the other fields are. Further walks visit those and fill the tables, and then
//! the samples get the rows of the tables instead of the file's numbers.

use super::runs::Runs;
use super::samples::SampleReader;
use super::schema;
use super::tables::{EventReader, IdMap, corrupt, row_number, string_at};
use crate::budget::hash_entry;
use crate::model::MOST_KNOWN_CRATES;
use crate::protobuf::{FieldValue, Fields, unzigzag};
use crate::{
    Budget, Error, ErrorKind, Function, FunctionId, Header, HeapSizes, KnownCrate, Line, Location, Mapping,
    MappingId, Observations, Observed, Profile, Quality, Result, StringId, StringTable, Thread, ThreadId,
    Timeline, ValueType,
};

/// Like [`decode`](super::decode), but charges its memory to `budget`; the caller accounts for `message`.
pub fn decode_within(message: &[u8], budget: &Budget) -> Result<Profile> {
    decode_rest(message, SampleReader::new(budget), budget)
}

/// Decodes a message of which `samples` were read already.
pub(super) fn decode_rest(message: &[u8], mut samples: SampleReader, budget: &Budget) -> Result<Profile> {
    if message.is_empty() && samples.is_empty() {
        return Err(Error::new(ErrorKind::Truncated, "the file is empty"));
    }
    let (counts, runs) = TableSizes::of(message, &mut samples)?;
    counts.check(&samples, budget)?;
    let (strings, string_ids) = read_strings(&runs, &counts, budget)?;
    let mut decoder = Decoder {
        budget,
        strings: &string_ids,
        profile: Profile { strings, ..Profile::default() },
        mapping_ids: IdMap::new("mapping"),
        function_ids: IdMap::new("function"),
        location_ids: IdMap::new("location"),
        crates_read: 0,
    };
    decoder.tables(&runs, &counts)?;
    samples.finish(&decoder.location_ids, &string_ids, &mut decoder.profile)?;
    decoder.extensions(&runs)?;
    Ok(decoder.profile)
}

/// Returns whether `bytes` could be the start of a bare pprof message. Cheap, and wrong only for unusual files.
pub fn looks_like_pprof(bytes: &[u8]) -> bool {
    if is_text(&bytes[..bytes.len().min(256)]) {
        return false;
    }
    let mut fields = Fields::new(bytes);
    for known in 0..8 {
        match fields.next() {
            Ok(Some((number, value))) if is_plausible(number, value) => {}
            Ok(None) => return known > 0,
            // The input is cut off, but everything before made sense.
            Err(error) if error.kind() == ErrorKind::Truncated => return known > 0,
            Ok(Some(_)) | Err(_) => return false,
        }
    }
    true
}

/// Returns whether `bytes` are text. Messages contain short lengths and numbers, which are control characters; text
/// does not.
fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte >= b' ' || matches!(byte, b'\t' | b'\n' | b'\r'))
}

fn is_plausible(number: u32, value: FieldValue<'_>) -> bool {
    match value {
        FieldValue::Bytes(_) => {
            matches!(
                number,
                1..=6
                    | 11
                    | 13
                    | schema::profile::TIMELINE
                    | schema::profile::QUALITY
                    | schema::profile::OBSERVATIONS
                    | schema::profile::KNOWN_CRATE
            )
        }
        FieldValue::Varint(_) => matches!(number, 7..=10 | 12..=15),
        FieldValue::Fixed64(_) | FieldValue::Fixed32(_) => false,
    }
}

/// Returns whether a field is a row of one of the large tables.
fn is_row(number: u32) -> bool {
    matches!(number, schema::profile::SAMPLE | schema::profile::LOCATION | schema::profile::STRING_TABLE)
}

/// How many rows the tables will have besides the samples, checked before anything is allocated.
#[derive(Default)]
struct TableSizes {
    sample_types: usize,
    mappings: usize,
    locations: usize,
    functions: usize,
    strings: usize,
    string_bytes: usize,
}

impl TableSizes {
    /// Counts the fields, notes where they are, and reads the samples among them.
    fn of<'m>(message: &'m [u8], samples: &mut SampleReader) -> Result<(Self, Runs<'m>)> {
        let (mut counts, mut runs) = (Self::default(), Runs::new(message));
        let mut fields = Fields::new(message);
        let mut start = 0;
        while let Some((number, value)) = fields.next()? {
            runs.add(number, start);
            start = message.len() - fields.rest().len();
            match number {
                schema::profile::SAMPLE_TYPE => counts.sample_types += 1,
                schema::profile::SAMPLE => samples.add(value.bytes()?)?,
                schema::profile::MAPPING => counts.mappings += 1,
                schema::profile::LOCATION => counts.locations += 1,
                schema::profile::FUNCTION => counts.functions += 1,
                schema::profile::STRING_TABLE => {
                    counts.strings += 1;
                    counts.string_bytes += value.bytes()?.len();
                }
                _ => {}
            }
        }
        Ok((counts, runs))
    }

    /// Charges the tables that have one row per message; repeated fields inside these are charged as they are read.
    fn check(&self, samples: &SampleReader, budget: &Budget) -> Result<()> {
        // The end of the text, the id by its number in the file, and the entry in the index.
        const STRING: usize = size_of::<(u32, StringId)>() + hash_entry(size_of::<StringId>());
        budget.charge(
            self.sample_types * size_of::<ValueType>()
                + self.mappings * size_of::<Mapping>()
                + self.locations * size_of::<Location>()
                + self.functions * size_of::<Function>()
                + self.strings * STRING
                + self.string_bytes,
        )?;
        let rows = [self.mappings, self.locations, self.functions, self.strings];
        // Invalid UTF-8 takes up to three times its size once it is replaced.
        let text = self.string_bytes.saturating_mul(3);
        if !rows.into_iter().chain([text]).all(|rows| budget.has_ids(rows)) {
            budget.check()?;
        }
        if self.sample_types == 0 && !samples.is_empty() {
            return Err(corrupt("has samples but no sample types"));
        }
        if self.sample_types + self.strings == 0 && samples.is_empty() {
            return Err(Error::new(ErrorKind::WrongFormat, "not a pprof profile: it has no pprof field"));
        }
        Ok(())
    }
}

fn read_strings(
    runs: &Runs<'_>,
    counts: &TableSizes,
    budget: &Budget,
) -> Result<(StringTable, Vec<StringId>)> {
    let mut table = StringTable::with_capacity(counts.strings, counts.string_bytes);
    let mut ids = Vec::with_capacity(counts.strings);
    for mut fields in runs.with(|number| number == schema::profile::STRING_TABLE) {
        while let Some((number, value)) = fields.next()? {
            if number != schema::profile::STRING_TABLE {
                continue;
            }
            let bytes = value.bytes()?;
            ids.push(match std::str::from_utf8(bytes) {
                Ok(text) => table.intern(text),
                Err(_) => {
                    // Each invalid byte becomes a three-byte character, in this copy and in the table.
                    budget.charge(bytes.len().saturating_mul(6))?;
                    table.intern(&String::from_utf8_lossy(bytes))
                }
            });
        }
    }
    if ids.first().is_some_and(|first| !first.is_empty()) {
        return Err(corrupt("its string table does not start with the empty string"));
    }
    Ok((table, ids))
}

struct Decoder<'a> {
    budget: &'a Budget,
    strings: &'a [StringId],
    profile: Profile,
    mapping_ids: IdMap,
    function_ids: IdMap,
    location_ids: IdMap,
    crates_read: usize,
}

impl Decoder<'_> {
    fn string(&self, value: FieldValue<'_>) -> Result<StringId> {
        string_at(self.strings, value.uint()?)
    }

    fn tables(&mut self, runs: &Runs<'_>, counts: &TableSizes) -> Result<()> {
        self.profile.functions.reserve_exact(counts.functions);
        self.profile.locations.reserve_exact(counts.locations);
        self.profile.lines.reserve(counts.locations);
        // Functions and mappings are read before the locations that name them, whatever their order in the file.
        for mut fields in runs.with(|number| !is_row(number)) {
            while let Some((number, value)) = fields.next()? {
                match number {
                    schema::profile::FUNCTION => self.function(value.bytes()?)?,
                    schema::profile::MAPPING => self.mapping(value.bytes()?)?,
                    number if is_row(number) => {}
                    _ => self.header_field(number, value)?,
                }
            }
        }
        for mut fields in runs.with(|number| number == schema::profile::LOCATION) {
            while let Some((number, value)) = fields.next()? {
                if number == schema::profile::LOCATION {
                    self.location(value.bytes()?)?;
                }
            }
        }
        Ok(())
    }

    fn header_field(&mut self, number: u32, value: FieldValue<'_>) -> Result<()> {
        match number {
            schema::profile::SAMPLE_TYPE => {
                let value_type = self.value_type(value.bytes()?)?;
                self.profile.sample_types.push(value_type);
            }
            schema::profile::PERIOD_TYPE => {
                self.profile.header.period_type = Some(self.value_type(value.bytes()?)?);
            }
            schema::profile::COMMENT => {
                let (strings, comments) = (self.strings, &mut self.profile.header.comments);
                self.budget.charge(value.count() * size_of::<StringId>())?;
                value.each_uint(|index| {
                    let id = usize::try_from(index).ok().and_then(|index| strings.get(index));
                    comments.push(*id.ok_or_else(|| corrupt(format!("refers to string {index}")))?);
                    Ok(())
                })?;
            }
            schema::profile::DROP_FRAMES => self.profile.header.drop_frames = self.string(value)?,
            schema::profile::KEEP_FRAMES => self.profile.header.keep_frames = self.string(value)?,
            schema::profile::DEFAULT_SAMPLE_TYPE => {
                self.profile.header.default_sample_type = self.string(value)?;
            }
            schema::profile::DOC_URL => self.profile.header.doc_url = self.string(value)?,
            _ => number_field(&mut self.profile.header, number, value)?,
        }
        Ok(())
    }

    fn value_type(&self, message: &[u8]) -> Result<ValueType> {
        let mut value_type = ValueType::default();
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                schema::value_type::TYPE => value_type.kind = self.string(value)?,
                schema::value_type::UNIT => value_type.unit = self.string(value)?,
                _ => {}
            }
        }
        Ok(value_type)
    }

    fn function(&mut self, message: &[u8]) -> Result<()> {
        let mut function = Function::default();
        let mut id = 0;
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                schema::function::ID => id = value.uint()?,
                schema::function::NAME => function.name = self.string(value)?,
                schema::function::SYSTEM_NAME => function.system_name = self.string(value)?,
                schema::function::FILENAME => function.filename = self.string(value)?,
                schema::function::START_LINE => function.start_line = value.int()?,
                _ => {}
            }
        }
        self.function_ids.push(id, self.budget)?;
        self.profile.functions.push(function);
        Ok(())
    }

    fn mapping(&mut self, message: &[u8]) -> Result<()> {
        let mut mapping = Mapping::default();
        let mut id = 0;
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                schema::mapping::ID => id = value.uint()?,
                schema::mapping::MEMORY_START => mapping.start = value.uint()?,
                schema::mapping::MEMORY_LIMIT => mapping.limit = value.uint()?,
                schema::mapping::FILE_OFFSET => mapping.offset = value.uint()?,
                schema::mapping::FILENAME => mapping.filename = self.string(value)?,
                schema::mapping::BUILD_ID => mapping.build_id = self.string(value)?,
                schema::mapping::HAS_FUNCTIONS => mapping.symbols.functions = value.bool()?,
                schema::mapping::HAS_FILENAMES => mapping.symbols.filenames = value.bool()?,
                schema::mapping::HAS_LINE_NUMBERS => mapping.symbols.line_numbers = value.bool()?,
                schema::mapping::HAS_INLINE_FRAMES => mapping.symbols.inline_frames = value.bool()?,
                _ => {}
            }
        }
        self.mapping_ids.push(id, self.budget)?;
        self.profile.mappings.push(mapping);
        Ok(())
    }

    fn location(&mut self, message: &[u8]) -> Result<()> {
        let first_line = self.profile.lines.len();
        let mut location = Location { first_line: row_number(first_line)?, ..Location::default() };
        let mut id = 0;
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                schema::location::ID => id = value.uint()?,
                schema::location::MAPPING_ID => {
                    location.mapping = self.mapping_ids.optional(value.uint()?)?.map(MappingId::from_index);
                }
                schema::location::ADDRESS => location.address = value.uint()?,
                schema::location::LINE => {
                    let line = self.line(value.bytes()?)?;
                    self.budget.charge(size_of::<Line>())?;
                    self.profile.lines.push(line);
                }
                schema::location::IS_FOLDED => location.is_folded = value.bool()?,
                _ => {}
            }
        }
        location.line_count = row_number(self.profile.lines.len() - first_line)?;
        self.location_ids.push(id, self.budget)?;
        self.profile.locations.push(location);
        Ok(())
    }

    fn line(&self, message: &[u8]) -> Result<Line> {
        let mut line = Line::default();
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                schema::line::FUNCTION_ID => {
                    line.function = self.function_ids.optional(value.uint()?)?.map(FunctionId::from_index);
                }
                schema::line::LINE => line.line = value.int()?,
                schema::line::COLUMN => line.column = value.int()?,
                _ => {}
            }
        }
        Ok(line)
    }

    fn extensions(&mut self, runs: &Runs<'_>) -> Result<()> {
        for mut fields in runs.with(|number| !is_row(number)) {
            while let Some((number, value)) = fields.next()? {
                self.extension(number, value)?;
            }
        }
        if self.profile.quality.is_some() {
            // The comment lines are generated again from the quality when the profile is written.
            let strings = &self.profile.strings;
            self.profile.header.comments.retain(|&id| !Quality::wrote(strings.get(id)));
        }
        Ok(())
    }

    fn extension(&mut self, number: u32, value: FieldValue<'_>) -> Result<()> {
        match number {
            schema::profile::TIMELINE => self.profile.timeline = Some(self.timeline(value.bytes()?)?),
            schema::profile::QUALITY => self.profile.quality = Some(self.quality(value.bytes()?)?),
            schema::profile::OBSERVATIONS => {
                self.profile.observations = Some(self.observations(value.bytes()?)?);
            }
            schema::profile::HEAP_SIZES => {
                let sizes = self.heap_sizes(value.bytes()?)?;
                self.profile.set_heap_sizes(sizes);
            }
            schema::profile::KNOWN_CRATE if self.crates_read < MOST_KNOWN_CRATES => {
                let known = self.known_crate(value.bytes()?)?;
                self.crates_read += 1;
                self.profile.know_crate(known);
            }
            _ => {}
        }
        Ok(())
    }

    fn timeline(&self, message: &[u8]) -> Result<Timeline> {
        let mut timeline = Timeline::default();
        let mut events = EventReader { budget: self.budget, events: Vec::new() };
        let [mut times, mut samples, mut threads, mut values] = [0; 4];
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                schema::timeline::START_NANOS => timeline.start_nanos = value.int()?,
                schema::timeline::THREAD => {
                    self.budget.charge(size_of::<Thread>())?;
                    timeline.threads.push(self.thread(value.bytes()?)?);
                }
                schema::timeline::TIME_DELTA => {
                    events.fill(value, &mut times, |event, delta| event.time = delta)?;
                }
                schema::timeline::SAMPLE => events.fill(value, &mut samples, |event, row| {
                    event.sample = u32::try_from(row).unwrap_or(u32::MAX);
                })?,
                schema::timeline::EVENT_THREAD => events.fill(value, &mut threads, |event, row| {
                    event.thread = ThreadId::from_index(u32::try_from(row).unwrap_or(u32::MAX) as usize);
                })?,
                schema::timeline::VALUE => {
                    events.fill(value, &mut values, |event, value| event.value = unzigzag(value))?;
                }
                schema::timeline::VALUE_TYPE => timeline.value_type = value.uint()? as usize,
                _ => {}
            }
        }
        let events = &mut events.events;
        let fits = [times, samples, threads] == [events.len(); 3]
            && (values == 0 || values == events.len())
            && timeline.value_type < self.profile.sample_types.len().max(1)
            && events.iter().all(|event| (event.sample as usize) < self.profile.sample_count())
            && events.iter().all(|event| event.thread.index() < timeline.threads.len());
        if !fits {
            return Err(corrupt("its timeline does not fit its samples"));
        }
        let mut time = 0u64;
        for event in &mut *events {
            time = time.saturating_add(event.time);
            event.time = time;
        }
        timeline.events = std::mem::take(events);
        Ok(timeline)
    }

    fn observations(&self, message: &[u8]) -> Result<Observations> {
        let (mut value_type, mut counts, mut squares) = (0, Vec::new(), Vec::new());
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                schema::observations::VALUE_TYPE => value_type = value.uint()? as usize,
                schema::observations::COUNT => {
                    self.budget.charge(value.count() * size_of::<Observed>())?;
                    value.each_uint(|count| {
                        counts.push(Observed { count: count as f64, squares: 0.0 });
                        Ok(())
                    })?;
                }
                schema::observations::SQUARES => {
                    let column = value.fixed64s()?;
                    self.budget.charge(column.size_hint().0 * size_of::<f64>())?;
                    squares.extend(column.map(f64::from_bits));
                }
                _ => {}
            }
        }
        let profile = &self.profile;
        let fits = counts.len() == profile.sample_count()
            && (squares.is_empty() || squares.len() == counts.len())
            && squares.iter().all(|square| square.is_finite() && *square >= 0.0)
            && value_type < profile.sample_types.len().max(1);
        if !fits {
            return Err(corrupt("its observations do not fit its samples"));
        }
        for (row, observed) in counts.iter_mut().enumerate() {
            observed.squares = match squares.get(row) {
                Some(&squares) => squares,
                None => {
                    Observed::equal(observed.count, profile.sample(row).values[value_type] as f64).squares
                }
            };
        }
        Ok(Observations { value_type, rows: counts })
    }

    fn thread(&self, message: &[u8]) -> Result<Thread> {
        let mut thread = Thread::default();
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                schema::thread::PID => thread.pid = value.uint()?,
                schema::thread::TID => thread.tid = value.uint()?,
                schema::thread::NAME => thread.name = self.string(value)?,
                schema::thread::PROCESS => thread.process = self.string(value)?,
                _ => {}
            }
        }
        Ok(thread)
    }

    fn heap_sizes(&self, message: &[u8]) -> Result<HeapSizes> {
        let (mut times, mut bytes) = (Vec::new(), Vec::new());
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            let column = match number {
                schema::heap_sizes::TIME_DELTA => &mut times,
                schema::heap_sizes::BYTES => &mut bytes,
                _ => continue,
            };
            self.budget.charge(value.count() * size_of::<u64>())?;
            value.each_uint(|number| {
                column.push(number);
                Ok(())
            })?;
        }
        if times.len() != bytes.len() {
            return Err(corrupt("its heap sizes do not fit their times"));
        }
        let mut sizes = HeapSizes::default();
        let mut time = 0u64;
        for (delta, bytes) in times.into_iter().zip(bytes) {
            time = time.saturating_add(delta);
            sizes.push(time, bytes);
        }
        Ok(sizes)
    }

    fn known_crate(&self, message: &[u8]) -> Result<KnownCrate> {
        let (mut name, mut version, mut is_yours) = (StringId::EMPTY, StringId::EMPTY, false);
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                schema::known_crate::NAME => name = self.string(value)?,
                schema::known_crate::VERSION => version = self.string(value)?,
                schema::known_crate::IS_YOURS => is_yours = value.bool()?,
                _ => {}
            }
        }
        self.budget.charge(size_of::<KnownCrate>())?;
        Ok(KnownCrate { name, version, is_yours })
    }

    fn quality(&self, message: &[u8]) -> Result<Quality> {
        let mut quality = Quality::default();
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                schema::quality::ENGINE => quality.engine = self.string(value)?,
                schema::quality::ASKED_MILLIHERTZ => quality.asked_millihertz = value.uint()?,
                schema::quality::ACHIEVED_MILLIHERTZ => quality.achieved_millihertz = value.uint()?,
                schema::quality::SAMPLES => quality.samples = value.uint()?,
                schema::quality::LOST => quality.lost = value.uint()?,
                schema::quality::TRUNCATED => quality.truncated = value.uint()?,
                schema::quality::UNRESOLVED => quality.unresolved = value.uint()?,
                schema::quality::OWN_CPU_NANOS => quality.own_cpu_nanos = value.uint()?,
                _ => {}
            }
        }
        Ok(quality)
    }
}

fn number_field(header: &mut Header, number: u32, value: FieldValue<'_>) -> Result<()> {
    match number {
        schema::profile::TIME_NANOS => header.time_nanos = value.int()?,
        schema::profile::DURATION_NANOS => header.duration_nanos = value.int()?,
        schema::profile::PERIOD => header.period = value.int()?,
        _ => {}
    }
    Ok(())
}
