//! The paths of the endpoints, and which clients may use them.

use crate::service::{Burner, Service, again_until, names};
use flamelet::Profiler;
use flamelet::http::Handler;
use flamelet_capture::profile::pprof;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use tower_service::Service as _;

#[test]
fn an_authorization_check_stands_in_front_of_everything() {
    let service = Service::with_handler(Profiler::builder(), |handler| {
        handler.authorize(|request| {
            request.headers.get("authorization").is_some_and(|token| token == "Bearer secret")
        })
    });
    let paths =
        ["/debug/pprof/", "/debug/pprof/profile?seconds=0", "/debug/pprof/nonsense", "/pprof/heap/report"];
    for path in paths {
        service.get(path).assert_refused(403, "does not allow you");
    }
    service.get("/debug/pprof/view/").assert_refused(403, "does not allow you");
    service.ask("POST", "/debug/pprof/symbol", &[], "0x1").assert_refused(403, "does not allow");
    let secret = [("Authorization", "Bearer secret")];
    assert_eq!(service.ask("GET", "/debug/pprof/", &secret, "").status, 200);
    assert_eq!(service.ask("GET", "/debug/pprof/view/", &secret, "").status, 200);
    assert_eq!(service.profiler.metrics().captures_refused, 6);
}

#[test]
fn an_authorization_check_is_asked_once_a_request() {
    let asked = Arc::new(AtomicUsize::new(0));
    let theirs = asked.clone();
    let service = Service::with_handler(Profiler::builder(), |handler| {
        handler.authorize(move |_| {
            theirs.fetch_add(1, Ordering::Relaxed);
            true
        })
    });
    for (method, path) in [
        ("GET", "/debug/pprof/"),
        ("HEAD", "/debug/pprof/heap"),
        ("GET", "/debug/pprof/symbol?0x1"),
        ("POST", "/debug/pprof/symbol"),
        ("GET", "/debug/pprof/view/"),
    ] {
        assert_eq!(service.ask(method, path, &[], "").status, 200, "{method} {path}");
        assert_eq!(asked.swap(0, Ordering::Relaxed), 1, "{method} {path}");
    }
}

#[test]
fn the_viewer_takes_a_profile_of_this_service() {
    let service = Service::start(Profiler::builder());
    let page = service.get("/debug/pprof/view/");
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert_eq!(service.get("/debug/pprof/view/app.js").status, 200);
    let taken = service.ask("POST", "/debug/pprof/view/api/take?seconds=1", &[("X-Flamelet", "1")], "");
    assert_eq!(taken.status, 200, "{}", taken.text());
    assert_eq!(service.profiler.metrics().captures_served, 1);
    // Profiles keep their own paths beside the viewer.
    assert_eq!(service.get("/debug/pprof/cmdline").status, 200);
}

#[test]
fn the_viewer_keeps_what_its_budget_allows_and_says_when_that_is_too_little() {
    let own = [("X-Flamelet", "1")];
    let take = "/debug/pprof/view/api/take?heap=heap";
    let small = Service::start(Profiler::builder().view_memory(4));
    let refused = small.ask("POST", take, &own, "");
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(refused.text().contains("this viewer may keep only 0 KiB per profile"), "{}", refused.text());
    assert_eq!(small.profiler.metrics().view_memory, 0);

    let budget = 8 << 20;
    let service = Service::start(Profiler::builder().view_memory(budget));
    assert_eq!(service.ask("POST", take, &own, "").status, 200);
    let taken = service.profiler.metrics().view_memory;
    assert_eq!(service.get("/debug/pprof/view/api/flame").status, 200);
    assert!(service.profiler.metrics().view_memory > taken, "what was worked out counts too");
    for _ in 0..4 {
        assert_eq!(service.ask("POST", take, &own, "").status, 200);
        for question in ["flame", "flame?dir=callers", "functions", "flame?f=hide:hold_memory"] {
            let answer = service.get(&format!("/debug/pprof/view/api/{question}"));
            assert_eq!(answer.status, 200, "{}", answer.text());
            let kept = service.profiler.metrics().view_memory;
            assert!((1..=budget).contains(&kept), "{kept}");
        }
    }
}

