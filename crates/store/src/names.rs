//! Names of functions, kept for each build so that its profiles can be read after it was replaced.
//!
//! A names file belongs to one build id. It has the same records as a segment, and each adds names of code that
//! occurred in windows: the offset in the file, and the functions there with the inlined ones. The name of the file
//! ends with the number of the last segment that has code of the build; it is removed together with that segment.

use std::collections::{HashMap, HashSet};
use std::{fs, io};

use flamelet_profile::protobuf::{FieldValue, Fields, MessageWriter, unzigzag, zigzag};
use flamelet_profile::{
    Budget, Error, ErrorKind, Function, Limits, Line, Location, LocationId, Mapping, MappingSymbols, Profile,
    ProfileBuilder, Relabel, Result, StringId,
};
use rustc_hash::FxBuildHasher;

use crate::files::folder::{HistoryFolder, NamesFile};
use crate::files::sys;
use crate::segment::record::{self, Effort, Records};

const HEADER: &[u8; 20] = b"flamelet names 1\r\n\0\0";
/// Code places of one build whose names are kept at most.
const MAX_PLACES: usize = 200_000;

/// The fields of a record of names.
mod field {
    /// New strings of this record; number 0 is the first.
    pub(super) const STRING: u32 = 1;
    /// Offsets in the file, sorted, each as the difference to the one before.
    pub(super) const OFFSETS: u32 = 2;
    /// How many functions are at each offset.
    pub(super) const COUNTS: u32 = 3;
    /// For each function: name, mangled name, source file, first line, line, column (zigzag).
    pub(super) const LINES: u32 = 4;
}

/// The fields of a function.
const WIDTH: usize = 6;

type Offsets = HashSet<u64, FxBuildHasher>;

/// Code places whose names are looked up at a time. What a lookup takes, with the names that it finds, is in memory then.
const MAX_AT_ONCE: usize = 2048;
/// Mappings of a build that are compared with a new one.
const MAPPINGS: usize = 64;

/// What a writer knows about the names of each build.
#[derive(Debug, Default)]
pub(crate) struct BuildNames {
    builds: HashMap<String, Build>,
}

#[derive(Debug, Default)]
struct Build {
    /// The code places that have names in the file, or for which they were asked.
    seen: Offsets,
    /// The mappings in which code of the build occurred.
    mappings: Vec<MappedBuild>,
    /// Places for which names are still wanted: an address, and the number of the mapping that holds it.
    wanted: Vec<(u64, u32)>,
    /// The last segment that has code of this build.
    segment: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct MappedBuild {
    start: u64,
    limit: u64,
    offset: u64,
    filename: String,
}

impl BuildNames {
    /// Takes note of the code in a window that was written to segment `segment`.
    pub(crate) fn see(&mut self, folder: &HistoryFolder, profile: &Profile, segment: u64) {
        for mapping in profile.mappings().iter().filter(|mapping| !mapping.build_id.is_empty()) {
            self.use_in(folder, profile.string(mapping.build_id), segment);
        }
        for location in profile.locations() {
            let Some(mapping) = location.mapping.map(|id| profile.mapping(id)) else { continue };
            if !(mapping.start..mapping.limit).contains(&location.address) {
                continue;
            }
            let Some(build) = self.builds.get_mut(profile.string(mapping.build_id)) else { continue };
            let offset = offset_of(mapping, location.address);
            if build.seen.len() < MAX_PLACES && build.seen.insert(offset) {
                let mapped = build.mapped(profile, mapping);
                build.wanted.push((location.address, mapped));
            }
        }
    }

    /// Renames the file of a build so that it is kept as long as this segment.
    fn use_in(&mut self, folder: &HistoryFolder, build_id: &str, segment: u64) {
        if !self.builds.contains_key(build_id) {
            let build = Build { seen: known_places(folder, build_id), ..Build::default() };
            self.builds.insert(build_id.to_owned(), build);
        }
        let Some(build) = self.builds.get_mut(build_id).filter(|build| build.segment != segment) else {
            return;
        };
        build.segment = segment;
        if let Some(file) = folder.names_of(build_id) {
            let _ = fs::rename(folder.names_path(&file), folder.names_path(&NamesFile { segment, ..file }));
        }
    }

