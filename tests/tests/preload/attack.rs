//! Another user of the machine against root's recordings.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use flamelet_tests::profiles::scratch;
use flamelet_tests::programs::{Answer, answer, command, flamelet};

use crate::recording::{compiled, read, values_of};

const NOBODY: u32 = 65534;

/// Returns whether the attack can be tried; prints a `SKIP:` line if not.
fn is_root() -> bool {
    let is_root = std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.lines().any(|line| line.starts_with("Uid:\t0\t0\t0")));
    if !is_root {
        flamelet_test_support::skip!("only root can be attacked by another user");
    }
    is_root
}

/// A folder that everybody can read, removed at the end.
fn place(mode: u32) -> tempfile::TempDir {
    let place = tempfile::tempdir_in("/var/tmp").expect("a folder for everybody");
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(mode)).expect("our own folder");
    place
}

/// Runs `script` as the attacker, with `words` as its arguments, and returns its output.
fn as_nobody(script: &str, words: &[&Path]) -> Answer {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script, "sh"]).args(words).current_dir("/").uid(NOBODY).gid(NOBODY);
    answer(shell.stdin(Stdio::null()))
}

/// Waits for something that must happen; a minute is far more than it needs.
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..12_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{what}: not within a minute");
}

/// `flamelet record OPTIONS -o OUT -- sh -c SCRIPT`, whose first line of output has been read.
fn start(
    recorder: &mut Command,
    options: &[&str],
    out: &Path,
    script: &str,
    words: &[&Path],
) -> (Child, String) {
    recorder
        .arg("record")
        .args(options)
        .arg("-o")
        .arg(out)
        .args(["--", "sh", "-c", script, "sh"])
        .args(words);
    recorder.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = recorder.spawn().expect("flamelet");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
    (child, line.trim().to_owned())
}

/// Returns where the recorded process `pid` writes, which only root can find out.
fn folder_of(pid: &str) -> PathBuf {
    let variables = std::fs::read_to_string(format!("/proc/{pid}/environ")).expect("it runs");
    let folder = variables.split('\0').find_map(|pair| pair.strip_prefix("FLAMELET_RECORD_FOLDER="));
    PathBuf::from(folder.expect("it was told"))
}

/// The folders of recordings, which every user can list.
const FOLDERS: &str = "/var/tmp/flamelet-* /var/tmp/flamelet-*/* /var/cache/flamelet";

/// The first way: processes that outlive a recording still load the library, from a folder that may belong to someone
/// else by then.
#[test]
fn nobody_else_can_put_a_library_where_a_survivor_looks_for_it() {
    if !is_root() {
        return;
    }
    let place = place(0o777);
    let [mark, go, evil, done] = ["mark", "go", "evil.so", "done"].map(|name| place.path().join(name));
    let flags = ["-shared", "-fPIC", &format!("-DMARK=\"{}\"", mark.display())];
    let compiled = compiled("evil.c", &format!("evil-{}.so", std::process::id()), &flags);
    std::fs::copy(compiled, &evil).expect("our own folder");
    let survivor = "(while [ ! -e \"$1\" ]; do sleep 0.02; done; /bin/true; echo > \"$2\") < /dev/null > /dev/null 2>&1 & \
                    echo \"$LD_PRELOAD\"";
    let out = scratch().join("survivor.pb.gz");
    let (child, library) = start(&mut command(flamelet()), &["--heap"], &out, survivor, &[&go, &done]);
    let said = child.wait_with_output().expect("flamelet");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let library = PathBuf::from(library.split(':').next().expect("a path"));
    assert!(library.is_absolute(), "{}", library.display());
    let attack = as_nobody("mkdir -p \"$(dirname \"$1\")\"; cp -f \"$2\" \"$1\"", &[&library, &evil]);
    std::fs::write(&go, "").expect("our own folder");
    wait_for("the survivor goes on", || done.exists());
    assert!(!mark.exists(), "root has loaded nobody's library");
    assert_ne!(attack.status, Some(0), "nobody could write {}", library.display());
}

