//! `setup_profiling` and its builder: windows as files, kept and removed, in folders good and bad.

use flamelet::{ErrorKind, IntervalFiles, IntervalFilesBuilder, Profile, Profiler, setup_profiling};
use flamelet_capture::profile::{LocationId, pprof};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(180);
const SHORT: Duration = Duration::from_millis(200);
/// Long enough that no window ends before the recorder is stopped.
const LONG: Duration = Duration::from_secs(3600);

/// Names in the folder, hidden ones too, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

fn profiles(folder: &Path) -> Vec<String> {
    names(folder).into_iter().filter(|name| name.ends_with(".pb.gz")).collect()
}

fn read(folder: &Path, name: &str) -> Profile {
    let bytes = fs::read(folder.join(name)).expect("readable");
    pprof::read(&bytes, &pprof::Limits::default()).expect("a whole profile")
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < DEADLINE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn burn(duration: Duration) {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        std::hint::black_box((0..1000).sum::<u64>());
    }
}

/// The problems that the recorder reports, and the number of windows it has made.
struct Watched {
    problems: mpsc::Receiver<String>,
    profiler: Profiler,
}

impl Watched {
    /// Returns a recorder of short windows to `folder` that reports its problems here.
    fn start(folder: &Path) -> (IntervalFiles, Self) {
        let (sender, problems) = mpsc::channel();
        let profiler = Profiler::builder().start().expect("started");
        let report = move |problem: &str| sender.send(problem.to_owned()).unwrap_or_default();
        let files = IntervalFiles::builder(folder).name("a").interval(SHORT).on_problem(report);
        let files = files.profiler(profiler.clone()).start().expect("a bad folder is no error");
        (files, Self { problems, profiler })
    }

    /// The next problem.
    #[track_caller]
    fn problem(&self) -> String {
        self.problems.recv_timeout(DEADLINE).expect("reported")
    }

    /// Checks that nothing is reported while three more windows are made and written.
    #[track_caller]
    fn assert_silence(&self) {
        let windows = || self.profiler.metrics().captures_served;
        let before = windows();
        // A window is counted before it is written, so the fourth shows that three writes were tried.
        wait_until("windows go on", || windows() >= before + 4);
        assert_eq!(self.problems.try_recv().ok(), None, "reported once");
    }
}

/// Starts and stops a recorder: its only window is that of the stop.
fn write_one_window(builder: IntervalFilesBuilder) {
    builder.interval(LONG).start().expect("started").stop();
}

/// Puts an old window of another process with the same name into the folder, with this many bytes.
fn lay_window(folder: &Path, stamp: &str, bytes: u64) -> String {
    let picture = format!("flamegraph-a-{stamp}.svg");
    fs::write(folder.join(picture), "").expect("written");
    let name = format!("profile-a-{stamp}.pb.gz");
    fs::File::create(folder.join(&name)).and_then(|file| file.set_len(bytes)).expect("written");
    name
}

/// The samples that have a function of this name.
fn samples_in(profile: &Profile, name: &str) -> usize {
    let has = |function| profile.string(profile.function(function).name).contains(name);
    let is_in = |stack: &[LocationId]| {
        stack.iter().flat_map(|&id| profile.lines(id)).any(|line| line.function.is_some_and(has))
    };
    profile.samples().filter(|sample| is_in(profile.stack(sample.stack))).count()
}

#[test]
fn stopping_writes_what_there_is_of_the_last_window() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let profiler = Profiler::builder().overhead_budget(None).frequency(250).start().expect("started");
    let files = IntervalFiles::builder(folder.path()).interval(LONG).profiler(profiler.clone());
    let files = files.start().expect("started");
    // The recorder sees the same samples as this capture.
    let beside = profiler.start().expect("captures");
    wait_until("samples", || {
        burn_before_the_end(Duration::from_millis(20));
        samples_in(&beside.snapshot(), "burn_before_the_end") >= 10
    });
    assert_eq!(profiles(folder.path()), Vec::<String>::new(), "the window is not over");
    files.stop();
    let kept = profiles(folder.path());
    assert_eq!((kept.len(), names(folder.path()).len()), (1, 2), "{kept:?}");
    assert!(samples_in(&read(folder.path(), &kept[0]), "burn_before_the_end") > 0);
}

