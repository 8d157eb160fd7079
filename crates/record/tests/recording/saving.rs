//! A readable file, whatever happens to the recorder.

use crate::helper::command;
use crate::programs::{alone, folder, quiet, rust};
use crate::seen::recorded;
use flamelet_profile::pprof;
use flamelet_record::Checkpoint;
use std::process::Stdio;
use std::time::Duration;

#[test]
fn a_killed_recorder_leaves_what_it_saw() {
    let _one = alone();
    let saved = folder().join("killed.pb.gz");
    let mut helper = command(saved.to_str().expect("a plain path"), &rust("deep", &[]));
    let mut child = helper.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("our own program");
    let read = || pprof::read(&std::fs::read(&saved).ok()?, &pprof::Limits::default()).ok();
    while read().is_none_or(|profile| profile.sample_count() == 0) {
        assert!(child.try_wait().expect("our own child").is_none(), "it records until it is killed");
        std::thread::sleep(Duration::from_millis(5));
    }
    // The recorded command has its own process group and continues; the test must end it.
    let worker = children_of(child.id());
    child.kill().expect("our own child");
    child.wait().expect("our own child");
    for pid in worker {
        // SAFETY: sends a signal to a process that this test started.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    let profile = read().expect("a whole file");
    assert!(profile.sample_count() > 0 && profile.timeline.is_some());
}

fn children_of(pid: u32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

#[test]
fn a_full_disk_is_noted_and_the_recording_goes_on() {
    let _one = alone();
    let recorded = recorded(quiet(&rust("deep", &[]), &["1", "200"]), |options| {
        let save = Box::new(|profile: &flamelet_profile::Profile| {
            // Every write to it fails, as on a full disk.
            let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
            pprof::write_gzip(profile, full).map_err(std::io::Error::other)
        });
        options.checkpoint = Some(Checkpoint { every: Duration::from_millis(20), save });
    });
    assert!(recorded.summary.samples > 100, "{:?}", recorded.summary);
    let notes = &recorded.summary.notes;
    assert!(notes.iter().any(|note| note.contains("could not be saved")), "{notes:?}");
}
