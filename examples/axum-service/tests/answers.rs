//! The example does what its first lines say.

mod example;

use example::{DEADLINE, Example};
use flamelet_capture::profile::{Profile, pprof};
use std::io::Read;
use std::net::TcpStream;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// The longest work that the example takes.
const WORK: Duration = Duration::from_secs(60);

fn start() -> Example {
    Example::start(&["--busy"], &[])
}

/// The status line and the body of what `GET path` answers.
fn get(example: &Example, path: &str) -> (String, Vec<u8>) {
    answer_on(example.send(path, ""))
}

/// The status line and the body of what comes on this connection.
fn answer_on(mut stream: TcpStream) -> (String, Vec<u8>) {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    let status = answer[..head].split(|&byte| byte == b'\r').next().unwrap_or_default();
    (String::from_utf8_lossy(status).into_owned(), answer[head + 4..].to_vec())
}

/// Whether a thread of the example has this name.
fn has_thread(example: &Example, name: &str) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", example.process.id())).into_iter().flatten();
    let mut names = tasks.flatten().map(|task| std::fs::read_to_string(task.path().join("comm")));
    names.any(|found| found.is_ok_and(|found| found.trim_end() == name))
}

/// How it ends, and long before the work that it has would be done.
fn wait(example: &mut Example) -> ExitStatus {
    wait_for("it ends", WORK / 2, || example.process.try_wait().expect("it is a child of this process"))
}

/// What `look` finds, soon or late.
#[track_caller]
fn wait_for<T>(what: &str, deadline: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn routes_and_both_families_of_profiles_answer() {
    let example = start();
    for path in [
        "/",
        "/burn?ms=10",
        "/allocate?mb=1",
        "/wait?ms=1",
        "/debug/pprof/",
        "/debug/pprof/goroutine?debug=2",
    ] {
        assert_eq!(get(&example, path).0, "HTTP/1.1 200 OK", "{path}");
    }
    for path in [
        "/debug/pprof/profile?seconds=1",
        "/debug/pprof/profile?last=10",
        "/debug/pprof/heap",
        "/debug/pprof/allocs",
        "/pprof/profile/report?seconds=1",
        "/pprof/heap/report",
    ] {
        let (status, body) = get(&example, path);
        assert_eq!(status, "HTTP/1.1 200 OK", "{path}");
        assert_eq!(body.get(..2), Some(&[0x1f, 0x8b][..]), "{path} is gzipped pprof");
    }
    for path in ["/pprof/profile/flamegraph?seconds=1", "/pprof/heap/flamegraph"] {
        let start = Instant::now();
        // Again where the machine stood still for the very second of the capture.
        loop {
            let picture = String::from_utf8(get(&example, path).1).expect("text");
            assert!(picture.contains("<svg"), "{path}");
            if picture.contains("axum_service::") {
                break;
            }
            assert!(start.elapsed() < DEADLINE, "{path}: none of the example's functions");
        }
    }
}

/// Whether a sample of `profile` has the function and the label.
fn has_labelled(profile: &Profile, function: &str, label: (&str, &str)) -> bool {
    profile.samples().any(|sample| {
        let mut labels = profile.labels(sample.labels).iter();
        let mut lines = profile.stack(sample.stack).iter().flat_map(|&id| profile.lines(id));
        labels.any(|it| (profile.string(it.key), profile.string(it.text)) == label)
            && lines.any(|line| {
                line.function.is_some_and(|id| profile.string(profile.function(id).name).contains(function))
            })
    })
}

#[test]
fn the_work_of_a_request_carries_its_route() {
    let example = start();
    let start = Instant::now();
    loop {
        let (_, bytes) = std::thread::scope(|scope| {
            scope.spawn(|| get(&example, "/burn?ms=2000"));
            get(&example, "/debug/pprof/profile?seconds=1")
        });
        let profile = pprof::read(&bytes, &pprof::Limits::default()).expect("a profile");
        if has_labelled(&profile, "three_quarters", ("route", "/burn")) {
            return;
        }
        assert!(start.elapsed() < DEADLINE, "no sample of the work has its label");
    }
}

#[test]
fn it_ends_when_it_is_asked_to_although_a_capture_and_work_go_on() {
    for signal in ["INT", "TERM"] {
        let mut example = start();
        let capture = example.send("/debug/pprof/profile?seconds=600", "");
        wait_for("the capture runs", DEADLINE, || has_thread(&example, "flamelet-http").then_some(()));
        let _work = example.send(&format!("/burn?ms={}", WORK.as_millis()), "");
        // The work is on a thread of tokio's pool, for which a runtime that ends would wait.
        wait_for("the work is in a profile", DEADLINE, || {
            let (_, bytes) = get(&example, "/debug/pprof/profile?seconds=1");
            let profile = pprof::read(&bytes, &pprof::Limits::default()).expect("a profile");
            has_labelled(&profile, "three_quarters", ("route", "/burn")).then_some(())
        });
        let kill = format!("kill -{signal} {}", example.process.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("sh runs").success());
        let status = wait(&mut example);
        assert!(status.success(), "SIG{signal}: {status}");
        // The capture has ended with what it had.
        let (status, bytes) = answer_on(capture);
        assert_eq!(status, "HTTP/1.1 200 OK", "SIG{signal}");
        let profile = pprof::read(&bytes, &pprof::Limits::default()).expect("a profile");
        assert!(profile.header.duration_nanos < 600_000_000_000, "SIG{signal}");
        assert!(has_labelled(&profile, "three_quarters", ("route", "/burn")), "SIG{signal}");
    }
}

#[test]
fn a_wrong_command_line_prints_the_usage() {
    let output = Command::new(env!("CARGO_BIN_EXE_axum-service")).args(["--listen", "here"]).output();
    let output = output.expect("the example runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("usage: axum-service"), "{error}");
}

#[test]
fn requests_that_wait_are_seen_waiting() {
    let example = Example::start(&[], &[("TOKIO_WORKER_THREADS", "4")]);
    let ask_all = || {
        std::thread::scope(|scope| {
            for path in ["/lock?ms=20", "/queue?ms=20", "/await?ms=20", "/blocking?ms=20"] {
                for _ in 0..3 {
                    let example = &example;
                    scope.spawn(move || assert_eq!(get(example, path).0, "HTTP/1.1 200 OK", "{path}"));
                }
            }
        });
    };
    ask_all();
    let (_, json) = get(&example, "/debug/pprof/requests");
    let json = String::from_utf8(json).expect("text");
    for (route, part) in
        [("lock", "blocked"), ("queue", "awaiting"), ("await", "awaiting"), ("blocking", "blocked")]
    {
        let start = format!("{{\"route\": \"/{route}\", \"method\": \"GET\", \"count\": 3, ");
        let line =
            json.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("{route}: {json}"));
        let (_, rest) = line.split_once(&format!("\"{part}_ns\": ")).expect("the part");
        let nanos: u64 = rest.split(',').next().and_then(|digits| digits.parse().ok()).expect("a number");
        assert!(nanos > 0, "{route}: {line}");
    }
    for (path, function) in [("await", "waits::queue"), ("block", "waits::lock"), ("mutex", "waits::lock")] {
        // Again where one thread has served all requests, so that none waited for another.
        wait_for(path, DEADLINE, || {
            let (_, bytes) = get(&example, &format!("/debug/pprof/{path}"));
            let profile = pprof::read(&bytes, &pprof::Limits::default()).expect("a profile");
            let mut names = profile.functions().iter().map(|it| profile.string(it.name));
            let found = names.any(|name| name.contains(function)).then_some(());
            if found.is_none() {
                ask_all();
            }
            found
        });
    }
}