/// The same with its files: a process that forks after the recording writes nothing into a folder that is somebody
/// else's by then, and waits for nothing there.
#[test]
fn nobody_else_can_hold_up_a_survivor_that_forks() {
    if !is_root() {
        return;
    }
    let place = place(0o777);
    let [go, done] = ["go", "done"].map(|name| place.path().join(name));
    // `read` needs no child; the last command keeps the shell from replacing itself.
    let survivor = "mkfifo \"$1\" || exit 9; (read line < \"$1\"; (echo > \"$2\"); :) < /dev/null > /dev/null 2>&1 & echo $!";
    let out = scratch().join("forking-survivor.pb.gz");
    let (mut child, pid) = start(&mut command(flamelet()), &["--heap"], &out, survivor, &[&go, &done]);
    let folder = folder_of(&pid);
    let said = child.wait().expect("flamelet");
    assert!(said.success(), "{said}");
    let attack = "mkdir -p \"$1\" && cd \"$1\" && mkfifo \"$2-0.modules\"";
    let attack = as_nobody(attack, &[&folder, Path::new(&pid)]);
    assert_eq!(attack.status, Some(0), "the folder is gone, and its name free: {}", attack.stderr);
    std::fs::write(&go, "go\n").expect("our own pipe");
    wait_for("the survivor goes on", || done.exists());
    let files = std::fs::read_dir(&folder).expect("the attacker's folder").count();
    assert_eq!(files, 1, "root wrote into nobody's folder");
    as_nobody("rm -r \"${1%/*}\"", &[&folder]);
}

/// The second way: while it runs, the library or a file that is about to be written is replaced.
#[test]
fn nobody_else_can_write_into_the_folders_of_a_recording() {
    if !is_root() {
        return;
    }
    let place = place(0o755);
    let (victim, go) = (place.path().join("victim"), place.path().join("go"));
    std::fs::write(&victim, "whole").expect("our own folder");
    // With both ways of loading a library; the second saves itself under a new name every second.
    let forbids = compiled("forbids.c", "forbids", &[]);
    let mut inside = command(&forbids);
    inside.arg(flamelet());
    for (name, recorder, options) in
        [("heap", &mut command(flamelet()), &["--heap"][..]), ("inside", &mut inside, &["-F", "499"])]
    {
        let _ = std::fs::remove_file(&go);
        let script =
            "echo $$; while [ ! -e \"$1\" ]; do i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done; done";
        let out = scratch().join(format!("attacked-{name}.pb.gz"));
        let (child, pid) = start(recorder, options, &out, script, &[&go]);
        let attack = format!(
            "for folder in {FOLDERS}; do\n\
             [ -d \"$folder\" ] && [ ! -O \"$folder\" ] || continue\n\
             for file in {pid}-0.part {pid}-0.profile {pid}-0.counts libflamelet-heap.so; do\n\
             ln -sfn \"$1\" \"$folder/$file\" && echo \"$folder/$file\"\n\
             done; done"
        );
        let planted = as_nobody(&attack, &[&victim]);
        if name == "inside" {
            // The next save would write through the planted link.
            let saved = folder_of(&pid).join(format!("{pid}-0.profile"));
            let before = std::fs::metadata(&saved).and_then(|file| file.modified()).ok();
            let is_saved = || {
                std::fs::metadata(&saved).is_ok_and(|file| file.len() > 0 && file.modified().ok() != before)
            };
            wait_for("a saving", || is_saved() || std::fs::read(&victim).is_ok_and(|text| text != b"whole"));
        }
        std::fs::write(&go, "").expect("our own folder");
        let said = child.wait_with_output().expect("flamelet");
        assert_eq!(
            std::fs::read_to_string(&victim).expect("there"),
            "whole",
            "{name}: root wrote through a link"
        );
        assert_eq!(planted.stdout, "", "{name}: nobody could write there");
        assert!(said.status.success(), "{name}: {}", String::from_utf8_lossy(&said.stderr));
    }
}

