//! Every status, header and parameter of the contract.

use crate::service::{Burner, Service, again_until, names, types};
use flamelet::{Continuous, Profiler};
use std::time::Duration;

#[test]
fn a_program_gets_gzipped_pprof_with_gos_headers() {
    let service = Service::start(Profiler::builder().label("region", "eu"));
    let _burner = Burner::start();
    let answer = again_until(
        || service.get("/debug/pprof/profile?seconds=1"),
        |answer| names(&answer.profile(), "burn_cycles"),
    );
    assert_eq!(answer.header("content-type"), "application/octet-stream");
    assert_eq!(answer.header("content-disposition"), "attachment; filename=\"profile\"");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.header("content-encoding"), "");
    let profile = answer.profile();
    assert_eq!(types(&profile), ["samples/count", "cpu/nanoseconds"]);
    assert!(profile.header.duration_nanos >= 1_000_000_000);
    let sample = profile.sample(0);
    let labels: Vec<&str> = profile.labels(sample.labels).iter().map(|it| profile.string(it.key)).collect();
    assert!(labels.contains(&"thread") && labels.contains(&"region"), "{labels:?}");
    assert!(profile.comments().any(|line| line == "service under test"));
    let quality = profile.quality.expect("it says how good it is");
    assert!(quality.own_cpu_nanos > 0 && quality.own_cpu_nanos < 1_000_000_000, "{quality:?}");
    let mapping = profile.mappings().first().expect("mappings are kept");
    assert!(mapping.symbols.functions, "so that go tool pprof does not symbolize again");
}

#[test]
fn defaults_are_those_of_the_guides() {
    // With a limit of one second, the default durations (30 and 10 s) are reduced to it.
    let service = Service::start(Profiler::builder().max_duration(Duration::from_secs(1)));
    let profile = service.get("/debug/pprof/profile").profile();
    assert_eq!(profile.header.period, 1_000_000_000 / 99);
    let answer = service.get("/pprof/profile/report");
    assert_eq!(answer.header("content-type"), "application/octet-stream");
    assert_eq!(answer.profile().header.period, 1_000_000_000 / 200);
    let answer = service.get("/pprof/profile/flamegraph");
    assert_eq!((answer.status, answer.header("content-type")), (200, "image/svg+xml"));
    assert!(answer.text().contains("<svg") && answer.text().contains("width=\"2500\""));
    let answer = service.get("/pprof/profile/flamegraph?seconds=1&frequency=99&image_width=700");
    assert!(answer.text().contains("width=\"700\""));
}

#[test]
fn a_browser_gets_a_flame_graph() {
    let service = Service::start(Profiler::builder());
    let _burner = Burner::start();
    let chromium = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8";
    let draw = |kinds: &str| {
        again_until(
            || service.get_as("/debug/pprof/profile?seconds=1", kinds),
            |answer| answer.text().contains("burn_cycles"),
        )
    };
    let page = draw(chromium);
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert_eq!(page.header("content-disposition"), "");
    let picture = draw("image/svg+xml");
    assert_eq!((picture.status, picture.header("content-type")), (200, "image/svg+xml"));
    assert!(picture.text().contains("<svg"));
    // Also for an empty profile.
    assert_eq!(service.get_as("/debug/pprof/mutex", "text/html").status, 200);
}

