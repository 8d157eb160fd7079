//! Describes a block: written last, so a block without it does not exist.

use std::collections::{BTreeMap, BTreeSet};

use flamelet_profile::{Error, ErrorKind, Result};
use flamelet_remote::selector::Selector;
use flate2::Crc;
use serde::{Deserialize, Serialize};

use crate::block::programs::{self, MAX_BUILD_ID, References};
use crate::block::{BlockTables, NAMES, Written};
use crate::entry::HOUR;
use crate::series::{SERVICE, SPAN, TRACE};

/// The version of the format of blocks that refer to shared code, and of others.
const WITH_SHARED_CODE: u32 = 3;
const FORMAT: u32 = 2;
/// The version before it, whose samples do not say which profile they belong to.
const WITHOUT_PROFILES: u32 = 1;
/// The longest manifest that is read.
pub(crate) const MAX_MANIFEST: u64 = 16 << 20;
/// The most values of one label that a manifest lists, the most labels, and the most build ids.
const MAX_VALUES: usize = 100;
const MAX_LABELS: usize = 1000;
const MAX_BUILD_IDS: usize = 1000;
/// References to shared code.
const MAX_CODE: usize = 500;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) format: u32,
    pub(crate) service: String,
    /// Hours since 1970.
    pub(crate) hour: i64,
    /// When its first and its last profile begin, in nanoseconds since 1970.
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// The types of its series, as Pyroscope writes them.
    pub(crate) types: BTreeSet<String>,
    /// The values of each label; a label with very many values lists the first hundred.
    pub(crate) labels: BTreeMap<String, BTreeSet<String>>,
    /// The first thousand.
    pub(crate) build_ids: BTreeSet<String>,
    /// The hashes of its profiles, by which those that are sent again are recognised.
    pub(crate) profiles: BTreeSet<String>,
    pub(crate) files: BTreeMap<String, FileEntry>,
    /// Where the stacks and locations are that its own files do not have, see [`crate::block::programs`].
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) code: BTreeSet<String>,
}

/// What a manifest says about a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileEntry {
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
    /// CRC-32, as eight hexadecimal digits.
    pub(crate) crc32: String,
}

impl Manifest {
    /// Describes a block.
    pub(crate) fn of(
        (service, hour): (&str, i64),
        profiles: BTreeSet<String>,
        tables: &BlockTables,
        written: &Written,
        references: References,
    ) -> Self {
        let format = if references.code.is_empty() { FORMAT } else { WITH_SHARED_CODE };
        let mut manifest = Self { format, service: service.to_owned(), hour, profiles, ..Self::default() };
        manifest.code = references.code;
        (manifest.from, manifest.to) = written.span;
        for (_, series) in &tables.series {
            manifest.types.insert(series.type_id());
            for (name, value) in &series.labels {
                if manifest.labels.len() >= MAX_LABELS && !manifest.labels.contains_key(name) {
                    continue;
                }
                let values = manifest.labels.entry(name.clone()).or_default();
                if values.len() < MAX_VALUES {
                    values.insert(value.clone());
                }
            }
        }
        let build_ids = tables.locations.iter().map(|(_, location)| &location.build_id);
        let build_ids = build_ids.chain(&references.build_ids);
        for id in build_ids.filter(|id| (1..=MAX_BUILD_ID).contains(&id.len())) {
            if manifest.build_ids.len() < MAX_BUILD_IDS && !manifest.build_ids.contains(id) {
                manifest.build_ids.insert(id.clone());
            }
        }
        for ((name, bytes), rows) in NAMES.iter().zip(&written.files).zip(written.rows) {
            manifest.files.insert((*name).to_owned(), FileEntry::of(bytes, rows));
        }
        for (name, bytes, rows) in &written.rollups {
            manifest.files.insert((*name).to_owned(), FileEntry::of(bytes, *rows));
        }
        manifest
    }

    /// Returns the bytes of the file; fails if it refers to more code than a reader accepts.
    pub(crate) fn write(&self) -> Result<Vec<u8>> {
        if self.code.len() > MAX_CODE {
            return Err(Error::new(ErrorKind::TooLarge, "the block would refer to too many files of code"));
        }
        let mut bytes = serde_json::to_vec_pretty(self).map_err(|error| {
            Error::new(ErrorKind::Internal, format!("the manifest cannot be written: {error}"))
        })?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Reads a manifest.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        let wrong = |what: String| Error::new(ErrorKind::Corrupt, format!("the manifest is damaged: {what}"));
        let mut manifest: Self = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        // Profiles of other hours are in other blocks, whatever it says.
        let start = manifest.hour.saturating_mul(HOUR);
        let within = |time: i64| time.clamp(start, start.saturating_add(HOUR - 1));
        (manifest.from, manifest.to) = (within(manifest.from), within(manifest.to));
        if manifest.code.len() > MAX_CODE || !manifest.code.iter().all(|path| programs::is_path(path)) {
            return Err(wrong("it refers to something that is not code".to_owned()));
        }
        match manifest.format {
            WITHOUT_PROFILES | FORMAT | WITH_SHARED_CODE => Ok(manifest),
            other => {
                Err(wrong(format!("format {other} is unknown to this version of flamelet; use a newer one")))
            }
        }
    }

