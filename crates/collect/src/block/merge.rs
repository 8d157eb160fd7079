//! From the tables of any number of blocks to one profile.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use flamelet_profile::budget::hash_entry;
use flamelet_profile::{
    Budget, Function, KERNEL_MAPPING, KERNEL_START, Line, LocationId, Mapping, MappingId, MappingSymbols,
    Profile, ProfileBuilder, Result, StringId,
};
use rustc_hash::FxBuildHasher;

use crate::block::{BlockTables, CodeLocation, Part, SampleRow};
use crate::query::{Measures, Query};
use crate::series::{Labels, Series};

/// Where the first file is placed, and the distance of those after it.
const FIRST_ADDRESS: u64 = 0x10_0000_0000;
const ALIGNMENT: u64 = 2 << 20;
/// Larger offsets are not offsets in a file.
const MAX_OFFSET: u64 = 1 << 40;

type ByHash<T> = HashMap<u128, T, FxBuildHasher>;

/// The label that holds the number of a part.
pub(crate) const PART: &str = "part";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RowPlacement {
    LeftOut,
    /// It keeps the labels of its series.
    OfSeries,
    /// It has the number of this part as its only label.
    InPart(u32),
}

/// A profile that is being made.
pub(crate) struct Merge<'q> {
    query: &'q Query<'q>,
    measures: &'q Measures,
    budget: &'q Budget,
    labels: Vec<Labels>,
    label_numbers: HashMap<Labels, u32, FxBuildHasher>,
    /// The numbers of sums, by stack and set of labels.
    sums: HashMap<(u32, u32), u32, FxBuildHasher>,
    /// One after the other, as many values for each sum as there are types.
    values: Vec<i64>,
    /// Of series that say how much there is at a moment: the last moment, and its values.
    moments: ByHash<TimedRow>,
    /// By their numbers: the hash of each stack, and the numbers of its locations.
    stacks: Vec<(u128, Vec<u32>)>,
    stack_numbers: ByHash<u32>,
    locations: Vec<KeptLocation>,
    location_numbers: ByHash<u32>,
    /// Those of all locations.
    lines: Vec<Line>,
    /// Has the texts and functions of the locations already.
    builder: ProfileBuilder,
    /// The earliest start and the latest end.
    span: Option<(i64, i64)>,
    period: i64,
}

/// A location whose address is not known yet: files are placed when all are known.
struct KeptLocation {
    hash: u128,
    file: CodeFile,
    offset: u64,
    /// Its part of the lines.
    lines: Range<usize>,
}

/// A file of code, by its build id and its name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CodeFile {
    build_id: StringId,
    name: StringId,
}

struct TimedRow {
    time: i64,
    column: usize,
    labels: u32,
    /// Of each stack.
    values: Vec<(u32, i64)>,
}

struct Counted {
    series: u128,
    time: (i64, i64),
    stack: u32,
    value: i64,
}

/// What to do with the rows of a series.
#[derive(Clone, Copy)]
struct Chosen {
    column: usize,
    labels: u32,
    is_gauge: bool,
}

impl<'q> Merge<'q> {
    pub(crate) fn new(query: &'q Query<'q>, measures: &'q Measures, budget: &'q Budget) -> Self {
        Self {
            query,
            measures,
            budget,
            labels: Vec::new(),
            label_numbers: HashMap::default(),
            sums: HashMap::default(),
            values: Vec::new(),
            moments: ByHash::default(),
            stacks: Vec::new(),
            stack_numbers: ByHash::default(),
            locations: Vec::new(),
            location_numbers: ByHash::default(),
            lines: Vec::new(),
            builder: ProfileBuilder::new(
                &measures.values.iter().map(|(kind, unit)| (&**kind, &**unit)).collect::<Vec<_>>(),
            )
            .within(budget.clone()),
            span: None,
            period: 0,
        }
    }

    pub(crate) fn add(&mut self, tables: &BlockTables) -> Result<()> {
        self.add_placed(tables, |_| RowPlacement::OfSeries)
    }

