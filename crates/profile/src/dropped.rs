//! Cutting stacks at functions that say nothing about the program.

use crate::{LocationId, Profile, StackId};

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

/// Returns which functions have a name for which `matches` returns true.
pub(crate) fn matching_functions(profile: &Profile, matches: impl Fn(&str) -> bool) -> Vec<bool> {
    let names = profile.functions.iter().map(|function| profile.string(function.name));
    names.map(|name| !name.is_empty() && matches(without_arguments(name))).collect()
}

impl Profile {
    /// Removes the frames of these functions and all frames below them.
    pub(crate) fn drop_below(&mut self, functions: &[bool]) {
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

    /// Replaces every stack by what `rewrite` pushes, and drops the samples of stacks for which it returns false.
    pub(crate) fn rewrite_stacks(
        &mut self,
        mut rewrite: impl FnMut(&Profile, &[LocationId], &mut Vec<LocationId>) -> bool,
    ) {
        let mut stacks = crate::rows::Rows::default();
        let mut kept = Vec::with_capacity(self.stacks.len());
        for row in 0..self.stacks.len() {
            let before = stacks.items.len();
            let keep = rewrite(self, self.stacks.get(row), &mut stacks.items);
            if !keep {
                stacks.items.truncate(before);
            }
            stacks.finish_row();
            kept.push(keep);
        }
        self.stacks = stacks.into();
        let keep: Vec<bool> = self.samples.stacks.iter().map(|stack: &StackId| kept[stack.index()]).collect();
        self.retain_samples(&keep);
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
