//! Damaged files of other tools: the command prints a report, or one line with status 2.

use std::path::{Path, PathBuf};

use flamelet_tests::confined::{assert_refused, with_little_memory};
use flamelet_tests::mutate::{Random, mutated};
use flamelet_tests::{profiles, programs};

/// A small file of every format that is read.
pub(super) fn seeds() -> Vec<PathBuf> {
    let folder = programs::repository().join("crates/formats/tests/data");
    let entries = std::fs::read_dir(folder).expect("the data of the formats' tests");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_none_or(|ending| ending != "rs"));
    files.sort();
    assert!(files.len() >= 25, "only {} files", files.len());
    files
}

/// Checks that there is a report or a proper refusal.
fn answered_or_refused(file: &Path) {
    let answer = with_little_memory(["top".as_ref(), "--symbolize=none".as_ref(), file.as_os_str()]);
    if answer.status != Some(0) {
        assert_refused(&answer, file);
    }
    assert!(!answer.stderr.contains("panicked"), "{}: {}", file.display(), answer.stderr);
}

#[test]
fn damaged_files_of_every_format() {
    let mut random = Random::new(7);
    for seed in seeds() {
        let name = seed.file_name().expect("a name").to_string_lossy().into_owned();
        let bytes = std::fs::read(&seed).expect("a seed");
        answered_or_refused(&profiles::written(&format!("cut-{name}"), || bytes[..bytes.len() / 2].to_vec()));
        // The name is that of another format; only the content counts.
        let damaged = mutated(&bytes, &mut random);
        answered_or_refused(&profiles::written(&format!("damaged-{name}.pb.gz"), || damaged.clone()));
    }
}
