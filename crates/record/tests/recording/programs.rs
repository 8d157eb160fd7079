//! The programs under `tests/programs`, compiled once.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A folder that every user may read, for the time of the tests.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder =
            tempfile::Builder::new().prefix("flamelet-record").tempdir().expect("a temporary folder");
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), open).expect("our own folder");
        folder
    });
    folder.path()
}

/// The Rust program `name`, compiled with `-O` and `flags`.
pub(crate) fn rust(name: &str, flags: &[&str]) -> PathBuf {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let mut command = Command::new(rustc);
    command.args(["-O", "--edition", "2024"]).args(flags);
    compile(command, &format!("{name}.rs"), flags)
}

/// The C program `name`, compiled with `-O2` and `flags`.
pub(crate) fn c(name: &str, flags: &[&str]) -> PathBuf {
    let mut command = Command::new("cc");
    command.arg("-O2").args(flags);
    compile(command, &format!("{name}.c"), flags)
}

fn compile(mut command: Command, source: &str, flags: &[&str]) -> PathBuf {
    static DONE: Mutex<Option<HashMap<String, PathBuf>>> = Mutex::new(None);
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    let done = done.get_or_insert_default();
    let key = format!("{source} {flags:?}");
    if let Some(path) = done.get(&key) {
        return path.clone();
    }
    let stem = source.split('.').next().expect("a name");
    let out = folder().join(format!("{stem}-{}", done.len()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let compiled = command.arg(source).arg("-o").arg(&out).output().expect("a compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    done.insert(key, out.clone());
    out
}

/// A command that prints nothing into the output of the tests.
pub(crate) fn quiet(program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
    // Cargo's folders, in which the loader would look for libraries: calls that depend on who may read them.
    command.env_remove("LD_LIBRARY_PATH");
    command
}

/// A command whose output goes to a file, and the file.
pub(crate) fn telling(program: &Path, args: &[&str], name: &str) -> (Command, PathBuf) {
    let path = folder().join(format!("{name}.out"));
    let file = std::fs::File::create(&path).expect("our own folder");
    let mut command = quiet(program, args);
    command.stdout(file);
    (command, path)
}

/// One recording at a time: what others do would show as noise.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