    /// Returns about how much memory it takes, twice: a list of blocks is made from another.
    pub(crate) fn memory(&self) -> usize {
        const TEXT: usize = 64;
        let texts = |texts: &BTreeSet<String>| texts.iter().map(|text| text.len() + TEXT).sum::<usize>();
        let labels: usize =
            self.labels.iter().map(|(name, values)| name.len() + 2 * TEXT + texts(values)).sum();
        2 * (labels + texts(&self.types) + texts(&self.build_ids) + texts(&self.code))
            + self.profiles.len() * 192
            + 4096
    }

    /// Returns how many bytes the block takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.values().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }

    /// Returns whether the rows of the block say which profile they belong to.
    pub(crate) fn has_profiles(&self) -> bool {
        self.format > WITHOUT_PROFILES
    }

    /// Returns whether the block may have series that a selector matches. Labels of samples (`trace_id`) and those that are
    /// not all listed may have any value.
    pub(crate) fn may_have(&self, select: &Selector) -> bool {
        select.may_match(|name, passes| match (name, self.labels.get(name)) {
            (SERVICE, _) => passes(&self.service),
            (TRACE | SPAN, _) => true,
            (_, None) => self.labels.len() >= MAX_LABELS || passes(""),
            (_, Some(values)) => {
                // Series without the label have an empty one.
                values.len() >= MAX_VALUES || passes("") || values.iter().any(|value| passes(value))
            }
        })
    }

    /// Returns the hashes of its profiles.
    pub(crate) fn profile_ids(&self) -> impl Iterator<Item = u128> {
        self.profiles.iter().filter_map(|id| u128::from_str_radix(id, 16).ok())
    }
}

impl FileEntry {
    fn of(bytes: &[u8], rows: usize) -> Self {
        Self { bytes: bytes.len() as u64, rows: rows as u64, crc32: crc32(bytes) }
    }

    /// Returns whether a file is the one that was written.
    pub(crate) fn is_of(&self, bytes: &[u8]) -> bool {
        self.bytes == bytes.len() as u64 && self.crc32 == crc32(bytes)
    }
}

fn crc32(bytes: &[u8]) -> String {
    let mut crc = Crc::new();
    crc.update(bytes);
    format!("{:08x}", crc.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_of_its_hour_whatever_it_says() {
        let read = |from: i64, to: i64| {
            let manifest = Manifest { format: FORMAT, hour: 7, from, to, ..Manifest::default() };
            let manifest = Manifest::read(&manifest.write().expect("written")).expect("read");
            (manifest.from, manifest.to)
        };
        let (start, end) = (7 * HOUR, 8 * HOUR - 1);
        assert_eq!(read(start + 5, end - 5), (start + 5, end - 5));
        assert_eq!(read(i64::MIN, i64::MAX), (start, end));
        let far = Manifest { format: FORMAT, hour: i64::MAX, ..Manifest::default() };
        assert!(Manifest::read(&far.write().expect("written")).is_ok());
    }

    #[test]
    fn what_no_reader_would_accept_is_not_written() {
        let with = |count: usize| Manifest {
            format: WITH_SHARED_CODE,
            code: (0..count).map(|number| format!("2026-11-15~a/{number}")).collect(),
            ..Manifest::default()
        };
        assert!(Manifest::read(&with(MAX_CODE).write().expect("written")).is_ok());
        let refused = with(MAX_CODE + 1).write().expect_err("too many");
        assert_eq!(refused.kind(), ErrorKind::TooLarge, "so that blocks are merged in two halves");
    }

    #[test]
    fn a_selector_rules_out_blocks_by_the_labels_that_they_list() {
        let values = |values: &[String]| values.iter().cloned().collect::<BTreeSet<String>>();
        let many: Vec<String> = (0..MAX_VALUES).map(|number| format!("p{number}")).collect();
        let labels = [("version", values(&["1".to_owned(), "2".to_owned()])), ("pod", values(&many))];
        let manifest = Manifest {
            service: "checkout".to_owned(),
            labels: labels.into_iter().map(|(name, values)| (name.to_owned(), values)).collect(),
            ..Manifest::default()
        };
        let may_have = |select: &str| manifest.may_have(&Selector::parse(select).expect(select));
        for wanted in [
            "",
            "{version=\"1\"}",
            "{version=~\"2|3\"}",
            "{version!=\"1\"}",
            "{version=\"\"}",
            "{zone=\"\"}",
            "{zone!=\"a\"}",
            "{pod=\"p1000\"}",
            "{trace_id=\"a\"}",
            "{service_name=\"checkout\", version=\"2\"}",
        ] {
            assert!(may_have(wanted), "{wanted}");
        }
        for other in [
            "{version=\"3\"}",
            "{version=\"1\", zone=\"a\"}",
            "{zone=~\".+\"}",
            "{service_name=\"cart\"}",
            "{version!~\"|1|2\"}",
        ] {
            assert!(!may_have(other), "{other}");
        }
    }
}
