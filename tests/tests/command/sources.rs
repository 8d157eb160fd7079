//! Files and standard input, compressed and uncompressed.

use std::io::Write;
use std::process::Stdio;

use flamelet_tests::programs::{command, flamelet, run_flamelet};
use flamelet_tests::{profiles, wire};

fn top_of(path: &std::path::Path) -> String {
    let answer = run_flamelet(["top".as_ref(), path.as_os_str()]);
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    answer.stdout
}

#[test]
fn packed_plain_and_standard_input_are_the_same() {
    let packed = profiles::committed("go-cpu");
    let expected = top_of(&packed);
    let bytes = std::fs::read(&packed).expect("testdata");
    let plain = profiles::written("plain-cpu.pb", || wire::gunzip(&bytes));
    assert_eq!(top_of(&plain), expected);

    let mut child = command(flamelet())
        .args(["top", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("flamelet starts");
    child.stdin.take().expect("a pipe").write_all(&bytes).expect("flamelet reads its input");
    let output = child.wait_with_output().expect("flamelet ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn merging_a_file_with_itself_doubles_it_and_keeps_it_readable() {
    let cpu = profiles::committed("go-cpu").display().to_string();
    let out = profiles::scratch().join("merged.pb.gz").display().to_string();
    let answer = run_flamelet(["merge", &cpu, &cpu, "-o", &out]);
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    let twice = run_flamelet(["top", &cpu, &cpu]).stdout;
    assert_eq!(run_flamelet(["top", &out]).stdout, twice);
}

#[test]
fn equal_profiles_are_written_as_equal_bytes() {
    for file in profiles::all() {
        let file = file.display().to_string();
        let paths = ["once", "again"].map(|name| profiles::scratch().join(name).display().to_string());
        for path in &paths {
            let answer = run_flamelet(["convert", &file, "--to", "pprof", "-o", path]);
            assert_eq!(answer.status, Some(0), "{}", answer.stderr);
        }
        let [once, again] = paths.map(|path| std::fs::read(path).expect("written"));
        assert!(once == again, "{file}: two runs wrote different bytes");
    }
}
