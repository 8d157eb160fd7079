//! Children, other programs, libraries that come and go, and Ctrl-C.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

use flamelet_tests::profiles::scratch;
use flamelet_tests::programs::{answer, command, flamelet};

use crate::recording::{compiled, read, record, values_of};

#[test]
fn a_forked_child_and_a_program_it_starts_are_counted_apart() {
    let (forks, known) = (compiled("forks.c", "forks", &[]), compiled("known.c", "known", &[]));
    let recording = record("forks", &["--heap"], &[&forks, &known]);
    assert_eq!(recording.said.status, Some(3), "{}", recording.said.stderr);
    let of = |function, process| values_of(&recording.profile, function, Some(process));
    assert_eq!(of("of_parent", "forks")[..4], [100, 100_000, 90, 90_000], "what the child freed was a copy");
    assert_eq!(of("of_child", "forks")[..4], [200, 60_000, 100, 30_000]);
    assert_eq!(of("kept", "known")[..1], [1000]);
    assert_eq!(of("kept", "forks"), [0; 6]);
    assert!(recording.said.stderr.contains("sum over 3 processes"), "{}", recording.said.stderr);
}

/// A shell script may choose the number of a descriptor itself.
#[test]
fn a_program_s_own_descriptors_are_its_own() {
    let out = scratch().join("descriptors.txt");
    let script = "exec 3> \"$1\"; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); [ $((i%1000)) != 0 ] || echo $i >&3; done; \
                  ls /proc/self/fd";
    let words = ["-c", script, "sh"];
    let alone = answer(command(Path::new("sh")).args(words).arg(&out));
    let written = std::fs::read_to_string(&out).expect("written");
    assert_eq!(written.lines().count(), 300, "{}", alone.stderr);
    let forbids = compiled("forbids.c", "forbids", &[]);
    for (name, options) in [("cpu", &[][..]), ("inside", &["-F", "499"]), ("heap", &["--heap"])] {
        let mut recorder = command(if name == "inside" { forbids.as_path() } else { flamelet() });
        if name == "inside" {
            recorder.arg(flamelet());
        }
        let profile = scratch().join(format!("descriptors-{name}.pb.gz"));
        recorder.arg("record").args(options).arg("-o").arg(profile).args(["--", "sh"]).args(words).arg(&out);
        let recorded = answer(&mut recorder);
        let found = std::fs::read_to_string(&out).expect("written");
        assert!(found == written, "{name}: {} lines of 300\n{}", found.lines().count(), recorded.stderr);
        // What a library keeps open itself has a high number.
        let low =
            |text: &str| text.lines().filter(|line| line.len() < 3).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(low(&recorded.stdout), low(&alone.stdout), "{name}: {}", recorded.stderr);
    }
}

#[test]
fn programs_that_a_shell_starts_are_found() {
    let known = compiled("known.c", "known", &[]);
    let line = format!("{} & {}; wait", known.display(), known.display());
    let words = [Path::new("sh"), Path::new("-c"), Path::new(&line)];
    let recording = record("shell", &["--heap"], &words);
    assert_eq!(values_of(&recording.profile, "kept", Some("known"))[0], 2000);
}

#[test]
fn a_library_where_another_one_was_has_its_own_names() {
    let source = |name: &str| format!("#include <stdlib.h>\nvoid *{name}(void) {{ return malloc(100); }}\n");
    let library = |name: &str| {
        let path = scratch().join(format!("{name}.c"));
        std::fs::write(&path, source(name)).expect("our own folder");
        compiled(path.to_str().expect("UTF-8"), &format!("lib{name}.so"), &["-shared", "-fPIC"])
    };
    let (one, two) = (library("one"), library("two"));
    let program = compiled("plugins.c", "plugins", &["-ldl"]);
    let recording = record("plugins", &["--heap"], &[&program, &one, &two]);
    assert_eq!(recording.said.status, Some(0), "{}", recording.said.stderr);
    let places: Vec<&str> = recording.said.stdout.lines().collect();
    assert_eq!(places.first(), places.last(), "both were loaded to one place");
    for name in ["one", "two"] {
        assert_eq!(values_of(&recording.profile, name, None)[..2], [10, 1000], "{name}");
    }
    assert!(
        recording.said.stderr.contains("100.0 % of the stacks reach the start of their thread"),
        "{}",
        recording.said.stderr
    );
}

#[test]
fn a_first_call_while_the_loader_is_busy_harms_no_other_thread() {
    let library = compiled("looks_up.c", "libbusy.so", &["-shared", "-fPIC", "-DLIBRARY"]);
    let program = compiled("looks_up.c", "looks_up", &["-rdynamic", "-ldl"]);
    let recording = record("looks_up", &["--heap"], &[&program, &library]);
    assert_eq!(recording.said.stdout.trim(), "sound", "{}", recording.said.stderr);
}

#[test]
fn a_program_without_address_space_for_our_tables_goes_on() {
    let program = compiled("deep.c", "deep", &[]);
    // Enough for the program and for the first tables, but not for all its stacks.
    let line = format!("ulimit -v 60000; exec {}", program.display());
    let words = [Path::new("sh"), Path::new("-c"), Path::new(&line)];
    let recording = record("deep", &["--heap"], &words);
    assert_eq!(recording.said.stdout.trim(), "done", "{}", recording.said.stderr);
}

#[test]
fn ctrl_c_ends_the_command_and_keeps_what_was_recorded() {
    let (program, out) = (compiled("known.c", "known", &[]), scratch().join("interrupted.pb.gz"));
    // The caller of the tests may ignore Ctrl-C, and the command would inherit that.
    let mut recorder = command(Path::new("env"));
    recorder.arg("--default-signal=INT,HUP").arg(flamelet());
    recorder.args(["record", "--heap", "-o"]).arg(&out).arg("--").arg(&program).arg("waits");
    let mut recorder = recorder
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("flamelet");
    let mut line = String::new();
    BufReader::new(recorder.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    let id = recorder.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
    let mut text = String::new();
    recorder.stderr.take().expect("piped").read_to_string(&mut text).expect("text");
    assert_eq!(recorder.wait().expect("ends").code(), Some(128 + 2), "as the command ended: {text}");
    assert_eq!(values_of(&read(&out, &text), "kept", None)[0], 1000);
}
