//! What is known about each service and hour: which profiles already exist, and how many series.

use std::collections::{BTreeSet, HashMap};

use crate::block::blocks::{Blocks, Profiles};
use flamelet_profile::Result;

/// Hashes that are remembered of all hours together; then the hour that was used least recently is forgotten, and read
/// again from its manifests when it is needed.
const MAX_HASHES: usize = 2_000_000;
/// What a service and hour takes besides its hashes, in hashes: whoever sends profiles can make up any number of services, for
/// every hour for which profiles are kept.
const HOUR_COST: usize = 16;

/// Services and hours that were written to recently. Without the blocks, only what was accepted since the start is
/// known.
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
    /// Increases with each use; which hour was used least recently follows from it.
    last_use: u64,
}

impl Hours {
    /// Creates an empty table, one of `share` that have the memory between them.
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
            self.hashes += profiles.len() + HOUR_COST;
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
            self.hashes -= hour.profiles.len() + hour.series.len() + HOUR_COST;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_services_and_hours_takes_only_so_much_memory() {
        let mut hours = Hours::new(1000);
        let key = |number: i64| (format!("service-{number}"), number / 10);
        for number in 0..2000 {
            hours.add(None, &key(number), number as u128).expect("no blocks are read");
            let added = hours.add_series(None, &key(number), &[1], 10).expect("no blocks are read");
            assert_eq!(added, Ok(1));
        }
        let (count, most) = (hours.known.len(), MAX_HASHES / 1000 / HOUR_COST);
        assert!((most / 2..=most).contains(&count), "{count} of at most {most}");
        assert!(hours.knows(&key(1999)) && !hours.knows(&key(0)), "the last ones are known");
    }
}