#[test]
fn a_viewer_that_hangs_up_ends_its_capture_and_caps_hold_for_it() {
    let service = Service::start(Profiler::builder().max_captures(2));
    let own = [("X-Flamelet", "1")];
    let take = "/debug/pprof/view/api/take?seconds=";
    let clients =
        ["600", "600&heap=growth"].map(|what| service.send("POST", &format!("{take}{what}"), &own, ""));
    service.wait_until("both run", |metrics| metrics.captures_running == 2);
    assert_eq!(service.ask("POST", &format!("{take}1"), &own, "").status, 503);
    drop(clients);
    service.wait_until("both ended", |metrics| metrics.captures_running == 0);
    for bad in ["0", "601", "-1", "ten"] {
        assert_eq!(service.ask("POST", &format!("{take}{bad}"), &own, "").status, 400, "{bad}");
    }
    service.wait_until("both are counted", |metrics| metrics.captures_cancelled == 2);
    assert_eq!(service.profiler.metrics().captures_served, 0);
}

#[test]
fn other_names_and_other_sites_are_refused() {
    let service = Service::with_handler(Profiler::builder(), |handler| handler.hosts(["localhost:3000"]));
    service.get("/debug/pprof/cmdline").assert_refused(403, "does not allow");
    service.get("/debug/pprof/view/").assert_refused(403, "does not allow");

    let service = Service::with_router(Profiler::builder(), flamelet::axum::router);
    let from = |site, mode, dest| {
        let headers = [("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", mode), ("Sec-Fetch-Dest", dest)];
        service.ask("GET", "/debug/pprof/cmdline", &headers, "")
    };
    from("cross-site", "no-cors", "image").assert_refused(403, "requests from other sites");
    from("cross-site", "navigate", "iframe").assert_refused(403, "requests from other sites");
    assert_eq!(from("cross-site", "navigate", "document").status, 200, "a link in a chat");
    assert_eq!(from("same-origin", "cors", "empty").status, 200);
    assert_eq!(from("none", "navigate", "document").status, 200, "typed by hand");
}

/// Browsers send no `Sec-Fetch-…` over plain HTTP beyond loopback, which leaves `Origin` and `Referer`.
#[test]
fn other_sites_are_refused_by_origin_and_referer_where_browsers_say_no_more() {
    let service = Service::start(Profiler::builder());
    let own = service.address.to_string();
    let ask = |path: &str, headers: &[(&str, &str)]| service.ask("GET", path, headers, "");
    let foreign = [
        ("Origin", "http://evil.example".to_owned()),
        ("Origin", "null".to_owned()),
        ("Origin", format!("http://{}:1", service.address.ip())),
        ("Origin", format!("http://{own}.evil.example")),
        ("Referer", "http://evil.example/page".to_owned()),
        ("Referer", format!("http://evil.example/?http://{own}/")),
        ("Referer", format!("http://{own}@evil.example/")),
        ("Referer", "http://evil.example".to_owned()),
    ];
    for (name, value) in &foreign {
        for path in ["/debug/pprof/cmdline", "/debug/pprof/profile?seconds=1", "/debug/pprof/view/"] {
            let answer = ask(path, &[(name, value)]);
            answer.assert_refused(403, "requests from other sites");
            assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin", "{name}: {value}");
        }
    }
    let friendly = [
        ("Origin", format!("http://{own}")),
        ("Referer", format!("http://{own}/debug/pprof/")),
        ("Referer", format!("HTTP://{own}/debug/pprof/?q=http://evil.example/")),
    ];
    for (name, value) in &friendly {
        assert_eq!(ask("/debug/pprof/cmdline", &[(name, value)]).status, 200, "{name}: {value}");
        assert_eq!(ask("/debug/pprof/view/", &[(name, value)]).status, 200, "{name}: {value}");
    }
    // A form of another site, which browsers send without a preflight; and pprof, which sends neither header.
    let posted = service.ask("POST", "/debug/pprof/symbol", &[("Origin", "http://evil.example")], "0x1");
    posted.assert_refused(403, "requests from other sites");
    assert_eq!(service.ask("POST", "/debug/pprof/symbol", &[], "0x1").status, 200);
    // `Sec-Fetch-…` takes precedence: the user followed a link.
    let link = [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Mode", "navigate"),
        ("Sec-Fetch-Dest", "document"),
        ("Referer", "https://chat.example/"),
    ];
    assert_eq!(ask("/debug/pprof/cmdline", &link).status, 200);
}

