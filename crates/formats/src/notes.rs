//! Notes for the user about a conversion: what was dropped, and what was guessed.

use flamelet_profile::Profile;

use crate::frames::value_type;

/// Collects the notes of one conversion.
#[derive(Debug, Default)]
pub(crate) struct Notes(Vec<String>);

/// The most notes that are kept.
const MOST: usize = 100;
/// The longest note.
const LONGEST: usize = 10_000;

impl Notes {
    /// Adds a one-line note, unless it exists already.
    pub(crate) fn push(&mut self, mut note: String) {
        if note.len() > LONGEST {
            let end = (0..=LONGEST).rev().find(|&at| note.is_char_boundary(at)).unwrap_or(0);
            note.truncate(end);
            note.push('…');
        }
        if self.0.len() < MOST && !self.0.contains(&note) {
            self.0.push(note);
        }
    }

    /// All notes.
    pub(crate) fn into_vec(self) -> Vec<String> {
        self.0
    }

    /// Notes which values are lost in a format that holds only one.
    pub(crate) fn dropped_values(&mut self, profile: &Profile, kept: usize) {
        let lost: Vec<_> = (0..profile.sample_types().len())
            .filter(|&index| index != kept)
            .map(|index| value_type(profile, index).0)
            .collect();
        if !lost.is_empty() {
            let kept = value_type(profile, kept).0;
            self.push(format!("the format has only one value: kept {kept}, dropped {}", lost.join(", ")));
        }
    }

    /// Notes that labels are lost, if there are any.
    pub(crate) fn dropped_labels(&mut self, profile: &Profile) {
        if profile.samples().any(|sample| !profile.labels(sample.labels).is_empty()) {
            self.push("labels are dropped".into());
        }
    }

    /// Notes that labels are lost, if there are any besides the thread labels, which the format can store.
    pub(crate) fn dropped_labels_but_threads(&mut self, profile: &Profile) {
        let mut lost: Vec<&str> = profile
            .samples()
            .flat_map(|sample| profile.labels(sample.labels))
            .map(|label| profile.string(label.key))
            .filter(|key| !matches!(*key, "thread" | "tid" | "pid"))
            .collect();
        lost.sort_unstable();
        lost.dedup();
        if !lost.is_empty() {
            self.push(format!("labels are dropped: {}", lost.join(", ")));
        }
    }

    /// Notes that comments are lost, if there are any.
    pub(crate) fn dropped_comments(&mut self, profile: &Profile) {
        if profile.comments().next().is_some() {
            self.push("comments are dropped".into());
        }
    }

    /// Notes that `what` is lost, if locations have more than names.
    pub(crate) fn dropped_places(&mut self, profile: &Profile, what: &str) {
        let has_place = |location: &flamelet_profile::Location| {
            location.address != 0 || profile.lines_of(location).iter().any(|line| line.line != 0)
        };
        if profile.locations().iter().any(has_place) {
            self.push(format!("{what} are dropped"));
        }
    }

    /// Notes that the timeline is lost, if there is one.
    pub(crate) fn dropped_timeline(&mut self, profile: &Profile) {
        if profile.timeline.is_some() {
            self.push("the times of samples are dropped".into());
        }
    }
}
