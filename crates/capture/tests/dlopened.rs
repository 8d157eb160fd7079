//! A library that is loaded by a running program has no thread-local memory that a signal handler could use first.

// Other C libraries may have static memory for it.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
#![allow(unsafe_code, reason = "loads a library")]

use std::ffi::{CStr, CString, c_char};
use std::path::PathBuf;
use std::process::Command;

/// Set when the test runs itself with the library preloaded.
const PRELOADED: &str = "FLAMELET_TEST_PRELOADED";

/// The library, built separately: with the features that the workspace enables in this crate (jemalloc, whose
/// thread-local memory is static), it could not be loaded later at all.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("this test has a file");
    // The outermost one, so that this test under the address sanitizer, in a folder of its own, finds the library built.
    // (Cargo marks only a folder that it has made itself.)
    let marked = test.ancestors().filter(|folder| folder.join("CACHEDIR.TAG").is_file()).last();
    let target = marked.or_else(|| test.parent()?.parent());
    let target = target.expect("it is in target/…/deps").join("dlopened");
    let library = target.join("debug/examples/libdlopened.so");
    // Built before the program runs itself.
    if std::env::var_os(PRELOADED).is_none() {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args(["build", "--quiet", "--manifest-path"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        cargo.args(["--example", "dlopened", "--target-dir"]).arg(&target);
        // Optimizing this crate takes longer than all else, and nothing here waits for it.
        cargo.args(["--config", "profile.dev.package.flamelet-profile.opt-level=0"]);
        // Without the address sanitizer, if this test has it: its run time must be in the program, before the library.
        for variable in ["RUSTFLAGS", "RUSTC_BOOTSTRAP", "CARGO_PROFILE_DEV_OPT_LEVEL"] {
            cargo.env_remove(variable);
        }
        let built = cargo.output().expect("cargo runs");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    }
    library
}

/// Returns why a capture could not start in the library; empty if it started.
fn try_a_capture() -> String {
    let path = CString::new(library().to_str().expect("a plain path")).expect("no zero");
    // SAFETY: the library has such a function, which gives null or a text.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!handle.is_null(), "{:?}", CStr::from_ptr(libc::dlerror()));
        let function = libc::dlsym(handle, c"try_a_capture".as_ptr());
        assert!(!function.is_null());
        let function: extern "C" fn() -> *const c_char = std::mem::transmute(function);
        let text = function();
        if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
    }
}

#[test]
fn a_library_loaded_later_refuses_and_says_what_to_do() {
    if std::env::var_os(PRELOADED).is_some() {
        assert_eq!(try_a_capture(), "");
        return;
    }
    let refused = try_a_capture();
    assert!(refused.contains("dlopen") && refused.contains("LD_PRELOAD"), "{refused:?}");
    assert!(!refused.contains('\n'), "{refused:?}");
    assert_eq!(try_a_capture(), refused, "also the second time");
}

#[test]
fn a_library_loaded_with_the_program_samples() {
    let mut test = Command::new(std::env::current_exe().expect("this test has a file"));
    test.args(["--exact", "a_library_loaded_later_refuses_and_says_what_to_do"]);
    let output = test.env("LD_PRELOAD", library()).env(PRELOADED, "1").output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
