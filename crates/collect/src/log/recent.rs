//! What is in the log, kept in memory too: queries need not read the log, and blocks are made without decoding it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::block::{Part, Pool};
use crate::entry::AcceptedProfile;
use crate::lock::lock;
use flamelet_profile::Profile;

/// A profile that is in no block yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RecentProfile {
    pub(crate) service: String,
    pub(crate) hour: i64,
    pub(crate) id: u128,
    pub(crate) part: Part,
    /// How many bytes of what parts share were not there before it.
    pub(crate) added: usize,
}

impl RecentProfile {
    pub(crate) fn new(entry: &AcceptedProfile, profile: &Profile, pool: &Pool) -> Self {
        let (part, added) = Part::of_profile(entry, profile, pool);
        Self { service: entry.service.clone(), hour: entry.hour(), id: entry.id, part, added }
    }

    fn bytes(&self) -> usize {
        self.part.bytes() + self.service.len() + 160
    }
}

/// The profiles of a log.
pub(crate) type RecentProfiles = Vec<Arc<RecentProfile>>;

/// The profiles in each log, as far as there is room for them.
#[derive(Debug)]
pub(crate) struct Recent {
    state: Mutex<RecentState>,
    pool: Pool,
    most: usize,
}

#[derive(Debug, Default)]
struct RecentState {
    /// By the name of the log; `None` if it has to be read.
    logs: HashMap<String, Option<RecentProfiles>>,
    bytes: usize,
}

impl Recent {
    /// Creates an empty list of at most this many bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self { state: Mutex::default(), pool: Pool::default(), most }
    }

    /// Returns what its profiles share.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Begins a log, all of whose profiles are added.
    pub(crate) fn begin(&self, log: &str) {
        lock(&self.state).logs.insert(log.to_owned(), Some(Vec::new()));
    }

    /// Adds a profile to a log. If there is no room, the log has to be read from now on.
    pub(crate) fn add(&self, log: &str, profile: RecentProfile) {
        let (bytes, mut state) = (profile.bytes(), lock(&self.state));
        let Some(Some(list)) = state.logs.get_mut(log) else { return };
        list.push(Arc::new(profile));
        state.bytes += bytes;
        if state.bytes + self.pool.bytes() > self.most {
            state.forget(log);
            state.logs.insert(log.to_owned(), None);
            self.pool.sweep();
        }
    }

    /// Returns the profiles of a log; `None` if it has to be read.
    pub(crate) fn of(&self, log: &str) -> Option<RecentProfiles> {
        lock(&self.state).logs.get(log).cloned().flatten()
    }

    /// Forgets a log whose profiles are all in blocks.
    pub(crate) fn forget(&self, log: &str) {
        lock(&self.state).forget(log);
        self.pool.sweep();
    }

    /// Returns how many bytes are kept.
    pub(crate) fn bytes(&self) -> usize {
        lock(&self.state).bytes + self.pool.bytes()
    }
}

impl RecentState {
    fn forget(&mut self, log: &str) {
        let profiles = self.logs.remove(log).flatten().unwrap_or_default();
        self.bytes -= profiles.iter().map(|profile| profile.bytes()).sum::<usize>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(id: u128) -> RecentProfile {
        RecentProfile { service: "shop".to_owned(), hour: 1, id, part: Part::default(), added: 0 }
    }

    #[test]
    fn a_log_without_room_is_read_again_and_no_part_of_it_is_taken_for_all() {
        let recent = Recent::new(3 * profile(0).bytes());
        let ids = |log: &str| recent.of(log).map(|all| all.iter().map(|one| one.id).collect::<Vec<_>>());
        recent.begin("1");
        assert_eq!(ids("1"), Some(vec![]));
        (1..=3).for_each(|id| recent.add("1", profile(id)));
        assert_eq!(ids("1"), Some(vec![1, 2, 3]));
        recent.begin("2");
        recent.add("2", profile(4));
        assert_eq!((ids("2"), ids("1").map(|all| all.len())), (None, Some(3)));
        recent.forget("1");
        recent.add("2", profile(5));
        assert_eq!(
            (ids("1"), ids("2"), recent.bytes()),
            (None, None, 0),
            "it lacks one, so it has to be read"
        );
        recent.forget("2");
        recent.begin("3");
        recent.add("3", profile(6));
        assert_eq!(ids("3"), Some(vec![6]));
    }
}