#[inline(never)]
fn burn_before_the_end(duration: Duration) {
    burn(duration);
}

#[test]
fn every_interval_has_its_own_window() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("made/on/the/way");
    let files = IntervalFiles::builder(&path).name("Indexer Service").interval(SHORT).frequency(250);
    let files = files.start().expect("started");
    wait_until("three windows, with a sample", || {
        burn(Duration::from_millis(20));
        let kept = profiles(&path);
        kept.len() >= 3 && kept.iter().any(|name| read(&path, name).sample_count() > 0)
    });
    files.stop();
    let kept = profiles(&path);
    let windows: Vec<Profile> = kept.iter().map(|name| read(&path, name)).collect();
    for pair in windows.windows(2) {
        let end = pair[0].header.time_nanos + pair[0].header.duration_nanos;
        let gap = pair[1].header.time_nanos - end;
        // A window begins where the one before ends: not at the start of everything.
        assert!(gap.abs() < pair[0].header.duration_nanos, "{gap} ns");
        assert_eq!(pair[0].header.period, 4_000_000);
    }
    for name in &kept {
        let stamp = name.strip_prefix("profile-indexer-service-").and_then(|n| n.strip_suffix(".pb.gz"));
        let stamp = stamp.expect("named by service and time");
        let picture = fs::read_to_string(path.join(format!("flamegraph-indexer-service-{stamp}.svg")));
        assert!(picture.expect("a picture each").contains("Indexer Service"));
    }
    assert_eq!(names(&path).len(), 2 * kept.len(), "nothing half-written stays: {:?}", names(&path));
    // Stopped: no more files.
    std::thread::sleep(2 * SHORT);
    assert_eq!(profiles(&path), kept);
}

#[test]
fn what_was_in_an_earlier_window_is_in_no_later_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let profiler = Profiler::builder().overhead_budget(None).frequency(250).start().expect("started");
    let files = IntervalFiles::builder(folder.path()).interval(SHORT).profiler(profiler);
    let files = files.start().expect("started");
    let has = |name: &str, function: &str| samples_in(&read(folder.path(), name), function) > 0;
    wait_until("a window with the first work", || {
        burn_at_first(Duration::from_millis(20));
        profiles(folder.path()).last().is_some_and(|newest| has(newest, "burn_at_first"))
    });
    // Besides those written by now, one may be in the middle of being written, and one open.
    let of_the_first = profiles(folder.path()).len() + 2;
    wait_until("a window with later work", || {
        burn_later(Duration::from_millis(20));
        profiles(folder.path())
            .get(of_the_first..)
            .unwrap_or_default()
            .iter()
            .any(|name| has(name, "burn_later"))
    });
    files.stop();
    for name in &profiles(folder.path())[of_the_first..] {
        assert!(!has(name, "burn_at_first"), "{name} has what an earlier one had");
    }
}

#[inline(never)]
fn burn_at_first(duration: Duration) {
    burn(duration);
}

#[inline(never)]
fn burn_later(duration: Duration) {
    // Not identical code, which the linker would merge into one function.
    burn(duration + Duration::from_millis(1));
}

#[test]
fn the_call_of_the_guide_goes_on_until_it_is_stopped() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().to_str().expect("text").to_owned();
    let files = setup_profiling(path.clone(), 150, 1, Some("tap-agent".into())).expect("started");
    wait_until("a window", || !profiles(folder.path()).is_empty());
    files.stop();
    // It continues after its value is dropped, as in `if let Err(…) = setup_profiling(…)`.
    let other = tempfile::tempdir().expect("a temporary folder");
    set_up_and_forget(other.path().to_str().expect("text")).expect("started");
    wait_until("a window", || !profiles(other.path()).is_empty());
    for (frequency, interval) in [(0, 120), (-1, 120), (1_000_000, 120), (150, 0)] {
        let error = setup_profiling(path.clone(), frequency, interval, None).expect_err("makes no sense");
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    }
}

/// As the README has it, and without a warning: nothing is lost with the value.
#[deny(unused_must_use)]
fn set_up_and_forget(path: &str) -> flamelet::Result<()> {
    setup_profiling(path.to_owned(), 150, 1, None)?;
    Ok(())
}