#[test]
fn bad_parameters_are_400_and_name_the_cap() {
    let caps = Profiler::builder().max_duration(Duration::from_secs(77)).max_frequency(555);
    let service = Service::start(caps);
    for path in ["/debug/pprof/profile", "/pprof/profile/report", "/pprof/profile/flamegraph"] {
        for bad in ["0", "-1", "78", "99999999999999999999", "ten", "1.5", "NaN", "%00", "0x5"] {
            let text = "\"seconds\": it must be a whole number from 1 to 77 (the limit of this service)";
            service.get(&format!("{path}?seconds={bad}")).assert_refused(400, text);
        }
        for bad in ["0", "-5", "556", "4294967297", "fast"] {
            let text =
                "\"frequency\": it must be a whole number from 1 to 555 Hz (the limit of this service)";
            service.get(&format!("{path}?seconds=1&frequency={bad}")).assert_refused(400, text);
        }
    }
    for bad in ["0", "-1", "1000000", "wide"] {
        let path = format!("/pprof/profile/flamegraph?seconds=1&image_width={bad}");
        service.get(&path).assert_refused(400, "from 1 to 20000");
    }
    service.get("/debug/pprof/profile?debug=maybe").assert_refused(400, "\"debug\"");
    for profile in ["heap", "allocs", "block", "mutex", "goroutine", "threadcreate"] {
        let path = format!("/debug/pprof/{profile}");
        service.get(&format!("{path}?seconds=0")).assert_refused(400, "from 1 to 77");
        let text = "seconds and debug params are incompatible";
        service.get(&format!("{path}?seconds=1&debug=1")).assert_refused(400, text);
    }
    assert_eq!(service.profiler.metrics().captures_served, 0);
}

#[test]
fn of_a_repeated_parameter_the_first_counts() {
    let service = Service::start(Profiler::builder());
    assert_eq!(service.get("/debug/pprof/profile?seconds=1&seconds=0").status, 200);
    service.get("/debug/pprof/profile?seconds=0&seconds=1").assert_refused(400, "seconds");
    let profile = service.get("/debug/pprof/profile?seconds=1&frequency=50&frequency=10").profile();
    assert_eq!(profile.header.period, 1_000_000_000 / 50);
}

#[test]
fn unknown_profiles_and_wrong_methods() {
    let service = Service::start(Profiler::builder());
    service.get("/debug/pprof/nonsense").assert_refused(404, "Unknown profile");
    service.get("/debug/pprof/profile/more").assert_refused(404, "Unknown profile");
    service.get("/debug/pprof/trace?seconds=1").assert_refused(404, "/debug/pprof/profile");
    for (method, path) in [
        ("POST", "/debug/pprof/profile?seconds=1"),
        ("DELETE", "/debug/pprof/heap"),
        ("PUT", "/debug/pprof/"),
        ("POST", "/pprof/profile/report"),
        ("PATCH", "/pprof/heap/flamegraph"),
    ] {
        let answer = service.ask(method, path, &[], "");
        answer.assert_refused(405, "not allowed, only GET, HEAD");
        assert_eq!(answer.header("allow"), "GET, HEAD");
    }
}

#[test]
fn head_answers_without_a_capture() {
    let service = Service::start(Profiler::builder());
    let answer = service.ask("HEAD", "/debug/pprof/profile?seconds=500", &[], "");
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    assert_eq!(answer.header("content-type"), "application/octet-stream");
    let answer = service.ask("HEAD", "/debug/pprof/profile?seconds=0", &[], "");
    assert_eq!(answer.status, 400);
    // The length of GET's body is unknown without making it, so there must be no length header, not even 0.
    for path in ["profile?seconds=500", "heap", "block", "growth?seconds=500", "symbol?0x1000"] {
        let answer = service.ask("HEAD", &format!("/debug/pprof/{path}"), &[], "");
        assert_eq!((answer.status, answer.body.len()), (200, 0), "{path}");
        assert_eq!((answer.header("content-length"), answer.header("transfer-encoding")), ("", ""), "{path}");
    }
    assert_eq!(service.profiler.metrics().captures_served, 0);
    // Answers that are known at once have the same length as with GET.
    let length = service.get("/debug/pprof/cmdline").body.len().to_string();
    let answer = service.ask("HEAD", "/debug/pprof/cmdline", &[], "");
    assert_eq!(
        (answer.status, answer.body.len(), answer.header("content-length")),
        (200, 0, length.as_str())
    );
}

