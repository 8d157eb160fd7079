//! Recordings whose output has no reader any more: the terminal was closed, or the reader of a pipe is gone.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use flamelet_tests::programs::{command, flamelet, run_flamelet};

use super::ending::{assert_readable, folder, in_terminal};
use super::{may_record, within_a_minute};

/// A pipe without a reader.
fn without_reader() -> Stdio {
    let (_, writer) = std::io::pipe().expect("a pipe");
    writer.into()
}

fn assert_picture(path: &Path) {
    let picture = std::fs::read_to_string(path).expect("it was written");
    assert!(picture.trim_end().ends_with("</svg>"));
}

#[test]
fn a_closed_pipe_costs_no_recording() {
    if !may_record() {
        return;
    }
    let folder = folder("pipe");
    // Not every user may see blocked time; with it, there are more messages that are not read.
    let off_cpu = run_flamelet(["record", "--off-cpu", "-o", "probe.pb.gz", "--", "true"]).status == Some(0);
    let repeated: &[&str] = match off_cpu {
        true => &["--repeat", "2", "--off-cpu", "-o", "repeated.svg"],
        false => &["--repeat", "2", "-o", "repeated.svg"],
    };
    let runs: [&[&str]; 4] = [&["-o", "a.svg"], &["-o", "a.pb.gz"], &["--heap", "-o", "heap.svg"], repeated];
    for words in runs {
        let mut record = command(flamelet());
        record.arg("record").args(words).args([
            "--",
            "sh",
            "-c",
            "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 3",
        ]);
        let status = record.current_dir(&folder).stdout(Stdio::null()).stderr(without_reader()).status();
        assert_eq!(status.expect("the command").code(), Some(3), "{words:?}");
    }
    ["a.svg", "heap.svg", "repeated.svg"].iter().for_each(|name| assert_picture(&folder.join(name)));
    assert_readable(&folder.join("a.pb.gz"));
}

#[test]
fn what_is_refused_keeps_its_status() {
    for words in
        [&["top", "/no/such/file"][..], &["record"], &["--nonsense"], &["record", "-F", "0", "--", "true"]]
    {
        let status = command(flamelet()).args(words).stderr(without_reader()).status().expect("the command");
        assert_eq!(status.code(), Some(2), "{words:?}");
    }
    let cargo = flamelet().with_file_name("cargo-flamelet");
    let refused =
        command(&cargo).arg("fly").stderr(without_reader()).status().expect("it is in the same folder");
    assert_eq!(refused.code(), Some(2));
    let helped =
        command(&cargo).arg("help").stdout(without_reader()).status().expect("it is in the same folder");
    assert_eq!(helped.code(), Some(0));
}

#[test]
fn a_closed_terminal_costs_no_recording() {
    if !may_record() {
        return;
    }
    for (name, words) in [("a.svg", "-o a.svg"), ("heap.svg", "--heap -o heap.svg")] {
        let folder = folder(&format!("closed-{name}"));
        // The first shell of a terminal gets SIGHUP when it is closed and passes it on; the second shell stays to report
        // how the recording ended. SIGHUP also ends the first wait, if that has begun by then.
        let session = format!(
            "trap 'trap \"\" HUP; kill -HUP 0' HUP\n\
             (trap : HUP; {} record {words} -- sh ./work; echo $? > status.new; mv status.new status) &\n\
             wait\nwait\n",
            flamelet().display()
        );
        std::fs::write(folder.join("session"), session).expect("our own folder");
        let work = "ulimit -t 60; trap 'exit 5' HUP TERM; echo > begun; while :; do :; done";
        std::fs::write(folder.join("work"), work).expect("our own folder");
        let mut terminal = in_terminal(&folder, "sh ./session");
        let mut terminal = terminal.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("of bsdutils");
        while !folder.join("begun").exists() {
            assert!(
                terminal.try_wait().expect("our own child").is_none(),
                "it ended before its command began"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        // A terminal closes when the process that holds it ends.
        terminal.kill().expect("our own child");
        terminal.wait().expect("our own child");
        let status = folder.join("status");
        assert!(within_a_minute(|| status.exists()), "{name}: it goes on");
        assert_eq!(std::fs::read_to_string(&status).expect("it is there"), "5\n", "{name}");
        assert_picture(&folder.join(name));
    }
}
