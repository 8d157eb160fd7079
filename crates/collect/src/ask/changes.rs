//! What changed: the versions of each service in a range of time, and what got slower from one to the next.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};

use flamelet_profile::{Budget, Profile, Result};
use serde::Serialize;

use super::asked::Asked;
use super::compare::{Deploy, Side, WINDOWS, deploys};
use super::versions::{LABELS, Version, Versions};
use crate::block::merge::{Merge, RowPlacement};
use crate::reader::Reader;

/// Only the last versions of a service are compared.
const MOST_VERSIONS: usize = 20;

/// The answer. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub struct Changes {
    /// Whether anything got slower.
    pub regressed: bool,
    /// The services that have CPU profiles in the range.
    pub services: Vec<ServiceChanges>,
}

/// What changed in a service.
#[derive(Clone, Debug, Serialize)]
pub struct ServiceChanges {
    /// The service.
    pub service: String,
    /// Its versions, the oldest first.
    pub versions: Vec<VersionSeen>,
    /// What each version changed.
    pub deploys: Vec<Deploy>,
    /// What could not be read or compared.
    pub notes: Vec<String>,
}

/// A version of a service.
#[derive(Clone, Debug, Serialize)]
pub struct VersionSeen {
    /// The version.
    pub version: String,
    /// The label that names it, or `build id`.
    pub by: &'static str,
    /// When its first profile in the range begins, in nanoseconds since 1970.
    #[serde(serialize_with = "super::json::as_moment")]
    pub first: i64,
    /// When its last one begins.
    #[serde(serialize_with = "super::json::as_moment")]
    pub last: i64,
}

/// Finds what changed. `add_names` may look up names that the profiles do not have.
pub fn changes(
    reader: &Reader,
    asked: &Asked<'_>,
    mut add_names: impl FnMut(&mut Profile),
) -> Result<Changes> {
    let mut found = Vec::new();
    let reader = &reader.with_logs(&Budget::new(asked.limits))?;
    for service in asked.services(reader)? {
        let mut notes = Vec::new();
        let versions = versions(reader, asked, &service, &mut notes)?;
        found.push((service, versions, notes));
    }
    let comparisons = found.iter().map(|(_, versions, _)| versions.len().saturating_sub(1)).sum();
    let mut services = Vec::new();
    let has_profiles =
        |(_, versions, notes): &(String, Vec<_>, Vec<String>)| !versions.is_empty() || !notes.is_empty();
    for (service, versions, mut notes) in found.into_iter().filter(has_profiles) {
        let mut deploys = Vec::new();
        if versions.len() > 1
            && let Some((mut profile, left_out)) = parted(reader, asked, &service, &versions)?
        {
            reader.add_names(&mut profile);
            add_names(&mut profile);
            let sides: Vec<Side> = versions
                .iter()
                .zip(0..)
                .map(|((version, seen), number)| Side {
                    number,
                    name: version.name.clone(),
                    since: seen.first,
                })
                .collect();
            let (compared, more) = self::deploys(&profile, &sides, comparisons)?;
            deploys = compared;
            notes.extend(left_out.into_iter().chain(more));
        }
        notes.dedup();
        let versions = versions.into_iter().map(|(version, seen)| VersionSeen {
            version: version.name,
            by: version.by,
            first: seen.first,
            last: seen.last,
        });
        services.push(ServiceChanges { service, versions: versions.collect(), deploys, notes });
    }
    let regressed =
        services.iter().flat_map(|service| &service.deploys).any(|deploy| !deploy.slower.is_empty());
    Ok(Changes { regressed, services })
}

/// When a version was seen.
#[derive(Clone, Copy, Debug)]
struct SeenSpan {
    first: i64,
    last: i64,
}

impl SeenSpan {
    fn window(&self, time: i64) -> u32 {
        let length = i128::from(self.last) - i128::from(self.first) + 1;
        let since = (i128::from(time) - i128::from(self.first)).clamp(0, length - 1);
        u32::try_from(since * i128::from(WINDOWS) / length).unwrap_or(0)
    }
}

