//! From the tables of any number of blocks to one profile.

use std::collections::HashMap;
use std::ops::Range;

use flamelet_profile::budget::hash_entry;
use flamelet_profile::{
    Budget, Function, KERNEL_MAPPING, KERNEL_START, Line, LocationId, Mapping, MappingId, MappingSymbols,
    Profile, ProfileBuilder, Result, StringId,
};
use rustc_hash::FxBuildHasher;

use crate::block::{BlockTables, CodeLocation, SampleRow};
use crate::query::{Measures, Query};
use crate::series::{Labels, Series};

/// Where the first file is placed, and the distance of those after it.
const FIRST_ADDRESS: u64 = 0x10_0000_0000;
const ALIGNMENT: u64 = 2 << 20;
/// Offsets above it are no offsets in a file.
const MAX_OFFSET: u64 = 1 << 40;

type ByHash<T> = HashMap<u128, T, FxBuildHasher>;

/// The label that has the number of a part.
pub(crate) const PART: &str = "part";

/// What to do with a row.
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
    /// The values of each stack and set of labels.
    sums: HashMap<(u128, u32), Vec<i64>, FxBuildHasher>,
    /// Of series that say how much there is at a moment: the last moment, and its values.
    moments: ByHash<TimedRow>,
    stacks: ByHash<Vec<u128>>,
    locations: ByHash<KeptLocation>,
    /// Those of all locations.
    lines: Vec<Line>,
    /// Has the texts and functions of the locations already.
    builder: ProfileBuilder,
    /// From when to when.
    span: Option<(i64, i64)>,
    period: i64,
}

