//! The list of skips that tests may use: `xtask/skips.txt`.

use std::path::Path;

use crate::tally::Skip;
use crate::{run, workspace};

const LIST: &str = include_str!("../skips.txt");

/// A line of the list.
#[derive(Debug, Clone, Copy)]
struct Allowed<'a> {
    condition: &'a str,
    reason: &'a str,
}

fn list(text: &str) -> impl Iterator<Item = Allowed<'_>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.filter_map(|line| {
        let (condition, reason) = line.split_once(": ")?;
        Some(Allowed { condition, reason })
    })
}

/// Returns whether `text` begins with `pattern`, in which `*` stands for anything.
fn begins(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    parts.all(|part| rest.split_once(part).map(|(_, after)| rest = after).is_some())
}

/// Prints the skips that were used. Returns how many of them the list does not allow on this machine.
pub(crate) fn judge(skips: &[Skip]) -> u64 {
    let machine = Machine::here();
    let mut wrong = 0;
    for Skip { test, reason } in skips {
        match allowed_by(reason, &machine) {
            Some(condition) => println!("   skipped ({condition}): {test}: {reason}"),
            None => {
                println!("   NOT ALLOWED by xtask/skips.txt on this machine: {test}: SKIP: {reason}");
                wrong += 1;
            }
        }
    }
    wrong
}

fn allowed_by(reason: &str, machine: &Machine) -> Option<&'static str> {
    let mut lines = list(LIST).filter(|line| begins(reason, line.reason));
    lines.find(|line| machine.is(line.condition) == Some(true)).map(|line| line.condition)
}

/// The facts about the machine and the user that conditions refer to.
#[derive(Debug)]
struct Machine {
    /// Bits as in capabilities(7).
    capabilities: u64,
    /// `kernel.perf_event_paranoid`; very strict if the kernel has no perf events.
    paranoid: i32,
    /// Whether a filter may refuse system calls, as in a container.
    is_filtered: bool,
}

const DAC_OVERRIDE: u32 = 1;
const SYS_ADMIN: u32 = 21;
const PERFMON: u32 = 38;
/// From this level on, as in Debian, ordinary users have no perf events at all; from 2 on, none of the kernel.
const NOTHING_FOR_USERS: i32 = 3;

impl Machine {
    fn here() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
        Self {
            capabilities: field("CapEff:").and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0),
            paranoid: paranoid.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(i32::MAX),
            is_filtered: field("Seccomp:").is_some_and(|mode| mode != "0"),
        }
    }

    fn has(&self, capability: u32) -> bool {
        self.capabilities & (1 << capability) != 0
    }

    /// Returns whether perf events are allowed below this level of strictness, or by a capability.
    fn has_perf(&self, from: i32) -> bool {
        self.has(PERFMON) || self.has(SYS_ADMIN) || self.paranoid < from
    }

    /// Returns whether a condition of the list holds; `None` if there is no such condition.
    fn is(&self, condition: &str) -> Option<bool> {
        if let Some(program) = condition.strip_prefix("no program ") {
            return Some(run::which(program).is_none());
        }
        let holds = match condition {
            "anywhere" => true,
            // `cargo xtask test` prepares what a plain `cargo test` may lack.
            "plain cargo test" => false,
            "ordinary user" => !self.has(SYS_ADMIN),
            "root" => self.has(DAC_OVERRIDE),
            "no perf events" => self.is_filtered || !self.has_perf(NOTHING_FOR_USERS),
            "no perf events of the kernel" => self.is_filtered || !self.has_perf(2),
            "perf events of the kernel" => self.has_perf(2),
            "no perf events for ordinary users" => self.is_filtered || self.paranoid >= NOTHING_FOR_USERS,
            "perf events of the kernel for ordinary users" => self.paranoid < 2,
            "no tracepoints" => !Path::new("/sys/kernel/tracing/events").exists(),
            "no ptrace" => self.is_filtered || has_strict_ptrace(),
            "not x86_64" => !cfg!(target_arch = "x86_64"),
            "no git checkout" => !workspace::root().join(".git").exists(),
            _ => return None,
        };
        Some(holds)
    }
}

