//! Programs compiled here, recorded by the real command.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use flamelet_tests::profiles;
use flamelet_tests::programs::{answer, command, flamelet, json_of};
use serde_json::Value;

pub(crate) fn scratch(name: &str) -> PathBuf {
    let folder = profiles::scratch().join("yours");
    std::fs::create_dir_all(&folder).expect("our own folder");
    folder.join(name)
}

/// `programs/rules.rs`, compiled with these flags besides `-g`, once for each name.
pub(crate) fn rules_program(name: &str, flags: &[&str]) -> PathBuf {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let out = scratch(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/yours/programs/rules.rs");
    let written = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    if written(&out) < written(&source) {
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc
            .args(["--edition", "2024", "--crate-name", "rules"])
            .args(flags)
            .arg(&source)
            .arg("-o")
            .arg(&out);
        let made = rustc.output().expect("rustc");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    out
}

/// `programs/NAME.rs` with the crates of `programs/NAME.toml`, in the versions of this workspace: cargo has them all in its
/// cache.
pub(crate) fn cargo_program(name: &str) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/yours/programs");
    let folder = scratch(name);
    std::fs::create_dir_all(&folder).expect("our own folder");
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
    for (from, to) in [
        (sources.join(format!("{name}.rs")), format!("{name}.rs")),
        (sources.join(format!("{name}.toml")), "Cargo.toml".to_owned()),
        (lock, "Cargo.lock".to_owned()),
    ] {
        std::fs::copy(&from, folder.join(to)).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--offline", "--quiet"]).current_dir(&folder);
    cargo.env_remove("CARGO_TARGET_DIR").env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("RUSTFLAGS");
    let made = cargo.output().expect("cargo");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    folder.join("target/release").join(name)
}

/// A file or folder that no other test writes: tests that run at the same time record the same programs.
fn recording(program: &Path, name: &str) -> PathBuf {
    static RECORDINGS: AtomicUsize = AtomicUsize::new(0);
    let number = RECORDINGS.fetch_add(1, Ordering::Relaxed);
    let base = program.file_name().expect("a file").to_string_lossy();
    scratch(&format!("{base}-{number}-{name}"))
}

/// Runs `program argument` in valgrind's DHAT, and returns the profile.
pub(crate) fn dhat(program: &Path, argument: &str) -> PathBuf {
    let folder = recording(program, argument);
    let _ = std::fs::remove_dir_all(&folder);
    let mut run = command(flamelet());
    run.args(["run", "dhat", "--name", "rules", "-o"]).arg(&folder).arg("--").arg(program).arg(argument);
    let said = answer(&mut run);
    assert_eq!(said.status, Some(0), "{}", said.stderr);
    let mut runs = std::fs::read_dir(folder.join("rules")).expect("a folder for the service");
    runs.next().expect("a run").expect("an entry").path().join("profile.pb.gz")
}

/// Lets `heap_moments kind` write profiles of itself, and returns their folder.
pub(crate) fn moments(kind: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_heap_moments"));
    let folder = recording(program, kind);
    std::fs::create_dir_all(&folder).expect("our own folder");
    let done = answer(command(program).arg(kind).arg(&folder));
    assert_eq!(done.status, Some(0), "{}", done.stderr);
    folder
}

/// Records `program argument`; `None`, with a `SKIP:` line, where the kernel does not let this user record.
pub(crate) fn record(program: &Path, argument: &str, options: &[&str]) -> Option<PathBuf> {
    let out = recording(program, &format!("{argument}.pb.gz"));
    let mut recorder = command(flamelet());
    recorder.arg("record").args(options).arg("-o").arg(&out).arg("--").arg(program).arg(argument);
    let said = answer(&mut recorder);
    if said.status != Some(0) {
        flamelet_test_support::skip!("nothing can be recorded here: {}", said.stderr.trim());
        return None;
    }
    Some(out)
}

/// The findings of `flamelet explain`, by rule.
pub(crate) fn findings(words: &[&str]) -> Vec<Value> {
    let mut all = vec!["explain", "--json"];
    all.extend(words);
    json_of(&all)["findings"].as_array().expect("findings").clone()
}
