//! What to do about functions without names, and about code that hides its callers: a line for each cause.

use flamelet_profile::Profile;
use rustc_hash::{FxHashMap, FxHashSet};

use super::FoundNames;
use crate::collect::{Findings, Meaning, SampleRow};
use crate::generated::Runtime;

/// Causes that concern less than this share of the samples are not mentioned: of a runtime, and of a file. Few names of a
/// library are missing in most recordings.
const WORTH_A_LINE: f64 = 0.01;
const FILE_WORTH_A_LINE: f64 = 0.05;

/// Returns the lines, for a profile whose locations have their names.
pub(crate) fn advice(findings: &Findings, names: &mut FoundNames, profile: &Profile) -> Vec<String> {
    let mut lines = about_runtimes(findings, names);
    lines.extend(about_cut_lists(names.cut_lists()));
    lines.extend(about_files(profile));
    lines
}

/// The samples of one runtime, and how many of them lack something.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) samples: u64,
    pub(crate) unnamed: u64,
    /// Those whose stacks end in its code.
    pub(crate) cut: u64,
}

fn about_runtimes(findings: &Findings, names: &mut FoundNames) -> Vec<String> {
    let mut by_runtime: Vec<(&'static Runtime, Seen)> = Vec::new();
    let mut all = 0;
    for row in findings.rows.rows.iter().filter(|row| !matches!(row.key.meaning, Meaning::Syscall { .. })) {
        all += row.count;
        let pid = findings.threads.rows[row.key.thread as usize].of.pid;
        let runtime = findings.stacks.spaces.generators.get(pid).and_then(|generator| generator.runtime);
        let Some(runtime) = runtime else { continue };
        let at = by_runtime.iter().position(|(known, _)| known.name == runtime.name).unwrap_or_else(|| {
            by_runtime.push((runtime, Seen::default()));
            by_runtime.len() - 1
        });
        let seen = &mut by_runtime[at].1;
        seen.samples += row.count;
        let is_unnamed = has_unnamed(findings, names, row) || runtime.interprets && !names.has_list(pid);
        seen.unnamed += if is_unnamed { row.count } else { 0 };
        seen.cut += if is_cut_in_generated(findings, row) { row.count } else { 0 };
    }
    by_runtime.iter().filter_map(|(runtime, seen)| runtime_line(runtime, seen, all)).collect()
}

/// Returns whether a stack has generated code that no list names.
fn has_unnamed(findings: &Findings, names: &mut FoundNames, row: &SampleRow) -> bool {
    let table = &findings.stacks.table;
    let generators = &findings.stacks.spaces.generators;
    table.list(row.key.stack).iter().any(|&at| {
        let location = table.locations[at as usize];
        let pid = location.mapping.and_then(|mapping| table.mappings[mapping as usize].pid);
        pid.is_some_and(|pid| names.generated(generators, pid, location.address).is_none())
    })
}

fn is_cut_in_generated(findings: &Findings, row: &SampleRow) -> bool {
    let table = &findings.stacks.table;
    let Some(&root) = table.list(row.key.stack).last() else { return false };
    let mapping = table.locations[root as usize].mapping;
    findings.stacks.open_ended.contains_key(&row.key.stack)
        && mapping.is_some_and(|mapping| table.mappings[mapping as usize].pid.is_some())
}

/// Returns the line about a runtime, if it concerns enough of `all` samples.
pub(crate) fn runtime_line(runtime: &Runtime, seen: &Seen, all: u64) -> Option<String> {
    let share = |part: u64| part as f64 / all.max(1) as f64;
    let (unnamed, cut) = (share(seen.unnamed), share(seen.cut));
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let name = runtime.name;
    let what = match (unnamed >= WORTH_A_LINE, cut >= WORTH_A_LINE) {
        (false, false) => return None,
        (true, false) => format!("{} of the samples have {name} functions without names", percent(unnamed)),
        (false, true) => format!("{} of the stacks end in {name} code", percent(cut)),
        (true, true) => format!(
            "{} of the samples have {name} functions without names, and {} of the stacks end in its code",
            percent(unnamed),
            percent(cut)
        ),
    };
    Some(format!("{what}: {}", runtime.remedy))
}

/// Returns a line about processes whose lists were not read to their ends.
fn about_cut_lists(processes: usize) -> Option<String> {
    let what = match processes {
        0 => return None,
        1 => "a process lists".to_owned(),
        count => format!("{count} processes list"),
    };
    Some(format!(
        "{what} more generated functions than there is memory for (64 MiB each, 256 MiB in all): the rest have no names"
    ))
}

/// Returns a line about the file whose functions without names take the most samples, or else are on the most.
fn about_files(profile: &Profile) -> Option<String> {
    // Of each file: samples in its functions, and samples that have them anywhere. Every stack of a program may have its
    // `main`, which says nothing.
    let mut by_file: FxHashMap<&str, [i64; 2]> = FxHashMap::default();
    let mut all = 0;
    for sample in profile.samples() {
        let count = sample.values.first().copied().unwrap_or(0);
        all += count;
        let stack = profile.stack(sample.stack);
        for (at, part) in [stack.get(..1).unwrap_or_default(), stack].into_iter().enumerate() {
            let files = unnamed_files(profile, part);
            files.into_iter().for_each(|file| by_file.entry(file).or_default()[at] += count);
        }
    }
    let share = |count: i64| count as f64 / all.max(1) as f64;
    let most = |at: usize| by_file.iter().map(|(&file, counts)| (counts[at], file)).max();
    let (what, (count, file)) = match most(0).filter(|&(count, _)| share(count) >= FILE_WORTH_A_LINE) {
        Some(found) => ("are in", found),
        None => ("have", most(1)?),
    };
    let percent = share(count) * 100.0;
    (share(count) >= FILE_WORTH_A_LINE).then(|| {
        format!(
            "{percent:.0} % of the samples {what} functions of {file} without names: {}",
            symbols_remedy()
        )
    })
}

/// Returns the files in which a stack has functions without names.
fn unnamed_files<'p>(profile: &'p Profile, stack: &[flamelet_profile::LocationId]) -> FxHashSet<&'p str> {
    let files = stack.iter().filter_map(|&id| {
        let location = profile.location(id);
        let is_unnamed = profile.lines_of(location).is_empty();
        let file = location.mapping.map(|mapping| profile.string(profile.mapping(mapping).filename));
        file.filter(|file| is_unnamed && file.starts_with('/') && !crate::generated::is_generated(file))
    });
    files.collect()
}

