//! The counts of system calls beside those of strace, in the same run: strace is recorded together with the program that
//! it traces.

use crate::programs::{alone, c, folder, quiet, rust};
use crate::seen::{column, label, may_see_kernel, recorded};
use flamelet_profile::Profile;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Calls and errors by name.
type Counts = BTreeMap<String, (i64, i64)>;

/// Programs that every machine with a C compiler has, and one that starts many threads.
fn programs() -> Vec<(PathBuf, Vec<String>)> {
    let here = env!("CARGO_MANIFEST_DIR");
    let source = format!("{here}/tests/programs/calls.c");
    let object = folder().join("calls.o").display().to_string();
    let shell = |script: &str| ("/bin/sh".into(), vec!["-c".to_owned(), script.to_owned()]);
    let program = |name: &str, arguments: &[&str]| {
        let path = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name));
        let path =
            path.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("{name} is not installed"));
        (path, arguments.iter().map(|&argument| argument.to_owned()).collect())
    };
    vec![
        (c("calls", &[]), vec![]),
        (c("children", &[]), vec![]),
        (c("signals", &["-pthread"]), vec![]),
        (rust("short_threads", &[]), vec![]),
        program("find", &[here, "-name", "*.rs", "-size", "+1k"]),
        program("cc", &["-c", &source, "-o", &object]),
        program(
            "perl",
            &["-e", "for (1..20) { my $p = fork; exit 0 unless $p; waitpid $p, 0 } system('true') for 1..10"],
        ),
        shell(
            "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do /bin/true; x=$(echo $i | cat); done",
        ),
        shell(&format!("tar -C {here} -cf - src | gzip | wc -c")),
        shell("seq 40 | xargs -P 4 -n 1 echo | sort -n | tail -1"),
        shell("seq 200000 | sort --parallel=4 -r | head -1"),
        shell("trap 'n=x$n' USR1; for i in 1 2 3 4 5 6 7 8; do kill -USR1 $$; done; sleep 0.01"),
    ]
}

#[test]
fn ten_programs_are_counted_as_strace_counts_them() {
    if !may_see_kernel("system calls beside strace") {
        return;
    }
    if Command::new("strace").arg("-V").output().is_err() {
        flamelet_test_support::skip!("the comparison with strace: it is not installed");
        return;
    }
    for (program, arguments) in programs() {
        let _one = alone();
        // A thread that is killed as strace stops it at a call is counted by one of both: by chance, so not each time.
        let runs: Vec<String> = (0..3).map_while(|_| difference(&program, &arguments)).collect();
        assert!(runs.len() < 3, "{runs:#?}");
    }
}

/// Runs a program once under both; returns how the counts differ.
fn difference(program: &Path, arguments: &[String]) -> Option<String> {
    let table = folder().join("strace.table");
    let mut command = quiet("strace".as_ref(), &["-f", "-c", "-U", "calls,errors,name", "-o"]);
    command.arg(&table).arg(program).args(arguments);
    let recorded = recorded(command, |options| {
        options.syscalls = true;
        options.cpu = false;
    });
    let what = format!("{} {arguments:?}: {:?}", program.display(), recorded.summary);
    if recorded.summary.lost > 0 {
        return Some(what);
    }
    let text = std::fs::read_to_string(&table).expect("strace's own table");
    let theirs = counted_by_strace(&text);
    let ours = counted_by_us(&recorded.profile);
    assert!(theirs.len() > 5, "{what}\n{text}");
    let differ: Vec<_> = theirs
        .iter()
        .map(|(name, counts)| (name, Some(counts), ours.get(name)))
        .chain(
            ours.iter()
                .filter(|(name, _)| !theirs.contains_key(*name))
                .map(|(name, c)| (name, None, Some(c))),
        )
        .filter(|(_, theirs, ours)| theirs != ours)
        .collect();
    (!differ.is_empty()).then(|| format!("call, strace, flamelet: {differ:?}\n{what}"))
}

fn counted_by_strace(table: &str) -> Counts {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (&name, numbers) = words.split_last()?;
        let calls = numbers.first()?.parse().ok()?;
        let errors = numbers.get(1).map_or(Some(0), |errors| errors.parse().ok())?;
        (name != "total").then(|| (name.to_owned(), (calls, errors)))
    };
    table.lines().filter_map(row).collect()
}

/// The calls of all processes but strace, and the one with which strace started the program.
fn counted_by_us(profile: &Profile) -> Counts {
    let (calls, errors) = (column(profile, "syscalls"), column(profile, "syscall_errors"));
    let mut counts = Counts::from([("execve".to_owned(), (1, 0))]);
    for sample in profile.samples().filter(|sample| label(profile, sample, "process") != Some("strace")) {
        let name = label(profile, &sample, "syscall").expect("every sample is of a call").to_owned();
        let count = counts.entry(name).or_default();
        *count = (count.0 + sample.values[calls], count.1 + sample.values[errors]);
    }
    counts
}

/// Calls that have a stack, and all calls; those with the name `only`, if there is one.
fn with_stacks(profile: &Profile, only: Option<&str>) -> (i64, i64) {
    let calls = column(profile, "syscalls");
    let (mut with, mut all) = (0, 0);
    for sample in profile.samples() {
        let is_wanted = only.is_none() || label(profile, &sample, "syscall") == only;
        let count = if is_wanted { sample.values[calls] } else { 0 };
        all += count;
        with += if profile.stack(sample.stack).is_empty() { 0 } else { count };
    }
    (with, all)
}

#[test]
fn calls_of_short_processes_and_threads_have_stacks() {
    if !may_see_kernel("stacks of system calls") {
        return;
    }
    let script = "i=0; while [ $i -lt 150 ]; do /bin/true; x=$(/bin/echo $i); i=$((i+1)); done";
    let commands: [&dyn Fn() -> Command; 4] = [
        &|| quiet("/bin/sh".as_ref(), &["-c", script]),
        &|| quiet(&c("signals", &["-pthread"]), &[]),
        &|| quiet(&rust("short_threads", &[]), &[]),
        &|| quiet(&c("calls", &[]), &["5"]),
    ];
    for command in commands {
        let _one = alone();
        for _ in 0..3 {
            most_calls_have_stacks(command());
        }
    }
}

/// Checks that 99 of 100 calls have a stack, and 99 of 100 that start another program.
fn most_calls_have_stacks(command: Command) {
    let name = format!("{command:?}");
    let recorded = recorded(command, |options| {
        options.syscalls = true;
        options.cpu = false;
    });
    let named = |name: &str| recorded.summary.syscalls.iter().any(|call| call.name.starts_with(name));
    assert!(!named("syscall_"), "{:?}", recorded.summary.syscalls);
    // The first execve starts the command: the recorder makes it, before there is anything to record.
    for (only, without) in [(None, 0), (Some("execve"), 1)] {
        let (with, all) = with_stacks(&recorded.profile, only);
        assert!(
            with * 100 >= (all - without) * 99,
            "{name}, {only:?}: {with} of {all}: {:?}",
            recorded.summary
        );
    }
}
