//! The programs under `tests/programs`, compiled once.

use std::collections::HashMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();

/// A folder that every user may read, for the time of the tests.
pub(crate) fn folder() -> &'static Path {
    let folder = FOLDER.get_or_init(|| {
        let folder =
            tempfile::Builder::new().prefix("flamelet-record").tempdir_in(place()).expect("a folder");
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), open).expect("our own folder");
        // SAFETY: registers a function with the right signature, which may do all that a function may.
        unsafe { libc::atexit(remove_folder) };
        folder
    });
    folder.path()
}

/// A static is never dropped.
extern "C" fn remove_folder() {
    let _ = FOLDER.get().map(|folder| std::fs::remove_dir_all(folder.path()));
}

/// A folder from which every user can run programs: the temporary folder of the current user may be private.
fn place() -> PathBuf {
    let places = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
    let found = places.iter().find(|place| is_open(place) && may_hold_programs(place));
    found.unwrap_or(&places[0]).clone()
}

fn is_open(place: &Path) -> bool {
    let may_pass = |folder: &Path| folder.metadata().is_ok_and(|data| data.permissions().mode() & 0o001 != 0);
    place.is_absolute() && place.ancestors().all(may_pass)
}

fn may_hold_programs(place: &Path) -> bool {
    let path = CString::new(place.as_os_str().as_bytes()).expect("a plain path");
    // SAFETY: a structure of numbers, for which 0 is a value.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: reads a string that ends with a zero and writes into the structure; both outlive the call.
    let asked = unsafe { libc::statvfs(path.as_ptr(), &raw mut found) };
    asked == 0 && found.f_flag & libc::ST_NOEXEC == 0
}

/// Lets every user read and run a program, whatever the umask of this process is.
fn share(program: &Path) {
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).expect("our own file");
}

/// A copy of a program, to be run. Another process makes it: a child that this one forks meanwhile for another test would
/// have the file open for writing, and such a file cannot be run.
pub(crate) fn copy(program: &Path, to: &Path) {
    let copied = Command::new("cp").args([program, to]).status();
    assert!(copied.is_ok_and(|status| status.success()), "cp {} {}", program.display(), to.display());
    share(to);
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
    share(&out);
    done.insert(key, out.clone());
    out
}

/// A command that prints nothing into the output of the tests.
pub(crate) fn quiet(program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
    // Cargo's folders, in which the loader would look for libraries, with system calls that depend on who may read them.
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

/// One recording at a time: other recordings would show as noise.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
