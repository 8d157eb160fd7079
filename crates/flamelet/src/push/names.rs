//! Names of code that was sent before. Most windows have the same code, so neither the history's file with all names of a
//! build is read for each window, nor the program's debug information.

use std::collections::HashMap;

use flamelet_capture::profile::{Line, LocationId, NamedLine, Profile};

/// About how many bytes of names are kept. When there are more, all are forgotten.
const MOST: usize = 2 << 20;

/// Names by build id and offset in the file.
#[derive(Default)]
pub(super) struct KnownNames {
    builds: HashMap<String, HashMap<u64, Vec<NamedLine>>>,
    bytes: usize,
}

impl KnownNames {
    /// Fills in known names of code that has none.
    pub(super) fn add_to(&self, profile: &mut Profile) {
        profile.relabel_locations(|profile, id| {
            let (build_id, offset) = place_of(profile, id).filter(|_| profile.lines(id).is_empty())?;
            self.builds.get(build_id)?.get(&offset).cloned()
        });
    }

    /// Keeps the names of a profile.
    pub(super) fn learn(&mut self, profile: &Profile) {
        for id in (0..profile.locations().len()).map(LocationId::from_index) {
            let lines = profile.lines(id);
            let Some((build_id, offset)) = place_of(profile, id).filter(|_| !lines.is_empty()) else {
                continue;
            };
            if self.builds.get(build_id).is_some_and(|build| build.contains_key(&offset)) {
                continue;
            }
            let named: Vec<NamedLine> = lines.iter().map(|line| named(profile, line)).collect();
            self.bytes += named.iter().map(size_of_line).sum::<usize>();
            if self.bytes > MOST {
                *self = Self::default();
                return;
            }
            self.builds.entry(build_id.to_owned()).or_default().insert(offset, named);
        }
    }
}

/// Returns the build id and the offset of code; `None` if it belongs to no file with a build id.
fn place_of(profile: &Profile, id: LocationId) -> Option<(&str, u64)> {
    let location = profile.location(id);
    let mapping = profile.mapping(location.mapping?);
    let build_id = Some(profile.string(mapping.build_id)).filter(|build_id| !build_id.is_empty())?;
    Some((build_id, location.address.wrapping_sub(mapping.start).wrapping_add(mapping.offset)))
}

fn named(profile: &Profile, line: &Line) -> NamedLine {
    let function = line.function.map(|id| *profile.function(id)).unwrap_or_default();
    let text = |id| profile.string(id).to_owned();
    NamedLine {
        name: text(function.name),
        system_name: text(function.system_name),
        filename: text(function.filename),
        start_line: function.start_line,
        line: line.line,
        column: line.column,
    }
}

fn size_of_line(line: &NamedLine) -> usize {
    size_of::<NamedLine>() + line.name.len() + line.system_name.len() + line.filename.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_capture::profile::ProfileBuilder;

    /// Returns a profile of code at these offsets, of a program that is mapped at `start`.
    fn profile(start: u64, offsets: std::ops::Range<u64>) -> Profile {
        let mut builder = ProfileBuilder::new(&[("samples", "count")]);
        let program = builder.file_mapping(start..start + 0x100_0000, 0x200, "/bin/a", "ab01");
        let library = builder.file_mapping(0x9000_0000..0x9000_1000, 0, "/lib/b", "");
        for offset in offsets {
            builder.address(Some(program), start + offset);
        }
        builder.address(Some(library), 0x9000_0010);
        builder.finish()
    }

    fn with_names(mut profile: Profile) -> Profile {
        profile.relabel_locations(|profile, id| {
            let mapping = profile.mapping(profile.location(id).mapping?);
            let name = format!("at_{:x}{}", profile.location(id).address - mapping.start, "x".repeat(100));
            Some(vec![NamedLine { name, line: 7, column: 3, ..NamedLine::default() }])
        });
        profile
    }

    fn names_of(profile: &Profile) -> Vec<Vec<NamedLine>> {
        let ids = (0..profile.locations().len()).map(LocationId::from_index);
        ids.map(|id| profile.lines(id).iter().map(|line| named(profile, line)).collect()).collect()
    }

    #[test]
    fn code_that_was_named_once_is_named_again_wherever_it_is_mapped() {
        let mut known = KnownNames::default();
        known.learn(&with_names(profile(0x10_0000, 0..5)));
        let mut again = profile(0x700_0000, 2..8);
        known.add_to(&mut again);
        let expected = names_of(&with_names(profile(0x700_0000, 2..8)));
        let found = names_of(&again);
        assert_eq!(found[..3], expected[..3]);
        // New code, and that of a file without a build id.
        assert!(found[3..].iter().all(Vec::is_empty), "{found:?}");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut known = KnownNames::default();
        for part in 0..20 {
            known.learn(&with_names(profile(0x10_0000, part * 2000..(part + 1) * 2000)));
            assert!(known.bytes <= MOST, "{}", known.bytes);
        }
    }
}