#[test]
fn behind_a_proxy_a_page_is_known_by_the_name_that_the_proxy_has() {
    let service = Service::with_handler(Profiler::builder(), |handler| handler);
    let page = ("Referer", "http://profiles.internal/debug/pprof/");
    let ask = |headers: &[(&str, &str)]| service.ask("GET", "/debug/pprof/cmdline", headers, "").status;
    assert_eq!(ask(&[page]), 403);
    // No page of another site can set this header without a preflight request, which is refused.
    assert_eq!(ask(&[page, ("X-Forwarded-Host", "profiles.internal")]), 200);
    assert_eq!(ask(&[page, ("X-Forwarded-Host", "profiles.internal:80, inner:8080")]), 200);
    assert_eq!(ask(&[page, ("X-Forwarded-Host", "other.internal")]), 403);
    let own = service.address.to_string();
    let named = Service::with_handler(Profiler::builder(), |handler| {
        handler.hosts(["profiles.internal", "name.the.proxy.uses"])
    });
    let asked = [page, ("Host", "name.the.proxy.uses")];
    assert_eq!(named.ask_as(&asked, "/debug/pprof/cmdline").status, 200);
    assert_eq!(named.ask_as(&[page, ("Host", &own)], "/debug/pprof/cmdline").status, 403);
}

/// A page that hides its origin can start a capture but cannot read the answer.
#[test]
fn nothing_that_is_answered_can_be_read_by_other_sites() {
    let service = Service::start(Profiler::builder());
    let paths = ["", "cmdline", "block", "profile?seconds=0", "none", "symbol?0x1", "view/", "view/app.js"];
    for path in paths.map(|path| format!("/debug/pprof/{path}")) {
        for method in ["GET", "HEAD", "OPTIONS"] {
            let answer = service.ask(method, &path, &[("Accept", "*/*")], "");
            assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin", "{method} {path}");
            assert_eq!(answer.header("access-control-allow-origin"), "", "{method} {path}");
            let policy = answer.header("content-security-policy");
            assert!(policy.contains("frame-ancestors 'none'"), "{method} {path}: {policy:?}");
        }
        assert_eq!(service.get(&path).header("x-content-type-options"), "nosniff", "{path}");
    }
}

#[test]
fn a_list_of_addresses_that_is_too_long_is_refused() {
    let service = Service::start(Profiler::builder());
    let answer = service.ask("POST", "/debug/pprof/symbol", &[], &"0x1+".repeat((1 << 20) + 1));
    answer.assert_refused(413, "at most 4 MiB");
    assert_eq!(service.profiler.metrics().captures_refused, 1);
}

#[test]
fn the_router_can_be_nested_and_keeps_its_neighbours() {
    let service = Service::with_router(Profiler::builder(), |profiler| {
        axum::Router::new()
            .route("/", axum::routing::get(|| async { "home" }))
            .nest("/internal", flamelet::axum::router(profiler.clone()))
            .nest("/of/{tenant}", axum::Router::new().nest("/b", flamelet::axum::router(profiler.clone())))
            .nest("/in/{first}/{second}", flamelet::axum::router(profiler))
    });
    assert_eq!(service.get("/").text(), "home");
    for prefix in ["/internal", "/of/acme/b", "/in/%7Bsecond%7D/b"] {
        let page = service.get(&format!("{prefix}/debug/pprof/"));
        assert_eq!(page.status, 200);
        let whole = format!("http://{}{prefix}/debug/pprof/profile?seconds=10", service.address);
        assert_eq!(shown_address(page.text()), whole, "commands to copy have the whole address");
    }
    assert_eq!(service.get("/internal/debug/pprof/block").status, 200);
    assert_eq!(service.get("/debug/pprof/").status, 404);
}

#[test]
fn a_handler_below_a_prefix_is_routed_there() {
    for prefix in ["/internal", "internal/", "/in{ter}nal"] {
        let service = Service::with_handler(Profiler::builder(), |handler| handler.below(prefix));
        let prefix = format!("/{}", prefix.trim_matches('/'));
        let view = format!("{prefix}/debug/pprof/view");
        for path in ["/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/view/", "/pprof/heap/report"] {
            assert_eq!(service.get(&format!("{prefix}{path}")).status, 200, "{prefix}{path}");
            assert_eq!(service.get(path).status, 404, "{path}");
        }
        assert_eq!(service.get(&view).header("location"), "view/");
    }
}