/// The third way: root reads the files in the folder. A recorded process of another user may write there, and may be
/// hostile.
#[test]
fn what_a_recorded_process_of_another_user_leaves_there_is_read_without_trust() {
    if !is_root() {
        return;
    }
    let known = place(0o755);
    let program = known.path().join("known");
    // By another program: what this one has open for writing cannot be run, nor while a child that was forked
    // meanwhile still has it open.
    let copied = Command::new("cp").arg(compiled("known.c", "known", &[])).arg(&program).status();
    assert!(copied.is_ok_and(|status| status.success()));
    let script = "cd \"$FLAMELET_RECORD_FOLDER\" || exit 9; mkfifo 1-0.counts 1-0.modules 1-0.profile || exit 8\n\
                  ln -s /dev/zero 2-0.counts; ln -s /etc/shadow 2-0.modules; ln -s /dev/zero 2-0.profile\n\
                  truncate -s 1T 3-0.counts; truncate -s 1T 3-0.modules; mkdir 4-0.counts; head -c 5000 /dev/urandom > 5-0.counts\n\
                  cd /; exec \"$1\"";
    let out = scratch().join("hostile-child.pb.gz");
    let words = [Path::new("-c"), Path::new(script), Path::new("sh"), &program];
    let mut recorder = command(Path::new("timeout"));
    recorder.args(["--kill-after=5", "60"]).arg(flamelet());
    recorder.args(["record", "--heap", "-o"]).arg(&out).args(["--", "setpriv", "--clear-groups"]);
    recorder.args(["--reuid=65534", "--regid=65534", "sh"]).args(words);
    let said = answer(&mut recorder);
    // As the program ends without a recorder.
    assert_eq!(said.status, Some(3), "{}", said.stderr);
    assert_eq!(values_of(&read(&out, &said.stderr), "kept", Some("known"))[0], 1000, "{}", said.stderr);
}

/// The fourth way: the file next to the output, which saves a recording while it runs.
#[test]
fn nobody_else_can_lead_a_checkpoint_elsewhere() {
    if !is_root() {
        return;
    }
    // Not sticky, or the kernel itself may refuse to follow the link.
    let (place, safe) = (place(0o777), place(0o755));
    let [victim, go] = ["victim", "go"].map(|name| safe.path().join(name));
    std::fs::write(&victim, "whole").expect("our own folder");
    let out = place.path().join("out.pb.gz");
    let script =
        "echo $PPID; while [ ! -e \"$1\" ]; do i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done; done";
    let (child, pid) = start(&mut command(flamelet()), &["--heap"], &out, script, &[&go]);
    let part = place.path().join(format!("out.pb.gz.{pid}.part"));
    assert_eq!(
        as_nobody("ln -s \"$2\" \"$1\"", &[&part, &victim]).status,
        Some(0),
        "the folder is everybody's"
    );
    let is_saved = || std::fs::metadata(&out).is_ok_and(|file| file.len() > 0);
    wait_for("a checkpoint", || is_saved() || std::fs::read(&victim).is_ok_and(|text| text != b"whole"));
    std::fs::write(&go, "").expect("our own folder");
    let said = child.wait_with_output().expect("flamelet");
    assert_eq!(std::fs::read_to_string(&victim).expect("there"), "whole", "root wrote through a link");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}

/// The target of a link to a device is written directly, so the link must not belong to another user.
#[test]
fn nobody_else_can_lead_the_output_to_a_device() {
    if !is_root() {
        return;
    }
    let place = place(0o777);
    let out = place.path().join("out.pb.gz");
    assert_eq!(as_nobody("ln -s /dev/null \"$1\"", &[&out]).status, Some(0), "the folder is everybody's");
    let mut recorder = command(flamelet());
    let said = answer(recorder.args(["record", "--heap", "-o"]).arg(&out).args(["--", "ls"]));
    assert_eq!(said.status, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("created by another user"), "{}", said.stderr);
}
