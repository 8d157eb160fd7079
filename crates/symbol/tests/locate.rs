//! Separate debug files, found the ways that debuggers find them, and never the wrong build.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flamelet_symbol::MappedAt;
use flamelet_symbol::buildid;
use flamelet_symbol::locate::{Search, WantedBinary};
use flamelet_symbol::symbolize::{ModuleName, SymbolizeOptions, Symbolizer};
use support::{Program, run, symbol};

/// A stripped program, its debug file, its build id, and the address of `outer`.
struct Stripped {
    program: Program,
    debug: PathBuf,
    build_id: String,
    outer: u64,
}

fn stripped() -> Stripped {
    let program = Program::c(&["-O2", "-g", "-Wl,--build-id"]);
    let build_id = buildid::of_file(&program.path).expect("an ELF file").expect("the linker wrote one");
    let (outer, _) = symbol(&program.path, "outer");
    let debug = program.file("program.debug");
    run(Command::new("objcopy").arg("--only-keep-debug").args([&program.path, &debug]));
    run(Command::new("strip").arg(&program.path));
    Stripped { program, debug, build_id: build_id.to_string(), outer }
}

fn no_system_folders() -> Search {
    Search { debug_folders: Vec::new(), ..Search::default() }
}

/// What `outer` is called, innermost frame first, and the warnings of the search.
fn names(search: &Search, path: &Path, build_id: &str, outer: u64) -> (Vec<String>, Vec<String>) {
    let module = ModuleName { path: path.display().to_string(), build_id: build_id.to_owned() };
    let mut symbolizer =
        Symbolizer::new(SymbolizeOptions { search: search.clone(), ..SymbolizeOptions::default() });
    let frames = symbolizer.frames(&module, MappedAt::default(), &[outer]);
    let located = search.locate(&WantedBinary { path, build_id });
    (frames[0].iter().map(|frame| frame.name.to_string()).collect(), located.warnings)
}

const WHOLE: [&str; 3] = ["innermost", "middle", "outer"];

/// Distributions strip their programs, and leave the link to what the debug files of several packages share.
#[test]
fn a_stripped_program_does_not_miss_what_debug_files_share() {
    let warned = |is_stripped: bool| {
        let program = Program::c(&["-O2", "-g"]);
        let (outer, _) = symbol(&program.path, "outer");
        if is_stripped {
            run(Command::new("strip").arg(&program.path));
        }
        let link = program.file("link");
        fs::write(&link, b"shared.debug\0abcdefghijklmnopqrst").expect("written");
        let section = format!("--add-section=.gnu_debugaltlink={}", link.display());
        run(Command::new("objcopy").arg(section).arg(&program.path));
        names(&no_system_folders(), &program.path, "", outer).1
    };
    assert_eq!(warned(true), Vec::<String>::new());
    assert!(
        warned(false).iter().any(|warning| warning.contains("several packages share")),
        "{:?}",
        warned(false)
    );
}

#[test]
fn debug_link_beside_the_program() {
    let Stripped { program, debug, outer, .. } = stripped();
    run(Command::new("objcopy").arg(format!("--add-gnu-debuglink={}", debug.display())).arg(&program.path));
    assert_eq!(names(&no_system_folders(), &program.path, "", outer).0, WHOLE);

    // In the folder .debug.
    fs::create_dir(program.file(".debug")).expect("made");
    fs::rename(&debug, program.file(".debug/program.debug")).expect("moved");
    assert_eq!(names(&no_system_folders(), &program.path, "", outer).0, WHOLE);

    // Under a system folder, at the path of the program.
    let system = program.file("system");
    let folder = program.folder.path().canonicalize().expect("it exists");
    let there = system.join(folder.strip_prefix("/").expect("absolute"));
    fs::create_dir_all(&there).expect("made");
    fs::rename(program.file(".debug/program.debug"), there.join("program.debug")).expect("moved");
    let search = Search { debug_folders: vec![system], ..Search::default() };
    assert_eq!(names(&search, &program.path, "", outer).0, WHOLE);
    assert!(names(&no_system_folders(), &program.path, "", outer).0.is_empty());
}

#[test]
fn a_debug_link_with_the_wrong_checksum_is_refused() {
    let Stripped { program, debug, outer, .. } = stripped();
    run(Command::new("objcopy").arg(format!("--add-gnu-debuglink={}", debug.display())).arg(&program.path));
    let mut bytes = fs::read(&debug).expect("readable");
    *bytes.last_mut().expect("not empty") ^= 1;
    fs::write(&debug, bytes).expect("written");
    let (names, warnings) = names(&no_system_folders(), &program.path, "", outer);
    assert!(names.is_empty());
    assert!(warnings.iter().any(|warning| warning.contains("wrong checksum")), "{warnings:?}");
}

#[test]
fn a_debug_link_to_a_file_that_takes_hours_to_read_is_refused() {
    let Stripped { program, debug, outer, .. } = stripped();
    run(Command::new("objcopy").arg(format!("--add-gnu-debuglink={}", debug.display())).arg(&program.path));
    // It has only holes, which take no room on disk.
    let file = fs::File::options().write(true).open(&debug).expect("ours");
    file.set_len(1 << 36).expect("a file with a hole");
    let (names, warnings) = names(&no_system_folders(), &program.path, "", outer);
    assert!(names.is_empty());
    assert!(warnings.iter().any(|warning| warning.contains("was not checked")), "{warnings:?}");
}

