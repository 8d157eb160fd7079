//! Runs flamelet under limits that reveal mistakes: little memory, or files that cannot grow.

use std::ffi::OsStr;
use std::path::Path;

use crate::programs::{Answer, answer, command, flamelet};

/// Address space for a run on a hostile file, in KiB. A reader that trusts a length field needs far more.
const MEMORY_KIB: u64 = 3 << 20;

/// Runs flamelet under a limit on its address space.
pub fn with_little_memory<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Answer {
    under_limits(&format!("ulimit -v {MEMORY_KIB}"), arguments)
}

/// Runs flamelet so that no file can grow beyond `kib` KiB; further writes fail, as on a full disk.
pub fn with_small_files<S: AsRef<OsStr>>(kib: u32, arguments: impl IntoIterator<Item = S>) -> Answer {
    // Bash counts in KiB, POSIX shells in blocks of 512 bytes.
    under_limits(&format!("trap '' XFSZ; ulimit -f {kib}"), arguments)
}

fn under_limits<S: AsRef<OsStr>>(limits: &str, arguments: impl IntoIterator<Item = S>) -> Answer {
    let script = format!("{limits} && exec \"$@\"");
    let mut shell = command(Path::new("bash"));
    answer(shell.args(["-c", &script, "bash"]).arg(flamelet()).args(arguments))
}

/// Asserts that flamelet refused `file` as it must: status 2, one line that names the file, no output.
pub fn assert_refused(answer: &Answer, file: &Path) {
    let name = file.file_name().expect("a file").to_string_lossy().into_owned();
    let Answer { status, stdout, stderr } = answer;
    assert_eq!(*status, Some(2), "{name}: status {status:?}\nstdout: {stdout:.300}\nstderr: {stderr:.2000}");
    assert_eq!(stderr.trim_end().lines().count(), 1, "{name}: not one line: {stderr:.2000}");
    assert!(stderr.contains(&name), "the line does not name {name}: {stderr}");
    assert!(!stderr.contains("panicked"), "{name}: {stderr}");
    assert!(stdout.is_empty(), "{name}: something was printed: {stdout:.300}");
}