/// Returns how to get the debug symbols of a system's file, by its distribution.
fn symbols_remedy() -> String {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let has_server = std::env::var_os("DEBUGINFOD_URLS").is_some_and(|urls| !urls.is_empty());
    remedy_on(&release, has_server)
}

fn remedy_on(release: &str, has_server: bool) -> String {
    let id = release.lines().find_map(|line| line.strip_prefix("ID=")).unwrap_or("").trim_matches('"');
    let (server, package) = match id {
        "debian" => ("https://debuginfod.debian.net", "its -dbgsym package"),
        "ubuntu" => ("https://debuginfod.ubuntu.com", "its -dbgsym package"),
        "fedora" => ("https://debuginfod.fedoraproject.org", "its -debuginfo package"),
        "arch" => ("https://debuginfod.archlinux.org", "its -debug package"),
        "opensuse-tumbleweed" | "opensuse-leap" => {
            ("https://debuginfod.opensuse.org", "its -debuginfo package")
        }
        _ => ("https://debuginfod.elfutils.org", "its debug symbols"),
    };
    match has_server {
        true => format!("install {package}, or build it with debug information"),
        false => format!("set DEBUGINFOD_URLS={server}, or install {package}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_is_the_distributions() {
        let debian = "PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\n";
        assert_eq!(
            remedy_on(debian, false),
            "set DEBUGINFOD_URLS=https://debuginfod.debian.net, or install its -dbgsym package"
        );
        assert!(!remedy_on(debian, true).contains("DEBUGINFOD"), "it is set already");
        assert!(remedy_on("", false).contains("debug symbols"));
    }

    #[test]
    fn lists_that_were_cut_get_a_line() {
        assert_eq!(about_cut_lists(0), None);
        assert!(about_cut_lists(1).is_some_and(|line| line.starts_with("a process lists more")));
        assert!(about_cut_lists(3).is_some_and(|line| line.starts_with("3 processes list more")));
    }

    #[test]
    fn a_runtime_gets_one_line_with_its_switches() {
        let java = Runtime::of_file("libjvm.so").expect("known");
        let line = |unnamed, cut| runtime_line(java, &Seen { samples: 1000, unnamed, cut }, 1000);
        assert_eq!(line(5, 5), None);
        assert_eq!(
            line(610, 0).as_deref(),
            Some(
                "61 % of the samples have Java functions without names: start java with \
                 -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit"
            )
        );
        let both = line(610, 300).expect("worth a line");
        assert!(both.contains("30 % of the stacks end in its code: start java"), "{both}");
    }
}
