//! The example does what its first lines say.

use std::process::Command;

#[test]
fn the_last_window_is_written_when_the_service_ends() {
    let folder = std::env::temp_dir().join(format!("flamelet-interval-files-{}", std::process::id()));
    let status = Command::new(env!("CARGO_BIN_EXE_interval-files")).arg(&folder).arg("1").status();
    assert!(status.expect("the example runs").success());
    let entries = std::fs::read_dir(&folder).expect("the folder was made").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    std::fs::remove_dir_all(&folder).expect("removed");
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[0].starts_with("flamegraph-interval-files-") && names[0].ends_with(".svg"), "{names:?}");
    assert!(names[1].starts_with("profile-interval-files-") && names[1].ends_with(".pb.gz"), "{names:?}");
}
