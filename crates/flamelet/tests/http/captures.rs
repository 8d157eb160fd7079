//! Concurrent captures, too many of them, and clients that hang up.

use crate::service::{Burner, Service, again_until, names};
use flamelet::Profiler;
use std::cell::Cell;
use std::time::Duration;
use tower_service::Service as _;

#[test]
fn ten_captures_at_once_all_get_a_profile() {
    let service = Service::start(Profiler::builder());
    let _burner = Burner::start();
    let frequency = |at: usize| 99 + 50 * at;
    let rounds = Cell::new(0);
    let ten = || {
        rounds.set(rounds.get() + 1);
        std::thread::scope(|scope| {
            let ask = |at: usize| {
                let path = format!("/debug/pprof/profile?seconds=2&frequency={}", frequency(at));
                let service = &service;
                scope.spawn(move || service.get(&path).profile())
            };
            let captures: Vec<_> = (0..10).map(ask).collect();
            captures.into_iter().map(|capture| capture.join().expect("no panic")).collect::<Vec<_>>()
        })
    };
    let profiles = again_until(ten, |profiles| profiles.iter().all(|profile| names(profile, "burn_cycles")));
    for (at, profile) in profiles.iter().enumerate() {
        assert_eq!(profile.header.period, 1_000_000_000 / frequency(at) as i64);
    }
    let metrics = service.profiler.metrics();
    assert_eq!((metrics.captures_served, metrics.captures_refused), (10 * rounds.get(), 0));
    assert!(metrics.samples > 0 && !metrics.overhead.is_zero());
}

#[test]
fn one_more_than_the_cap_is_refused_until_one_ends() {
    let service = Service::start(Profiler::builder().max_captures(1));
    let first = service.send("GET", "/debug/pprof/profile?seconds=500", &[], "");
    service.wait_until("the first runs", |metrics| metrics.captures_running == 1);
    let answer = service.get("/debug/pprof/profile?seconds=1");
    answer.assert_refused(503, "1 captures are already running, the limit of this service");
    assert_eq!(answer.header("retry-after"), "1");
    drop(first);
    service.wait_until("it noticed", |metrics| metrics.captures_running == 0);
    assert_eq!(service.get("/debug/pprof/profile?seconds=1").status, 200);
    assert_eq!(service.profiler.metrics().captures_refused, 1);
}

#[test]
fn a_capture_that_a_timeout_would_cut_off_is_refused_at_once() {
    let profiler = Profiler::builder().start().expect("started");
    let handler = flamelet::http::Handler::new(profiler).timeout(Duration::from_secs(20));
    let ask = |path: &str, envoy: Option<&str>| {
        let mut request = http::Request::get(path);
        if let Some(millis) = envoy {
            request = request.header("x-envoy-expected-rq-timeout-ms", millis);
        }
        let answer = handler.answer(request.body(Vec::new()).expect("a request"));
        let answer =
            tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(answer);
        (answer.status().as_u16(), String::from_utf8_lossy(answer.body()).into_owned())
    };
    // Without `seconds`, Go's default of 30.
    for path in ["/debug/pprof/profile", "/debug/pprof/profile?seconds=20", "/debug/pprof/wall?seconds=25"] {
        let (status, text) = ask(path, None);
        assert!(status == 400 && text.contains("end after 20 s"), "{path}: {status} {text}");
    }
    assert_eq!(ask("/debug/pprof/profile?seconds=1", None).0, 200);
    assert_eq!(ask("/debug/pprof/profile?seconds=1", Some("15000")).0, 200);
    assert_eq!(ask("/debug/pprof/profile?seconds=1", Some("nonsense")).0, 200);
    let (status, text) = ask("/debug/pprof/profile?seconds=15", Some("15000"));
    assert!(status == 400 && text.contains("end after 15 s"), "{status} {text}");
    assert_eq!(ask("/debug/pprof/profile?seconds=1", Some("0")).0, 200, "no timeout");
}

#[test]
fn a_client_that_hangs_up_ends_its_capture() {
    let service = Service::start(Profiler::builder());
    let paths = ["/debug/pprof/profile?seconds=600", "/pprof/profile/flamegraph?seconds=600"];
    let clients: Vec<_> = paths.map(|path| service.send("GET", path, &[], "")).into();
    service.wait_until("both run", |metrics| metrics.captures_running == 2);
    let other = service.send("GET", "/debug/pprof/heap?seconds=600", &[], "");
    service.wait_until("all run", |metrics| metrics.captures_running == 3);
    drop(clients);
    service.wait_until("two ended", |metrics| metrics.captures_running == 1);
    drop(other);
    service.wait_until("all ended", |metrics| metrics.captures_running == 0);
    // Growth waits in other words.
    let growth = service.send("GET", "/debug/pprof/growth?seconds=600", &[], "");
    service.wait_until("growth is watched", |metrics| metrics.captures_running == 1);
    drop(growth);
    service.wait_until("all are counted", |metrics| metrics.captures_cancelled == 4);
    assert_eq!(service.profiler.metrics().captures_served, 0);
}

