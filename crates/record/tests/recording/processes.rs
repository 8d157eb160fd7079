//! Children, programs that execute others, threads that come and go, processes that already run.

use crate::programs::{alone, c, copy, folder, quiet, rust, telling};
use crate::seen::{frames, has, label, number, recorded};
use flamelet_record::{CommandEnd, RecordOptions, Target, record};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn children_and_what_they_execute_are_seen_and_the_status_is_passed_on() {
    let _one = alone();
    let deep = rust("deep", &[]);
    let deep = deep.to_str().expect("a plain path");
    let (command, out) = telling(&c("forks", &[]), &[deep, "1", "100"], "forks");
    let recorded = recorded(command, |_| {});
    let profile = &recorded.profile;
    let started: BTreeSet<i64> = std::fs::read_to_string(out)
        .expect("its output")
        .lines()
        .map(|line| line.parse().expect("a pid"))
        .collect();
    assert_eq!(started.len(), 8);
    let working = |sample: &flamelet_profile::Sample<'_>| has(&frames(profile, sample), "child_work");
    let seen: BTreeSet<i64> =
        profile.samples().filter(working).filter_map(|sample| number(profile, &sample, "pid")).collect();
    assert_eq!(seen, started);
    let program = std::path::Path::new(deep).file_name().and_then(|name| name.to_str()).expect("a name");
    let of_deep = profile
        .samples()
        .filter(|sample| label(profile, sample, "process") == Some(&program[..program.len().min(15)]));
    let deep_spins: i64 =
        of_deep.filter(|sample| has(&frames(profile, sample), "spin")).map(|s| s.values[0]).sum();
    assert!(deep_spins > 20, "{deep_spins}: {:?}", recorded.summary);
    assert!(recorded.summary.rooted_share() >= 0.98, "{:?}", recorded.summary);
    match recorded.command {
        Some(CommandEnd::Exited(status)) => assert_eq!(status.code(), Some(7)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_program_that_becomes_another_is_that_other() {
    let _one = alone();
    let deep = rust("deep", &[]);
    let mut shell = quiet("sh".as_ref(), &["-c", "exec \"$0\" 1 200"]);
    shell.arg(&deep);
    let recorded = recorded(shell, |_| {});
    let profile = &recorded.profile;
    let spins = profile.samples().filter(|sample| has(&frames(profile, sample), "spin"));
    let processes: BTreeSet<&str> = spins.filter_map(|sample| label(profile, &sample, "process")).collect();
    let name = deep.file_name().and_then(|name| name.to_str()).expect("a name");
    assert_eq!(processes, BTreeSet::from([&name[..name.len().min(15)]]));
}

#[test]
fn threads_that_live_a_millisecond_are_all_sampled() {
    let _one = alone();
    let recorded = recorded(quiet(&rust("short_threads", &[]), &[]), |options| {
        options.frequency = 4000;
        // Small stacks, so that all of them fit into a ring, however late they are taken out.
        options.dump_bytes = 4 << 10;
    });
    let (profile, summary) = (&recorded.profile, &recorded.summary);
    let working = profile.samples().filter(|sample| has(&frames(profile, sample), "short_work"));
    let tids: BTreeSet<i64> = working.filter_map(|sample| number(profile, &sample, "tid")).collect();
    // Each runs for several periods of 250 µs, so hardly any can be missed.
    assert!(tids.len() > 200, "{} of 300 threads: {summary:?}", tids.len());
    assert!(summary.rooted_share() >= 0.98, "{summary:?}");
    assert_eq!(summary.lost, 0);
}

#[test]
fn a_process_that_was_there_before_is_joined_and_left_alone() {
    let _one = alone();
    let program = folder().join("deep-deleted");
    copy(&rust("deep", &["-C", "link-arg=-Wl,--build-id"]), &program);
    let mut child = quiet(&program, &["2", "60000"]).spawn().expect("our own program");
    // Its threads must run before the recording, and its file must be removed.
    while std::fs::read_dir(format!("/proc/{}/task", child.id())).map_or(0, Iterator::count) < 3 {
        std::thread::yield_now();
    }
    std::fs::remove_file(&program).expect("our own folder");
    let options = RecordOptions::new(Target::Pids(vec![child.id()]));
    let stop = AtomicBool::new(false);
    let mut enough = |progress: &flamelet_record::Progress| {
        // Independent of the duration: the caller decides when to stop.
        stop.fetch_or(progress.samples > 200, Ordering::Relaxed);
    };
    let recorded = record(options, &mut enough, &stop);
    let is_running = child.try_wait().expect("our own child").is_none();
    child.kill().expect("our own child");
    child.wait().expect("our own child");
    let recorded = recorded.expect("permitted here");
    assert!(is_running, "the recording must not end the work");
    assert!(recorded.command.is_none());
    let profile = &recorded.profile;
    let spins: i64 =
        profile.samples().filter(|sample| has(&frames(profile, sample), "spin")).map(|s| s.values[0]).sum();
    assert!(spins * 10 > profile.total(0) * 8, "{spins} of {}: {:?}", profile.total(0), recorded.summary);
    assert!(recorded.summary.rooted_share() >= 0.99, "{:?}", recorded.summary);
    let names: BTreeSet<&str> = profile.samples().filter_map(|s| label(profile, &s, "thread")).collect();
    assert!(names.contains("worker-0") && names.contains("worker-1"), "{names:?}");
    let file =
        profile.mappings().iter().any(|m| profile.string(m.filename) == program.to_str().expect("plain"));
    assert!(file, "the mapping keeps the name that the program had");
}

#[test]
fn a_thread_stands_for_its_process() {
    let _one = alone();
    let mut child = quiet(&rust("deep", &[]), &["2", "60000"]).spawn().expect("our own program");
    let tasks = || std::fs::read_dir(format!("/proc/{}/task", child.id())).expect("it runs");
    while tasks().count() < 3 {
        std::thread::yield_now();
    }
    let tids = tasks().filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    let thread = tids.filter(|&tid: &u32| tid != child.id()).max().expect("three threads");
    let stop = AtomicBool::new(false);
    let mut enough = |progress: &flamelet_record::Progress| {
        stop.fetch_or(progress.samples > 100, Ordering::Relaxed);
    };
    // As `top -H` shows it. The end of a thread cannot be waited for, so this ended at once.
    let recorded = record(RecordOptions::new(Target::Pids(vec![thread])), &mut enough, &stop);
    child.kill().expect("our own child");
    child.wait().expect("our own child");
    assert!(recorded.expect("permitted here").summary.samples > 100);
}

#[test]
fn a_command_outlives_a_recording_that_ends_first() {
    let _one = alone();
    let options = RecordOptions::new(Target::Command(quiet(&rust("deep", &[]), &["1", "60000"])));
    let stop = AtomicBool::new(false);
    let mut enough = |progress: &flamelet_record::Progress| {
        stop.fetch_or(progress.samples > 0, Ordering::Relaxed);
    };
    let recorded = record(options, &mut enough, &stop).expect("permitted here");
    match recorded.command {
        Some(CommandEnd::Running(mut child)) => {
            assert!(child.try_wait().expect("our own child").is_none());
            child.kill().expect("our own child");
            child.wait().expect("our own child");
        }
        other => panic!("{other:?}"),
    }
    assert!(recorded.summary.samples > 0);
}

#[test]
fn several_processes_and_the_children_they_start_later() {
    let _one = alone();
    let deep = rust("deep", &[]);
    let script = "while :; do \"$0\" 1 40; done";
    let shell = || {
        let mut shell = quiet("sh".as_ref(), &["-c", script]);
        // A group of its own, so that the last child ends with it.
        std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        shell.arg(&deep).spawn().expect("a shell")
    };
    let mut shells = [shell(), shell()];
    let pids: Vec<u32> = shells.iter().map(std::process::Child::id).collect();
    let stop = AtomicBool::new(false);
    let mut enough = |progress: &flamelet_record::Progress| {
        stop.fetch_or(progress.samples > 400, Ordering::Relaxed);
    };
    let recorded = record(RecordOptions::new(Target::Pids(pids.clone())), &mut enough, &stop);
    for shell in &mut shells {
        // SAFETY: sends a signal to a group that this test started.
        unsafe { libc::kill(-(shell.id() as i32), libc::SIGKILL) };
        shell.wait().expect("our own child");
    }
    let recorded = recorded.expect("permitted here");
    let profile = &recorded.profile;
    let spins = profile.samples().filter(|sample| has(&frames(profile, sample), "spin"));
    let workers: BTreeSet<i64> = spins.filter_map(|sample| number(profile, &sample, "pid")).collect();
    // Each lives for 40 ms, so several of both were seen, none of them there at the start.
    assert!(workers.len() >= 3, "{workers:?}: {:?}", recorded.summary);
    assert!(pids.iter().all(|pid| !workers.contains(&i64::from(*pid))), "{workers:?}");
    assert!(recorded.summary.rooted_share() >= 0.97, "{:?}", recorded.summary);
}

#[test]
fn children_that_were_there_before_are_recorded_too() {
    let _one = alone();
    let deep = rust("deep", &[]);
    let mut shell = quiet("sh".as_ref(), &["-c", "\"$0\" 1 60000 & \"$0\" 1 60000 & wait"]);
    std::os::unix::process::CommandExt::process_group(&mut shell, 0);
    let mut shell = shell.arg(&deep).spawn().expect("a shell");
    let pid = shell.id();
    let threads_below = || {
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let tasks = |child: &str| std::fs::read_dir(format!("/proc/{child}/task")).map_or(0, Iterator::count);
        children.split_whitespace().map(tasks).sum::<usize>()
    };
    // Two programs of two threads each: they are at work.
    while threads_below() < 4 {
        std::thread::yield_now();
    }
    let stop = AtomicBool::new(false);
    let mut enough = |progress: &flamelet_record::Progress| {
        stop.fetch_or(progress.samples > 400, Ordering::Relaxed);
    };
    let recorded = record(RecordOptions::new(Target::Pids(vec![pid])), &mut enough, &stop);
    // SAFETY: sends a signal to a group that this test started.
    unsafe { libc::kill(-(pid as i32), libc::SIGKILL) };
    shell.wait().expect("our own child");
    let recorded = recorded.expect("permitted here");
    let profile = &recorded.profile;
    let spins = profile.samples().filter(|sample| has(&frames(profile, sample), "spin"));
    let workers: BTreeSet<i64> = spins.filter_map(|sample| number(profile, &sample, "pid")).collect();
    assert_eq!(workers.len(), 2, "{workers:?}: {:?}", recorded.summary);
    assert!(recorded.summary.rooted_share() >= 0.97, "{:?}", recorded.summary);
}

#[test]
fn processes_are_found_by_the_name_of_their_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("a-program-with-a-long-name");
    std::fs::copy(rust("deep", &[]), &program).expect("copied");
    let mut children = [1, 2].map(|_| quiet(&program, &["1", "60000"]).spawn().expect("our own program"));
    let mut pids: Vec<u32> = children.iter().map(std::process::Child::id).collect();
    pids.sort_unstable();
    let found = flamelet_record::processes::named("a-program-with-a-long-name");
    // The kernel cuts the name of a thread after fifteen letters.
    let found_by_thread = flamelet_record::processes::named("a-program-with-");
    for child in &mut children {
        child.kill().expect("our own child");
        child.wait().expect("our own child");
    }
    assert_eq!(found, pids);
    assert_eq!(found_by_thread, pids);
    assert!(flamelet_record::processes::named("no-such-program").is_empty());
}

#[test]
fn everything_that_runs_is_recorded_where_permitted() {
    let _one = alone();
    let report = flamelet_record::doctor::machine();
    let may = report
        .check("all processes")
        .is_some_and(|check| check.state == flamelet_record::doctor::CheckResult::Good);
    if !may {
        flamelet_test_support::skip!("all processes: this user may watch only its own\n{report}");
        return;
    }
    let mut child = quiet(&rust("deep", &[]), &["2", "60000"]).spawn().expect("our own program");
    let stop = AtomicBool::new(false);
    let mut looks = 0;
    let mut enough = |progress: &flamelet_record::Progress| {
        looks += 1;
        stop.fetch_or(looks > 2 && progress.samples > 300, Ordering::Relaxed);
    };
    let recorded = record(RecordOptions::new(Target::All), &mut enough, &stop);
    child.kill().expect("our own child");
    child.wait().expect("our own child");
    let recorded = recorded.expect("permitted here");
    let profile = &recorded.profile;
    let of_child = |sample: &flamelet_profile::Sample<'_>| {
        number(profile, sample, "pid") == Some(i64::from(child.id())) && has(&frames(profile, sample), "spin")
    };
    let spins: i64 = profile.samples().filter(of_child).map(|sample| sample.values[0]).sum();
    assert!(spins > 20, "{spins} of {}: {:?}", profile.total(0), recorded.summary);
    let idle = profile.samples().filter(|sample| number(profile, sample, "pid") == Some(0)).count();
    assert_eq!(idle, 0, "the idle task is not work");
}

#[test]
fn a_target_that_dies_at_once_leaves_a_profile_and_its_status() {
    use std::os::unix::process::ExitStatusExt;
    let _one = alone();
    for (script, code, signal) in [("exit 5", Some(5), None), ("kill -9 $$", None, Some(9))] {
        let recorded = recorded(quiet("sh".as_ref(), &["-c", script]), |_| {});
        match &recorded.command {
            Some(CommandEnd::Exited(status)) => assert_eq!((status.code(), status.signal()), (code, signal)),
            other => panic!("{other:?}"),
        }
        let written = flamelet_profile::pprof::encode(&recorded.profile);
        let read = flamelet_profile::pprof::read(&written, &flamelet_profile::pprof::Limits::default());
        assert_eq!(read.expect("a whole file").total(0), recorded.summary.samples as i64);
    }
}

#[test]
fn a_program_whose_file_was_replaced_keeps_its_own_names() {
    let _one = alone();
    let program = folder().join("deep-replaced");
    copy(&rust("deep", &["-C", "link-arg=-Wl,--build-id"]), &program);
    let mut child = quiet(&program, &["1", "60000"]).spawn().expect("our own program");
    while std::fs::read_dir(format!("/proc/{}/task", child.id())).map_or(0, Iterator::count) < 2 {
        std::thread::yield_now();
    }
    // As in an update: another program under the same name.
    let other = folder().join("deep-replaced.new");
    copy(&c("calls", &["-Wl,--build-id"]), &other);
    std::fs::rename(&other, &program).expect("our own folder");
    let stop = AtomicBool::new(false);
    let mut enough = |progress: &flamelet_record::Progress| {
        stop.fetch_or(progress.samples > 100, Ordering::Relaxed);
    };
    let recorded = record(RecordOptions::new(Target::Pids(vec![child.id()])), &mut enough, &stop);
    child.kill().expect("our own child");
    child.wait().expect("our own child");
    let recorded = recorded.expect("permitted here");
    let profile = &recorded.profile;
    let spins = profile.samples().filter(|sample| has(&frames(profile, sample), "spin"));
    let spins: i64 = spins.map(|sample| sample.values[0]).sum();
    assert!(spins * 10 > profile.total(0) * 8, "{spins} of {}: {:?}", profile.total(0), recorded.summary);
}
