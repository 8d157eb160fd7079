//! Labels as frames: tagroot and tagleaf.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::builder::push_location;
use crate::rows::Rows;
use crate::{Function, FunctionId, LabelSetId, Line, LocationId, Profile, StackId, unit};

impl Profile {
    /// Adds a frame for each of the keys: at the root of every stack for `roots` (the first key outermost), and at
    /// its leaf for `leaves` (the last key innermost). Returns for each list whether any label matched.
    pub fn add_tag_frames(&mut self, roots: &[&str], leaves: &[&str], output_unit: &str) -> (bool, bool) {
        if roots.is_empty() && leaves.is_empty() {
            return (true, true);
        }
        let mut frames = TagFrames::default();
        let sets: Vec<LabelSetId> = (0..self.label_set_count()).map(LabelSetId::from_index).collect();
        let mut frames_of = |keys: &[&str]| -> (Vec<Vec<LocationId>>, bool) {
            let mut has_matched = false;
            let rows = sets
                .iter()
                .map(|&labels| {
                    // The last key is closest to the leaf, and stacks start with the leaf.
                    let keys = keys.iter().rev();
                    keys.map(|key| {
                        let text = self.label_text(labels, key, output_unit);
                        has_matched |= !text.is_empty();
                        frames.location(self, key, &text)
                    })
                    .collect()
                })
                .collect();
            (rows, has_matched)
        };
        let (root_frames, has_roots) = frames_of(roots);
        let (leaf_frames, has_leaves) = frames_of(leaves);
        let mut stacks = Rows::default();
        for row in 0..self.sample_count() {
            let labels = self.samples.labels[row].index();
            stacks.items.extend_from_slice(&leaf_frames[labels]);
            stacks.items.extend_from_slice(self.stacks.get(self.samples.stacks[row].index()));
            stacks.items.extend_from_slice(&root_frames[labels]);
            self.samples.stacks[row] = StackId::from_index(stacks.finish_row());
        }
        self.stacks = stacks.into();
        (has_roots, has_leaves)
    }

    /// Returns the values of a label in a set, joined by commas.
    fn label_text(&self, labels: LabelSetId, key: &str, output_unit: &str) -> String {
        let labels = self.labels(labels).iter().filter(|label| self.string(label.key) == key);
        let texts = labels.clone().filter(|label| label.is_text()).map(|l| self.string(l.text).to_string());
        let numbers = labels.filter(|label| !label.is_text()).map(|label| {
            let from = self.string(label.unit);
            let to = if from.is_empty() { "" } else { output_unit };
            unit::label_in(label.number, from, to)
        });
        texts.chain(numbers).collect::<Vec<_>>().join(",")
    }
}

/// One location for each key and value.
#[derive(Default)]
struct TagFrames {
    known: HashMap<(String, String), LocationId, FxBuildHasher>,
}

impl TagFrames {
    fn location(&mut self, profile: &mut Profile, key: &str, text: &str) -> LocationId {
        *self.known.entry((key.into(), text.into())).or_insert_with(|| {
            let (name, filename) = (profile.intern(text), profile.intern(key));
            profile.functions.push(Function { name, filename, ..Function::default() });
            let function = Some(FunctionId::from_index(profile.functions.len() - 1));
            push_location(profile, None, 0, false, &[Line { function, line: 0, column: 0 }])
        })
    }
}
