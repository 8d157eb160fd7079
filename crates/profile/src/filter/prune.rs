//! Cutting stacks at a frame: prune_from, and the drop_frames that a profile itself asks for.

use regex::Regex;

use super::regex as compile;
use crate::{Error, ErrorKind, Profile, Result, StringId};

/// The longest expression that a file may contain; those of real files have a few hundred characters.
const LONGEST_PATTERN: usize = 16 << 10;

/// Returns the name without its argument list, which expressions written for other tools do not expect.
fn without_arguments(name: &str) -> &str {
    const RESERVED: [&str; 2] = ["(anonymous namespace)", "operator()"];
    let name = name.strip_prefix('.').unwrap_or(name);
    let mut from = 0;
    while let Some(found) = name[from..].find('(').map(|at| from + at) {
        let reserved = RESERVED.iter().find_map(|reserved| {
            let start = found.checked_sub(reserved.find('(')?)?;
            name.get(start..)?.starts_with(reserved).then_some(start + reserved.len())
        });
        match reserved {
            Some(end) => from = end,
            None => return &name[..found],
        }
    }
    name
}

fn matching_functions(profile: &Profile, matches: impl Fn(&str) -> bool) -> Vec<bool> {
    let names = profile.functions.iter().map(|function| profile.string(function.name));
    names.map(|name| !name.is_empty() && matches(without_arguments(name))).collect()
}

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

    fn drop_below(&mut self, functions: &[bool]) {
        #[derive(Clone, Copy, PartialEq, Eq)]
        enum Cut {
            Not,
            /// The location and everything below it are dropped.
            Whole,
            /// Everything below the location is dropped, and only its own outer lines are kept.
            Below,
        }
        let mut cuts = vec![Cut::Not; self.locations.len()];
        for (row, cut) in cuts.iter_mut().enumerate() {
            let location = self.locations[row];
            let lines = self.lines_of(&location);
            let is_dropped = |line: &crate::Line| line.function.is_some_and(|f| functions[f.index()]);
            let Some(outermost) = lines.iter().rposition(is_dropped) else { continue };
            if outermost + 1 == lines.len() {
                *cut = Cut::Whole;
            } else {
                *cut = Cut::Below;
                self.locations[row].first_line += outermost as u32 + 1;
                self.locations[row].line_count -= outermost as u32 + 1;
            }
        }
        self.rewrite_stacks(|_, stack, into| {
            // Frames above the user's first own frame stay; otherwise everything might be dropped.
            let first_own = stack.iter().rposition(|id| cuts[id.index()] == Cut::Not);
            let below = first_own.map_or(&[][..], |first_own| &stack[..first_own]);
            let lowest = match below.iter().rposition(|id| cuts[id.index()] != Cut::Not) {
                Some(at) if cuts[stack[at].index()] == Cut::Whole => at + 1,
                Some(at) => at,
                None => 0,
            };
            into.extend_from_slice(&stack[lowest..]);
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::without_arguments;

    #[test]
    fn argument_lists_go_and_reserved_names_stay() {
        assert_eq!(without_arguments("foo(int, char)"), "foo");
        assert_eq!(without_arguments("(anonymous namespace)::f(int)"), "(anonymous namespace)::f");
        assert_eq!(without_arguments("F::operator()(int)"), "F::operator()");
        assert_eq!(without_arguments(".dotted"), "dotted");
        assert_eq!(without_arguments("plain"), "plain");
    }
}