/// Returns the versions of a service, by when they were first seen.
fn versions(
    reader: &Reader,
    asked: &Asked<'_>,
    service: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<(Version, SeenSpan)>> {
    let (query, budget) = (asked.query(service), Budget::new(asked.limits));
    let mut seen: BTreeMap<Version, SeenSpan> = BTreeMap::new();
    let mut has_unknown = false;
    let mut parts = reader.parts(&query, &budget)?;
    parts.each(&query, &budget, |tables| {
        budget.work(tables.samples.len())?;
        let versions = Versions::of(tables);
        let series = tables.series.iter().filter(|(_, series)| query.wants(series, None, None));
        let series: HashSet<u128> = series.map(|(hash, _)| *hash).collect();
        for (number, row) in tables.samples.iter().enumerate().filter(|(_, row)| query.wants_time(row.time)) {
            // The rows of one profile come together.
            let is_next = number > 0 && {
                let before = &tables.samples[number - 1];
                (before.series, before.time) == (row.series, row.time)
            };
            if is_next || !series.contains(&row.series) {
                continue;
            }
            let Some(version) = versions.get(row.series, row.time) else {
                has_unknown = true;
                continue;
            };
            let known = match seen.get_mut(version) {
                Some(known) => known,
                None => {
                    budget.charge(version.name.len() + 128)?;
                    seen.entry(version.clone()).or_insert(SeenSpan { first: row.time, last: row.time })
                }
            };
            (known.first, known.last) = (known.first.min(row.time), known.last.max(row.time));
        }
        Ok(())
    })?;
    notes.append(&mut parts.notes);
    if has_unknown {
        let what = match seen.is_empty() {
            true => "its profiles do not say their version",
            false => "profiles that do not say their version were left out",
        };
        notes.push(format!("{what}: they have none of the labels {}, and no build id", LABELS.join(", ")));
    }
    let mut seen: Vec<(Version, SeenSpan)> = seen.into_iter().collect();
    seen.sort_by(|a, b| a.1.first.cmp(&b.1.first).then_with(|| a.0.cmp(&b.0)));
    if seen.len() > MOST_VERSIONS {
        notes.push(format!("there are {} versions; the last {MOST_VERSIONS} are compared", seen.len()));
        seen.drain(..seen.len() - MOST_VERSIONS);
    }
    Ok(seen)
}

/// Returns the profile of a service in which each window of each version is a part, and notes on what was left out.
fn parted(
    reader: &Reader,
    asked: &Asked<'_>,
    service: &str,
    versions: &[(Version, SeenSpan)],
) -> Result<Option<(Profile, Vec<String>)>> {
    let (query, budget) = (asked.query(service), Budget::new(asked.limits));
    let mut parts = reader.parts(&query, &budget)?;
    let Some(measures) = parts.measures(&query) else { return Ok(None) };
    let mut merge = Merge::new(&query, &measures, &budget);
    parts.each(&query, &budget, |tables| {
        let known = Versions::of(tables);
        let place = |series: u128, time: i64| {
            let version = known.get(series, time);
            let found = version.and_then(|version| versions.iter().position(|(known, _)| known == version));
            found.map_or(RowPlacement::LeftOut, |at| {
                RowPlacement::InPart(at as u32 * WINDOWS + versions[at].1.window(time))
            })
        };
        // The rows of one profile come together.
        let last = Cell::new(None);
        merge.add_placed(tables, |number| {
            let row = &tables.samples[number];
            match last.get() {
                Some((series, time, place)) if (series, time) == (row.series, row.time) => place,
                _ => {
                    let place = place(row.series, row.time);
                    last.set(Some((row.series, row.time, place)));
                    place
                }
            }
        })
    })?;
    let profile = merge.finish()?;
    budget.check()?;
    // A comparison works on a copy.
    budget.charge(profile.as_ref().map_or(0, Profile::byte_size))?;
    Ok(profile.map(|profile| (profile, parts.notes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_the_time_of_a_version() {
        let seen = SeenSpan { first: 1000, last: 1000 + 119 };
        assert_eq!(
            (seen.window(1000), seen.window(1009), seen.window(1010), seen.window(1119)),
            (0, 0, 1, 11)
        );
        assert_eq!((seen.window(i64::MIN), seen.window(i64::MAX)), (0, 11));
        let whole = SeenSpan { first: i64::MIN, last: i64::MAX };
        assert_eq!((whole.window(i64::MIN), whole.window(0), whole.window(i64::MAX)), (0, 6, 11));
        assert_eq!(SeenSpan { first: 5, last: 5 }.window(5), 0);
    }
}
