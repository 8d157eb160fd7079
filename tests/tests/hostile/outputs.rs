//! Outputs that cannot be written whole, and readers that stop reading.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use flamelet_tests::confined::with_small_files;
use flamelet_tests::profiles;
use flamelet_tests::programs::{Answer, answer, command, flamelet};

/// A folder of its own for one test.
fn folder(name: &str) -> PathBuf {
    let folder = profiles::scratch().join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("our folder");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

fn assert_one_line_about_failure(answer: &Answer) {
    assert_eq!(answer.status, Some(2), "{answer:?}");
    assert_eq!(answer.stderr.trim_end().lines().count(), 1, "{}", answer.stderr);
    assert!(!answer.stderr.contains("panicked"), "{}", answer.stderr);
}

/// Every command that writes a file, as arguments without the file.
fn writers() -> Vec<Vec<String>> {
    let wide = profiles::wide().display().to_string();
    let words = |line: &str| line.split(' ').map(str::to_owned).chain([wide.clone()]).collect();
    ["flame", "merge", "convert"].into_iter().map(words).collect()
}

#[test]
fn a_full_disk_leaves_no_half_file() {
    for (n, arguments) in writers().into_iter().enumerate() {
        let folder = folder(&format!("full-{n}"));
        let out = folder.join(if arguments[0] == "flame" { "out.html" } else { "out.pb.gz" });
        let all = arguments.iter().map(String::as_str).chain(["-o", out.to_str().expect("UTF-8")]);
        let answer = with_small_files(4, all);
        assert_one_line_about_failure(&answer);
        assert!(names_in(&folder).is_empty(), "{arguments:?} left {:?}", names_in(&folder));
    }
}

#[test]
fn a_full_disk_leaves_the_old_file_alone() {
    for (n, arguments) in writers().into_iter().enumerate() {
        let folder = folder(&format!("old-{n}"));
        let out = folder.join(if arguments[0] == "flame" { "out.html" } else { "out.pb.gz" });
        std::fs::write(&out, b"what was there before").expect("a small file");
        let all = arguments.iter().map(String::as_str).chain(["-o", out.to_str().expect("UTF-8")]);
        assert_one_line_about_failure(&with_small_files(4, all));
        assert_eq!(std::fs::read(&out).expect("still there"), b"what was there before");
        assert_eq!(names_in(&folder).len(), 1);
    }
}

#[test]
fn standard_output_that_is_full() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let Ok(full) = full else {
        flamelet_test_support::skip!("this system has no /dev/full");
        return;
    };
    let mut run = command(flamelet());
    let child = run.args(["traces"]).arg(profiles::wide()).stdout(full).stderr(std::process::Stdio::piped());
    let output = child.spawn().expect("flamelet").wait_with_output().expect("its end");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
}

/// As root, a careless "write beside it, then rename" would replace the device itself.
#[test]
fn a_device_stays_a_device() {
    let folder = folder("device");
    let device = folder.join("full.html");
    let made = answer(command(Path::new("mknod")).arg(&device).args(["c", "1", "7"]));
    if made.status != Some(0) {
        flamelet_test_support::skip!("only root can make a device node");
        return;
    }
    let run = answer(command(flamelet()).arg("flame").arg(profiles::wide()).arg("-o").arg(&device));
    assert_one_line_about_failure(&run);
    let still = std::fs::symlink_metadata(&device).expect("the device").file_type().is_char_device();
    assert!(still, "the device was replaced by a file");
}

#[test]
fn a_folder_that_does_not_exist() {
    let out = profiles::scratch().join("nowhere/out.html");
    let run = answer(command(flamelet()).arg("flame").arg(profiles::wide()).arg("-o").arg(&out));
    assert_one_line_about_failure(&run);
    assert!(run.stderr.contains("nowhere"), "{}", run.stderr);
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let wide = profiles::wide();
    for report in ["traces", "raw", "tree --nodefraction 0", "pprof -traces", "pprof -dot -trim=false"] {
        let script = format!("set -o pipefail; \"$1\" {report} \"$2\" | head -n 1");
        let mut bash = command(Path::new("bash"));
        let answer = answer(bash.args(["-c", &script, "bash"]).arg(flamelet()).arg(&wide));
        assert_eq!(answer.status, Some(0), "{report}: {}", answer.stderr);
        assert_eq!(answer.stdout.lines().count(), 1, "{report}");
        assert!(!answer.stderr.contains("panicked"), "{report}: {}", answer.stderr);
    }
}