    pub(crate) fn add_part(&mut self, part: &Part) -> Result<()> {
        self.budget.work(part.rows.len())?;
        let is_in_time: Vec<bool> = part.times.iter().map(|(time, _)| self.query.wants_time(*time)).collect();
        let mut chosen: Vec<Option<Option<Chosen>>> = vec![None; part.series.len()];
        let mut stacks: Vec<Option<u32>> = vec![None; part.stacks.len()];
        for row in part.rows.iter().filter(|row| is_in_time[row.time as usize]) {
            let (hash, series) = &part.series[row.series as usize];
            let choice = match (row.ids, &mut chosen[row.series as usize]) {
                (0, Some(known)) => *known,
                (0, new) => *new.insert(self.choose(series, (None, None), RowPlacement::OfSeries)?),
                (ids, _) => {
                    let (trace, span) = &part.ids[ids as usize];
                    self.choose(series, (trace.as_deref(), span.as_deref()), RowPlacement::OfSeries)?
                }
            };
            let Some(choice) = choice else { continue };
            let stack = match stacks[row.stack as usize] {
                Some(known) => known,
                None => {
                    let stack = &part.stacks[row.stack as usize];
                    *stacks[row.stack as usize].insert(self.keep_stack(stack.hash, &stack.locations)?)
                }
            };
            self.period = self.period.max(series.period);
            let time = part.times[row.time as usize];
            self.count(&Counted { series: *hash, time, stack, value: row.value }, choice)?;
        }
        Ok(())
    }

    /// Adds what is wanted of a block; `place_of` gets the number of each row.
    pub(crate) fn add_placed(
        &mut self,
        tables: &BlockTables,
        place_of: impl Fn(usize) -> RowPlacement,
    ) -> Result<()> {
        // Of the series, as far as it does not depend on traces.
        let mut chosen: HashMap<(u128, RowPlacement), Option<Chosen>, FxBuildHasher> = HashMap::default();
        self.budget.work(tables.samples.len())?;
        for (number, row) in tables.samples.iter().enumerate() {
            let place = place_of(number);
            if place == RowPlacement::LeftOut || !self.query.wants_time(row.time) {
                continue;
            }
            let Some(of) = tables.series(row.series) else { continue };
            let ids = (row.trace.as_deref(), row.span.as_deref());
            let choice = match chosen.get(&(row.series, place)) {
                Some(known) if ids == (None, None) => *known,
                _ => {
                    let found = self.choose(of, ids, place)?;
                    if ids == (None, None) {
                        chosen.insert((row.series, place), found);
                    }
                    found
                }
            };
            if let Some(choice) = choice {
                let stack = self.keep_stack_of(row.stack, tables)?;
                let SampleRow { series, time, duration, value, .. } = *row;
                self.count(&Counted { series, time: (time, duration), stack, value }, choice)?;
                self.period = self.period.max(of.period);
            }
        }
        Ok(())
    }

    fn choose(
        &mut self,
        series: &Series,
        (trace, span): (Option<&str>, Option<&str>),
        place: RowPlacement,
    ) -> Result<Option<Chosen>> {
        if !self.query.wants(series, trace, span) {
            return Ok(None);
        }
        let values = &self.measures.values;
        let column = values.iter().position(|(kind, unit)| *kind == series.kind && *unit == series.unit);
        let Some(column) = column else { return Ok(None) };
        let labels = match place {
            RowPlacement::InPart(part) => self.label_number(&vec![(PART.to_owned(), part.to_string())])?,
            _ => self.label_number(&series.labels)?,
        };
        Ok(Some(Chosen { column, labels, is_gauge: series.is_gauge() }))
    }

    fn label_number(&mut self, labels: &Labels) -> Result<u32> {
        if let Some(&known) = self.label_numbers.get(labels) {
            return Ok(known);
        }
        let texts: usize = labels.iter().map(|(name, value)| name.len() + value.len() + 96).sum();
        self.budget.charge(2 * texts + 128)?;
        let number = self.labels.len() as u32;
        self.labels.push(labels.clone());
        self.label_numbers.insert(labels.clone(), number);
        Ok(number)
    }

    fn count(&mut self, row: &Counted, choice: Chosen) -> Result<()> {
        let (time, duration) = row.time;
        let end = time.saturating_add(duration.max(0));
        let (first, last) = self.span.unwrap_or((time, end));
        self.span = Some((first.min(time), last.max(end)));
        if !choice.is_gauge {
            return self.sum(row.stack, choice.labels, choice.column, row.value);
        }
        let Chosen { column, labels, .. } = choice;
        self.budget.charge(2 * size_of::<(u32, i64)>())?;
        let new = || TimedRow { time, column, labels, values: Vec::new() };
        let moment = self.moments.entry(row.series).or_insert_with(new);
        if time > moment.time {
            self.budget.refund(moment.values.len() * 2 * size_of::<(u32, i64)>());
            moment.time = time;
            moment.values.clear();
        }
        if time == moment.time {
            moment.values.push((row.stack, row.value));
        }
        Ok(())
    }