#[test]
fn text_for_people() {
    let service = Service::start(Profiler::builder());
    let _burner = Burner::start();
    let text = again_until(
        || service.get("/debug/pprof/profile?seconds=1&debug=1"),
        |text| text.text().contains("burn_cycles"),
    );
    assert_eq!((text.status, text.header("content-type")), (200, "text/plain; charset=utf-8"));
    assert!(text.text().starts_with("profile profile: total "), "{}", text.text());
    for (name, start) in [
        ("block", "--- contention:\ncycles/second="),
        ("mutex", "--- contention:\ncycles/second="),
        ("goroutine", "goroutine profile: total "),
        ("threadcreate", "threadcreate profile: total "),
        ("heap", "heap profile: "),
        ("allocs", "heap profile: "),
    ] {
        let answer = service.get(&format!("/debug/pprof/{name}?debug=1"));
        assert!(answer.text().starts_with(start), "{name}: {}", answer.text());
    }
}

#[test]
fn profiles_that_this_service_does_not_have_are_valid_and_empty() {
    let service = Service::start(Profiler::builder());
    for (name, expected) in [
        ("block", &["contentions/count", "delay/nanoseconds"][..]),
        ("mutex", &["contentions/count", "delay/nanoseconds"]),
        ("await", &["awaits/count", "delay/nanoseconds"]),
        ("blocked", &["polls/count", "delay/nanoseconds"]),
    ] {
        let answer = service.get(&format!("/debug/pprof/{name}"));
        let disposition = format!("attachment; filename=\"{name}\"");
        assert_eq!(answer.header("content-disposition"), disposition);
        let profile = answer.profile();
        assert_eq!(
            (types(&profile), profile.sample_count()),
            (expected.iter().map(|t| t.to_string()).collect(), 0)
        );
        let delta = service.get(&format!("/debug/pprof/{name}?seconds=1"));
        assert_eq!(delta.header("content-disposition"), format!("attachment; filename=\"{name}-delta\""));
    }
    let threads = service.get("/debug/pprof/threadcreate").profile();
    assert!(threads.total(0) >= 2, "this thread and the server's");
}

#[test]
fn frequencies_that_make_no_sense_are_refused_for_the_wall_clock() {
    let service = Service::start(Profiler::builder());
    for frequency in ["0", "-1", "101", "99999999999999999999", "fast", "1.5"] {
        let answer = service.get(&format!("/debug/pprof/wall?seconds=1&frequency={frequency}"));
        answer.assert_refused(400, "frequency");
    }
    let few = Service::start(Profiler::builder().max_frequency(5));
    few.get("/debug/pprof/wall?frequency=6").assert_refused(400, "from 1 to 5");
    assert_eq!(few.get("/debug/pprof/wall?seconds=1&frequency=5").status, 200);
}

/// Without any task, the threads are there: this one, and those that serve.
#[test]
fn threads_are_listed_in_a_service_without_tasks() {
    let service = Service::start(Profiler::builder());
    let answer = service.get("/debug/pprof/goroutine");
    assert_eq!(answer.header("content-disposition"), "attachment; filename=\"goroutine\"");
    let profile = answer.profile();
    assert_eq!(types(&profile), ["goroutine/count"]);
    assert!(profile.total(0) >= 2, "{profile:?}");
    let has_thread = |labels| {
        let mut labels = profile.labels(labels).iter();
        labels.any(|label| profile.string(label.key) == "thread" && !profile.string(label.text).is_empty())
    };
    assert!(profile.samples().all(|sample| has_thread(sample.labels)), "{profile:?}");
    assert!(profile.comments().any(|comment| comment.contains("no tasks")), "{profile:?}");
    let delta = service.get("/debug/pprof/goroutine?seconds=1");
    assert_eq!(delta.header("content-disposition"), "attachment; filename=\"goroutine-delta\"");
    service.get("/debug/pprof/goroutine?debug=3").assert_refused(400, "debug");
}

