//! A recorder that is killed: the recorded program continues undisturbed, and nothing of the recorder is left behind.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use flamelet_tests::programs::{command, flamelet, run_flamelet};

use super::within_a_minute;

const NOBODY: u32 = 65534;

/// A folder that everyone can write, for programs that run as the user nobody.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = tempfile::tempdir_in("/var/tmp").expect("a folder for everybody");
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o777))
            .expect("our own folder");
        Self(place)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn rounds(&self) -> usize {
        std::fs::read_to_string(self.file("result")).map_or(0, |text| text.matches("round").count())
    }

    fn result(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.file("result")).ok()?;
        text.lines().last()?.strip_prefix("done ").map(str::to_owned)
    }
}

/// A program of `programs/`, where everybody can run it.
fn compiled(place: &Place, source: &Path, name: &str) -> PathBuf {
    let out = place.file(name);
    let made = Command::new("cc").args(["-O1", "-g", "-pthread"]).arg(source).arg("-o").arg(&out).output();
    let made = made.expect("a compiler");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    out
}

/// By another program: a file that this one has open for writing cannot be run, nor while a child that was forked
/// meanwhile still has it open.
fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().is_ok_and(|status| status.success()));
}

/// How a recording is made.
struct Mode {
    name: &'static str,
    options: &'static [&'static str],
    /// Behind a filter that forbids `perf_event_open`.
    forbidden: bool,
    as_nobody: bool,
    output: &'static str,
}

const fn mode(name: &'static str, options: &'static [&'static str]) -> Mode {
    Mode { name, options, forbidden: false, as_nobody: false, output: "out.pb.gz" }
}

const MODES: [Mode; 8] = [
    mode("cpu", &["-F", "999"]),
    mode("off-cpu", &["--off-cpu"]),
    mode("syscalls", &["--syscalls"]),
    mode("reads", &["-e", "syscalls:sys_enter_read"]),
    mode("heap", &["--heap"]),
    Mode { forbidden: true, ..mode("inside", &["-F", "499"]) },
    Mode { as_nobody: true, ..mode("syscalls of nobody", &["--syscalls"]) },
    Mode { as_nobody: true, ..mode("reads of nobody", &["-e", "syscalls:sys_enter_read"]) },
];

impl Mode {
    /// Says why the recorder ended before it was killed. The modes that need no rights must not end.
    fn skip(&self, recorder: &mut Child, place: &Place) {
        let status = recorder.wait().expect("our own child");
        let said = std::fs::read_to_string(place.file("said")).unwrap_or_default();
        let may_be_denied = !["cpu", "heap", "inside"].contains(&self.name);
        assert!(may_be_denied && status.code() == Some(2), "{}: {status}: {said}", self.name);
        flamelet_test_support::skip!("{} cannot be recorded here: {}", self.name, said.trim());
    }
}

fn is_root() -> bool {
    static IS_ROOT: OnceLock<bool> = OnceLock::new();
    *IS_ROOT.get_or_init(|| {
        std::fs::read_to_string("/proc/self/status")
            .is_ok_and(|status| status.lines().any(|line| line.starts_with("Uid:\t0\t0\t0")))
    })
}

fn start(mode: &Mode, options: &[&str], place: &Place) -> Child {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let works = compiled(place, &sources.join("record/programs/works.c"), "works");
    // Another user may not be able to run it where it was built.
    let binary = place.file("flamelet");
    copy(flamelet(), &binary);
    let mut recorder = if mode.forbidden {
        let forbids = compiled(place, &sources.join("preload/programs/forbids.c"), "forbids");
        let mut recorder = command(&forbids);
        recorder.arg(&binary);
        recorder
    } else {
        command(&binary)
    };
    recorder.arg("record").args(options).arg("-o").arg(place.file(mode.output));
    recorder.arg("--").arg(works).arg(place.file("stop")).arg(place.file("result"));
    if mode.as_nobody && is_root() {
        recorder.uid(NOBODY).gid(NOBODY);
    }
    let said = std::fs::File::create(place.file("said")).expect("our own folder");
    recorder.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn().expect("flamelet")
}

/// Kills the recorder after some rounds of work, waits for more rounds, and returns all failures. Returns `None`, with a
/// `SKIP:` line, if the program cannot be recorded in this way.
fn failures_after_a_kill(mode: &Mode, place: &Place) -> Option<String> {
    let mut recorder = start(mode, mode.options, place);
    let has_begun = within_a_minute(|| place.rounds() >= 5 || has_ended(&recorder));
    let said = || std::fs::read_to_string(place.file("said")).unwrap_or_default();
    if has_ended(&recorder) {
        mode.skip(&mut recorder, place);
        return None;
    }
    assert!(has_begun, "{}: {}", mode.name, said());
    recorder.kill().expect("our own child");
    recorder.wait().expect("our own child");
    let before = place.rounds();
    assert!(within_a_minute(|| place.rounds() > before + 5), "{}: it does not run", mode.name);
    std::fs::write(place.file("stop"), "").expect("our own folder");
    assert!(within_a_minute(|| place.result().is_some()), "{}: it does not end", mode.name);
    place.result()
}

#[test]
fn what_was_recorded_is_kept() {
    let cases = [
        (Mode { output: "out.html", ..mode("cpu", &["-F", "499"]) }, "out.html.partial.pb.gz"),
        (mode("heap", &["--heap"]), "out.pb.gz"),
        (
            Mode { as_nobody: true, ..mode("reads of nobody", &["-e", "syscalls:sys_enter_read"]) },
            "out.pb.gz",
        ),
    ];
    for (mode, saved) in &cases {
        let place = Place::new();
        let mut recorder = start(mode, mode.options, &place);
        // On a busy machine, the first save may come before the first sample.
        let info = || run_flamelet(["info", super::text(&place.file(saved))]);
        let is_saved = || {
            place.file(saved).metadata().is_ok_and(|file| file.len() > 0) && info().stdout.contains("works")
        };
        assert!(within_a_minute(|| is_saved() || has_ended(&recorder)), "{}: nothing is saved", mode.name);
        if has_ended(&recorder) {
            mode.skip(&mut recorder, &place);
            continue;
        }
        recorder.kill().expect("our own child");
        recorder.wait().expect("our own child");
        std::fs::write(place.file("stop"), "").expect("our own folder");
        assert!(within_a_minute(|| place.result().is_some()), "{}: it does not end", mode.name);
        let info = info();
        assert_eq!(info.status, Some(0), "{}: {}", mode.name, info.stderr);
        assert!(info.stdout.contains("works"), "{}: {}", mode.name, info.stdout);
    }
}

/// Returns whether it has ended, without waiting.
fn has_ended(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    status.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
}

fn folders_of_recordings() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/var/tmp").into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.to_string_lossy().starts_with("/var/tmp/flamelet-")).collect()
}