    fn sum(&mut self, stack: u32, labels: u32, column: usize, value: i64) -> Result<()> {
        let (width, next) = (self.measures.values.len(), self.values.len());
        let first = match self.sums.entry((stack, labels)) {
            Entry::Occupied(known) => *known.get() as usize * width,
            Entry::Vacant(new) => {
                self.budget.charge(hash_entry(size_of::<((u32, u32), u32)>()) + 16 * width)?;
                new.insert((next / width) as u32);
                self.values.resize(next + width, 0);
                next
            }
        };
        let sum = &mut self.values[first + column];
        *sum = sum.saturating_add(value);
        Ok(())
    }

    /// Returns the number of a stack of a block.
    fn keep_stack_of(&mut self, hash: u128, tables: &BlockTables) -> Result<u32> {
        if let Some(&known) = self.stack_numbers.get(&hash) {
            return Ok(known);
        }
        let list = tables.stack(hash).into_iter().flatten();
        let list: Vec<_> = list.filter_map(|&hash| Some((hash, tables.location(hash)?.clone()))).collect();
        self.keep_stack(hash, &list)
    }

    /// Returns the number of a stack.
    fn keep_stack(&mut self, hash: u128, list: &[(u128, Arc<CodeLocation>)]) -> Result<u32> {
        if let Some(&known) = self.stack_numbers.get(&hash) {
            return Ok(known);
        }
        self.budget.charge(hash_entry(48) + 48 + list.len() * size_of::<u32>())?;
        let mut numbers = Vec::with_capacity(list.len());
        for (hash, location) in list {
            numbers.push(match self.location_numbers.get(hash) {
                Some(&known) => known,
                None => self.keep_location(*hash, location)?,
            });
        }
        let number = self.stacks.len() as u32;
        self.stacks.push((hash, numbers));
        self.stack_numbers.insert(hash, number);
        Ok(number)
    }

    fn keep_location(&mut self, hash: u128, location: &CodeLocation) -> Result<u32> {
        let lines = size_of::<Line>() * location.frames.len();
        self.budget.charge(hash_entry(size_of::<(u128, KeptLocation)>()) + 2 * lines)?;
        let builder = &mut self.builder;
        let first = self.lines.len();
        for frame in &location.frames {
            let function = Function {
                name: builder.string(&frame.function),
                system_name: builder.string(&frame.system_name),
                filename: builder.string(&frame.file),
                start_line: 0,
            };
            let function = Some(builder.function(function));
            self.lines.push(Line { function, line: frame.line, column: 0 });
        }
        let file = CodeFile {
            build_id: builder.string(&location.build_id),
            name: builder.string(&location.mapping),
        };
        let number = self.locations.len() as u32;
        self.locations.push(KeptLocation {
            hash,
            file,
            offset: location.offset,
            lines: first..self.lines.len(),
        });
        self.location_numbers.insert(hash, number);
        Ok(number)
    }

    /// Returns the profile, or `None` if nothing was wanted.
    pub(crate) fn finish(mut self) -> Result<Option<Profile>> {
        let Some((start, end)) = self.span else { return Ok(None) };
        for (_, moment) in std::mem::take(&mut self.moments) {
            for (stack, value) in moment.values {
                self.sum(stack, moment.labels, moment.column, value)?;
            }
        }
        let mut builder = std::mem::replace(&mut self.builder, ProfileBuilder::new(&[]));
        let (period, unit) = &self.measures.period;
        if !period.is_empty() {
            builder.set_period(period, unit, self.period);
        }
        builder.header_mut().time_nanos = start;
        builder.header_mut().duration_nanos = end.saturating_sub(start);
        let places = self.places(&mut builder);
        let label_sets: Vec<_> = self
            .labels
            .iter()
            .map(|labels| {
                let labels: Vec<_> =
                    labels.iter().map(|(name, value)| builder.text_label(name, value)).collect();
                builder.labels(&labels)
            })
            .collect();
        let width = self.measures.values.len();
        let values = |sum: u32| &self.values[sum as usize * width..][..width];
        let rows = self.sums.iter().map(|(key, sum)| (key, values(*sum)));
        let mut rows: Vec<_> = rows.filter(|(_, values)| values.iter().any(|&value| value != 0)).collect();
        rows.sort_unstable_by_key(|((stack, labels), _)| (self.stacks[*stack as usize].0, *labels));
        let mut last = None;
        for ((number, labels), values) in rows {
            let stack = match last {
                Some((known, stack)) if known == *number => stack,
                _ => {
                    let list = self.stacks[*number as usize].1.iter();
                    builder.stack(&list.map(|&location| places[location as usize]).collect::<Vec<_>>())
                }
            };
            last = Some((*number, stack));
            builder.merge_sample(stack, label_sets[*labels as usize], values);
        }
        Ok(Some(builder.finish()))
    }

