//! From profiles to the tables of a block.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use flamelet_profile::budget::hash_entry;
use flamelet_profile::{Budget, Label, Location as ProfileLocation, Profile, Result};
use flamelet_store::ContentHash;
use rustc_hash::FxBuildHasher;

use super::tables::{Frame, Location, Row, Tables};
use crate::entry;
use crate::series::{SPAN, Series, TRACE, with_sample_labels};

type ByHash<T> = HashMap<u128, T, FxBuildHasher>;

/// Collects profiles of one service and hour.
pub(crate) struct Builder {
    series: ByHash<Series>,
    stacks: ByHash<Vec<u128>>,
    locations: ByHash<Location>,
    samples: Vec<Row>,
    budget: Budget,
}

/// What the samples with one set of labels become.
struct LabelledSeries {
    /// For each value.
    series: Vec<u128>,
    trace: Option<Box<str>>,
    span: Option<Box<str>>,
}

impl Builder {
    /// Charges what it keeps to `budget`.
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            series: ByHash::default(),
            stacks: ByHash::default(),
            locations: ByHash::default(),
            samples: Vec::new(),
            budget: budget.clone(),
        }
    }

    /// Adds an accepted profile.
    pub(crate) fn add(&mut self, entry: &entry::Entry, profile: &Profile) -> Result<()> {
        let locations: Vec<u128> = profile
            .locations()
            .iter()
            .map(|location| self.location(profile, location))
            .collect::<Result<_>>()?;
        let mut stacks: HashMap<_, u128, FxBuildHasher> = HashMap::default();
        let mut labels: HashMap<_, LabelledSeries, FxBuildHasher> = HashMap::default();
        for sample in profile.samples() {
            let stack = match stacks.get(&sample.stack) {
                Some(&known) => known,
                None => {
                    let list = profile.stack(sample.stack).iter().map(|id| locations[id.index()]).collect();
                    *stacks.entry(sample.stack).or_insert(self.stack(list)?)
                }
            };
            let labelled = match labels.entry(sample.labels) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    new.insert(self.labelled(entry, profile, profile.labels(sample.labels))?)
                }
            };
            for (&series, &value) in
                labelled.series.iter().zip(sample.values).filter(|(_, value)| **value != 0)
            {
                let (trace, span) = (labelled.trace.clone(), labelled.span.clone());
                let (time, duration, profile) = (entry.time, entry.duration, entry.id);
                self.row(Row { series, time, duration, profile, stack, value, trace, span })?;
            }
        }
        Ok(())
    }

    /// Adds another block.
    pub(crate) fn merge(&mut self, tables: Tables) -> Result<()> {
        for (hash, series) in tables.series {
            self.keep_series(hash, || series)?;
        }
        for (hash, location) in tables.locations {
            self.keep_location(hash, || location)?;
        }
        for (_, list) in tables.stacks {
            self.stack(list)?;
        }
        tables.samples.into_iter().try_for_each(|row| self.row(row))
    }

    /// Returns the tables, sorted, so that the same profiles give the same files.
    pub(crate) fn finish(self) -> Tables {
        let mut tables = Tables {
            series: self.series.into_iter().collect(),
            stacks: self.stacks.into_iter().collect(),
            locations: self.locations.into_iter().collect(),
            samples: self.samples,
        };
        tables.series.sort_unstable_by_key(|(hash, _)| *hash);
        tables.stacks.sort_unstable_by_key(|(hash, _)| *hash);
        tables.locations.sort_unstable_by_key(|(hash, _)| *hash);
        tables.samples.sort_unstable_by(|a, b| a.key().cmp(&b.key()));
        tables.samples.dedup_by(|later, first| {
            let is_same = later.key() == first.key();
            if is_same {
                first.value = first.value.saturating_add(later.value);
            }
            is_same
        });
        tables
    }

    fn row(&mut self, row: Row) -> Result<()> {
        let texts = [&row.trace, &row.span].map(|text| text.as_ref().map_or(0, |text| text.len() + 16));
        // The table is copied while it grows.
        self.budget.charge(2 * size_of::<Row>() + texts[0] + texts[1])?;
        self.samples.push(row);
        Ok(())
    }

    fn labelled(&mut self, entry: &entry::Entry, profile: &Profile, own: &[Label]) -> Result<LabelledSeries> {
        let labels = with_sample_labels(&entry.labels, profile, own);
        let text = |name: &str| -> Option<Box<str>> {
            let label = own.iter().find(|label| label.is_text() && profile.string(label.key) == name)?;
            Some(profile.string(label.text).into())
        };
        let period = profile.header.period_type.unwrap_or_default();
        let mut series = Vec::new();
        for value in profile.sample_types() {
            let one = Series {
                service: entry.service.clone(),
                name: entry.name.clone(),
                kind: profile.string(value.kind).to_owned(),
                unit: profile.string(value.unit).to_owned(),
                period_kind: profile.string(period.kind).to_owned(),
                period_unit: profile.string(period.unit).to_owned(),
                period: profile.header.period,
                labels: labels.clone(),
            };
            let hash = one.hash();
            self.keep_series(hash, || one)?;
            series.push(hash);
        }
        Ok(LabelledSeries { series, trace: text(TRACE), span: text(SPAN) })
    }

    fn keep_series(&mut self, hash: u128, series: impl FnOnce() -> Series) -> Result<()> {
        if self.series.contains_key(&hash) {
            return Ok(());
        }
        let series = series();
        let texts: usize = series.labels.iter().map(|(name, value)| name.len() + value.len() + 80).sum();
        self.budget.charge(hash_entry(size_of::<(u128, Series)>()) + texts + 256)?;
        self.series.insert(hash, series);
        Ok(())
    }

    /// Keeps a stack, leaf first, and returns its hash.
    fn stack(&mut self, list: Vec<u128>) -> Result<u128> {
        self.budget.work(list.len() + 1)?;
        let callers = list.iter().rev();
        let hash = callers.fold(ContentHash::EMPTY, |stack, frame| stack.calling(ContentHash(*frame))).0;
        if !self.stacks.contains_key(&hash) {
            self.budget.charge(hash_entry(size_of::<(u128, Vec<u128>)>()) + size_of_val(&*list))?;
            self.stacks.insert(hash, list);
        }
        Ok(hash)
    }

    fn location(&mut self, profile: &Profile, location: &ProfileLocation) -> Result<u128> {
        let location = described(profile, location);
        let hash = location.hash();
        self.keep_location(hash, || location)?;
        Ok(hash)
    }

    fn keep_location(&mut self, hash: u128, location: impl FnOnce() -> Location) -> Result<()> {
        if self.locations.contains_key(&hash) {
            return Ok(());
        }
        let location = location();
        let of_frame = |frame: &Frame| {
            size_of::<Frame>() + frame.function.len() + frame.system_name.len() + frame.file.len() + 96
        };
        let frames: usize = location.frames.iter().map(of_frame).sum();
        let texts = location.build_id.len() + location.mapping.len() + 64;
        self.budget.charge(hash_entry(size_of::<(u128, Location)>()) + frames + texts)?;
        self.locations.insert(hash, location);
        Ok(())
    }
}

/// Returns what is known about a location. An address outside any file means something in one process only, so it is
/// left out where there is a name.
fn described(profile: &Profile, location: &ProfileLocation) -> Location {
    let text = |id| profile.string(id).to_owned();
    let lines = profile
        .lines_of(location)
        .iter()
        .filter_map(|line| Some((profile.function(line.function?), line.line)));
    let frames: Vec<Frame> = lines
        .map(|(function, line)| Frame {
            function: text(function.name),
            system_name: text(function.system_name),
            file: text(function.filename),
            line,
        })
        .collect();
    let mapping = location.mapping.map(|id| profile.mapping(id));
    let inside = mapping.filter(|mapping| (mapping.start..mapping.limit).contains(&location.address));
    match inside {
        Some(mapping) => Location {
            build_id: text(mapping.build_id),
            mapping: text(mapping.filename),
            offset: (location.address - mapping.start).wrapping_add(mapping.offset),
            frames,
        },
        None => {
            let offset = if frames.is_empty() { location.address } else { 0 };
            let named = mapping.filter(|_| !frames.is_empty());
            let (build_id, file) =
                named.map_or_else(Default::default, |of| (text(of.build_id), text(of.filename)));
            Location { build_id, mapping: file, offset, frames }
        }
    }
}