    /// Returns some of the code places whose names are wanted, as a profile without samples; `None` when there are no
    /// more.
    pub(crate) fn take_wanted(&mut self) -> Option<Profile> {
        let (build_id, build) = self.builds.iter_mut().find(|(_, build)| !build.wanted.is_empty())?;
        let mut builder = ProfileBuilder::new(&[("samples", "count")]);
        for (address, mapped) in build.take_wanted() {
            let Some(mapped) = build.mappings.get(mapped as usize) else { continue };
            let range = mapped.start..mapped.limit;
            let mapping = builder.file_mapping(range, mapped.offset, &mapped.filename, build_id);
            builder.address(Some(mapping), address);
        }
        if build.wanted.is_empty() {
            build.mappings = Vec::new();
        }
        Some(builder.finish())
    }

    /// Takes back places whose names could not be kept, so that they are wanted again.
    pub(crate) fn give_back(&mut self, profile: &Profile) {
        for location in profile.locations() {
            let Some(mapping) = location.mapping.map(|id| profile.mapping(id)) else { continue };
            let Some(build) = self.builds.get_mut(profile.string(mapping.build_id)) else { continue };
            let mapped = build.mapped(profile, mapping);
            build.wanted.push((location.address, mapped));
        }
    }

    /// Writes the names in `profile`, and returns how many code places have got some.
    pub(crate) fn keep(&mut self, folder: &HistoryFolder, profile: &Profile) -> Result<usize> {
        let mut kept = 0;
        for (build_id, build) in &self.builds {
            let mut places = named_places(profile, build_id);
            if places.is_empty() {
                continue;
            }
            places.sort_by_key(|(offset, _)| *offset);
            places.dedup_by_key(|(offset, _)| *offset);
            append(folder, build_id, build.segment, &encode(profile, &places))?;
            kept += places.len();
        }
        Ok(kept)
    }
}

impl Build {
    /// Returns the number of a mapping of this build.
    fn mapped(&mut self, profile: &Profile, mapping: &Mapping) -> u32 {
        let filename = profile.string(mapping.filename);
        let is_same = |known: &MappedBuild| {
            (known.start, known.limit, known.offset) == (mapping.start, mapping.limit, mapping.offset)
                && known.filename == filename
        };
        // A library that is loaded again and again is somewhere else each time, so only the last ones are compared.
        let last = self.mappings.len().saturating_sub(MAPPINGS);
        let known = self.mappings[last..].iter().rposition(is_same).map(|at| last + at);
        let number = known.unwrap_or_else(|| {
            let Mapping { start, limit, offset, .. } = *mapping;
            self.mappings.push(MappedBuild { start, limit, offset, filename: filename.to_owned() });
            self.mappings.len() - 1
        });
        number as u32
    }

    /// Returns the next places, neighbours together: they are in the same functions and files, whose names are then
    /// looked up and written once.
    fn take_wanted(&mut self) -> Vec<(u64, u32)> {
        self.wanted.sort_unstable_by_key(|&(address, mapped)| (mapped, address));
        let rest = self.wanted.len().saturating_sub(MAX_AT_ONCE);
        let taken = self.wanted.split_off(rest);
        // Most code occurs in the first windows, so this room is not needed again.
        self.wanted.shrink_to_fit();
        taken
    }
}

fn offset_of(mapping: &Mapping, address: u64) -> u64 {
    address.wrapping_sub(mapping.start).wrapping_add(mapping.offset)
}

/// Returns the code of a build that has names in `profile`.
fn named_places<'a>(profile: &'a Profile, build_id: &str) -> Vec<(u64, &'a [Line])> {
    let of_build = |location: &Location| {
        let mapping = location.mapping.map(|id| profile.mapping(id))?;
        let is_named = !profile.lines_of(location).is_empty() && profile.string(mapping.build_id) == build_id;
        is_named.then(|| (offset_of(mapping, location.address), profile.lines_of(location)))
    };
    profile.locations().iter().filter_map(of_build).collect()
}

/// Returns the code places whose names are kept already.
fn known_places(folder: &HistoryFolder, build_id: &str) -> Offsets {
    let budget = Budget::new(Limits::SERVICE);
    let mut known = Offsets::default();
    let each = |offset, _: &[u64], _: &mut RecordNames<'_>| {
        known.insert(offset);
        Ok(())
    };
    // What cannot be read is looked up again.
    let _ = read(folder, build_id, &budget, each);
    known
}

