//! What is left of the heap profile when a process forks, runs out of memory, or is killed.
//!
//! The program starts itself again for everything that ends a process: see `child`.

#![allow(unsafe_code, reason = "forks, and sets limits")]

mod heap_support;
#[path = "heap_support/process.rs"]
mod process;

use flamelet_capture::heap::{self, Alloc, Options, Snapshot};
use flamelet_profile::Profile;
use heap_support::{Batch, Names, assert_close, turn};
use process::{
    FILE, Folder, MEAN, MODE, assert_has_what_is_kept, filled, innocent_work, keep_for_ever, start_child,
};
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[global_allocator]
static ALLOCATOR: Alloc = Alloc::system();

/// How often each way of killing is tried: `usual` times, or as `FLAMELET_HEAP_KILLS` says.
fn kills(usual: usize) -> usize {
    std::env::var("FLAMELET_HEAP_KILLS").map_or(usual, |number| number.parse().expect("a number"))
}

/// Reads and removes the file that a process left: a hundred of them would take gigabytes.
fn left_in(file: &Path) -> Profile {
    let profile = heap::recover(file).expect("a profile");
    std::fs::remove_file(file).expect("removed");
    profile
}

/// Not a test by itself: the other tests start this program again to run it.
#[test]
fn child() {
    let Some((mode, file)) = process::asked() else { return };
    match &*mode {
        "refused" => run_out_of_address_space(&file),
        "cgroup" => run_out_of_cgroup(&file),
        "killed" => be_killed(&file),
        "named" => pass_a_named_limit(&file),
        "address space" => come_near_the_address_space_limit(&file),
        "near" => assert!(works_in_an_emergency(&file), "the limit is near"),
        "far" => assert!(!works_in_an_emergency(&file), "the kernel would take the page cache back first"),
        "fork" => fork_with_files(&file),
        "again" => start_with_both_files(&file),
        other => panic!("no child of the name {other}"),
    }
}

#[inline(never)]
fn allocating_burst() -> Vec<Vec<u8>> {
    let mut hoard = Vec::new();
    loop {
        hoard.push(filled(700_000));
        black_box(&hoard);
    }
}

#[track_caller]
fn assert_names_the_allocating_function(names: &Names, profile: &Profile, run: usize) {
    let burst = names.total(profile, &["allocating_burst"])[3];
    let all = profile.total(3);
    assert!(burst * 2 > all && burst > 50 << 20, "run {run}: {burst} of {all} bytes");
}

fn run_out_of_address_space(file: &Path) {
    // No core file, since the process is meant to end by SIGABRT.
    for (resource, most) in [(libc::RLIMIT_AS, 250 << 20), (libc::RLIMIT_CORE, 0)] {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: sets a limit of this process, which is a test's child.
        assert_eq!(unsafe { libc::setrlimit(resource, &raw const limit) }, 0);
    }
    Options::new().emergency_file(file).start().expect("starts");
    let innocent = innocent_work();
    black_box(allocating_burst());
    drop(innocent);
}

#[test]
fn a_process_that_runs_out_of_address_space_leaves_a_profile_each_time() {
    let folder = Folder::new("refused");
    let names = Names::load();
    for run in 0..kills(20) {
        let file = folder.file(run);
        let output = start_child("refused", &file).wait_with_output().expect("ends");
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
        let profile = left_in(&file);
        assert_names_the_allocating_function(&names, &profile, run);
        let comments: Vec<&str> = profile.comments().collect();
        assert!(comments.iter().any(|comment| comment.contains("bytes failed")), "{comments:?}");
    }
}

fn run_out_of_cgroup(file: &Path) {
    Options::new().emergency_file(file).start().expect("starts");
    let innocent = innocent_work();
    black_box(allocating_burst());
    drop(innocent);
}

/// A new memory control group.
struct Group {
    folder: PathBuf,
}