#[test]
fn what_is_recorded_goes_on_unharmed() {
    for mode in &MODES {
        // Several times, since each run is stopped at a different point.
        for _ in 0..3 {
            let place = Place::new();
            let Some(failures) = failures_after_a_kill(mode, &place) else { break };
            assert_eq!(failures, "0", "{}: {failures} calls failed in what was recorded", mode.name);
        }
    }
}

#[test]
fn no_probe_is_left() {
    let place = Place::new();
    let probe = format!("uprobe:{}:probed", place.file("works").display());
    let mut recorder = start(&mode("uprobe", &[]), &["-e", &probe], &place);
    let ours = format!("flamelet_{}/", recorder.id());
    let lists = ["/sys/kernel/tracing/uprobe_events", "/sys/kernel/debug/tracing/uprobe_events"];
    let is_set =
        || lists.iter().any(|list| std::fs::read_to_string(list).is_ok_and(|text| text.contains(&ours)));
    assert!(within_a_minute(|| place.rounds() >= 1 || has_ended(&recorder)));
    if has_ended(&recorder) {
        let said = std::fs::read_to_string(place.file("said")).unwrap_or_default();
        recorder.wait().expect("our own child");
        flamelet_test_support::skip!("uprobes cannot be set here: {}", said.trim());
        return;
    }
    assert!(is_set(), "while it is recorded");
    recorder.kill().expect("our own child");
    recorder.wait().expect("our own child");
    assert!(within_a_minute(|| !is_set()), "the probe is still set");
    std::fs::write(place.file("stop"), "").expect("our own folder");
    assert!(within_a_minute(|| place.result().is_some()), "it does not end");
    assert_eq!(place.result().as_deref(), Some("0"));
}

#[test]
fn no_folder_is_left() {
    let place = Place::new();
    let before = folders_of_recordings();
    let mode = mode("heap", &["--heap"]);
    let mut recorder = start(&mode, mode.options, &place);
    assert!(within_a_minute(|| place.rounds() >= 1));
    let ours = std::fs::read_to_string(format!("/proc/{}/environ", works_below(recorder.id())))
        .expect("our own process");
    let folder =
        ours.split('\0').find_map(|pair| pair.strip_prefix("FLAMELET_RECORD_FOLDER=")).expect("it was told");
    let outer = Path::new(folder).parent().expect("below another").to_owned();
    assert!(outer.exists() && !before.contains(&outer));
    recorder.kill().expect("our own child");
    recorder.wait().expect("our own child");
    assert!(within_a_minute(|| !outer.exists()), "{} is still there", outer.display());
    std::fs::write(place.file("stop"), "").expect("our own folder");
    assert!(within_a_minute(|| place.result().is_some()), "it does not end");
}

/// The program that the recorder started.
fn works_below(recorder: u32) -> u32 {
    let children =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let tasks = std::fs::read_dir(format!("/proc/{recorder}/task")).into_iter().flatten().flatten();
    let all: Vec<u32> = tasks
        .map(children)
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect();
    let is_it = |pid: &&u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "works")
    };
    *all.iter().find(is_it).expect("it runs")
}
