//! The profiles of a range one by one, as they were accepted, to be sent elsewhere.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use flamelet_profile::{Budget, Error, ErrorKind, Limits, Profile};
use rustc_hash::FxBuildHasher;

use crate::block::merge::Merge;
use crate::block::{BlockTables, SampleRow};
use crate::entry::HOUR;
use crate::query::{Measures, Query};
use crate::reader::Reader;
use crate::series::{Labels, SPAN, Series, TRACE, hash_texts};

/// A profile as it was accepted.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Pyroscope's name of the profile: `process_cpu`, `memory`, ….
    pub name: String,
    /// The labels that all of its samples have. Those that only some have are labels of these.
    pub labels: Vec<(String, String)>,
    /// The profile, with its own time and length.
    pub profile: Profile,
}

/// Calls `each` with every profile of a service that begins in a range, hour by hour, and returns notes on what had to be
/// left out. The limits are for each hour, and for each profile.
pub fn replay<E: From<Error>>(
    reader: &Reader,
    service: &str,
    range: Range<i64>,
    limits: Limits,
    each: &mut dyn FnMut(Replayed) -> Result<(), E>,
) -> Result<Vec<String>, E> {
    let all = Query::new(service, "", range.start, range.end);
    let mut notes = Vec::new();
    for hour in reader.hours(service, &Budget::new(limits))? {
        let query = Query {
            from: range.start.max(hour.saturating_mul(HOUR)),
            to: range.end.min(hour.saturating_add(1).saturating_mul(HOUR)),
            ..all
        };
        if query.from >= query.to {
            continue;
        }
        let budget = Budget::new(limits);
        let mut parts = reader.parts(&query, &budget)?;
        let mut failure = None;
        let outcome = parts.each_whole(&query, &budget, |tables| {
            let mut stop_at_failure = |replayed| {
                each(replayed).map_err(|error| {
                    failure = Some(error);
                    Error::new(ErrorKind::Internal, "the replay was stopped")
                })
            };
            Dictionary::of(tables).replay(&query, limits, &mut stop_at_failure)
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        outcome?;
        notes.append(&mut parts.notes);
    }
    Ok(notes)
}

/// The tables of a block, to look things up in.
struct Dictionary<'t> {
    tables: &'t BlockTables,
    series: HashMap<u128, &'t Series, FxBuildHasher>,
}

/// What the rows of one profile have in common: time, length and name.
type Key<'t> = (i64, i64, &'t str);

impl<'t> Dictionary<'t> {
    fn of(tables: &'t BlockTables) -> Self {
        Self { tables, series: tables.series.iter().map(|(hash, series)| (*hash, series)).collect() }
    }

    fn replay(
        &self,
        query: &Query<'_>,
        limits: Limits,
        each: &mut dyn FnMut(Replayed) -> flamelet_profile::Result<()>,
    ) -> flamelet_profile::Result<()> {
        let mut profiles: BTreeMap<Key<'t>, Vec<&'t SampleRow>> = BTreeMap::new();
        for row in self.tables.samples.iter().filter(|row| query.wants_time(row.time)) {
            let Some(series) = self.series.get(&row.series) else { continue };
            if query.service == Some(&series.service) {
                profiles.entry((row.time, row.duration, &series.name)).or_default().push(row);
            }
        }
        for ((time, _, name), rows) in profiles {
            let mut part = self.part(&rows);
            let labels = take_common_labels(&mut part);
            let measures = measures_of(&part);
            let query = Query { name, from: time, to: time.saturating_add(1), ..*query };
            let budget = Budget::new(limits);
            let mut merge = Merge::new(&query, &measures, &budget);
            merge.add(&part)?;
            let profile = merge.finish()?;
            budget.check()?;
            if let Some(profile) = profile {
                each(Replayed { name: name.to_owned(), labels, profile })?;
            }
        }
        Ok(())
    }

    /// Returns the tables of these rows only. Traces and spans become labels.
    fn part(&self, rows: &[&SampleRow]) -> BlockTables {
        let mut part = BlockTables::default();
        let (mut series, mut stacks, mut locations) = (HashSet::new(), HashSet::new(), HashSet::new());
        for &row in rows {
            let ids = [(TRACE, &row.trace), (SPAN, &row.span)];
            let texts = ids.map(|(_, id)| id.as_deref().unwrap_or_default().as_bytes());
            let hash = hash_texts([&row.series.to_le_bytes()[..]].into_iter().chain(texts));
            if let Some(&found) = self.series.get(&row.series)
                && series.insert(hash)
            {
                let own = ids
                    .into_iter()
                    .filter_map(|(name, id)| Some((name.to_owned(), id.as_deref()?.to_owned())));
                let labels = found.labels.iter().cloned().chain(own).collect();
                part.series.push((hash, Series { labels, ..found.clone() }));
            }
            if let Some(list) = self.tables.stack(row.stack)
                && stacks.insert(row.stack)
            {
                let new = list.iter().filter(|&&location| locations.insert(location));
                let found = new.filter_map(|hash| Some((*hash, self.tables.location(*hash)?.clone())));
                part.locations.extend(found);
                part.stacks.push((row.stack, list.clone()));
            }
            part.samples.push(SampleRow { series: hash, ..row.clone() });
        }
        part.series.sort_unstable_by_key(|(hash, _)| *hash);
        part.stacks.sort_unstable_by_key(|(hash, _)| *hash);
        part.locations.sort_unstable_by_key(|(hash, _)| *hash);
        part
    }
}

/// Removes the labels that all series have, and returns them.
fn take_common_labels(part: &mut BlockTables) -> Labels {
    let mut all = part.series.iter().map(|(_, series)| &series.labels);
    let Some(mut common) = all.next().cloned() else { return Labels::new() };
    for labels in all {
        common.retain(|label| labels.contains(label));
    }
    // Of a sample, also where all samples have the same.
    common.retain(|(name, _)| name != TRACE && name != SPAN);
    for (_, series) in &mut part.series {
        series.labels.retain(|label| !common.contains(label));
    }
    common
}

fn measures_of(part: &BlockTables) -> Measures {
    let mut measures = Measures::default();
    for (_, series) in &part.series {
        measures.add((&series.kind, &series.unit), (&series.period_kind, &series.period_unit));
    }
    measures
}
