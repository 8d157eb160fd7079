//! Code that the command generates: its names, and what to do about those that are missing.

use flamelet_profile::{LocationId, NamedLine, Profile};

use crate::generated::{GeneratedCode, Generator, MOST_OF_ALL, Runtime, is_generated};
use crate::names::{Seen, runtime_line};

/// What was seen of the runtimes of all processes.
#[derive(Default)]
pub(super) struct Runtimes {
    by_runtime: Vec<(&'static Runtime, Seen)>,
    samples: u64,
}

impl Runtimes {
    /// Names the generated code of `profile`, all of whose samples are of the process `pid`, by the lists that it wrote.
    pub(super) fn name(&mut self, profile: &mut Profile, pid: u32) {
        let runtime = profile.mappings().iter().find_map(|mapping| {
            let file = profile.string(mapping.filename);
            Runtime::of_file(file)
        });
        let code = GeneratedCode::of(&Generator::new(pid), MOST_OF_ALL);
        if let Some(code) = &code {
            profile.relabel_locations(|profile, location| named(profile, location, code));
        }
        let (all, unnamed) = counted(profile);
        self.samples += all;
        let Some(runtime) = runtime else { return };
        let at = self.by_runtime.iter().position(|(known, _)| known.name == runtime.name);
        let at = at.unwrap_or_else(|| {
            self.by_runtime.push((runtime, Seen::default()));
            self.by_runtime.len() - 1
        });
        let seen = &mut self.by_runtime[at].1;
        seen.samples += all;
        seen.unnamed += if runtime.interprets && code.is_none() { all } else { unnamed };
    }

    /// Returns a line for each runtime whose functions have no names.
    pub(super) fn advice(&self) -> Vec<String> {
        self.by_runtime
            .iter()
            .filter_map(|(runtime, seen)| runtime_line(runtime, seen, self.samples))
            .collect()
    }
}

/// Returns whether a location is in generated code and has no name.
fn is_unnamed(profile: &Profile, location: LocationId) -> bool {
    let found = profile.location(location);
    let is_in_file = found.mapping.is_some_and(|mapping| {
        let file = profile.string(profile.mapping(mapping).filename);
        file.starts_with('[') || file.starts_with('/') && !is_generated(file)
    });
    found.address != 0 && !is_in_file && profile.lines_of(found).is_empty()
}

fn named(profile: &Profile, location: LocationId, code: &GeneratedCode) -> Option<Vec<NamedLine>> {
    let name = code.name(profile.location(location).address).filter(|_| is_unnamed(profile, location))?;
    Some(vec![NamedLine { name: name.to_owned(), system_name: name.to_owned(), ..NamedLine::default() }])
}

/// Returns how many samples there are, and how many of them have generated code without a name.
fn counted(profile: &Profile) -> (u64, u64) {
    let (mut all, mut unnamed) = (0, 0);
    for sample in profile.samples() {
        let count = sample.values.first().map_or(0, |&count| u64::try_from(count).unwrap_or(0));
        let has_unnamed = profile.stack(sample.stack).iter().any(|&location| is_unnamed(profile, location));
        all += count;
        unnamed += if has_unnamed { count } else { 0 };
    }
    (all, unnamed)
}

#[cfg(test)]
mod tests {
    use flamelet_profile::{Mapping, ProfileBuilder};

    use super::*;

    /// Samples in generated code of a process that has loaded `file`.
    fn profile(file: &str, addresses: &[u64]) -> Profile {
        let mut builder = ProfileBuilder::new(&[("samples", "count")]);
        let (filename, build_id) = (builder.string(file), builder.string(""));
        let symbols = Default::default();
        builder.mapping(Mapping { start: 0x1000, limit: 0x2000, offset: 0, filename, build_id, symbols });
        for &address in addresses {
            let location = builder.address(None, address);
            let stack = builder.stack(&[location]);
            builder.sample(stack, Default::default(), &[10]);
        }
        builder.finish()
    }

    fn names(profile: &Profile) -> Vec<&str> {
        profile.functions().iter().map(|function| profile.string(function.name)).collect()
    }

    #[test]
    fn generated_code_is_named_by_the_list_of_its_process() {
        let pid = std::process::id();
        let list = format!("/tmp/perf-{pid}.map");
        std::fs::write(&list, "7f0000001000 100 Shop::total\n").expect("a file of our own");
        let mut runtimes = Runtimes::default();
        let mut found = profile("/usr/lib/jvm/lib/server/libjvm.so", &[0x7f00_0000_1010, 0x7f00_0000_9000]);
        runtimes.name(&mut found, pid);
        std::fs::remove_file(&list).expect("it was written above");
        assert_eq!(names(&found), ["Shop::total"]);
        let advice = runtimes.advice();
        assert!(
            matches!(&advice[..], [line] if line.starts_with("50 % of the samples have Java")),
            "{advice:?}"
        );
    }

    #[test]
    fn a_program_without_a_runtime_gets_no_advice() {
        let mut runtimes = Runtimes::default();
        runtimes.name(&mut profile("/usr/bin/redis-server", &[0x7f00_0000_1010]), 999_999_999);
        assert!(runtimes.advice().is_empty());
    }
}
