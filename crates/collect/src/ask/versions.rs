//! Which version of a service a profile belongs to.

use std::collections::{BTreeMap, HashMap};

use crate::block::{BlockTables, CodeLocation};

/// The labels that name a version, the best one first.
pub(crate) const LABELS: [&str; 3] = ["service_git_ref", "version", "service_version"];
/// Where a version comes from if no label names it.
const BUILD_ID: &str = "build id";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Version {
    /// The label that names it, or `build id`.
    pub(crate) by: &'static str,
    pub(crate) name: String,
}

/// The versions of the profiles in a block.
pub(crate) struct Versions {
    by_label: HashMap<u128, Version>,
    /// Of profiles without such a label, by series and time.
    by_build_id: HashMap<(u128, i64), Version>,
}

impl Versions {
    pub(crate) fn of(tables: &BlockTables) -> Self {
        let named = |labels: &[(String, String)]| {
            LABELS.into_iter().find_map(|by| {
                let (_, name) = labels.iter().find(|(label, _)| label == by)?;
                Some(Version { by, name: name.clone() })
            })
        };
        let by_label: HashMap<u128, Version> =
            tables.series.iter().filter_map(|(hash, series)| Some((*hash, named(&series.labels)?))).collect();
        let by_build_id = by_build_id(tables, &by_label);
        Self { by_label, by_build_id }
    }

    /// Returns the version of the profile that begins at `time`, if anything says it.
    pub(crate) fn get(&self, series: u128, time: i64) -> Option<&Version> {
        self.by_label.get(&series).or_else(|| self.by_build_id.get(&(series, time)))
    }
}

/// Takes the program that is in most frames of a profile as its main binary.
fn by_build_id(tables: &BlockTables, by_label: &HashMap<u128, Version>) -> HashMap<(u128, i64), Version> {
    if tables.series.iter().all(|(hash, _)| by_label.contains_key(hash)) {
        return HashMap::new();
    }
    let mut programs: HashMap<u128, Option<&str>> = HashMap::new();
    let program_of = |hash: u128| {
        let location = tables.location(hash).filter(|location| is_of_program(location));
        location.map(|location| &*location.build_id)
    };
    let mut frames: HashMap<(u128, i64), BTreeMap<&str, usize>> = HashMap::new();
    for row in tables.samples.iter().filter(|row| !by_label.contains_key(&row.series)) {
        for &location in tables.stack(row.stack).into_iter().flatten() {
            if let Some(build_id) = *programs.entry(location).or_insert_with(|| program_of(location)) {
                *frames.entry((row.series, row.time)).or_default().entry(build_id).or_default() += 1;
            }
        }
    }
    let most = |counts: BTreeMap<&str, usize>| {
        counts.into_iter().max_by_key(|&(_, count)| count).map(|(build_id, _)| build_id.to_owned())
    };
    let versions = frames
        .into_iter()
        .filter_map(|(key, counts)| Some((key, Version { by: BUILD_ID, name: most(counts)? })));
    versions.collect()
}

/// Returns whether a location is in a program, and not in a library or the kernel.
fn is_of_program(location: &CodeLocation) -> bool {
    let name = location.mapping.rsplit('/').next().unwrap_or_default();
    !location.build_id.is_empty() && !name.contains(".so") && !name.starts_with('[')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::SampleRow;
    use crate::series::Series;

    fn tables(labels: &[(&str, &str)], mappings: &[(&str, &str)]) -> BlockTables {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let locations: Vec<(u128, std::sync::Arc<CodeLocation>)> = mappings
            .iter()
            .zip(0u128..)
            .map(|((mapping, id), at)| {
                let location = CodeLocation {
                    build_id: (*id).to_owned(),
                    mapping: (*mapping).to_owned(),
                    ..CodeLocation::default()
                };
                (at, location.into())
            })
            .collect();
        BlockTables {
            series: vec![(7, Series { labels, ..Series::default() })],
            stacks: vec![(1, locations.iter().map(|(hash, _)| *hash).collect())],
            locations,
            samples: vec![SampleRow { series: 7, time: 5, stack: 1, value: 1, ..SampleRow::default() }],
            shared: Vec::new(),
        }
    }

    fn version(labels: &[(&str, &str)], mappings: &[(&str, &str)]) -> Option<(&'static str, String)> {
        let tables = tables(labels, mappings);
        Versions::of(&tables).get(7, 5).map(|version| (version.by, version.name.clone()))
    }

    #[test]
    fn the_best_label_wins_and_the_build_id_is_the_last_resort() {
        let files = [("/lib/libc.so.6", "c"), ("/bin/shop", "5ab"), ("[vdso]", "v"), ("/lib/libc.so.6", "c")];
        let all = [("service_version", "3"), ("version", "2"), ("service_git_ref", "abc")];
        assert_eq!(version(&all, &files), Some(("service_git_ref", "abc".to_owned())));
        assert_eq!(version(&all[..2], &files), Some(("version", "2".to_owned())));
        assert_eq!(version(&[("pod", "x")], &files), Some(("build id", "5ab".to_owned())));
        assert_eq!(version(&[], &[("/lib/libc.so.6", "c"), ("/bin/shop", "")]), None);
    }
}
