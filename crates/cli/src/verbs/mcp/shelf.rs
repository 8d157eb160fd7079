//! Profiles that were recorded or fetched, kept in memory under a name.

use flamelet_profile::Profile;

/// How many profiles are kept at most.
const MOST: usize = 16;
/// How much memory they may take together. The newest is kept anyway.
const MOST_BYTES: usize = 512 << 20;

/// The profiles, the oldest first.
#[derive(Default)]
pub(super) struct Shelf {
    kept: Vec<(String, Profile)>,
    counter: usize,
}

impl Shelf {
    /// Keeps a profile and returns its name. The oldest ones are dropped when there are too many.
    pub(super) fn keep(&mut self, kind: &str, profile: Profile) -> String {
        self.counter += 1;
        let name = format!("{kind}-{}", self.counter);
        self.kept.push((name.clone(), profile));
        while self.kept.len() > MOST || (self.kept.len() > 1 && self.bytes() > MOST_BYTES) {
            self.kept.remove(0);
        }
        name
    }

    fn bytes(&self) -> usize {
        self.kept.iter().map(|(_, profile)| profile.byte_size()).sum()
    }

    pub(super) fn find(&self, name: &str) -> Option<&Profile> {
        self.kept.iter().find(|(kept, _)| kept == name).map(|(_, profile)| profile)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.kept.iter().map(|(name, _)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept() {
        let mut shelf = Shelf::default();
        let names: Vec<String> = (0..=MOST).map(|_| shelf.keep("recording", Profile::default())).collect();
        assert_eq!((names[0].as_str(), shelf.names().count()), ("recording-1", MOST));
        assert!(shelf.find("recording-1").is_none() && shelf.find("recording-2").is_some());
    }
}