#[test]
fn old_windows_go_by_count() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("mine.txt"), "not a profile").expect("written");
    let files = IntervalFiles::builder(folder.path()).name("a").interval(SHORT).keep_windows(2);
    let files = files.start().expect("started");
    wait_until("a first window", || !profiles(folder.path()).is_empty());
    let first = profiles(folder.path())[0].clone();
    wait_until("the first goes", || !profiles(folder.path()).contains(&first));
    files.stop();
    assert_eq!(profiles(folder.path()).len(), 2);
    assert_eq!(names(folder.path()).len(), 5, "two pairs, and a file of another program");
}

#[test]
fn old_windows_go_by_age() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Three hours apart; the years since then count as an eighth of the 25 hours that are kept.
    let lay = |at: u32| {
        lay_window(folder.path(), &format!("202001{:02}T{:02}0000.000Z", 1 + at / 8, at % 8 * 3), 100)
    };
    let old: Vec<String> = (0..16).map(lay).collect();
    let builder = || IntervalFiles::builder(folder.path()).name("a").keep_for(Duration::from_secs(90_000));
    write_one_window(builder());
    let left = profiles(folder.path());
    assert_eq!(left.len(), 9, "{left:?}");
    assert_eq!(left[..8], old[8..], "the newest of them stay");
    // A newer one stays.
    write_one_window(builder());
    let both = profiles(folder.path());
    assert!(both.len() == 10 && both[..9] == left, "{both:?}");
    assert_eq!(names(folder.path()).len(), 20, "pictures go with their profiles");
}

#[test]
fn old_windows_go_by_size() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let lay = |minute: u32| lay_window(folder.path(), &format!("20200101T00{minute:02}00.000Z"), 30 << 20);
    let old: Vec<String> = (0..10).map(lay).collect();
    let builder = IntervalFiles::builder(folder.path()).name("a").keep_for(Duration::MAX);
    // Room for three of them, and the new one, which is much smaller.
    write_one_window(builder.keep_bytes(100 << 20));
    let left = profiles(folder.path());
    assert_eq!(left.len(), 4, "{left:?}");
    assert_eq!(left[..3], old[7..], "the newest of them stay");
    // The newest is kept, whatever its size.
    write_one_window(IntervalFiles::builder(folder.path()).name("a").keep_bytes(1));
    let last = profiles(folder.path());
    assert!(last.len() == 1 && !left.contains(&last[0]), "{last:?}");
    assert_eq!(names(folder.path()).len(), 2, "pictures go with their profiles");
}

#[test]
fn a_window_is_never_seen_half() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files = IntervalFiles::builder(folder.path()).interval(Duration::from_millis(100)).keep_windows(3);
    let files = files.start().expect("started");
    let (start, mut seen) = (Instant::now(), 0);
    while seen < 200 && start.elapsed() < DEADLINE {
        for name in profiles(folder.path()) {
            // It may be removed between listing and reading, but never be truncated.
            if let Ok(bytes) = fs::read(folder.path().join(&name)) {
                pprof::read(&bytes, &pprof::Limits::default()).expect("whole");
                seen += 1;
            }
        }
    }
    drop(files);
    assert!(seen > 0);
}

#[test]
fn a_folder_that_cannot_be_written_is_reported_once_and_tried_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // A file in place of the folder: not even root can write there.
    let path = folder.path().join("taken");
    fs::write(&path, "in the way").expect("written");
    let (files, watched) = Watched::start(&path);
    let problem = watched.problem();
    assert!(problem.contains("taken cannot be written") && !problem.contains('\n'), "{problem}");
    watched.assert_silence();
    fs::remove_file(&path).expect("removed");
    let again = watched.problem();
    assert!(again.contains("can be written again"), "{again}");
    wait_until("windows", || !profiles(&path).is_empty());
    // When it is removed, it is created again.
    fs::rename(&path, folder.path().join("elsewhere")).expect("moved away");
    wait_until("windows again", || !profiles(&path).is_empty());
    files.stop();
}

