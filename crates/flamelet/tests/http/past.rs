//! `?from=&to=`: the past, from the history on disk.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flamelet::{History, Profiler};

use crate::service::{Burner, Service, again_until, names};

fn with_history(folder: &std::path::Path) -> Service {
    let history = History::new(folder).window(Duration::from_millis(200)).frequency(200);
    Service::start(Profiler::builder().overhead_budget(None).history(history))
}

fn unix() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

#[test]
fn a_range_of_the_past_in_every_form() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = with_history(folder.path());
    let (start, _burner) = (unix() - 1, Burner::start());
    let is_good =
        |answer: &crate::service::Answer| answer.status == 200 && names(&answer.profile(), "burn_cycles");
    let path = format!("/debug/pprof/profile?from={start}&to={}", start + 3600);
    again_until(|| service.get(&path), is_good);
    for path in [
        "/debug/pprof/profile?from=-1h",
        "/debug/pprof/profile?from=now-1h&to=now",
        "/debug/pprof/profile?last=3600",
        "/pprof/profile/report?from=-60s",
    ] {
        assert!(names(&service.get(path).profile(), "burn_cycles"), "{path}");
    }
    let picture = service.get("/pprof/profile/flamegraph?from=-1h");
    assert!(picture.text().contains("burn_cycles"));
    let page = service.get_as("/debug/pprof/profile?from=-1h", "text/html");
    assert!(page.text().contains("burn_cycles"));
}

#[test]
fn ranges_that_make_no_sense_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = with_history(folder.path());
    for (query, status, text) in [
        ("from=-1h&to=-2h", 400, "the range is empty"),
        ("from=now", 400, "the range is empty"),
        ("from=9000000000", 400, "the range is empty"),
        ("from=99999999999", 400, "is not a time"),
        ("to=-1h", 400, "to without from"),
        ("from=yesterday", 400, "is not a time"),
        ("from=", 400, "is not a time"),
        ("from=%1b%5b31m", 400, "is not a time"),
        ("from=-1h&seconds=5", 400, "seconds and from params are incompatible"),
        ("last=ten", 400, "must be a whole number"),
        ("from=-1h&last=5", 400, "from and last params are incompatible"),
        ("from=0&to=1000", 404, "there is no cpu window between 1970-01-01T00:00:00Z"),
    ] {
        service.get(&format!("/debug/pprof/profile?{query}")).assert_refused(status, text);
    }
    let without = Service::start(Profiler::builder());
    without.get("/debug/pprof/profile?from=-1h").assert_refused(403, "keeps no history");
    without.get("/debug/pprof/allocs?last=60").assert_refused(403, "keeps no history");
}

#[test]
fn memory_of_the_past_is_the_last_moment_and_allocations_add_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = with_history(folder.path());
    let held = hold_for_the_past();
    let total = |path: &str, kind: &str| {
        let answer = service.get(path);
        if answer.status == 404 {
            return None;
        }
        let profile = answer.profile();
        let column = profile
            .sample_types()
            .iter()
            .position(|value| profile.string(value.kind) == kind)
            .expect("there");
        names(&profile, "hold_for_the_past").then(|| profile.total(column))
    };
    let in_use = again_until(|| total("/debug/pprof/heap?from=-1h", "inuse_space"), Option::is_some);
    assert!(in_use.is_some_and(|bytes| bytes >= held.len() as i64), "{in_use:?}");
    let allocated = again_until(|| total("/debug/pprof/allocs?from=-1h", "alloc_space"), Option::is_some);
    assert!(allocated.is_some_and(|bytes| bytes >= held.len() as i64), "{allocated:?}");
    // A second snapshot replaces the first one and is not added to it.
    let windows = |kind: &str| service.get(&format!("/debug/pprof/{kind}?from=-1h")).profile();
    let comment =
        |profile: flamelet::Profile| profile.comments().any(|comment| comment.contains(" 1 windows "));
    assert!(comment(windows("heap")));
    service.get("/debug/pprof/peak?from=-1h").assert_refused(400, "only heap and allocs");
    // The same by its length.
    assert!(total("/debug/pprof/heap?last=3600", "inuse_space").is_some());
    service.get("/debug/pprof/heap?last=0").assert_refused(400, "from 1 to 31622400 s");
    service.get("/debug/pprof/allocs?last=60&seconds=1").assert_refused(400, "incompatible");
    service.get("/debug/pprof/mutex?last=60").assert_refused(404, "no mutex window");
    service.get("/debug/pprof/goroutine?last=60").assert_refused(400, "last is not supported for goroutine");
    service.get("/debug/pprof/heap?from=-1h&seconds=1").assert_refused(400, "incompatible");
    service.get("/debug/pprof/mutex?from=-1h").assert_refused(404, "no mutex window");
    // The older paths, too: 1 window says that it is the past.
    assert!(comment(service.get("/pprof/heap/report?from=-1h").profile()));
    assert!(service.get("/pprof/heap/flamegraph?from=-1h").text().contains("hold_for_the_past"));
    for present in ["wall", "spans", "goroutine", "threadcreate", "tasks", "requests"] {
        let refused = service.get(&format!("/debug/pprof/{present}?from=-1h"));
        refused.assert_refused(400, &format!("from is not supported for {present}"));
    }
}

/// The viewer inside the service has the time picker of the service's own history.
#[cfg(feature = "view")]
#[test]
fn the_page_shows_the_past_of_its_own_service() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = with_history(folder.path());
    let _burner = Burner::start();
    again_until(|| service.get("/debug/pprof/profile?from=-1h"), |answer| answer.status == 200);
    let about = service.get("/debug/pprof/view/api/open").text().to_owned();
    assert!(about.contains("\"past\":true"), "{about}");
    let course = || service.get("/debug/pprof/view/api/course?buckets=10").text().to_owned();
    let course =
        again_until(course, |text| text.contains("\"values\":[") && !text.contains("[0,0,0,0,0,0,0,0,0,0]"));
    let number = |name: &str| {
        let digits = course.split(&format!("\"{name}\":")).nth(1).expect(name);
        digits
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .and_then(|text| text.parse::<i64>().ok())
            .expect(name)
    };
    let (from, to) = (number("from"), number("to"));
    assert!(from < to, "{course}");
    let headers = [("X-Flamelet", "1")];
    let path = format!("/debug/pprof/view/api/range?from={from}&to={to}");
    let range = || service.ask("POST", &path, &headers, "");
    let added = again_until(range, |answer| answer.status == 200).text().to_owned();
    assert!(added.contains(&format!("range:{from}-{to}")), "{added}");
    let flame = service.get(&format!("/debug/pprof/view/api/flame?p=range:{from}-{to}"));
    assert_eq!(flame.status, 200, "{}", flame.text());
    assert!(flame.text().contains("burn_cycles"), "{}", flame.text());
    let without = Service::start(Profiler::builder());
    assert!(without.get("/debug/pprof/view/api/open").text().contains("\"past\":false"));
}

#[inline(never)]
fn hold_for_the_past() -> Vec<u8> {
    std::hint::black_box(vec![7; 64 << 20])
}
