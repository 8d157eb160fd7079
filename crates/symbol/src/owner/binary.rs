//! Determines the owner of code from the binary that contains it.

use flamelet_profile::{Mapping, Profile};

use super::{Owner, Package};

/// Folders in which the system keeps its libraries.
const SYSTEM: &[&str] =
    &["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/local/lib/", "/nix/store/", "/snap/"];

/// Programs that run other people's code: the user who profiles such a program did not write it. Their frames are not folded
/// where none is yours, as those of an async runtime would be: then they are all that there is.
const INTERPRETERS: &[&str] =
    &["python", "node", "java", "ruby", "php", "perl", "beam.smp", "dotnet", "deno", "bun"];

/// Libraries that are such a program, or what it runs programs with: `libpython3.12.so.1.0`, `libjvm.so`.
const INTERPRETER_LIBRARIES: &[&str] = &["libpython", "libnode", "libruby", "libperl", "libphp", "libjvm"];

/// Returns the owner of each mapping, for addresses about which nothing else is known.
pub(super) fn owners(profile: &Profile) -> Vec<Owner> {
    profile.mappings().iter().enumerate().map(|(index, mapping)| owner(profile, index, mapping)).collect()
}

fn owner(profile: &Profile, index: usize, mapping: &Mapping) -> Owner {
    let path = profile.string(mapping.filename);
    let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
    if is_kernel(path, file) {
        return Owner::Kernel;
    }
    if file.is_empty() {
        return Owner::Unknown;
    }
    if path.starts_with('[') && path != "[anon]" && path != "[heap]" {
        return Owner::System(path.to_owned());
    }
    let library = file.split_once(".so").map(|(name, _)| name);
    let is_library = |name: &&str| library.is_some_and(|library| is_interpreter(library, name));
    let is_own = INTERPRETERS.iter().any(|name| is_interpreter(file, name));
    // Python keeps the parts of its standard library that are in C in one folder.
    if is_own || INTERPRETER_LIBRARIES.iter().any(is_library) || path.contains("/lib-dynload/") {
        return Owner::Dependency(Package { name: file.to_owned(), version: String::new() });
    }
    if is_of_another_system(path, file) {
        return Owner::System(file.to_owned());
    }
    let is_library = file.contains(".so") || file.contains(".dylib") || file.contains(".dll");
    match is_library && index > 0 && SYSTEM.iter().any(|folder| path.starts_with(folder)) {
        true => Owner::System(file.to_owned()),
        // The program itself, a library next to it, or code generated at run time.
        false => Owner::Yours,
    }
}

/// Returns whether a file belongs to macOS or Windows.
fn is_of_another_system(path: &str, file: &str) -> bool {
    const WINDOWS: &str = ":\\windows\\";
    /// The report of macOS's `sample` names files without their folders.
    const MAC: &[&str] = &["dyld", "libdyld.dylib", "libdispatch.dylib", "libobjc.A.dylib", "libc++.1.dylib"];
    let after_drive = path.get(1..1 + WINDOWS.len());
    path.starts_with("/System/")
        || path.starts_with("/usr/lib/system/")
        || file.starts_with("libsystem_")
        || MAC.contains(&file)
        || after_drive.is_some_and(|start| start.eq_ignore_ascii_case(WINDOWS))
}

fn is_kernel(path: &str, file: &str) -> bool {
    path.starts_with("[kernel")
        || path.starts_with("[guest.kernel")
        || path.starts_with("[bpf")
        || file.starts_with("vmlinux")
        || file.ends_with(".ko")
        || file.contains(".ko.")
}

/// Returns whether a file is this interpreter, with or without a version: `python3.12`.
fn is_interpreter(file: &str, name: &str) -> bool {
    let version = file.strip_prefix(name);
    version.is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}