    /// Adds all locations; files are placed one after the other.
    fn places(&self, builder: &mut ProfileBuilder) -> Vec<LocationId> {
        let kernel_name = builder.string(KERNEL_MAPPING);
        let is_in_file = |location: &KeptLocation| {
            let CodeFile { build_id, name } = location.file;
            let has_file = build_id != StringId::EMPTY || name != StringId::EMPTY;
            has_file && location.offset < MAX_OFFSET && name != kernel_name
        };
        let mut sorted: Vec<(usize, &KeptLocation)> = self.locations.iter().enumerate().collect();
        sorted.sort_unstable_by_key(|(_, location)| location.hash);
        let mut files: HashMap<CodeFile, (u64, bool), FxBuildHasher> = HashMap::default();
        for (_, location) in sorted.iter().filter(|(_, location)| is_in_file(location)) {
            let file = files.entry(location.file).or_default();
            file.0 = file.0.max(location.offset);
            file.1 |= !location.lines.is_empty();
        }
        let mappings = place_files(builder, files);
        let kernel = sorted.iter().any(|(_, location)| location.file.name == kernel_name);
        let kernel = kernel.then(|| builder.kernel_mapping(true));
        let mut places = vec![LocationId::from_index(0); sorted.len()];
        for (number, location) in sorted {
            let known = mappings.get(&location.file).filter(|_| is_in_file(location));
            let (mapping, address) = match known {
                Some(&(mapping, start)) => (Some(mapping), start + location.offset),
                None if location.file.name == kernel_name => (kernel, KERNEL_START | location.offset),
                None => (None, location.offset),
            };
            let lines = self.lines.get(location.lines.clone()).unwrap_or_default();
            let place = if lines.is_empty() {
                builder.address(mapping, address)
            } else {
                builder.location(mapping, address, lines)
            };
            places[number] = place;
        }
        places
    }
}

/// Places files one after the other, programs before libraries: the first file of a profile counts as its program. Returns
/// the mapping and the address of each. `files` has the largest offset of each, and whether the names of its functions are
/// known.
fn place_files(
    builder: &mut ProfileBuilder,
    files: HashMap<CodeFile, (u64, bool), FxBuildHasher>,
) -> HashMap<CodeFile, (MappingId, u64), FxBuildHasher> {
    let mut files: Vec<_> = files.into_iter().collect();
    let texts = builder.profile();
    files.sort_by(|(one, _), (other, _)| {
        let key = |file: &CodeFile| {
            let name = texts.string(file.name);
            (is_library(name), texts.string(file.build_id), name)
        };
        key(one).cmp(&key(other))
    });
    let mut next = FIRST_ADDRESS;
    let place = |(file, (last, has_names)): (CodeFile, (u64, bool))| {
        let symbols = if has_names { MappingSymbols::ALL } else { MappingSymbols::default() };
        let (start, limit) = (next, next.saturating_add(last).saturating_add(1));
        let CodeFile { build_id, name } = file;
        let mapping = builder.mapping(Mapping { start, limit, offset: 0, filename: name, build_id, symbols });
        next = limit.saturating_add(ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        (file, (mapping, start))
    };
    files.into_iter().map(place).collect()
}

/// Returns whether a file is a shared library or none at all, and not a program.
fn is_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.is_empty() || name.contains(".so") || path.starts_with('[')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_comes_before_its_libraries() {
        let mut builder = ProfileBuilder::new(&[("samples", "count")]);
        let names = [("a", "/lib/libc.so.6"), ("", "[vdso]"), ("b", "/srv/my.so/checkout"), ("0", "")];
        let mut files = HashMap::default();
        for (build_id, name) in names {
            let file = CodeFile { build_id: builder.string(build_id), name: builder.string(name) };
            files.insert(file, (1, true));
        }
        place_files(&mut builder, files);
        let profile = builder.finish();
        let found: Vec<&str> =
            profile.mappings().iter().map(|mapping| profile.string(mapping.filename)).collect();
        assert_eq!(found, ["/srv/my.so/checkout", "[vdso]", "", "/lib/libc.so.6"]);
    }
}
