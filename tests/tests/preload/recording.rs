//! Programs compiled here, and recordings of them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use flamelet_profile::Profile;
use flamelet_profile::pprof::{self, Limits};
use flamelet_tests::profiles::scratch;
use flamelet_tests::programs::{Answer, answer, command, flamelet};

/// Returns the program (or library) of a source in `programs/`, compiled once for each name.
pub(crate) fn compiled(source: &str, name: &str, flags: &[&str]) -> PathBuf {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let out = scratch().join(name);
    if out.exists() {
        return out;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload/programs").join(source);
    let mut compiler = match source.extension().and_then(|ending| ending.to_str()) {
        Some("rs") => {
            let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
            rustc.args(["-O", "-g", "--edition", "2024"]);
            rustc
        }
        Some("cpp") => compiler("g++"),
        _ => compiler("cc"),
    };
    let made = compiler.args(flags).arg(&source).arg("-o").arg(&out).output().expect("a compiler");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    out
}

fn compiler(name: &str) -> Command {
    let mut command = Command::new(name);
    // The counts below are those of the source: the compiler must not optimize allocations away.
    command.args(["-O1", "-g", "-fno-builtin", "-pthread"]);
    command
}

/// A recording, and the output of the command.
pub(crate) struct Recording {
    pub(crate) profile: Profile,
    pub(crate) said: Answer,
}

/// `flamelet record OPTIONS -o FILE -- WORDS`.
pub(crate) fn record(name: &str, options: &[&str], words: &[&Path]) -> Recording {
    let out = scratch().join(format!("{name}.pb.gz"));
    let mut recorder = command(flamelet());
    recorder.arg("record").args(options).arg("-o").arg(&out).arg("--").args(words);
    let said = answer(&mut recorder);
    Recording { profile: read(&out, &said.stderr), said }
}

pub(crate) fn read(path: &Path, said: &str) -> Profile {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}\n{said}", path.display()));
    pprof::read(&bytes, &Limits::default()).expect("a profile")
}

/// Allocated objects and bytes, living objects and bytes, bytes at the peak, temporary objects.
pub(crate) type Values = [i64; 6];

/// Returns the values of `function` with its callees in a heap recording, in `process` if one is given.
pub(crate) fn values_of(profile: &Profile, function: &str, process: Option<&str>) -> Values {
    sum_of(profile, function, process)
}

/// Returns the sum over all samples with `function` anywhere, and with the label if one is given.
pub(crate) fn sum_of<const N: usize>(profile: &Profile, function: &str, process: Option<&str>) -> [i64; N] {
    let mut sum = [0; N];
    for sample in profile.samples() {
        let named = profile.stack(sample.stack).iter().any(|&location| {
            let mut functions = profile.lines(location).iter().filter_map(|line| line.function);
            functions.any(|id| {
                let name = profile.string(profile.function(id).name);
                name == function || name.ends_with(&format!("::{function}"))
            })
        });
        let is_of = process.is_none_or(|process| {
            let mut labels = profile.labels(sample.labels).iter();
            labels
                .any(|label| profile.string(label.key) == "process" && profile.string(label.text) == process)
        });
        if (function.is_empty() || named) && is_of {
            sum.iter_mut().zip(sample.values).for_each(|(sum, value)| *sum += value);
        }
    }
    sum
}
