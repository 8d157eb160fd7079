//! `flamelet record -p`: ids and names, repeated or in a list.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use flamelet_profile::pprof;
use flamelet_tests::programs::run_flamelet;

use super::{may_record, scratch, text};

/// A process that is busy until this is dropped.
struct Busy(Child);

impl Busy {
    /// Runs a copy of the shell, so that the process has the name `name`.
    fn named(name: &str) -> Self {
        let shell = scratch(name);
        std::fs::copy("/bin/sh", &shell).expect("our own folder");
        let mut busy = Command::new(shell);
        busy.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
        Self(busy.spawn().expect("a copy of the shell"))
    }

    fn pid(&self) -> i64 {
        i64::from(self.0.id())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The processes that a profile has samples of.
fn pids(path: &Path) -> BTreeSet<i64> {
    let bytes = std::fs::read(path).expect("it was written");
    let profile = pprof::read(&bytes, &pprof::Limits::default()).expect("a profile");
    let labels = profile.samples().flat_map(|sample| profile.labels(sample.labels).to_vec());
    labels.filter(|label| profile.string(label.key) == "pid").map(|label| label.number).collect()
}

#[test]
fn ids_and_names_of_processes_are_recorded_together() {
    if !may_record() {
        return;
    }
    let own = std::process::id();
    let (one, two, name) = (Busy::named("one"), Busy::named("two"), format!("n{own}"));
    let third = Busy::named(&name);
    let (a, b) = (one.pid().to_string(), two.pid().to_string());
    let both = format!("{a},{b}");
    let cases: [(&[&str], BTreeSet<i64>); 4] = [
        (&["-p", &a, "-p", &b], BTreeSet::from([one.pid(), two.pid()])),
        (&["-p", &both], BTreeSet::from([one.pid(), two.pid()])),
        (&["-p", &name], BTreeSet::from([third.pid()])),
        (&["-p", &name, "-p", &a], BTreeSet::from([one.pid(), third.pid()])),
    ];
    let path = scratch("processes.pb.gz");
    for (words, expected) in cases {
        let record = ["record", "--duration", "3", "-o", text(&path)];
        let answer = run_flamelet(record.iter().chain(words));
        assert_eq!(answer.status, Some(0), "{words:?}: {answer:?}");
        assert_eq!(pids(&path), expected, "{words:?}: {answer:?}");
    }
    let answer = run_flamelet(["record", "-p", "no-such-process-name"]);
    assert_eq!(answer.status, Some(2), "{answer:?}");
    assert!(answer.stderr.contains("no process with the name"), "{answer:?}");
}
