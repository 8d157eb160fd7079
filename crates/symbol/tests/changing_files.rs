//! Files that change while they are in use, and paths that are not regular files.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use flamelet_symbol::locate::{Search, WantedBinary};
use flamelet_symbol::source::SourcePath;
use flamelet_symbol::symbolize::{ModuleName, SymbolizeOptions, Symbolizer};
use flamelet_symbol::{Limits, MappedAt, inspect};
use support::{Program, run, symbol};

/// Tells this test, started again as a separate process, which file to truncate and with which limits to read it.
const CHILD: &str = "FLAMELET_TEST_CUT_SHORT";

/// How files are read: as a service does, and as the command does.
fn limits(name: &str) -> Limits {
    if name == "service" { Limits::SERVICE } else { Limits::default() }
}

/// A mapped page beyond the end of its file kills the process with SIGBUS, hence the separate process.
#[test]
fn a_file_that_is_cut_short_between_two_questions_ends_nothing() {
    if let Some(task) = std::env::var_os(CHILD) {
        return cut_short_between_questions(task.to_str().expect("text"));
    }
    for cut in ["binary", "debug file"] {
        for reader in ["service", "command"] {
            for left in ["0", "64", "half"] {
                let task = format!("{cut},{reader},{left}");
                let child = Command::new(std::env::current_exe().expect("known"))
                    .args(["--exact", "a_file_that_is_cut_short_between_two_questions_ends_nothing"])
                    .env(CHILD, &task)
                    .output()
                    .expect("started");
                let said = String::from_utf8_lossy(&child.stdout);
                assert!(child.status.success(), "{task}: {}, {said}", child.status);
                assert!(said.contains("1 passed"), "{task}: {said}");
            }
        }
    }
}

fn cut_short_between_questions(task: &str) {
    let [cut, reader, left] = task.split(',').collect::<Vec<_>>()[..] else { panic!("{task}") };
    let program = Program::c(&["-O2", "-g", "-Wl,--build-id"]);
    let [outer, local, main] = ["outer", "local_helper", "main"].map(|name| symbol(&program.path, name).0);
    let mut victim = program.path.clone();
    if cut == "debug file" {
        victim = program.file("program.debug");
        run(Command::new("objcopy").arg("--only-keep-debug").args([&program.path, &victim]));
        run(Command::new("strip").arg(&program.path));
        run(Command::new("objcopy")
            .arg(format!("--add-gnu-debuglink={}", victim.display()))
            .arg(&program.path));
    }
    let search = Search { debug_folders: Vec::new(), ..Search::default() };
    let mut symbolizer =
        Symbolizer::new(SymbolizeOptions { search, limits: limits(reader), ..SymbolizeOptions::default() });
    let module = ModuleName { path: program.path.display().to_string(), build_id: String::new() };
    let mut ask = |addresses: &[u64]| symbolizer.frames(&module, MappedAt::default(), addresses);
    assert_eq!(&*ask(&[outer])[0].last().expect("known").name, "outer");
    let size = fs::metadata(&victim).expect("there").len();
    let left = if left == "half" { size / 2 } else { left.parse().expect("a number") };
    fs::File::options().write(true).open(&victim).expect("ours").set_len(left).expect("cut");
    let answers = ask(&[outer, local, main]);
    assert_eq!(&*answers[0].last().expect("remembered").name, "outer");
    // Missing parts have no names, or names from another file.
    assert!(answers[1].last().is_none_or(|frame| &*frame.name == "local_helper"), "{:?}", answers[1]);
}

/// Runs `work` on another thread: opening a pipe or reading a device may never return.
fn comes_back<T: Send + 'static>(what: &Path, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, finished) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    let patience = Duration::from_secs(120);
    finished.recv_timeout(patience).unwrap_or_else(|_| panic!("{} was waited for", what.display()))
}

/// A pipe without a writer, an endless device, a folder, and a link to a pipe.
fn no_files(folder: &Path) -> Vec<PathBuf> {
    let (pipe, link, inner) = (folder.join("pipe"), folder.join("link"), folder.join("folder"));
    run(Command::new("mkfifo").arg(&pipe));
    std::os::unix::fs::symlink(&pipe, &link).expect("made");
    fs::create_dir(&inner).expect("made");
    vec![
        pipe,
        link,
        inner,
        PathBuf::from("/dev/zero"),
        PathBuf::from("/dev/tty"),
        PathBuf::from("/proc/kmsg"),
    ]
}

#[test]
fn what_is_no_file_is_not_opened() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for path in no_files(folder.path()) {
        let wanted = path.clone();
        let located = comes_back(&path, move || {
            Search::default().locate(&WantedBinary { path: &wanted, build_id: "0102030405060708" })
        });
        assert_eq!(located.binary, None, "{}", path.display());
        let module = ModuleName { path: path.display().to_string(), build_id: String::new() };
        let frames = comes_back(&path, move || {
            Symbolizer::new(SymbolizeOptions::default()).frames(&module, MappedAt::default(), &[4096])
        });
        assert!(frames[0].is_empty());
        let inspected = path.clone();
        comes_back(&path, move || inspect::inspect(&inspected).map(drop)).expect_err("no ELF file");
        let name = path.display().to_string();
        let found = comes_back(&path, move || SourcePath::from_arguments("", "").find(&name));
        assert_eq!(found, None);
    }
}

#[test]
fn a_debug_link_to_a_pipe_is_not_followed() {
    let program = Program::c(&["-O2", "-g"]);
    let outer = symbol(&program.path, "outer").0;
    let debug = program.file("program.debug");
    run(Command::new("objcopy").arg("--only-keep-debug").args([&program.path, &debug]));
    run(Command::new("strip").arg(&program.path));
    run(Command::new("objcopy").arg(format!("--add-gnu-debuglink={}", debug.display())).arg(&program.path));
    fs::remove_file(&debug).expect("removed");
    run(Command::new("mkfifo").arg(&debug));
    let module = ModuleName { path: program.path.display().to_string(), build_id: String::new() };
    let frames = comes_back(&debug, move || {
        Symbolizer::new(SymbolizeOptions::default()).frames(&module, MappedAt::default(), &[outer])
    });
    assert!(frames[0].is_empty());
}

/// A file that is overwritten in place, as by `cp`, counts as another build from then on.
#[test]
fn a_file_that_is_written_anew_is_not_taken_for_the_old_one() {
    let program = Program::c(&["-O2", "-g", "-Wl,--build-id"]);
    let build_id = flamelet_symbol::buildid::of_file(&program.path).expect("an ELF file").expect("an id");
    let outer = symbol(&program.path, "outer").0;
    let module = ModuleName { path: program.path.display().to_string(), build_id: build_id.to_string() };
    let mut symbolizer =
        Symbolizer::new(SymbolizeOptions { limits: Limits::SERVICE, ..SymbolizeOptions::default() });
    let mut ask = |address| symbolizer.frames(&module, MappedAt::default(), &[address])[0].clone();
    assert_eq!(&*ask(outer).last().expect("known").name, "outer");
    let other = Program::c(&["-O0", "-g", "-Wl,--build-id"]);
    fs::write(&program.path, other.bytes()).expect("ours");
    assert_eq!(&*ask(outer).last().expect("remembered").name, "outer");
    let there = ask(symbol(&other.path, "main").0);
    assert!(there.is_empty(), "{there:?}");
}
