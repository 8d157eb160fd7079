//! The recovery file of the heap: whatever happens to it, the process that writes it survives.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "limits, descriptors and `errno`, by C functions")]

mod heap_support;
#[path = "heap_support/process.rs"]
mod process;

use flamelet_capture::heap::{self, Alloc, Options};
use heap_support::Names;
use process::{FILE, Folder, MEAN, MODE, assert_has_what_is_kept, innocent_work, keep_for_ever, start_child};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command};

#[global_allocator]
static ALLOCATOR: Alloc = Alloc::system();

/// Not a test by itself: the other tests start this program again to run it.
#[test]
fn child() {
    let Some((mode, file)) = process::asked() else { return };
    match &*mode {
        "on demand" => work_on_demand(&file),
        "full disk" => work_on_a_full_disk(&file),
        "limited" => start_beside_a_limit(&file),
        other => panic!("no child of the name {other}"),
    }
}

/// Executes each line of the standard input, and answers with a line.
fn work_on_demand(file: &Path) {
    Options::new().mean(MEAN).file(file).start().expect("starts");
    let kept = keep_for_ever();
    println!("\ndone");
    for line in std::io::stdin().lines() {
        match &*line.expect("text") {
            "work" => {}
            "take over descriptors" => take_over_descriptors(file),
            other => panic!("unknown command {other}"),
        }
        let before = heap::Snapshot::take().expect("a snapshot").samples();
        set_errno(77);
        let work = innocent_work();
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(77));
        drop(work);
        assert!(heap::Snapshot::take().expect("a snapshot").samples() > before + 100, "it is sampled");
        println!("\ndone");
    }
    drop(kept);
}

fn set_errno(value: i32) {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() = value };
}

/// Closes all descriptors and opens other files, as some programs do.
fn take_over_descriptors(file: &Path) {
    let other = std::fs::File::options().write(true).open(file.with_extension("other")).expect("opened");
    for descriptor in 3..1024 {
        // SAFETY: nothing else in this process needs its files.
        unsafe { libc::dup2(other.as_raw_fd(), descriptor) };
    }
    std::mem::forget(other);
}

/// A process that works on request.
struct Worker {
    child: Child,
    answers: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Worker {
    fn start(file: &Path) -> Self {
        let mut child = start_child("on demand", file);
        let answers = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut worker = Self { child, answers };
        worker.wait();
        worker
    }

    fn ask(&mut self, what: &str) {
        let sent = writeln!(self.child.stdin.as_mut().expect("a pipe"), "{what}");
        assert!(sent.is_ok(), "it ended: {:?}", self.child.wait());
        self.wait();
    }

    fn wait(&mut self) {
        let is_done = self.answers.by_ref().map_while(Result::ok).any(|line| line == "done");
        assert!(is_done, "it ended: {:?}", self.child.wait());
    }

    fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ends");
    }
}

#[track_caller]
fn assert_lists_what_is_kept(names: &Names, file: &Path) {
    assert_has_what_is_kept(names, &heap::recover(file).expect("a profile"));
}

/// Truncates the file, as logrotate's `copytruncate` does.
#[test]
fn a_file_that_somebody_truncates_is_made_whole_again() {
    let (folder, names) = (Folder::new("truncated"), Names::load());
    let file = folder.file("ledger");
    let mut worker = Worker::start(&file);
    let whole = std::fs::metadata(&file).expect("there").len();
    for length in [0, whole / 2, whole - 8, 1, 0] {
        let opened = std::fs::File::options().write(true).open(&file).expect("opened");
        opened.set_len(length).expect("truncated");
        worker.ask("work");
        assert_eq!(std::fs::metadata(&file).expect("there").len(), whole, "truncated to {length}");
        assert_lists_what_is_kept(&names, &file);
    }
    worker.kill();
    assert_lists_what_is_kept(&names, &file);
}

#[test]
fn nothing_is_written_to_a_file_that_is_not_ours() {
    let folder = Folder::new("taken-over");
    let (file, other) = (folder.file("ledger"), folder.file("ledger").with_extension("other"));
    let content = vec![b'x'; 1 << 20];
    std::fs::write(&other, &content).expect("written");
    let mut worker = Worker::start(&file);
    worker.ask("take over descriptors");
    worker.ask("work");
    assert!(std::fs::read(&other).expect("there") == content, "it was written to");
    worker.kill();
}

/// The file is truncated and its disk space is taken; later there is space again.
fn work_on_a_full_disk(file: &Path) {
    Options::new().mean(MEAN).file(file).start().expect("starts");
    let kept = keep_for_ever();
    let truncate = || drop(std::fs::File::create(file).expect("truncated"));
    truncate();
    let filler = file.with_extension("filler");
    let mut fills = std::fs::File::create(&filler).expect("made");
    while fills.write_all(&[1; 4096]).is_ok() {}
    for _ in 0..10 {
        drop(innocent_work());
        truncate();
    }
    std::fs::remove_file(&filler).expect("removed");
    drop(fills);
    let names = Names::load();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while heap::recover(file).is_err() {
        drop(innocent_work());
        assert!(std::time::Instant::now() < end, "the file was not made whole");
    }
    drop(innocent_work());
    assert_lists_what_is_kept(&names, file);
    drop(kept);
}

#[test]
fn a_full_disk_does_not_end_the_service() {
    let folder = Folder::new("full-disk");
    let script = "mount -t tmpfs -o size=16m none \"$0\" || exit 99; exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .arg(&folder.0)
        .arg(std::env::current_exe().expect("a program"))
        .args(["child", "--exact", "--nocapture", "--test-threads=1"])
        .env(MODE, "full disk")
        .env(FILE, folder.file("ledger"))
        .output();
    match output {
        Ok(output) if !matches!(output.status.code(), Some(1 | 99)) => {
            assert!(output.status.success(), "{output:?}");
        }
        other => flamelet_test_support::skip!("no small disk can be mounted here: {other:?}"),
    }
}

/// A process with a limit on the length of files.
fn start_beside_a_limit(file: &Path) {
    let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
    // SAFETY: sets a limit of this process, which is a test's child.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
    let error = Options::new().file(file).start().expect_err("too long");
    assert!(error.to_string().contains("file too large"), "{error}");
    drop(innocent_work());
}

#[test]
fn a_limit_on_the_length_of_files_is_an_error_and_not_the_end() {
    let folder = Folder::new("limited");
    let output = start_child("limited", &folder.file("ledger")).wait_with_output().expect("ends");
    assert!(output.status.success(), "{output:?}");
}