impl Group {
    fn new(limit: u64) -> std::io::Result<Self> {
        let name = format!("flamelet-test-{}", std::process::id());
        let (root, limit_file) = match Path::new("/sys/fs/cgroup/memory").is_dir() {
            true => (Path::new("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
            false => (Path::new("/sys/fs/cgroup"), "memory.max"),
        };
        let folder = root.join(name);
        std::fs::create_dir(&folder)?;
        let group = Self { folder };
        std::fs::write(group.folder.join(limit_file), limit.to_string())?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.folder);
    }
}

#[test]
fn a_process_that_its_control_group_kills_leaves_a_profile_each_time() {
    let _turn = turn();
    let group = match Group::new(200 << 20) {
        Ok(group) => group,
        Err(error) => {
            flamelet_test_support::skip!("no control group can be made here: {error}");
            return;
        }
    };
    let folder = Folder::new("cgroup");
    let names = Names::load();
    for run in 0..kills(10) {
        let file = folder.file(run);
        let program = std::env::current_exe().expect("a program");
        // The limit must be there when the profiler starts: so the shell enters the group, then starts it.
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", group.folder.display());
        let status = Command::new("sh")
            .args(["-c", &script])
            .arg(program)
            .args(["child", "--exact", "--nocapture", "--test-threads=1"])
            .env(MODE, "cgroup")
            .env(FILE, &file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("a shell");
        assert_eq!(status.signal(), Some(libc::SIGKILL), "run {run}: {status:?}");
        let profile = left_in(&file);
        assert_names_the_allocating_function(&names, &profile, run);
        let comments: Vec<&str> = profile.comments().collect();
        assert!(comments.iter().any(|comment| comment.contains("control group's limit")), "{comments:?}");
    }
}

fn be_killed(file: &Path) {
    Options::new().mean(MEAN).file(file).start().expect("starts");
    let kept = keep_for_ever();
    println!("\nkept");
    let mut round = 0usize;
    loop {
        round += 1;
        drop(black_box(filled(round % 5_000 + 1)));
        black_box(&kept);
    }
}

#[test]
fn a_killed_process_leaves_its_live_set() {
    let folder = Folder::new("killed");
    let names = Names::load();
    for run in 0..kills(10) {
        let file = folder.file(run);
        let mut child = start_child("killed", &file);
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        assert!(lines.map_while(Result::ok).any(|line| line == "kept"), "the child ended early");
        child.kill().expect("killed");
        child.wait().expect("ends");
        let profile = left_in(&file);
        assert_has_what_is_kept(&names, &profile);
        assert!(profile.comments().any(|comment| comment.contains(" 0 records damaged")));
        assert!(
            profile.header.duration_nanos > 0,
            "its time is that of its last sample, and not of its start"
        );
        assert!(!profile.comments().any(|comment| comment.contains("watching")), "the limits are not ours");
    }
}

fn start_with_both_files(file: &Path) {
    let emergency = file.with_extension("emergency");
    Options::new().mean(MEAN).file(file).emergency_file(emergency).start().expect("starts");
}

/// A service that was killed is started again at once, with the same files; or both run at the same time.
#[test]
fn another_start_with_the_same_files_neither_wipes_them_nor_harms_their_owner() {
    let folder = Folder::new("again");
    let names = Names::load();
    let file = folder.file("ledger");
    let mut first = start_child("killed", &file);
    let lines = BufReader::new(first.stdout.take().expect("a pipe")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "kept"), "the child ended early");
    std::fs::write(file.with_extension("emergency"), "of somebody else").expect("written");
    for round in 0..5 {
        let output = start_child("again", &file).wait_with_output().expect("ends");
        assert!(output.status.success(), "{output:?}");
        assert!(first.try_wait().expect("a child").is_none(), "the first process ended in round {round}");
        if round == 0 {
            // While it runs, and samples, its file is the previous one.
            let profile = heap::recover(&heap::previous_file(&file)).expect("a profile");
            assert_has_what_is_kept(&names, &profile);
        }
    }
    first.kill().expect("killed");
    first.wait().expect("ends");
    let profile = heap::recover(&file).expect("that of the last start");
    assert_eq!(names.total(&profile, &["keep_for_ever"]), [0; 4]);
    // Files that were only prepared do not replace those of an earlier process.
    let emergency = file.with_extension("emergency");
    assert_eq!(std::fs::read(heap::previous_file(&emergency)).expect("kept"), b"of somebody else");
    assert_eq!(std::fs::read_dir(&folder.0).expect("a folder").count(), 4, "nothing else is left");
}

fn pass_a_named_limit(file: &Path) {
    Options::new().mean(MEAN).emergency_file(file).limit(100 << 20).start().expect("starts");
    let innocent = innocent_work();
    assert_eq!(heap::emergencies(), 0);
    let hoard: Vec<Vec<u8>> = (0..150).map(|_| filled(700_000)).collect();
    assert!(heap::emergencies() > 0);
    drop((innocent, hoard));
}

#[test]
fn a_limit_that_the_service_names() {
    let folder = Folder::new("named");
    let file = folder.file("ledger");
    let output = start_child("named", &file).wait_with_output().expect("ends");
    assert!(output.status.success(), "{output:?}");
    let profile = heap::recover(&file).expect("a profile");
    assert!(
        profile.comments().any(|comment| comment.contains("configured limit of 104857600 bytes was near"))
    );
    assert!(profile.total(3) > 80 << 20);
}

/// Address space only: no page of it is touched.
fn come_near_the_address_space_limit(file: &Path) {
    let limit = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
    // SAFETY: sets a limit of this process, which is a test's child.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    Options::new().mean(MEAN).emergency_file(file).start().expect("starts");
    let mut hoard: Vec<Vec<u8>> = Vec::new();
    while heap::emergencies() == 0 {
        let mut block = Vec::new();
        assert!(block.try_reserve(4 << 20).is_ok(), "refused before the emergency");
        hoard.push(black_box(block));
    }
}

#[test]
fn the_address_space_limit_is_seen_before_it_is_reached() {
    let folder = Folder::new("address-space");
    let file = folder.file("ledger");
    let output = start_child("address space", &file).wait_with_output().expect("ends");
    assert!(output.status.success(), "{output:?}");
    let profile = heap::recover(&file).expect("a profile");
    let near = "address space limit of 1073741824 bytes was near";
    assert!(profile.comments().any(|comment| comment.contains(near)));
}

fn works_in_an_emergency(file: &Path) -> bool {
    Options::new().mean(MEAN).emergency_file(file).start().expect("starts");
    drop(innocent_work());
    heap::emergencies() > 0
}

/// The memory controller can be in one version's hierarchy only, and mostly it is not in the one that a test
/// wants. So the files of version 2 are made by hand, and put where this process is told to look for them.
#[test]
fn a_control_group_of_version_two() {
    let folder = Folder::new("version-two");
    let group = folder.file("tree/service");
    std::fs::create_dir_all(&group).expect("a folder");
    let write = |path: PathBuf, text: &str| std::fs::write(path, text).expect("written");
    write(folder.file("tree/memory.max"), "max\n");
    write(group.join("memory.max"), "209715200\n");
    write(group.join("memory.current"), "204472320\n");
    write(folder.file("cgroup"), "0::/service\n");
    let tree = folder.file("tree");
    let mount = format!("30 23 0:26 / {} rw,nosuid shared:4 - cgroup2 cgroup2 rw\n", tree.display());
    write(folder.file("mountinfo"), &mount);
    let script = "mount --bind \"$0/cgroup\" /proc/$$/cgroup && mount --bind \"$0/mountinfo\" /proc/$$/mountinfo \
                  || exit 99; exec \"$@\"";
    let page_cache = 50 << 20;
    for (mode, inactive, active) in [("near", 0, 0), ("far", page_cache, 0), ("far", 0, page_cache)] {
        write(
            group.join("memory.stat"),
            &format!("anon 12345\nfile 50000000\ninactive_file {inactive}\nactive_file {active}\n"),
        );
        let file = folder.file(mode);
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-c", script])
            .arg(&folder.0)
            .arg(std::env::current_exe().expect("a program"))
            .args(["child", "--exact", "--nocapture", "--test-threads=1"])
            .env(MODE, mode)
            .env(FILE, &file)
            .output();
        let output = match output {
            Ok(output) if !matches!(output.status.code(), Some(1 | 99)) => output,
            other => {
                flamelet_test_support::skip!("no file can be mounted here: {other:?}");
                return;
            }
        };
        assert!(output.status.success(), "{mode}: {output:?}");
        let profile = heap::recover(&file).expect("a profile");
        let said =
            profile.comments().any(|comment| comment.contains("control group's limit of 209715200 bytes"));
        assert_eq!(said, mode == "near");
        assert!(profile.comments().any(|comment| comment.contains("heap, one sample per")));
    }
}

#[inline(never)]
fn only_in_the_fork() -> Vec<Vec<u8>> {
    black_box((0..20_000).map(|_| filled(90)).collect())
}

#[inline(never)]
fn only_in_the_parent() -> Vec<Vec<u8>> {
    black_box((0..20_000).map(|_| filled(90)).collect())
}

/// Forks while other threads allocate, take snapshots and change the settings, and looks at both heaps.
fn fork_with_files(file: &Path) {
    Options::new().mean(1024).file(file).start().expect("starts");
    let names = Names::load();
    let before = only_in_the_parent();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                Options::new()
                    .mean(1024)
                    .emergency_file(file.with_extension("parent"))
                    .start()
                    .expect("again");
                black_box(Snapshot::take().expect("a snapshot"));
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    drop((0..50).map(|_| filled(500)).collect::<Vec<_>>());
                }
            });
        }
        for _ in 0..20 {
            // SAFETY: the child allocates, which glibc's allocator allows after a fork, and leaves by `_exit`.
            match unsafe { libc::fork() } {
                0 => {
                    // A wait for a thread that does not exist here ends by SIGALRM instead of never.
                    // SAFETY: only requests a signal.
                    unsafe { libc::alarm(60) };
                    let kept = only_in_the_fork();
                    let profile = Snapshot::take().expect("a snapshot").heap();
                    let mine = names.total_where(&profile, &["only_in_the_fork"], |l| l["bytes"] == "90");
                    let old = names.total_where(&profile, &["only_in_the_parent"], |l| l["bytes"] == "90");
                    let expected = [Batch { count: 20_000, size: 90 }];
                    assert_close("of the fork", mine[2], mine[3], &expected, 1024);
                    assert_close("of the parent", old[2], old[3], &expected, 1024);
                    drop(kept);
                    let own = file.with_extension("child");
                    Options::new().mean(1024).emergency_file(&own).start().expect("a file of its own");
                    drop(only_in_the_fork());
                    heap::recover(&own).expect("its ledger");
                    // SAFETY: ends this process at once.
                    unsafe { libc::_exit(0) }
                }
                pid => {
                    let mut status = 0;
                    // SAFETY: waits for the child made above.
                    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
                    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
                }
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let profile = heap::recover(file).expect("a profile");
    let of_fork = names.total(&profile, &["only_in_the_fork"]);
    assert_eq!(of_fork, [0; 4], "the fork wrote to its parent's file");
    let mine = names.total_where(&profile, &["only_in_the_parent"], |l| l["bytes"] == "90");
    assert_close("of the parent", mine[2], mine[3], &[Batch { count: 20_000, size: 90 }], 1024);
    drop(before);
}

#[test]
fn forks_go_on_with_a_heap_of_their_own() {
    let folder = Folder::new("fork");
    let output = start_child("fork", &folder.file("ledger")).wait_with_output().expect("ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Allocates when its thread ends, as late as possible.
struct LateWork(Vec<u8>);

impl Drop for LateWork {
    fn drop(&mut self) {
        self.0 = filled(3_000);
        self.0.reserve(10_000);
    }
}

thread_local! {
    static LATE: LateWork = LateWork(filled(2_000));
}

#[test]
fn threads_come_and_go() {
    let _turn = turn();
    Options::new().mean(1024).start().expect("starts");
    for _ in 0..40 {
        let threads: Vec<_> = (0..25)
            .map(|_| {
                std::thread::spawn(|| {
                    LATE.with(|late| black_box(late.0.len()));
                    (0..20).map(|_| filled(1_000)).collect::<Vec<_>>()
                })
            })
            .collect();
        drop(threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>());
    }
    let snapshot = Snapshot::take().expect("a snapshot");
    assert_eq!(snapshot.lost(), 0);
    assert!(snapshot.samples() > 10_000);
}

#[test]
fn files_of_any_content_are_refused_or_read() {
    let folder = Folder::new("hostile");
    let path = folder.file("ledger");
    let output = start_child("named", &path).wait_with_output().expect("ends");
    assert!(output.status.success());
    let good = std::fs::read(&path).expect("a file");
    assert!(Snapshot::of_bytes(&good).is_ok());
    for length in [0, 7, 8, 4095, 4096, 5000, 100_000] {
        let _ = Snapshot::of_bytes(&good[..length]).map(|snapshot| snapshot.heap());
    }
    // Every word of the header, and some of what follows, with every kind of nonsense.
    let places = (0..96).chain((512..good.len() / 8).step_by(4_001)).chain(512..700);
    let mut bytes = good.clone();
    for at in places {
        for nonsense in [0, 1, u64::from(u32::MAX), 1 << 40, u64::MAX] {
            bytes[at * 8..at * 8 + 8].copy_from_slice(&nonsense.to_le_bytes());
            if let Ok(snapshot) = Snapshot::of_bytes(&bytes) {
                snapshot.heap();
                snapshot.freed();
                snapshot.lifetime();
                snapshot.peak();
            }
        }
        bytes[at * 8..at * 8 + 8].copy_from_slice(&good[at * 8..at * 8 + 8]);
    }
    let missing = heap::recover(&folder.file("missing")).expect_err("no such file");
    assert_eq!(missing.kind(), flamelet_profile::ErrorKind::NotFound);
    std::fs::write(&path, b"text").expect("written");
    let wrong = heap::recover(&path).expect_err("not a ledger");
    assert_eq!(wrong.to_string(), "too short for a flamelet heap ledger");
}