/// Appends a record to the file of a build.
fn append(folder: &HistoryFolder, build_id: &str, segment: u64, body: &[u8]) -> Result<()> {
    let record = record::pack(body, Effort::Small)?;
    let found = folder.names_of(build_id);
    let new = || NamesFile { build_id: build_id.to_owned(), segment };
    let path = folder.names_path(&found.clone().unwrap_or_else(new));
    let opened = if found.is_some() { sys::open_to_append(&path) } else { sys::create(&path) };
    opened.and_then(|file| append_to(file, &record)).map_err(|error| Error::of_file(&path, &error))
}

/// Appends a record to a file, after a header if it has none yet.
fn append_to(mut file: fs::File, record: &[u8]) -> io::Result<()> {
    let mut length = file.metadata()?.len();
    if length < HEADER.len() as u64 {
        // Created by a process that ended before it could write the header, or by a write that failed.
        file.set_len(0)?;
        length = 0;
    }
    let bytes = if length == 0 { [HEADER, record].concat() } else { record.to_vec() };
    let written = sys::check_length(length + bytes.len() as u64).and_then(|()| sys::write(&mut file, &bytes));
    // What follows must not come after a torn record.
    written.inspect_err(|_| drop(file.set_len(length)))
}

fn encode(profile: &Profile, places: &[(u64, &[Line])]) -> Vec<u8> {
    let mut strings: Vec<&str> = vec![""];
    let mut numbers: HashMap<StringId, u64, FxBuildHasher> = HashMap::from_iter([(StringId::default(), 0)]);
    let mut lines: Vec<u64> = Vec::new();
    for line in places.iter().flat_map(|(_, lines)| *lines) {
        let function = line.function.map(|id| *profile.function(id)).unwrap_or_default();
        for text in [function.name, function.system_name, function.filename] {
            let next = strings.len() as u64;
            let number = *numbers.entry(text).or_insert(next);
            if number == next {
                strings.push(profile.string(text));
            }
            lines.push(number);
        }
        lines.extend([function.start_line, line.line, line.column].map(zigzag));
    }
    let mut body = MessageWriter::default();
    strings.iter().for_each(|text| body.bytes(field::STRING, text.as_bytes()));
    let before = std::iter::once(0).chain(places.iter().map(|(offset, _)| *offset));
    body.packed(field::OFFSETS, places.iter().zip(before).map(|((offset, _), before)| offset - before));
    body.packed(field::COUNTS, places.iter().map(|(_, lines)| lines.len() as u64));
    body.packed(field::LINES, lines.iter().copied());
    body.into_bytes()
}

/// The names of one record.
struct RecordNames<'a> {
    strings: Vec<&'a [u8]>,
    /// The text in the profile of each string, once it is needed.
    texts: Vec<Option<StringId>>,
}

impl RecordNames<'_> {
    /// Returns the text in the profile.
    fn text(&mut self, number: u64, into: &mut Relabel<'_>, budget: &Budget) -> Result<StringId> {
        let number = usize::try_from(number).ok().filter(|&number| number < self.strings.len());
        let number = number.ok_or_else(corrupt)?;
        if let Some(known) = self.texts[number] {
            return Ok(known);
        }
        let text = String::from_utf8_lossy(self.strings[number]);
        budget.charge(text.len() + flamelet_profile::budget::ALLOCATION)?;
        let id = into.string(&text);
        self.texts[number] = Some(id);
        Ok(id)
    }

    /// Reads the functions at one code place.
    fn lines(&mut self, numbers: &[u64], into: &mut Relabel<'_>, budget: &Budget) -> Result<Vec<Line>> {
        let (lines, _) = numbers.as_chunks::<WIDTH>();
        budget.charge(lines.len() * (size_of::<Line>() + size_of::<Function>()))?;
        let line = |&[name, system_name, filename, start_line, line, column]: &[u64; WIDTH]| {
            let mut text = |number| self.text(number, into, budget);
            let (name, system_name, filename) = (text(name)?, text(system_name)?, text(filename)?);
            let function = Function { name, system_name, filename, start_line: unzigzag(start_line) };
            Ok(Line {
                function: Some(into.function(function)),
                line: unzigzag(line),
                column: unzigzag(column),
            })
        };
        lines.iter().map(line).collect()
    }
}

