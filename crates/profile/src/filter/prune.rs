//! Cutting stacks at a frame: prune_from, and the drop_frames that a profile itself contains.

use regex::Regex;

use super::regex as compile;
use crate::dropped::matching_functions;
use crate::{Error, ErrorKind, Profile, Result, StringId};

/// The longest expression that a file may contain; those of real files have a few hundred characters.
const LONGEST_PATTERN: usize = 16 << 10;

/// Removes all frames below the lowest one that matches, and keeps that one.
pub(super) fn prune_from(profile: &mut Profile, regex: &Regex) {
    let functions = matching_functions(profile, |name| regex.is_match(name));
    let mut cut = vec![false; profile.locations.len()];
    for (row, cut) in cut.iter_mut().enumerate() {
        let location = profile.locations[row];
        let first = profile
            .lines_of(&location)
            .iter()
            .position(|line| line.function.is_some_and(|function| functions[function.index()]));
        if let Some(first) = first {
            *cut = true;
            profile.locations[row].first_line += first as u32;
            profile.locations[row].line_count -= first as u32;
        }
    }
    profile.rewrite_stacks(|_, stack, into| {
        let lowest = stack.iter().position(|id| cut[id.index()]).unwrap_or(0);
        into.extend_from_slice(&stack[lowest..]);
        true
    });
}

impl Profile {
    /// Removes the frames that the profile itself calls uninteresting (`drop_frames` minus `keep_frames`), and all
    /// frames below them.
    pub fn drop_uninteresting(&mut self) -> Result<()> {
        let drop = self.file_pattern("drop_frames", self.header.drop_frames)?;
        let keep = self.file_pattern("keep_frames", self.header.keep_frames)?;
        let Some(drop) = drop else {
            return Ok(());
        };
        let functions = matching_functions(self, |name| {
            drop.is_match(name) && !keep.as_ref().is_some_and(|keep| keep.is_match(name))
        });
        self.drop_below(&functions);
        Ok(())
    }

    /// Compiles an expression that comes with the file. It may be hostile: the parser uses a hundred times its
    /// length.
    fn file_pattern(&self, name: &str, id: StringId) -> Result<Option<Regex>> {
        match self.string(id) {
            "" => Ok(None),
            text if text.len() > LONGEST_PATTERN => {
                let message = format!("its {name} is longer than {LONGEST_PATTERN} characters");
                Err(Error::new(ErrorKind::TooLarge, message))
            }
            text => compile(name, &format!("^(?:{text})$")),
        }
    }
}