/// Connections that the service still holds.
fn connections(service: &Service) -> usize {
    let port = format!("0100007F:{:04X}", service.address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the table of connections");
    let is_held = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // Established, or left by the other side only.
        words.get(1) == Some(&port.as_str()) && ["01", "08"].contains(&words[3])
    };
    table.lines().filter(is_held).count()
}

#[test]
fn a_storm_of_clients_that_hang_up_leaves_nothing_behind() {
    let service = Service::start(Profiler::builder().max_captures(64));
    let paths =
        ["profile?seconds=600", "heap?seconds=600", "growth?seconds=600", "profile?seconds=1", "nonsense"];
    for round in 0..40 {
        let path = |at: usize| format!("/debug/pprof/{}", paths[(at + round) % paths.len()]);
        let clients: Vec<_> = (0..8).map(|at| service.send("GET", &path(at), &[], "")).collect();
        // Some before their request is read, some while it is processed.
        if round % 2 == 0 {
            service.wait_until("some run", |metrics| metrics.captures_running > 0);
        }
        drop(clients);
    }
    service.wait_until("all ended", |metrics| metrics.captures_running == 0);
    service.wait_until("no connection is left", |_| connections(&service) == 0);
    assert_eq!(service.get("/debug/pprof/profile?seconds=1").status, 200);
}

#[test]
fn empty_profiles_need_no_turn() {
    let service = Service::start(Profiler::builder().max_captures(1));
    let client = service.send("GET", "/debug/pprof/profile?seconds=600", &[], "");
    service.wait_until("it runs", |metrics| metrics.captures_running == 1);
    for name in ["mutex", "block", "await", "blocked"] {
        assert_eq!(service.get(&format!("/debug/pprof/{name}")).status, 200, "{name}");
    }
    drop(client);
}

#[test]
fn the_server_answers_others_during_a_capture() {
    let service = Service::start(Profiler::builder().max_captures(64));
    // More captures than the server has threads: were they on those, nothing else would be answered.
    let clients: Vec<_> =
        (0..8).map(|_| service.send("GET", "/debug/pprof/profile?seconds=600", &[], "")).collect();
    service.wait_until("all run", |metrics| metrics.captures_running == 8);
    assert_eq!(service.get("/debug/pprof/cmdline").status, 200);
    drop(clients);
    service.wait_until("all ended", |metrics| metrics.captures_running == 0);
}

/// Without connections, whose buffers would hold part of the answers; their size depends on the system.
#[test]
fn answers_that_nobody_reads_are_bounded() {
    let profiler = Profiler::builder().max_unread(300_000).start().expect("started");
    let router = flamelet::axum::router(profiler.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let ask = |accept: &str| {
        let request = http::Request::get("/debug/pprof/heap").header("accept", accept);
        let request = request.body(axum::body::Body::empty()).expect("a request");
        runtime.block_on(router.clone().call(request)).expect("never fails")
    };
    let mut unread = Vec::new();
    // A page is larger than what is not counted, and smaller than the cap.
    let refused = loop {
        let answer = ask("text/html");
        if answer.status() != 200 {
            break answer;
        }
        unread.push(answer);
        assert!(unread.len() < 100, "{:?}", profiler.metrics());
    };
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["retry-after"]),
        (503, &"1".parse().expect("text"))
    );
    assert_eq!(refused.headers()["x-go-pprof"], "1");
    assert!(!unread.is_empty() && profiler.metrics().unread_bytes > 100_000, "{:?}", profiler.metrics());
    assert_eq!(profiler.metrics().captures_refused, 1);
    drop(unread);
    assert_eq!(profiler.metrics().unread_bytes, 0);
    assert_eq!(ask("text/html").status(), 200);
    // Small answers are not refused.
    assert_eq!(ask("*/*").status(), 200);
}

#[test]
fn symbols_are_remembered_within_their_cap() {
    let cap = 1 << 20;
    let service = Service::start(Profiler::builder().symbol_memory(cap));
    let _burner = Burner::start();
    for _ in 0..2 {
        service.profile_of_burner("/debug/pprof/profile?seconds=1");
        assert!(service.profiler.metrics().symbol_memory as u64 <= cap);
    }
    let roomy = Profiler::builder().start().expect("started");
    let capture = || roomy.cpu(Duration::from_millis(300)).run().expect("a profile");
    // Names are kept for the next profile.
    again_until(capture, |_| roomy.metrics().symbol_memory > 0);
}
