//! Renames frames, or replaces chains of them, and merges neighbours that end up with the same name.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::builder::push_location;
use crate::{Function, FunctionId, Line, LocationId, Profile, StackId};

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

    /// Replaces frames stack by stack: `groups_of` is called for every stack and pushes, for each of its frames from the
    /// leaf on (a location without lines has one), the row of `names` of the group that the frame belongs to, or `None`
    /// to leave the frame unchanged. Neighbouring frames of one group become one of that name.
    pub fn fold_frames(
        &mut self,
        names: &[String],
        mut groups_of: impl FnMut(&Profile, StackId, &mut Vec<Option<u32>>),
    ) {
        let mut folder = FoldedLocations { names, groups: HashMap::default(), parts: HashMap::default() };
        let mut stacks = crate::rows::Rows::default();
        let mut marks = Vec::new();
        for row in 0..self.stacks.len() {
            marks.clear();
            groups_of(self, StackId::from_index(row), &mut marks);
            let (mut next, mut last) = (0, None);
            let locations: Vec<LocationId> = self.stacks.get(row).to_vec();
            for location in locations {
                let count = self.lines(location).len().max(1);
                let of_location = marks.get(next..next + count).unwrap_or_default();
                next += count;
                last = folder.push(self, location, of_location, last, &mut stacks.items);
            }
            stacks.finish_row();
        }
        self.stacks = stacks.into();
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

/// The locations that [`Profile::fold_frames`] makes.
struct FoldedLocations<'a> {
    names: &'a [String],
    groups: HashMap<u32, LocationId, FxBuildHasher>,
    /// Parts of locations, by the location and the range of their lines.
    parts: HashMap<(LocationId, usize, usize), LocationId, FxBuildHasher>,
}

impl FoldedLocations<'_> {
    /// Adds what is left of a location to a stack whose last frame belongs to the group `last`. Returns the group of the
    /// new last frame.
    fn push(
        &mut self,
        profile: &mut Profile,
        location: LocationId,
        marks: &[Option<u32>],
        mut last: Option<u32>,
        stack: &mut Vec<LocationId>,
    ) -> Option<u32> {
        if marks.iter().all(Option::is_none) {
            stack.push(location);
            return None;
        }
        let mut start = 0;
        for part in marks.chunk_by(|a, b| a == b) {
            let end = start + part.len();
            match part[0] {
                Some(group) if last == Some(group) => {}
                Some(group) => stack.push(self.group(profile, group)),
                None => stack.push(self.part(profile, location, start, end)),
            }
            (last, start) = (part[0], end);
        }
        last
    }

    fn group(&mut self, profile: &mut Profile, group: u32) -> LocationId {
        *self.groups.entry(group).or_insert_with(|| {
            let name = profile.intern(self.names.get(group as usize).map_or("", String::as_str));
            profile.functions.push(Function { name, ..Function::default() });
            let function = Some(FunctionId::from_index(profile.functions.len() - 1));
            push_location(profile, None, 0, false, &[Line { function, line: 0, column: 0 }])
        })
    }

    fn part(&mut self, profile: &mut Profile, location: LocationId, start: usize, end: usize) -> LocationId {
        *self.parts.entry((location, start, end)).or_insert_with(|| {
            let lines = profile.lines(location)[start..end].to_vec();
            let found = *profile.location(location);
            push_location(profile, found.mapping, found.address, found.is_folded, &lines)
        })
    }
}
