//! Renames frames and merges neighbours that end up with the same name.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::builder::push_location;
use crate::{Function, FunctionId, Line, LocationId, Profile};

impl Profile {
    /// Renames frames: `group_of` is called for every frame and returns the name of the group it belongs to, or
    /// `None` to leave the frame unchanged. Neighbouring frames of one group become one.
    pub fn regroup_frames(
        &mut self,
        mut group_of: impl FnMut(&Profile, LocationId, &Line) -> Option<String>,
    ) {
        let mut groups: HashMap<String, FunctionId, FxBuildHasher> = HashMap::default();
        let mut group_locations: HashMap<FunctionId, LocationId, FxBuildHasher> = HashMap::default();
        let mut replacements: Vec<LocationId> = Vec::with_capacity(self.locations.len());
        for row in 0..self.locations.len() {
            let id = LocationId::from_index(row);
            let old: Vec<Line> = match self.lines(id) {
                [] => vec![Line::default()],
                lines => lines.to_vec(),
            };
            let mut lines: Vec<Line> = Vec::with_capacity(old.len());
            let mut has_changed = false;
            for line in &old {
                let Some(group) = group_of(self, id, line) else {
                    lines.push(*line);
                    continue;
                };
                has_changed = true;
                let function = Some(self.group_function(&mut groups, group));
                if lines.last().is_none_or(|last| last.function != function) {
                    lines.push(Line { function, line: 0, column: 0 });
                }
            }
            replacements.push(match (has_changed, &lines[..]) {
                (false, _) => id,
                (true, [Line { function: Some(group), .. }]) => *group_locations
                    .entry(*group)
                    .or_insert_with(|| push_location(self, None, 0, false, &lines)),
                (true, _) => {
                    let location = self.locations[row];
                    push_location(self, location.mapping, location.address, location.is_folded, &lines)
                }
            });
        }
        self.replace_locations(&replacements);
    }

    fn group_function(
        &mut self,
        groups: &mut HashMap<String, FunctionId, FxBuildHasher>,
        group: String,
    ) -> FunctionId {
        if let Some(&known) = groups.get(&group) {
            return known;
        }
        let name = self.strings.intern(&group);
        self.functions.push(Function { name, ..Function::default() });
        let id = FunctionId::from_index(self.functions.len() - 1);
        groups.insert(group, id);
        id
    }

    /// Replaces locations in the stacks; a replacement that equals its neighbour is left out.
    fn replace_locations(&mut self, replacements: &[LocationId]) {
        let mut stacks = crate::rows::Rows::default();
        for row in 0..self.stacks.len() {
            let mut last = None;
            for &location in self.stacks.get(row) {
                let new = replacements[location.index()];
                if new != location && last == Some(new) {
                    continue;
                }
                stacks.items.push(new);
                last = Some(new);
            }
            stacks.finish_row();
        }
        self.stacks = stacks.into();
    }
}
