//! What is known of each service and hour: which profiles already exist, and how many series.

use std::collections::{BTreeSet, HashMap};

use crate::blocks::{Blocks, Profiles};
use flamelet_profile::Result;

/// Hashes that are remembered of all hours together; then the hour that was used least recently is forgotten, and read
/// again from its manifests when it is needed.
const MAX_HASHES: usize = 2_000_000;

/// Services and hours that were written to lately. Without the blocks, only what was accepted since the start is known.
pub(crate) struct Hours {
    known: HashMap<(String, i64), Hour>,
    uses: u64,
    hashes: usize,
    most: usize,
}

#[derive(Default)]
struct Hour {
    profiles: Profiles,
    /// Hashes of series.
    series: Profiles,
    /// Those whose series are remembered count up.
    last_use: u64,
}

impl Hours {
    /// Creates an empty table, which is one of `share` that have the memory together.
    pub(crate) fn new(share: usize) -> Self {
        Self { known: HashMap::default(), uses: 0, hashes: 0, most: MAX_HASHES / share.max(1) }
    }

    /// Returns whether a profile exists already.
    pub(crate) fn has(&mut self, blocks: Option<&Blocks>, key: &(String, i64), id: u128) -> Result<bool> {
        Ok(self.hour(blocks, key)?.profiles.contains(&id))
    }

    /// Remembers a profile.
    pub(crate) fn add(&mut self, blocks: Option<&Blocks>, key: &(String, i64), id: u128) -> Result<()> {
        let is_new = self.hour(blocks, key)?.profiles.insert(id);
        self.hashes += usize::from(is_new);
        Ok(())
    }

    /// Remembers the series of a profile unless they would be more than `most`, and returns how many there are then.
    pub(crate) fn add_series(
        &mut self,
        blocks: Option<&Blocks>,
        key: &(String, i64),
        series: &[u128],
        most: usize,
    ) -> Result<std::result::Result<usize, usize>> {
        let hour = self.hour(blocks, key)?;
        let new: BTreeSet<u128> = series.iter().copied().filter(|hash| !hour.series.contains(hash)).collect();
        let count = hour.series.len() + new.len();
        if count > most {
            return Ok(Err(count));
        }
        hour.series.extend(&new);
        self.hashes += new.len();
        Ok(Ok(count))
    }

    /// Returns how many services have profiles in an hour.
    pub(crate) fn services_in(&self, hour: i64) -> usize {
        self.known.keys().filter(|(_, known)| *known == hour).count()
    }

    pub(crate) fn knows(&self, key: &(String, i64)) -> bool {
        self.known.contains_key(key)
    }

    fn hour(&mut self, blocks: Option<&Blocks>, key: &(String, i64)) -> Result<&mut Hour> {
        self.uses += 1;
        if !self.known.contains_key(key) {
            self.make_room();
            let found = blocks.map(|blocks| blocks.blocks(&key.0, key.1, &mut Vec::new())).transpose()?;
            let found = found.unwrap_or_default();
            let profiles: Profiles = found.iter().flat_map(|found| found.manifest.profile_ids()).collect();
            self.hashes += profiles.len();
            self.known.insert(key.clone(), Hour { profiles, ..Hour::default() });
        }
        let hour = self.known.entry(key.clone()).or_default();
        hour.last_use = self.uses;
        Ok(hour)
    }

    fn make_room(&mut self) {
        while self.hashes > self.most {
            let oldest = self.known.iter().min_by_key(|(_, hour)| hour.last_use).map(|(key, _)| key.clone());
            let Some(hour) = oldest.and_then(|key| self.known.remove(&key)) else { return };
            self.hashes -= hour.profiles.len() + hour.series.len();
        }
    }
}
