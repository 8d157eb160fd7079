//! After a redeploy, the history of the old build still has the names of its functions.

mod example;

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use example::{DEADLINE, Example};
use flamelet_profile::{Budget, Limits, Profile, pprof};
use flamelet_store::{Query, Reader};

/// How the note with a build id of 20 bytes begins.
const NOTE: &[u8] = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";

/// Writes a copy of the example that has another build id, as another build has.
fn other_build(path: &Path) {
    let program = Path::new(env!("CARGO_BIN_EXE_axum-service"));
    std::fs::copy(program, path).expect("copied");
    let mut bytes = std::fs::read(path).expect("read");
    let at =
        bytes.windows(NOTE.len()).position(|window| window == NOTE).expect("the linker writes build ids");
    bytes[at + NOTE.len()..][..20].iter_mut().for_each(|byte| *byte ^= 0x5a);
    std::fs::write(path, bytes).expect("written");
}

fn unix() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// Returns the profile that `path` answers, if it answers one.
fn profile(example: &Example, path: &str) -> Option<Profile> {
    let mut answer = Vec::new();
    example.send(path, "").read_to_end(&mut answer).expect("an answer");
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    let is_good = answer.starts_with(b"HTTP/1.1 200");
    is_good.then(|| pprof::read(&answer[head + 4..], &pprof::Limits::default()).expect("pprof"))
}

fn names(profile: &Profile, name: &str) -> bool {
    profile.functions().iter().any(|function| profile.string(function.name).contains(name))
}

#[test]
fn the_history_of_a_deleted_build_has_its_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let (old, history) = (folder.path().join("old-service"), folder.path().join("history"));
    other_build(&old);
    let arguments = ["--busy", "--history", history.to_str().expect("text"), "--window", "0.2"];
    let start = unix() - 1;
    let example = Example::start_program(&old, &arguments, &[]);
    // Names are looked up after some windows, while the program is still there: those of what was seen by then.
    let is_kept = || -> Option<bool> {
        let (reader, budget) = (Reader::open(&history).ok()?, Budget::new(Limits::SERVICE));
        let mut past = reader.profile(&Query::new("cpu", i64::MIN, i64::MAX), &budget).ok()?.0?;
        reader.add_names(&mut past, &budget).ok()?;
        Some(names(&past, "routes::burn"))
    };
    let patience = Instant::now();
    while is_kept() != Some(true) {
        assert!(patience.elapsed() < DEADLINE, "no names are kept");
        std::thread::sleep(Duration::from_millis(100));
    }
    // Dropping it is SIGKILL.
    drop(example);
    std::fs::remove_file(&old).expect("removed");
    let end = unix() + 1;
    let example = Example::start(&arguments[1..], &[]);
    let past = profile(&example, &format!("/debug/pprof/profile?from={start}&to={end}")).expect("there");
    assert!(names(&past, "routes::burn"));
    let program = past.mappings().iter().find(|it| past.string(it.filename).contains("old-service"));
    assert!(program.is_some(), "the windows are those of the deleted program");
}