/// Calls `each` with every code place of a build that has names.
fn read(
    folder: &HistoryFolder,
    build_id: &str,
    budget: &Budget,
    mut each: impl FnMut(u64, &[u64], &mut RecordNames<'_>) -> Result<()>,
) -> Result<()> {
    let Some(file) = folder.names_of(build_id) else { return Ok(()) };
    let (bytes, _loan) = folder.read(&folder.names_path(&file), budget)?;
    let mut records = Records::new(bytes.strip_prefix(HEADER).unwrap_or_default(), budget);
    while let Some(body) = records.next()? {
        budget.work(body.len())?;
        let _loan = budget.lend(body.len().saturating_mul(size_of::<u64>() * 3))?;
        // A record that makes no sense has names of its own only.
        if read_record(body, &mut each).is_err() {
            budget.check()?;
        }
    }
    Ok(())
}

fn read_record(
    body: &[u8],
    each: &mut impl FnMut(u64, &[u64], &mut RecordNames<'_>) -> Result<()>,
) -> Result<()> {
    let mut strings: Vec<&[u8]> = Vec::new();
    let (mut steps, mut counts, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    let mut fields = Fields::new(body);
    while let Some((number, value)) = fields.next()? {
        let into = match number {
            field::STRING => {
                strings.push(value.bytes()?);
                continue;
            }
            field::OFFSETS => &mut steps,
            field::COUNTS => &mut counts,
            field::LINES => &mut lines,
            _ => continue,
        };
        FieldValue::each_uint(value, |number| {
            into.push(number);
            Ok(())
        })?;
    }
    let (mut offset, mut rest) = (0u64, &lines[..]);
    let mut names = RecordNames { texts: vec![None; strings.len()], strings };
    for (&step, &count) in steps.iter().zip(&counts) {
        offset = offset.wrapping_add(step);
        let length = usize::try_from(count).ok().and_then(|count| count.checked_mul(WIDTH));
        let (numbers, after) = length.and_then(|length| rest.split_at_checked(length)).ok_or_else(corrupt)?;
        rest = after;
        each(offset, numbers, &mut names)?;
    }
    Ok(())
}

/// Fills in the kept names of all code of `profile` that has none, and returns how many places have got some.
pub(crate) fn apply(folder: &HistoryFolder, profile: &mut Profile, budget: &Budget) -> Result<usize> {
    let unnamed = unnamed(profile);
    let mut into = profile.relabel();
    for (build_id, wanted) in &unnamed {
        read(folder, build_id, budget, |offset, numbers, names| {
            let first = wanted.partition_point(|(other, _)| *other < offset);
            let here = wanted[first..].iter().take_while(|(other, _)| *other == offset);
            let mut here = here.map(|&(_, location)| location).peekable();
            if here.peek().is_some() {
                let lines = names.lines(numbers, &mut into, budget)?;
                here.for_each(|location| into.set_lines(location, &lines));
            }
            Ok(())
        })?;
    }
    mark_named(profile);
    let places = unnamed.values().flatten();
    Ok(places.filter(|&&(_, location)| !profile.lines(location).is_empty()).count())
}

/// Places in the code of a build, sorted: the offset in the file, and the location.
type Places = Vec<(u64, LocationId)>;

/// Returns the code without names, by build id.
fn unnamed(profile: &Profile) -> HashMap<String, Places> {
    let mut unnamed: HashMap<StringId, Places> = HashMap::new();
    for (index, location) in profile.locations().iter().enumerate() {
        let Some(mapping) = location.mapping.map(|id| profile.mapping(id)) else { continue };
        if profile.lines_of(location).is_empty() && !profile.string(mapping.build_id).is_empty() {
            let place = (offset_of(mapping, location.address), LocationId::from_index(index));
            unnamed.entry(mapping.build_id).or_default().push(place);
        }
    }
    let sorted = |(build_id, mut places): (StringId, Places)| {
        places.sort_unstable();
        (profile.string(build_id).to_owned(), places)
    };
    unnamed.into_iter().map(sorted).collect()
}

/// Marks mappings all of whose code has names, so that no other tool looks for them.
fn mark_named(profile: &mut Profile) {
    let mut has_all = vec![true; profile.mappings().len()];
    for location in profile.locations() {
        if let Some(mapping) = location.mapping {
            has_all[mapping.index()] &= !profile.lines_of(location).is_empty();
        }
    }
    for (mapping, has_all) in profile.mappings_mut().iter_mut().zip(has_all) {
        if has_all {
            mapping.symbols = MappingSymbols::ALL;
        }
    }
}

fn corrupt() -> Error {
    Error::new(ErrorKind::Corrupt, "a record of names contradicts itself")
}
