//! The example does what its first lines say.

use std::process::Command;

#[test]
fn the_last_window_is_written_when_the_service_ends() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let status = Command::new(env!("CARGO_BIN_EXE_interval-files")).arg(folder.path()).arg("1").status();
    assert!(status.expect("the example runs").success());
    let entries = std::fs::read_dir(folder.path()).expect("the folder is there").flatten();
    let names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let times = |start: &str, end: &str| {
        let inner = |name: &String| Some(name.strip_prefix(start)?.strip_suffix(end)?.to_owned());
        let mut times: Vec<String> = names.iter().filter_map(inner).collect();
        times.sort();
        times
    };
    let profiles = times("profile-interval-files-", ".pb.gz");
    // One, unless the machine was stopped long enough for a window to end before.
    assert!(!profiles.is_empty(), "{names:?}");
    assert_eq!(profiles, times("flamegraph-interval-files-", ".svg"), "each with its picture");
    assert_eq!(names.len(), 2 * profiles.len(), "{names:?}");
}
