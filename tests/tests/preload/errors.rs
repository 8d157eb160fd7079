//! Programs into which nothing can be loaded: one line that says why, and a way out.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use flamelet_tests::profiles::scratch;
use flamelet_tests::programs::{Answer, run_flamelet};

use crate::recording::compiled;

fn refused(program: &Path) -> Answer {
    let out = scratch().join("refused.pb.gz");
    let words = ["record", "--heap", "-o"].map(std::ffi::OsStr::new);
    let said = run_flamelet(words.into_iter().chain([out.as_os_str(), "--".as_ref(), program.as_os_str()]));
    assert_eq!(said.status, Some(2), "{}", said.stderr);
    assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    said
}

#[test]
fn a_static_program_is_refused_with_a_way_out() {
    let said = refused(&compiled("known.c", "static", &["-static"])).stderr;
    assert!(said.contains("statically linked") && said.contains("global_allocator!()"), "{said}");
}

#[test]
fn a_setuid_program_is_refused_with_a_way_out() {
    const NOBODY: u32 = 65534;
    let program = scratch().join("setuid");
    std::fs::copy(compiled("known.c", "known", &[]), &program).expect("our own folder");
    if chown(&program, Some(NOBODY), None).is_err() {
        eprintln!("SKIP: only root can make a program setuid for another user");
        return;
    }
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).expect("our own file");
    let said = refused(&program).stderr;
    assert!(said.contains("is setuid") && said.contains("a copy"), "{said}");
}

/// What was asked for cannot be had, so the command is not left running; that must not come as a surprise.
#[test]
fn a_program_of_which_nothing_is_seen_is_ended_and_that_is_said() {
    let (program, out) = (compiled("pauses.c", "pauses", &[]), scratch().join("pauses.pb.gz"));
    let [program, out] = [&program, &out].map(|path| path.to_str().expect("UTF-8"));
    let said = run_flamelet(["record", "--heap", "--duration", "1", "-o", out, "--", program]);
    assert_eq!(said.status, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("has allocated nothing"), "{}", said.stderr);
    assert!(said.stderr.trim_end().ends_with("; it was ended"), "{}", said.stderr);
}

#[test]
fn a_script_is_judged_by_its_interpreter() {
    let script = scratch().join("script");
    let interpreter = compiled("known.c", "static", &["-static"]);
    std::fs::write(&script, format!("#!{}\n", interpreter.display())).expect("our own folder");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("our own file");
    assert!(refused(&script).stderr.contains("statically linked"));
}

#[test]
fn a_missing_program_and_a_running_one_are_refused() {
    let said = refused(Path::new("/no/such/program")).stderr;
    assert!(said.contains("/no/such/program: no such command"), "{said}");
    let said = run_flamelet(["record", "--heap", "-p", "1"]);
    assert_eq!(said.status, Some(2), "{}", said.stderr);
    let said = run_flamelet(["record", "--heap"]);
    assert!(said.stderr.contains("needs a command"), "{}", said.stderr);
    let said = run_flamelet(["record", "--heap=sometimes", "--", "ls"]);
    assert!(said.stderr.contains("neither all nor sampled"), "{}", said.stderr);
}

#[test]
fn an_allocator_of_the_program_s_own_is_named() {
    let source = scratch().join("own.c");
    let text = "#include <stdlib.h>\nvoid *_rjem_malloc(size_t size) { return malloc(size); }\n\
                int main(void) { return _rjem_malloc(10) == NULL; }\n";
    std::fs::write(&source, text).expect("our own folder");
    let program = compiled(source.to_str().expect("UTF-8"), "own", &[]);
    let recording = crate::recording::record("own", &["--heap"], &[&program]);
    assert!(recording.said.stderr.contains("has jemalloc linked into it"), "{}", recording.said.stderr);
}
