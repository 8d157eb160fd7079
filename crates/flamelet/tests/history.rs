//! The past on disk: it survives the profiler, and a disk that cannot be written does no harm.

use flamelet::{ErrorKind, History, IntervalFiles, Profile, Profiler, ProfilerBuilder};
use flamelet_capture::profile::pprof;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

const DEADLINE: Duration = Duration::from_secs(180);

/// Without a budget: on a slow machine it would lower the frequency.
fn builder(history: &Path) -> ProfilerBuilder {
    let history = History::new(history).window(Duration::from_millis(200)).frequency(200);
    Profiler::builder().name("night").label("region", "north").overhead_budget(None).history(history)
}

#[inline(never)]
fn spin_at_night(duration: Duration) {
    let end = Instant::now() + duration;
    let mut state = 1u64;
    while Instant::now() < end {
        for _ in 0..10_000 {
            state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

/// Spins until the range from `start` has what is wanted, and returns its profile.
#[track_caller]
fn spin_until(profiler: &Profiler, start: SystemTime, is_so: impl Fn(&Profile) -> bool) -> Profile {
    let patience = Instant::now();
    loop {
        spin_at_night(Duration::from_millis(100));
        match profiler.range(start, SystemTime::now()) {
            Ok(profile) if is_so(&profile) => return profile,
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
        }
        assert!(patience.elapsed() < DEADLINE, "the range is still not as it should be");
    }
}

fn names(profile: &Profile, name: &str) -> bool {
    profile.functions().iter().any(|function| profile.string(function.name).contains(name))
}

fn labels(profile: &Profile) -> Vec<(String, String)> {
    let all = profile.samples().flat_map(|sample| profile.labels(sample.labels));
    all.map(|label| (profile.string(label.key).to_owned(), profile.string(label.text).to_owned())).collect()
}

#[test]
fn the_past_survives_the_profiler() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = SystemTime::now() - Duration::from_secs(1);
    let profiler = builder(folder.path()).start().expect("started");
    assert_eq!(profiler.history_folder(), Some(folder.path()));
    let before = spin_until(&profiler, start, |profile| names(profile, "spin_at_night"));
    assert!(labels(&before).contains(&("region".to_owned(), "north".to_owned())));
    assert!(before.comments().any(|comment| comment == "service night"));
    let end = SystemTime::now();
    drop(profiler);
    // Another one, as after a restart, has the same past, and keeps its names.
    let profiler = builder(folder.path()).start().expect("started");
    let after = profiler.range(start, end).expect("there");
    assert!(names(&after, "spin_at_night"));
    assert!(after.total(1) >= before.total(1), "{} of {}", after.total(1), before.total(1));
    let has_names = std::fs::read_dir(folder.path())
        .expect("listed")
        .any(|entry| entry.expect("listed").file_name().to_string_lossy().starts_with("names-"));
    assert!(has_names, "the names of this build are kept");
}

#[test]
fn ranges_that_make_no_sense_are_refused_with_what_there_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let profiler = builder(folder.path()).start().expect("started");
    let (now, hour) = (SystemTime::now(), Duration::from_secs(3600));
    for (from, to) in [(now, now), (now, now - hour)] {
        assert_eq!(profiler.range(from, to).expect_err("empty").kind(), ErrorKind::InvalidOption);
    }
    let error = profiler.range(now - 3 * hour, now - 2 * hour).expect_err("nothing there");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("the history"), "{error}");
    let without = Profiler::builder().start().expect("started");
    assert_eq!(without.range(now - hour, now).expect_err("off").kind(), ErrorKind::NotEnabled);
    let too_short = History::new(folder.path()).window(Duration::from_millis(1));
    let error = Profiler::builder().history(too_short).start().expect_err("too short");
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
}

#[test]
fn a_folder_that_cannot_be_written_does_not_stop_the_service() {
    let folder = tempfile::tempdir().expect("a folder");
    let taken = folder.path().join("taken");
    std::fs::write(&taken, "a file").expect("written");
    let profiler = builder(&taken).start().expect("started all the same");
    spin_at_night(Duration::from_millis(300));
    let past = profiler.range(SystemTime::now() - Duration::from_secs(60), SystemTime::now());
    assert!(past.is_err());
    // Once the way is free, windows are written.
    std::fs::remove_file(&taken).expect("removed");
    let start = SystemTime::now() - Duration::from_secs(1);
    spin_until_written(&profiler, start);
    assert!(taken.is_dir());
}

/// Like [`spin_until`], while the folder may not exist yet.
#[track_caller]
fn spin_until_written(profiler: &Profiler, start: SystemTime) {
    let patience = Instant::now();
    while profiler.range(start, SystemTime::now()).is_err() {
        spin_at_night(Duration::from_millis(100));
        assert!(patience.elapsed() < DEADLINE, "no window was written");
    }
}

/// Both take their samples from the same sampler.
#[test]
fn interval_files_are_written_beside_a_history() {
    let (folder, files) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let start = SystemTime::now() - Duration::from_secs(1);
    let profiler = builder(folder.path()).start().expect("started");
    let recorder = IntervalFiles::builder(files.path()).name("night").interval(Duration::from_millis(200));
    let recorder = recorder.profiler(profiler.clone()).start().expect("started");
    spin_until(&profiler, start, |profile| names(profile, "spin_at_night"));
    let has_file = || {
        let entries =
            std::fs::read_dir(files.path()).expect("listed").map(|entry| entry.expect("listed").path());
        let mut written = entries.filter(|path| path.to_string_lossy().ends_with(".pb.gz"));
        written.any(|path| {
            // The oldest are removed.
            let Ok(bytes) = std::fs::read(path) else { return false };
            names(&pprof::read(&bytes, &pprof::Limits::default()).expect("a whole profile"), "spin_at_night")
        })
    };
    let patience = Instant::now();
    while !has_file() {
        assert!(patience.elapsed() < DEADLINE, "no file has the function");
        spin_at_night(Duration::from_millis(100));
    }
    // The files have not taken the samples away from the history.
    let middle = SystemTime::now();
    spin_until(&profiler, middle, |profile| names(profile, "spin_at_night"));
    drop(recorder);
}
