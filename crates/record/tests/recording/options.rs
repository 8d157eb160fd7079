//! Options that make no sense, and targets that do not exist.

use crate::programs::{alone, quiet};
use flamelet_record::{ErrorKind, RecordOptions, Target, record};
use std::sync::atomic::AtomicBool;

fn refused(options: RecordOptions) -> (ErrorKind, String) {
    let error = record(options, &mut |_| {}, &AtomicBool::new(false)).expect_err("it cannot be");
    (error.kind(), error.to_string())
}

fn with(change: impl FnOnce(&mut RecordOptions)) -> (ErrorKind, String) {
    let mut options = RecordOptions::new(Target::Command(quiet("true".as_ref(), &[])));
    change(&mut options);
    refused(options)
}

#[test]
fn nonsense_is_refused_in_one_line() {
    let _one = alone();
    let cases = [
        with(|options| options.frequency = 0),
        with(|options| options.frequency = 20_001),
        with(|options| options.dump_bytes = 100_000),
        with(|options| options.cpu = false),
        with(|options| options.events = vec!["no-such-event".to_owned()]),
        refused(RecordOptions::new(Target::Pids(Vec::new()))),
    ];
    for (kind, message) in cases {
        assert_eq!(kind, ErrorKind::InvalidOption, "{message}");
        assert!(!message.contains('\n') && !message.is_empty());
    }
}

#[test]
fn what_is_not_there_is_named() {
    let _one = alone();
    let (kind, message) = refused(RecordOptions::new(Target::Pids(vec![u32::MAX >> 2])));
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(message.contains("1073741823"), "{message}");
    let (kind, message) =
        refused(RecordOptions::new(Target::Command(quiet("/no/such/program".as_ref(), &[]))));
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(message.contains("cannot start the command"), "{message}");
    assert_nothing_goes_on();
}

/// A failed recording leaves no threads behind: a drain without a recording would use a CPU, and ever more memory.
fn assert_nothing_goes_on() {
    let tasks = || std::fs::read_dir("/proc/self/task").expect("our own threads").flatten();
    let names = || tasks().filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    let ours = || names().filter(|name| name.starts_with("flamelet-")).collect::<Vec<_>>();
    for _ in 0..6000 {
        if ours().is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{:?} are left", ours());
}
