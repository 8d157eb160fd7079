//! Helpers for tests that start their own program again.

#![allow(dead_code, reason = "each test uses a part")]

use crate::heap_support::{Batch, Names, assert_close};
use flamelet_profile::Profile;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub(crate) const MODE: &str = "FLAMELET_HEAP_TEST_CHILD";
pub(crate) const FILE: &str = "FLAMELET_HEAP_TEST_FILE";
pub(crate) const MEAN: u64 = 16 << 10;

/// The purpose of this process and its file, as given by [`start_child`].
pub(crate) fn asked() -> Option<(String, PathBuf)> {
    Some((std::env::var(MODE).ok()?, std::env::var_os(FILE)?.into()))
}

pub(crate) fn start_child(mode: &str, file: &Path) -> Child {
    Command::new(std::env::current_exe().expect("a program"))
        .args(["child", "--exact", "--nocapture", "--test-threads=1"])
        .env(MODE, mode)
        .env(FILE, file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts again")
}

/// A folder on a disk that is removed at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    pub(crate) fn file(&self, name: impl std::fmt::Display) -> PathBuf {
        self.0.join(name.to_string())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn filled(size: usize) -> Vec<u8> {
    black_box(vec![1; black_box(size)])
}

#[inline(never)]
pub(crate) fn innocent_work() -> Vec<Vec<u8>> {
    black_box((0..200).map(|_| filled(50_000)).collect())
}

#[inline(never)]
pub(crate) fn keep_for_ever() -> Vec<Vec<u8>> {
    black_box((0..40_000).map(|_| filled(100)).collect())
}

/// Checks that a profile has the blocks of [`keep_for_ever`], allocated and in use.
#[track_caller]
pub(crate) fn assert_has_what_is_kept(names: &Names, profile: &Profile) {
    let got = names.total_where(profile, &["keep_for_ever"], |labels| labels["bytes"] == "100");
    assert_close("kept", got[2], got[3], &[Batch { count: 40_000, size: 100 }], MEAN);
}