/// A small file system, gone when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` where nothing may be mounted.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=512k", "flamelet-test"]).arg(folder.path());
        let output = mount.output().ok()?;
        output.status.success().then(|| Self(folder))
    }

    /// `ro` for read-only, `rw` to write again.
    fn remount(&self, how: &str) {
        // It is refused while a file there is being written.
        wait_until(how, || {
            let mut mount = std::process::Command::new("mount");
            mount.args(["-o", &format!("remount,{how}")]).arg(self.0.path());
            mount.output().is_ok_and(|output| output.status.success())
        });
    }

    fn fill(&self) -> std::path::PathBuf {
        let path = self.0.path().join("filler");
        let mut file = fs::File::create(&path).expect("made");
        while file.write_all(&[1; 4096]).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_reported_once_and_used_again_when_there_is_room() {
    let Some(disk) = SmallDisk::mount() else {
        flamelet_test_support::skip!("no file system can be mounted here");
        return;
    };
    let filler = disk.fill();
    let (files, watched) = Watched::start(disk.0.path());
    let problem = watched.problem();
    assert!(problem.contains("cannot be written") && problem.contains("No space left"), "{problem}");
    watched.assert_silence();
    wait_until("nothing is left of what did not fit", || names(disk.0.path()) == ["filler"]);
    fs::remove_file(filler).expect("removed");
    let again = watched.problem();
    assert!(again.contains("can be written again"), "{again}");
    wait_until("windows", || !profiles(disk.0.path()).is_empty());
    files.stop();
    let left = names(disk.0.path());
    assert_eq!(left.len(), 2 * profiles(disk.0.path()).len(), "whole pairs: {left:?}");
}

#[test]
fn a_disk_that_becomes_read_only_is_reported_once_and_used_again_when_it_is_not() {
    let Some(disk) = SmallDisk::mount() else {
        flamelet_test_support::skip!("no file system can be mounted here");
        return;
    };
    let (files, watched) = Watched::start(disk.0.path());
    wait_until("a first window", || !profiles(disk.0.path()).is_empty());
    disk.remount("ro");
    let problem = watched.problem();
    assert!(problem.contains("cannot be written") && problem.contains("Read-only"), "{problem}");
    watched.assert_silence();
    let before = profiles(disk.0.path());
    disk.remount("rw");
    let again = watched.problem();
    assert!(again.contains("can be written again"), "{again}");
    wait_until("new windows", || profiles(disk.0.path()).len() > before.len());
    files.stop();
}

#[test]
fn a_folder_that_cannot_be_written_is_reported_before_the_first_window_is_over() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("taken");
    fs::write(&path, "in the way").expect("written");
    let (sender, problems) = mpsc::channel();
    let report = move |problem: &str| sender.send(problem.to_owned()).unwrap_or_default();
    let files = IntervalFiles::builder(&path).interval(LONG).on_problem(report).start().expect("started");
    let problem = problems.recv_timeout(DEADLINE).expect("reported at once");
    assert!(problem.contains("taken cannot be written"), "{problem}");
    files.stop();
    let last = problems.recv_timeout(DEADLINE).expect("the last word");
    assert!(last.contains("1 windows are lost"), "said once: {last}");
}

#[test]
fn a_folder_that_nobody_can_make_does_not_hurt() {
    // Root can write anywhere else, but not here.
    let (files, watched) = Watched::start(Path::new("/proc/flamelet"));
    let problem = watched.problem();
    assert!(problem.contains("cannot be written"), "{problem}");
    watched.assert_silence();
    files.stop();
    let last = watched.problem();
    assert!(last.contains("windows are lost"), "{last}");
}

#[test]
fn a_panic_in_on_problem_does_not_end_the_recorder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("taken");
    fs::write(&path, "in the way").expect("written");
    let (sender, heard) = mpsc::channel();
    let report = move |_: &str| {
        sender.send(()).unwrap_or_default();
        panic!("as the test wants");
    };
    let files = IntervalFiles::builder(&path).interval(SHORT).on_problem(report).start().expect("started");
    heard.recv_timeout(DEADLINE).expect("reported");
    fs::remove_file(&path).expect("removed");
    wait_until("windows", || !profiles(&path).is_empty());
    files.stop();
}