#[test]
fn the_index_links_everything_relatively() {
    let service = Service::start(Profiler::builder());
    let bare = service.get("/debug/pprof");
    assert_eq!((bare.status, bare.header("location")), (301, "pprof/"));
    let page = service.get("/debug/pprof/");
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(page.text().contains("under test"));
    let links: Vec<&str> =
        page.text().split("href=\"").skip(1).filter_map(|it| it.split('"').next()).collect();
    for link in ["profile?seconds=10", "heap", "wall?seconds=10", "view/"] {
        assert!(links.contains(&link), "{link} in {links:?}");
    }
    let bare = service.get("/debug/pprof/view");
    assert_eq!((bare.status, bare.header("location")), (301, "view/"));
    for link in links.into_iter().filter(|link| !link.contains("seconds=")) {
        assert!(!link.starts_with('/') && !link.contains("://"), "{link}");
        assert_eq!(service.get(&format!("/debug/pprof/{link}")).status, 200, "{link}");
    }
}

#[test]
fn command_line_and_symbols_as_go_has_them() {
    let service = Service::start(Profiler::builder());
    let answer = service.get("/debug/pprof/cmdline");
    assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    let arguments: Vec<String> = std::env::args().collect();
    assert_eq!(answer.text().split('\0').collect::<Vec<_>>(), arguments);

    let anchor = names as *const () as usize;
    let expected = format!("{anchor:#x} ");
    for answer in [
        service.get(&format!("/debug/pprof/symbol?{anchor:#x}")),
        service.ask("POST", "/debug/pprof/symbol", &[], &format!("{anchor:#x}+0x0+nonsense")),
    ] {
        assert_eq!((answer.status, answer.header("content-type")), (200, "text/plain; charset=utf-8"));
        let mut lines = answer.text().lines();
        assert_eq!(lines.next(), Some("num_symbols: 1"));
        let line = lines.next().expect("the function is known");
        assert!(line.starts_with(&expected) && line.contains("names"), "{line}");
        assert_eq!(lines.next(), None);
    }
    assert_eq!(service.get("/debug/pprof/symbol").text(), "num_symbols: 1\n");
}

#[test]
fn the_minute_before_where_it_is_remembered() {
    let off = Service::start(Profiler::builder());
    off.get("/debug/pprof/profile?last=60").assert_refused(403, "continuous sampling is not enabled");

    let continuous = Continuous::default().frequency(99).keep(Duration::from_secs(60));
    let on = Service::start(Profiler::builder().continuous(continuous));
    let _burner = Burner::start();
    on.get("/debug/pprof/profile?last=61").assert_refused(400, "from 1 to 60 (this service keeps no more)");
    on.get("/debug/pprof/profile?last=0").assert_refused(400, "\"last\"");
    on.get("/debug/pprof/profile?last=5&seconds=5").assert_refused(400, "seconds and last");
    on.get("/debug/pprof/profile?last=5&frequency=9").assert_refused(400, "frequency and last");
    let profile = on.profile_of_burner("/debug/pprof/profile?last=60");
    assert!(profile.header.duration_nanos < 60_000_000_000, "it only began");
}

#[test]
fn a_raw_profile_keeps_addresses_and_build_ids() {
    let service = Service::start(Profiler::builder().symbolize(false));
    let _burner = Burner::start();
    let has_addresses = |profile: &flamelet::Profile| {
        profile.locations().iter().any(|location| location.address != 0 && location.mapping.is_some())
    };
    let profile = again_until(|| service.get("/debug/pprof/profile?seconds=1").profile(), has_addresses);
    assert!(!names(&profile, "burn_cycles"));
    let program = std::env::current_exe().expect("a path");
    let own = profile.mappings().iter().find(|mapping| {
        profile.string(mapping.filename) == program.to_string_lossy() && !mapping.symbols.functions
    });
    let own = own.expect("the program is a mapping");
    assert!(!profile.string(own.build_id).is_empty(), "by which its symbols are found later");
}
