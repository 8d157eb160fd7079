//! The shell: what it prints for the same lines typed.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use flamelet_tests::programs::{command, flamelet, pprof};
use flamelet_tests::{profiles, rows};

/// Runs a shell on `file`, types `script`, and gives the rows of its standard output without the prompts.
fn typed(program: &mut Command, file: &Path, script: &str) -> Vec<String> {
    let mut child = program
        .arg(file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the shell starts");
    // A shell that ends early closes the pipe; its output says so better than this write.
    let _ = child.stdin.take().expect("a pipe").write_all(script.as_bytes());
    let output = child.wait_with_output().expect("the shell ends");
    let text = String::from_utf8_lossy(&output.stdout).replace("(pprof) ", "");
    rows::rows(&text)
}

const SCRIPTS: &[&str] = &[
    "top\n",
    "top 3\ntop5\ntop 3 -cum\nquit\n",
    "focus=sort|fill|parse\ntop\nfocus=\ntop 4\nexit\n",
    "sample_index=0\ntop 2\n",
    "top 5 main\n",
    "top 5 main -runtime\n",
    "tree 3\ntags\n",
    "peek main\n",
    "granularity=lines\ntop 4\n",
    "sort=cum\ntop 4\nsort=flat\ntop 4\n",
    "nodecount=2\ntop\n",
    "unit=ms\ntop 3\n",
    "top 2\nquit\ntop 5\n",
];

#[test]
fn the_same_lines_give_the_same_rows() {
    let Some(pprof) = pprof() else { return };
    let mut differences = Vec::new();
    for file in [profiles::committed("go-cpu"), profiles::committed("go-heap"), profiles::corners()] {
        for script in SCRIPTS {
            let expected = typed(&mut command(&pprof), &file, script);
            let found = typed(command(flamelet()).arg("pprof"), &file, script);
            if let Some(difference) = rows::first_difference(&expected, &found) {
                differences.push(format!("{script:?} on {}\n{difference}", file.display()));
            }
        }
    }
    let count = differences.len();
    assert!(differences.is_empty(), "{count} scripts differ\n\n{}", differences.join("\n"));
}

/// Nonsense gets an error on standard error, and the shell continues.
#[test]
fn nonsense_does_not_end_the_shell() {
    let file = profiles::committed("go-cpu");
    let plain = typed(command(flamelet()).arg("pprof"), &file, "top 3\n");
    let script = "no_such_command\nfocus=(\ntop 3 (\nsample_index=nonsense\nfocus=\ntop 3\n";
    assert_eq!(typed(command(flamelet()).arg("pprof"), &file, script), plain);
}