/// A location whose address is not known yet: files are placed when all are known.
struct KeptLocation {
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
    values: Vec<(u128, i64)>,
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
            moments: ByHash::default(),
            stacks: ByHash::default(),
            locations: ByHash::default(),
            lines: Vec::new(),
            builder: ProfileBuilder::new(
                &measures.values.iter().map(|(kind, unit)| (&**kind, &**unit)).collect::<Vec<_>>(),
            )
            .within(budget.clone()),
            span: None,
            period: 0,
        }
    }

    /// Adds what is wanted of a block.
    pub(crate) fn add(&mut self, tables: &BlockTables) -> Result<()> {
        self.add_placed(tables, |_| RowPlacement::OfSeries)
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
            let choice = match chosen.get(&(row.series, place)) {
                Some(known) if row.trace.is_none() && row.span.is_none() => *known,
                _ => {
                    let found = self.choose(of, row, place)?;
                    if row.trace.is_none() && row.span.is_none() {
                        chosen.insert((row.series, place), found);
                    }
                    found
                }
            };
            if let Some(choice) = choice {
                self.count(row, choice)?;
                self.period = self.period.max(of.period);
                self.keep_stack(row.stack, tables)?;
            }
        }
        Ok(())
    }

    fn choose(&mut self, series: &Series, row: &SampleRow, place: RowPlacement) -> Result<Option<Chosen>> {
        if !self.query.wants(series, row.trace.as_deref(), row.span.as_deref()) {
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

    fn count(&mut self, row: &SampleRow, choice: Chosen) -> Result<()> {
        let end = row.time.saturating_add(row.duration.max(0));
        let (first, last) = self.span.unwrap_or((row.time, end));
        self.span = Some((first.min(row.time), last.max(end)));
        if !choice.is_gauge {
            return self.sum(row.stack, choice.labels, choice.column, row.value);
        }
        let Chosen { column, labels, .. } = choice;
        self.budget.charge(2 * size_of::<(u128, i64)>())?;
        let moment = self.moments.entry(row.series).or_insert(TimedRow {
            time: row.time,
            column,
            labels,
            values: Vec::new(),
        });
        if row.time > moment.time {
            self.budget.refund(moment.values.len() * 2 * size_of::<(u128, i64)>());
            moment.time = row.time;
            moment.values.clear();
        }
        if row.time == moment.time {
            moment.values.push((row.stack, row.value));
        }
        Ok(())
    }

    fn sum(&mut self, stack: u128, labels: u32, column: usize, value: i64) -> Result<()> {
        let width = self.measures.values.len();
        if !self.sums.contains_key(&(stack, labels)) {
            self.budget.charge(hash_entry(size_of::<((u128, u32), Vec<i64>)>()) + 8 * width + 32)?;
        }
        let sums = self.sums.entry((stack, labels)).or_insert_with(|| vec![0; width]);
        sums[column] = sums[column].saturating_add(value);
        Ok(())
    }

    fn keep_stack(&mut self, hash: u128, tables: &BlockTables) -> Result<()> {
        if self.stacks.contains_key(&hash) {
            return Ok(());
        }
        let Some(list) = tables.stack(hash) else { return Ok(()) };
        self.budget.charge(hash_entry(48) + size_of_val(&**list))?;
        for location in list {
            if !self.locations.contains_key(location)
                && let Some(found) = tables.location(*location)
            {
                self.keep_location(*location, found)?;
            }
        }
        self.stacks.insert(hash, list.clone());
        Ok(())
    }

    fn keep_location(&mut self, hash: u128, location: &CodeLocation) -> Result<()> {
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
        let kept = KeptLocation { file, offset: location.offset, lines: first..self.lines.len() };
        self.locations.insert(hash, kept);
        Ok(())
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
        let mut rows: Vec<_> =
            self.sums.iter().filter(|(_, values)| values.iter().any(|&value| value != 0)).collect();
        rows.sort_unstable_by_key(|(key, _)| **key);
        for ((stack, labels), values) in rows {
            let list = self.stacks.get(stack).into_iter().flatten();
            let list: Vec<LocationId> = list.filter_map(|location| places.get(location).copied()).collect();
            let stack = builder.stack(&list);
            builder.merge_sample(stack, label_sets[*labels as usize], values);
        }
        Ok(Some(builder.finish()))
    }

    /// Adds all locations; files are placed one after the other.
    fn places(&self, builder: &mut ProfileBuilder) -> ByHash<LocationId> {
        let kernel_name = builder.string(KERNEL_MAPPING);
        let is_in_file = |location: &KeptLocation| {
            let CodeFile { build_id, name } = location.file;
            let has_file = build_id != StringId::EMPTY || name != StringId::EMPTY;
            has_file && location.offset < MAX_OFFSET && name != kernel_name
        };
        let mut sorted: Vec<(&u128, &KeptLocation)> = self.locations.iter().collect();
        sorted.sort_unstable_by_key(|(hash, _)| **hash);
        let mut files: HashMap<CodeFile, (u64, bool), FxBuildHasher> = HashMap::default();
        for (_, location) in sorted.iter().filter(|(_, location)| is_in_file(location)) {
            let file = files.entry(location.file).or_default();
            file.0 = file.0.max(location.offset);
            file.1 |= !location.lines.is_empty();
        }
        let mappings = place_files(builder, files);
        let kernel = sorted.iter().any(|(_, location)| location.file.name == kernel_name);
        let kernel = kernel.then(|| builder.kernel_mapping(true));
        let mut places = ByHash::default();
        for (hash, location) in sorted {
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
            places.insert(*hash, place);
        }
        places
    }
}

/// Places files one after the other, by their build ids and names. Returns the mapping and the address of each. `files` has
/// the largest offset of each, and whether the names of its functions are known.
fn place_files(
    builder: &mut ProfileBuilder,
    files: HashMap<CodeFile, (u64, bool), FxBuildHasher>,
) -> HashMap<CodeFile, (MappingId, u64), FxBuildHasher> {
    let mut files: Vec<_> = files.into_iter().collect();
    let texts = builder.profile();
    files.sort_by(|(one, _), (other, _)| {
        let key = |file: &CodeFile| (texts.string(file.build_id), texts.string(file.name));
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