#[test]
fn build_id_folder() {
    let Stripped { program, debug, build_id, outer } = stripped();
    let folder = program.file("system/.build-id").join(&build_id[..2]);
    fs::create_dir_all(&folder).expect("made");
    fs::rename(&debug, folder.join(format!("{}.debug", &build_id[2..]))).expect("moved");
    let search = Search { debug_folders: vec![program.file("system")], ..Search::default() };
    assert_eq!(names(&search, &program.path, &build_id, outer).0, WHOLE);
    // The profile does not need the id: the program itself has it.
    assert_eq!(names(&search, &program.path, "", outer).0, WHOLE);
    // The program does not need to exist either.
    assert_eq!(names(&search, Path::new("/gone/program"), &build_id, outer).0, WHOLE);
}

#[test]
fn files_and_folders_that_the_user_gives() {
    let Stripped { program, debug, build_id, outer } = stripped();
    let gone = Path::new("/gone/elsewhere");
    let by_file = Search { binaries: vec![debug.clone()], ..no_system_folders() };
    assert_eq!(names(&by_file, gone, &build_id, outer).0, WHOLE);
    let by_folder = Search { folders: vec![program.folder.path().to_owned()], ..no_system_folders() };
    assert_eq!(names(&by_folder, gone, &build_id, outer).0, WHOLE, "any file with the id");

    // As `go tool pprof` keeps them: FOLDER/BUILD-ID/NAME.
    let kept = program.file("kept");
    fs::create_dir_all(kept.join(&build_id)).expect("made");
    fs::rename(&debug, kept.join(&build_id).join("elsewhere")).expect("moved");
    let by_layout = Search { folders: vec![kept], ..no_system_folders() };
    assert_eq!(names(&by_layout, gone, &build_id, outer).0, WHOLE);
}

/// As `perf record` leaves it: `.build-id/ab/cdef` is a link to a folder with a copy of the binary.
#[test]
fn perf_cache_of_binaries() {
    let program = Program::c(&["-O2", "-g", "-Wl,--build-id"]);
    let build_id = buildid::of_file(&program.path).expect("an ELF file").expect("the linker wrote one");
    let build_id = build_id.to_string();
    let (outer, _) = symbol(&program.path, "outer");
    let cache = program.file("cache");
    let kept = cache.join("gone/program").join(&build_id);
    let links = cache.join(".build-id").join(&build_id[..2]);
    fs::create_dir_all(&kept).expect("made");
    fs::create_dir_all(&links).expect("made");
    fs::copy(&program.path, kept.join("elf")).expect("copied");
    std::os::unix::fs::symlink(format!("../../gone/program/{build_id}"), links.join(&build_id[2..]))
        .expect("linked");
    let search = Search { perf_cache: Some(cache), ..no_system_folders() };
    let gone = Path::new("/gone/program");
    assert_eq!(names(&search, gone, &build_id, outer), (WHOLE.map(str::to_owned).to_vec(), Vec::new()));
    // A program that was stripped since has the same id.
    run(Command::new("strip").arg(&program.path));
    assert_eq!(names(&search, &program.path, &build_id, outer).0, WHOLE);
    // The id counts, not the place.
    let other = Program::cpp(&["-O2", "-g"]);
    fs::copy(&other.path, kept.join("elf")).expect("copied");
    assert!(names(&search, gone, &build_id, outer).0.is_empty());
}

#[test]
fn by_name_only_with_a_warning() {
    let program = Program::c(&["-O2", "-g"]);
    let (outer, _) = symbol(&program.path, "outer");
    let search = Search { binaries: vec![program.path.clone()], ..no_system_folders() };
    let (found, warnings) = names(&search, Path::new("/gone/program"), "", outer);
    assert_eq!(found, WHOLE);
    assert!(warnings[0].contains("by its name"), "{warnings:?}");
}

#[test]
fn another_build_is_never_used() {
    let Stripped { program, outer, .. } = stripped();
    let other = "00112233445566778899aabbccddeeff00112233";
    let search = Search { binaries: vec![program.path.clone()], ..no_system_folders() };
    let (names, warnings) = names(&search, &program.path, other, outer);
    assert!(names.is_empty());
    assert!(warnings.iter().any(|warning| warning.contains("another build")), "{warnings:?}");
}

#[test]
fn nothing_found_says_so() {
    let nowhere =
        |build_id| no_system_folders().locate(&WantedBinary { path: Path::new("/gone/program"), build_id });
    assert!(nowhere("").warnings[0].contains("no build id"), "{:?}", nowhere(""));
    assert!(nowhere("0123").warnings[0].contains("build id 0123"), "{:?}", nowhere("0123"));
}

#[test]
fn another_root() {
    let program = Program::c(&["-O2", "-g"]);
    let (outer, _) = symbol(&program.path, "outer");
    let search = Search { root: Some(program.folder.path().to_owned()), ..no_system_folders() };
    assert_eq!(names(&search, Path::new("/program"), "", outer).0, WHOLE);
}
