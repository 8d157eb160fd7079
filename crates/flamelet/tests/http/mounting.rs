//! Where the endpoints are, and who may ask.

use crate::service::Service;
use flamelet::Profiler;
use flamelet::http::Handler;
use std::pin::pin;
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
    assert_eq!(service.get("/debug/pprof/view/").status, 403);
    let secret = [("Authorization", "Bearer secret")];
    assert_eq!(service.ask("GET", "/debug/pprof/", &secret, "").status, 200);
    assert_eq!(service.ask("GET", "/debug/pprof/view/", &secret, "").status, 200);
    assert_eq!(service.profiler.metrics().captures_refused, 4);
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
fn the_router_can_be_nested_and_keeps_its_neighbours() {
    let service = Service::with_router(Profiler::builder(), |profiler| {
        axum::Router::new()
            .route("/", axum::routing::get(|| async { "home" }))
            .nest("/internal", flamelet::axum::router(profiler))
    });
    assert_eq!(service.get("/").text(), "home");
    assert_eq!(service.get("/internal/debug/pprof/").status, 200);
    assert_eq!(service.get("/internal/debug/pprof/block").status, 200);
    assert_eq!(service.get("/debug/pprof/").status, 404);
}

#[test]
fn without_axum_a_handler_answers_plain_requests() {
    let profiler = Profiler::builder().start().expect("started");
    let mut handler = Handler::new(profiler).below("/internal");
    let request = |path: &str| http::Request::get(path).body("").expect("a request");
    let mut context = Context::from_waker(Waker::noop());
    let mut answer = |path: &str| match pin!(handler.call(request(path))).poll(&mut context) {
        Poll::Ready(Ok(answer)) => answer,
        Poll::Pending => panic!("{path} should be answered at once"),
    };
    assert_eq!(answer("/internal/debug/pprof/cmdline").status(), 200);
    assert_eq!(answer("/debug/pprof/cmdline").status(), 404);
    assert_eq!(answer("/internal/debug/pprof/profile?seconds=0").status(), 400);
}

use std::future::Future as _;
