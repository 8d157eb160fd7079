//! The profiles that the tests run on: committed ones from real programs, ones made by hand, and fresh ones
//! that a real Go program writes during the test.
//!
//! `FLAMELET_REGENERATE=1 cargo test -p flamelet-tests --test fresh` rewrites the committed ones.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::{programs, synthetic};

/// The test binary's own folder below cargo's target folder, emptied when it starts.
pub fn scratch() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let test = std::env::current_exe().expect("the test's own path");
        let name = test.file_stem().expect("a file").to_string_lossy().into_owned();
        let name = name.rsplit_once('-').map_or(name.as_str(), |(name, _)| name);
        let folder = programs::target().join("tmp/black-box").join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder below target/");
        folder
    })
}

/// A committed profile, by its name without the extension.
pub fn committed(name: &str) -> PathBuf {
    let path = programs::repository().join("testdata").join(format!("{name}.pb.gz"));
    assert!(path.is_file(), "{} is missing", path.display());
    path
}

/// Writes `bytes` once under a name, for all tests of this process.
pub fn written(name: &str, bytes: impl FnOnce() -> Vec<u8>) -> PathBuf {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    let path = scratch().join(name);
    if !path.exists() {
        std::fs::write(&path, bytes()).expect("writing a test profile");
    }
    path
}

/// The kinds of profile that the Go workload writes.
pub const GO_KINDS: [&str; 4] = ["cpu", "heap", "mutex", "block"];

/// The committed profiles of real Go programs.
pub fn go() -> Vec<PathBuf> {
    GO_KINDS.iter().map(|kind| committed(&format!("go-{kind}"))).collect()
}

/// [`synthetic::corners`] as a file.
pub fn corners() -> PathBuf {
    written("corners.pb.gz", synthetic::corners)
}

/// [`synthetic::negative`] as a file.
pub fn negative() -> PathBuf {
    written("negative.pb.gz", synthetic::negative)
}

/// [`synthetic::wide`] as a file.
pub fn wide() -> PathBuf {
    written("wide.pb.gz", synthetic::wide)
}

/// Every profile.
pub fn all() -> Vec<PathBuf> {
    let mut profiles = go();
    profiles.extend([corners(), negative(), wide()]);
    profiles
}

/// Builds the Go workload and lets it write one profile. Returns `None` without Go.
pub fn fresh(kind: &str, milliseconds: u32) -> Option<PathBuf> {
    static WORKLOAD: OnceLock<Option<PathBuf>> = OnceLock::new();
    let workload = WORKLOAD.get_or_init(|| build_workload("workload", "")).as_ref()?;
    let profile = scratch().join(format!("fresh-{kind}-{milliseconds}.pb.gz"));
    let answer =
        programs::answer(Command::new(workload).arg(kind).arg(&profile).arg(milliseconds.to_string()));
    assert_eq!(answer.status, Some(0), "the workload failed: {}", answer.stderr);
    Some(profile)
}

/// Builds the Go workload without symbols and debug information, as distributions do. Returns `None` without Go.
pub fn stripped_workload() -> Option<PathBuf> {
    build_workload("stripped-workload", "-s -w")
}

fn build_workload(name: &str, linker_flags: &str) -> Option<PathBuf> {
    let go = programs::go()?;
    let workload = scratch().join(name);
    let mut build = Command::new(go);
    build.args(["build", "-trimpath", "-ldflags", linker_flags, "-o"]).arg(&workload).arg("./workload");
    build.current_dir(programs::repository().join("tests/go"));
    // The same settings as in `cargo xtask test`, for a plain `cargo test`.
    for (name, value) in [("GOTOOLCHAIN", "local"), ("GOPROXY", "off"), ("GOFLAGS", "-mod=mod")] {
        build.env(name, value);
    }
    let answer = programs::answer(&mut build);
    assert_eq!(answer.status, Some(0), "go build: {}", answer.stderr);
    Some(workload)
}