/// The address in the commands of the page, to be copied.
fn shown_address(page: &str) -> &str {
    let start = page.find("go tool pprof '").expect("a command") + "go tool pprof '".len();
    page[start..].split('\'').next().unwrap_or_default()
}

#[test]
fn commands_to_copy_have_the_address_as_the_client_sees_it() {
    let service = Service::start(Profiler::builder());
    for (forwarded, scheme) in [
        ("https", "https"),
        ("HTTPS", "https"),
        ("https, http", "https"),
        ("http", "http"),
        ("javascript", "http"),
        ("https'; rm", "http"),
        ("", "http"),
    ] {
        let page = service.ask("GET", "/debug/pprof/", &[("X-Forwarded-Proto", forwarded)], "");
        let expected = format!("{scheme}://{}/debug/pprof/profile?seconds=10", service.address);
        assert_eq!(shown_address(page.text()), expected, "{forwarded:?}");
    }
}

#[test]
fn commands_to_copy_hold_nothing_that_ends_their_quotes() {
    let profiler = Profiler::builder().start().expect("started");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let page = |host: &str, uri: &str, prefix: &str| {
        let handler = Handler::new(profiler.clone()).below(prefix);
        let request = http::Request::get(uri).header("host", host).body("").expect("a request");
        String::from_utf8(runtime.block_on(handler.answer(request)).into_body()).expect("text")
    };
    let address = |host: &str, uri: &str, prefix: &str| shown_address(&page(host, uri, prefix)).to_owned();
    let (path, end) = ("/debug/pprof/", "/debug/pprof/profile?seconds=10");
    assert_eq!(address("[::1]:3000", path, ""), format!("http://[::1]:3000{end}"));
    assert_eq!(address("a'; rm -r /; 'b", path, ""), format!("http://HOST{end}"));
    // Over HTTP/2, the URL has the host.
    assert_eq!(address("a", "https://a/debug/pprof/", ""), format!("https://a{end}"));
    let odd = address("a", "/it's/debug/pprof/", "/it's");
    assert_eq!(odd, format!("http://a/it%27s{end}"));
}

#[test]
fn without_axum_a_handler_answers_plain_requests() {
    let profiler = Profiler::builder().start().expect("started");
    let mut handler = Handler::new(profiler).below("/internal/");
    let request = |path: &str| http::Request::get(path).body("").expect("a request");
    let mut context = Context::from_waker(Waker::noop());
    let mut answer = |path: &str| match pin!(handler.call(request(path))).poll(&mut context) {
        Poll::Ready(Ok(answer)) => answer,
        Poll::Pending => panic!("{path} should be answered at once"),
    };
    assert_eq!(answer("/internal/debug/pprof/cmdline").status(), 200);
    assert_eq!(answer("/debug/pprof/cmdline").status(), 404);
    assert_eq!(answer("/internal/debug/pprof/profile?seconds=0").status(), 400);
    // Under any runtime, a capture too.
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let _burner = Burner::start();
    let capture = || {
        let request = request("/internal/debug/pprof/profile?seconds=1");
        let captured = runtime.block_on(handler.clone().call(request)).expect("never fails");
        assert_eq!(captured.status(), 200);
        pprof::read(captured.body(), &pprof::Limits::default()).expect("a profile")
    };
    again_until(capture, |profile| names(profile, "burn_cycles"));
}

#[test]
fn without_axum_head_has_no_body_and_no_viewer_is_linked() {
    let handler = Handler::new(Profiler::builder().start().expect("started"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let answer = |method: &str, path: &str| {
        let request = http::Request::builder().method(method).uri(path).body("").expect("a request");
        runtime.block_on(handler.answer(request))
    };
    let paths =
        ["", "cmdline", "symbol", "symbol?0x1000", "profile?seconds=500", "profile?seconds=0", "none"];
    for path in paths.map(|path| format!("/debug/pprof/{path}")) {
        assert_eq!(answer("HEAD", &path).body().len(), 0, "{path}");
    }
    let (whole, head) = (answer("GET", "/debug/pprof/cmdline"), answer("HEAD", "/debug/pprof/cmdline"));
    assert_eq!(head.headers()["content-length"], whole.body().len().to_string());
    let page = String::from_utf8(answer("GET", "/debug/pprof/").into_body()).expect("text");
    assert!(page.contains("href=\"heap\"") && !page.contains("href=\"view/\""), "{page}");
}

use std::future::Future as _;
