//! The endpoints as an axum router.
//!
//! ```no_run
//! # async fn home() -> &'static str { "hello" }
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let profiler = flamelet::Profiler::builder().name("checkout").start()?;
//!     let app = axum::Router::new()
//!         .route("/", axum::routing::get(home))
//!         .merge(flamelet::axum::router(profiler.clone()));
//!     axum::serve(tokio::net::TcpListener::bind("127.0.0.1:3000").await?, app).await?;
//!     Ok(())
//! }
//! ```
//!
//! The service decides where to mount the router: `nest` puts it below a path, a separate listener puts it on an
//! internal port. To merge it into a router with state, write `router(profiler).with_state(())`.
//!
//! A graceful shutdown waits for requests in progress, and so for a running capture: up to
//! [`max_duration`](crate::ProfilerBuilder::max_duration), ten minutes by default. Call
//! [`Profiler::shutdown`] when the shutdown begins, as `examples/axum-service` does: captures then end at once, and their
//! clients get what was sampled so far.
//!
//! A timeout layer around the routes would answer a long capture with a bare 408: merge the routes outside it, that
//! is, after `.layer(TimeoutLayer::new(…))`. Where that is not possible, [`Handler::timeout`] refuses captures that
//! would take too long, with the reason.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request};
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::any;

use crate::Profiler;
use crate::http::{Handler, MAX_BODY, SeenPath};
use crate::requests::RequestLayer;

/// Returns a router with all endpoints of [`crate::http`], open to every client that can reach the server.
pub fn router(profiler: Profiler) -> Router {
    router_with(Handler::new(profiler))
}

/// Returns a layer that watches requests, see [`mod@crate::requests`]: put it on the router with `Router::layer`, after its
/// routes.
pub fn layer(profiler: &Profiler) -> RequestLayer {
    RequestLayer::new(profiler, |extensions| extensions.get::<MatchedPath>().map(MatchedPath::as_str))
}

/// Returns a router with all endpoints of [`crate::http`], answered by `handler`: one with [`Handler::authorize`],
/// for instance.
#[cfg_attr(not(feature = "view"), allow(clippy::needless_pass_by_value, reason = "the viewer keeps it"))]
pub fn router_with(handler: Handler) -> Router {
    #[cfg(feature = "view")]
    let handler = handler.with_viewer();
    let prefix = literal(handler.prefix());
    // The wildcard also matches unknown endpoints, so that the handler can answer them with an error.
    let paths = ["/debug/pprof", "/debug/pprof/", "/debug/pprof/{*profile}"]
        .into_iter()
        .chain(crate::http::beside_go());
    let paths = paths.map(|path| format!("{prefix}{path}"));
    let router = paths.fold(Router::new(), |router, path| {
        let (theirs, route) = (handler.clone(), Arc::<str>::from(&*path));
        router.route(&path, any(move |request: Request| answer(theirs.clone(), route.clone(), request)))
    });
    #[cfg(feature = "view")]
    let router = router.nest(&format!("{prefix}/debug/pprof/view/"), viewer(handler));
    router
}

/// Returns `path` as a route that matches it and nothing else.
fn literal(path: &str) -> String {
    path.replace('{', "{{").replace('}', "}}")
}

/// The viewer, behind the same check as everything else.
#[cfg(feature = "view")]
fn viewer(handler: Handler) -> Router {
    use axum::middleware::{Next, from_fn};

    let (viewer, rest) = crate::view::router(handler.profiler().clone());
    viewer.layer(from_fn(move |request: Request, next: Next| {
        let (parts, body) = request.into_parts();
        let refusal = handler.admit(&parts).map_err(|refusal| handler.refuse_unauthorized(&parts, &refusal));
        let rest = rest.clone();
        async move {
            let mut answer = match refusal {
                Ok(()) => next.run(Request::from_parts(parts, body)).await,
                Err(refusal) => refusal.map(Body::from),
            };
            rest.watch();
            crate::http::hide_from_other_sites(answer.headers_mut());
            answer
        }
    }))
}

async fn answer(handler: Handler, route: Arc<str>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    if let Some(path) = whole_path(&mut parts, &route).await {
        parts.extensions.insert(SeenPath(path));
    }
    // The body of an unauthorized request is not read.
    if let Err(refusal) = handler.admit(&parts) {
        return handler.refuse_unauthorized(&parts, &refusal).map(Body::from);
    }
    let body = if handler.wants_body(&parts) {
        match to_bytes(body, MAX_BODY).await {
            Ok(body) => body,
            Err(_) => return handler.refuse_body(MAX_BODY).map(Body::from),
        }
    } else {
        Bytes::new()
    };
    let answer = handler.answer_admitted(&parts, &body).await;
    if parts.method == Method::HEAD {
        return answer.map(|_| of_unknown_length());
    }
    handler.counted(answer).map(|body| Body::from(Bytes::from_owner(body)))
}

/// Returns the path of a request for `route` as the client sees it: within `nest`, the request's own URI lacks the prefix. (axum's
/// `OriginalUri` has it too, but its feature would cost every request of the service.)
async fn whole_path(parts: &mut Parts, route: &str) -> Option<String> {
    let prefix = parts.extensions.get::<MatchedPath>()?.as_str().strip_suffix(route)?.to_owned();
    let (mut whole, mut rest) = (String::new(), &*prefix);
    // Each parameter once and in their order: a value may look like the name of another one.
    for (name, value) in &RawPathParams::from_request_parts(parts, &()).await.ok()? {
        if let Some((before, after)) = rest.split_once(&format!("{{{name}}}")) {
            whole.extend([before, value]);
            rest = after;
        }
    }
    Some(whole + rest + parts.uri.path())
}

/// An empty body of unknown length: otherwise axum would answer HEAD with a length of 0, as if that were the
/// profile's.
fn of_unknown_length() -> Body {
    Body::from_stream(Body::empty().into_data_stream())
}
