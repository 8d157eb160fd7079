//! Programs that cannot load the library: one line that says why, and what to do instead.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use flamelet_tests::profiles::scratch;
use flamelet_tests::programs::{Answer, answer, command, flamelet, run_flamelet};

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
        flamelet_test_support::skip!("only root can make a program setuid for another user");
        return;
    }
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).expect("our own file");
    let said = refused(&program).stderr;
    assert!(said.contains("is setuid") && said.contains("a copy"), "{said}");
}

/// The recording cannot be made, so the command is stopped, and the message says so.
#[test]
fn a_program_without_recorded_allocations_is_stopped() {
    let (program, out) = (compiled("pauses.c", "pauses", &[]), scratch().join("pauses.pb.gz"));
    let [program, out] = [&program, &out].map(|path| path.to_str().expect("UTF-8"));
    let said = run_flamelet(["record", "--heap", "--duration", "1", "-o", out, "--", program]);
    assert_eq!(said.status, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("no allocation of"), "{}", said.stderr);
    assert!(said.stderr.trim_end().ends_with("; the command was stopped"), "{}", said.stderr);
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
    assert!(said.stderr.contains("use all, sampled or a size"), "{}", said.stderr);
}

#[test]
fn an_allocator_of_the_program_s_own_is_named() {
    let source = scratch().join("own.c");
    let text = "#include <stdlib.h>\nvoid *_rjem_malloc(size_t size) { return malloc(size); }\n\
                int main(void) { return _rjem_malloc(10) == NULL; }\n";
    std::fs::write(&source, text).expect("our own folder");
    let program = compiled(source.to_str().expect("UTF-8"), "own", &[]);
    let recording = crate::recording::record("own", &["--heap"], &[&program]);
    assert!(recording.said.stderr.contains("is linked with jemalloc"), "{}", recording.said.stderr);
}

/// If blocks could not be reserved in advance, a full disk would raise a signal that ends the program.
#[test]
fn a_full_disk_ends_no_program() {
    let forbids = compiled("forbids.c", "no-fallocate", &["-DFORBIDDEN=SYS_fallocate", "-DANSWER=95"]);
    let (program, out) = (compiled("deep.c", "deep", &[]), scratch().join("full-disk.pb.gz"));
    // A disk of its own, in a view of the file system of its own.
    let script =
        "mount -t tmpfs -o size=1m,mode=1777 none /var/tmp || exit 77; ulimit -v 1000000; exec \"$@\"";
    let mut shell = command(Path::new("unshare"));
    shell.args(["--mount", "sh", "-c", script, "sh"]).arg(forbids).arg(flamelet());
    let said = answer(shell.args(["record", "--heap", "-o"]).arg(&out).arg("--").arg(program));
    if said.status == Some(77) || said.stderr.contains("unshare") {
        flamelet_test_support::skip!("only root can mount a small disk");
        return;
    }
    assert_eq!((said.status, said.stdout.trim()), (Some(0), "done"), "{}", said.stderr);
    assert!(said.stderr.contains("was full"), "{}", said.stderr);
}

#[test]
fn a_program_whose_files_may_not_grow_goes_on() {
    let program = compiled("deep.c", "deep", &[]);
    let line = format!("ulimit -f 1; ulimit -v 1000000; exec {}", program.display());
    let out = scratch().join("small-files.pb.gz");
    let mut recorder = command(flamelet());
    recorder.args(["record", "--heap", "-o"]).arg(&out).args(["--", "sh", "-c", &line]);
    let said = answer(&mut recorder);
    assert_eq!((said.status, said.stdout.trim()), (Some(0), "done"), "{}", said.stderr);
}
