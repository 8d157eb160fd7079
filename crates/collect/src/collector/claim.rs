//! Who merges an hour of a store that many collectors share.
//!
//! A claim saves work, and nothing else depends on it: what two collectors merge at the same time has the same profiles,
//! which readers count once.

use flamelet_profile::{ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::names::{folder_name, hour_name};
use crate::store::Store;

/// How long a claim is valid, in nanoseconds; after that, its collector is taken for dead.
const VALID: i64 = 1_800_000_000_000;
/// The longest claim that is read.
const MAX_CLAIM: u64 = 4096;

/// The claim of this collector to merge an hour.
pub(crate) struct Claim<'a> {
    store: &'a dyn Store,
    folder: String,
    generation: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Claimed {
    collector: String,
    /// When, in nanoseconds since 1970.
    time: i64,
}

impl<'a> Claim<'a> {
    /// Claims an hour for a collector; `None` if another one has it.
    pub(crate) fn make(
        store: &'a dyn Store,
        (service, hour): (&str, i64),
        collector: &str,
        now: i64,
    ) -> Result<Option<Self>> {
        let folder = folder_of(service, hour);
        let files = store.list(&folder)?.files;
        let last = files.iter().filter_map(|name| name.parse::<u64>().ok()).max().unwrap_or(0);
        if last > 0 {
            match holder(store, &format!("{folder}/{last}"))? {
                Some(claimed) if claimed.collector == collector => {
                    return Ok(Some(Self { store, folder, generation: last }));
                }
                // Clocks differ: the claim of one that is far ahead must not hold forever.
                Some(claimed) if now.saturating_sub(claimed.time).saturating_abs() < VALID => {
                    return Ok(None);
                }
                _ => {}
            }
        }
        let generation = last.saturating_add(1);
        let claimed = Claimed { collector: collector.to_owned(), time: now };
        let is_mine = store
            .create(&format!("{folder}/{generation}"), &serde_json::to_vec(&claimed).unwrap_or_default())?;
        Ok(is_mine.then_some(Self { store, folder, generation }))
    }

    /// Gives up the claim, whether or not the work was done.
    pub(crate) fn release(self) -> Result<()> {
        for name in self.store.list(&self.folder)?.files {
            if name.parse::<u64>().is_ok_and(|generation| generation <= self.generation) {
                self.store.delete(&format!("{}/{name}", self.folder))?;
            }
        }
        Ok(())
    }
}

/// Removes what dead collectors left for an hour.
pub(crate) fn clear(store: &dyn Store, (service, hour): (&str, i64)) -> Result<()> {
    let folder = folder_of(service, hour);
    let files = store.list(&folder)?.files;
    files.iter().try_for_each(|name| store.delete(&format!("{folder}/{name}")))
}

fn folder_of(service: &str, hour: i64) -> String {
    format!("claims/{}/{}", folder_name(service), hour_name(hour))
}

/// Returns what a claim says; `None` if it is gone or makes no sense.
fn holder(store: &dyn Store, path: &str) -> Result<Option<Claimed>> {
    match store.get(path, MAX_CLAIM) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::folder::BlockFolder;

    const HOUR: (&str, i64) = ("shop", 498_530);

    #[test]
    fn one_collector_has_an_hour_until_it_gives_it_up_or_dies() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = BlockFolder::create(folder.path()).expect("made");
        let claim = |collector: &str, now: i64| Claim::make(&store, HOUR, collector, now).expect("answered");
        let first = claim("one", 1000).expect("free");
        assert!(claim("two", 2000).is_none(), "taken");
        assert!(claim("one", 2000).is_some(), "its own, after an answer was lost");
        first.release().expect("released");
        assert!(claim("two", 3000).is_some(), "free again");
        // It dies, and the next one does, too.
        assert!(claim("one", 3000 + VALID - 1).is_none());
        assert_eq!(claim("one", 3000 + VALID).expect("given up").generation, 2);
        assert_eq!(claim("three", 3000 + 2 * VALID).expect("given up").generation, 3);
        let last = claim("three", 3000 + 2 * VALID).expect("its own");
        last.release().expect("released");
        assert!(store.list("claims/shop/2026-11-15T02").expect("listed").files.is_empty());
    }

    #[test]
    fn a_claim_that_makes_no_sense_or_is_from_the_future_is_passed_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = BlockFolder::create(folder.path()).expect("made");
        let path = format!("claims/shop/{}", hour_name(HOUR.1));
        store.create(&format!("{path}/7"), b"[[[").expect("written");
        assert_eq!(Claim::make(&store, HOUR, "one", 5).expect("answered").expect("free").generation, 8);
        store
            .create(&format!("{path}/9"), br#"{"collector":"x","time":9000000000000000000}"#)
            .expect("written");
        assert_eq!(Claim::make(&store, HOUR, "one", 5).expect("answered").expect("free").generation, 10);
    }
}