/// Returns whether ptrace is restricted: from level 2 on, Yama refuses even a parent that traces its child.
fn has_strict_ptrace() -> bool {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    scope.trim().parse::<u32>().is_ok_and(|scope| scope >= 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    const ROOT: Machine = Machine { capabilities: u64::MAX, paranoid: 4, is_filtered: false };
    const USER: Machine = Machine { capabilities: 0, paranoid: 2, is_filtered: false };

    #[test]
    fn patterns() {
        assert!(begins("no perf here: denied", "no perf here"));
        assert!(begins("cpu: this user may not", "*: this user"));
        assert!(begins("level=4 refuses nothing", "level=* refuses"));
        assert!(!begins("level=4 allows", "level=* refuses"));
        assert!(!begins("there is no perf", "no perf"));
    }

    #[test]
    fn a_skip_needs_its_line_and_its_condition() {
        let device = "only root can make a device node";
        assert_eq!(allowed_by(device, &USER), Some("ordinary user"));
        assert_eq!(allowed_by(device, &ROOT), None);
        assert_eq!(allowed_by("it was too hard", &USER), None);
    }

    #[test]
    fn a_skip_that_is_not_allowed_counts() {
        let skip = |reason: &str| Skip { test: "a".to_owned(), reason: reason.to_owned() };
        assert_eq!(judge(&[skip("this kernel maps no vdso")]), 0);
        assert_eq!(judge(&[skip("this kernel maps no vdso"), skip("it was too hard")]), 1);
    }

    #[test]
    fn every_condition_is_known() {
        let unknown: Vec<_> = list(LIST).filter(|line| ROOT.is(line.condition).is_none()).collect();
        assert!(unknown.is_empty(), "{unknown:#?}");
    }

    /// Finds the sources that may print `SKIP: ` in a run of the tests.
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder of the repository").flatten() {
            let path = entry.path();
            if path.is_dir() && !path.ends_with("bench") {
                sources(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.push(path);
            }
        }
    }

    /// Returns the texts of skips in a source, with `*` for the parts that are filled in.
    fn texts(path: &Path) -> Vec<String> {
        let source = std::fs::read_to_string(path).expect("a source");
        let is_own = path.starts_with(workspace::root().join("xtask"));
        let (before, quote) = if is_own { ("\"SKIP: ", "") } else { ("::skip!(", "\"") };
        let mut found = Vec::new();
        for part in source.split(before).skip(1).filter_map(|part| part.trim_start().strip_prefix(quote)) {
            let text = part.split(['"', '\\']).next().unwrap_or_default();
            let pieces = text.split('{').map(|piece| piece.rsplit('}').next().unwrap_or_default());
            found.push(pieces.collect::<Vec<_>>().join("*"));
        }
        found
    }

    /// Returns whether both may be the beginning of the same line.
    fn may_be_same(text: &str, pattern: &str) -> bool {
        let (shorter, longer) = if text.len() < pattern.len() { (text, pattern) } else { (pattern, text) };
        begins(longer, shorter)
    }

    #[test]
    fn the_list_has_what_the_tests_may_say_and_no_more() {
        let mut files = Vec::new();
        for folder in ["crates", "tests", "examples", "xtask/src/check", "xtask/src/gates"] {
            sources(&workspace::root().join(folder), &mut files);
        }
        let said: Vec<String> = files.iter().flat_map(|path| texts(path)).collect();
        let is_listed = |text: &&String| list(LIST).any(|line| may_be_same(text, line.reason));
        let unlisted: Vec<&String> = said.iter().filter(|text| !is_listed(text)).collect();
        assert!(unlisted.is_empty(), "not in xtask/skips.txt: {unlisted:#?}");
        let is_said = |line: &Allowed<'_>| said.iter().any(|text| may_be_same(text, line.reason));
        let stale: Vec<_> = list(LIST).filter(|line| !is_said(line)).collect();
        assert!(stale.is_empty(), "no test says this any more: {stale:#?}");
    }
}
