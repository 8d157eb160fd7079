//! What distributions do to debug information: MiniDebugInfo (Fedora), shared files by dwz (Debian).

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use flamelet_symbol::MappedAt;
use flamelet_symbol::symbolize::{ModuleName, SymbolizeOptions, Symbolizer};
use support::{Program, run, succeeds, symbol};

fn names(path: &Path, address: u64) -> Vec<String> {
    let module = ModuleName { path: path.display().to_string(), build_id: String::new() };
    let frames =
        Symbolizer::new(SymbolizeOptions::default()).frames(&module, MappedAt::default(), &[address]);
    frames[0].iter().map(|frame| frame.name.to_string()).collect()
}

#[cfg(feature = "xz")]
#[test]
fn mini_debug_info() {
    let program = Program::c(&["-O2"]);
    let (helper, _) = symbol(&program.path, "local_helper");
    let mini = program.file("mini");
    fs::copy(&program.path, &mini).expect("copied");
    run(Command::new("strip").arg(&program.path));
    assert!(names(&program.path, helper).is_empty(), "stripped");

    run(Command::new("xz").arg(&mini));
    let section = format!(".gnu_debugdata={}", program.file("mini.xz").display());
    run(Command::new("objcopy").arg("--add-section").arg(section).arg(&program.path));
    assert_eq!(names(&program.path, helper), ["local_helper"]);
}

#[test]
fn debug_information_shared_by_dwz() {
    if !succeeds(Command::new("dwz").arg("--version")) {
        flamelet_test_support::skip!("dwz is not installed");
        return;
    }
    let program = Program::c(&["-O2", "-gdwarf-4"]);
    let twin = program.file("twin");
    fs::copy(&program.path, &twin).expect("copied");
    let (outer, _) = symbol(&program.path, "outer");
    let expected = names(&program.path, outer);
    assert_eq!(expected, ["innermost", "middle", "outer"]);

    let shared = program.file("shared.debug");
    run(Command::new("dwz").arg("-m").args([&shared, &program.path, &twin]));
    assert!(shared.is_file(), "dwz moved something out");
    assert_eq!(names(&program.path, outer), expected);

    // Without the shared file, names come from the symbol table.
    fs::remove_file(&shared).expect("removed");
    assert_eq!(names(&program.path, outer).last().map(String::as_str), Some("outer"));
}

/// A service shares one symbolizer between threads.
#[test]
fn a_symbolizer_can_be_sent_and_locked() {
    fn is_send_and_sync<T: Send + Sync>(_: &T) {}
    is_send_and_sync(&Symbolizer::new(SymbolizeOptions::default()));
}
