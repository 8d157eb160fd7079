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
//! The service decides where the router is: `nest` puts it below a path, a listener of its own puts it on an
//! internal port. A router with state takes it as `router(profiler).with_state(())`.
//!
//! A graceful shutdown waits for the requests that are being answered, and so for a capture that runs: for up to
//! [`max_duration`](crate::ProfilerBuilder::max_duration), ten minutes unless set. Give it an end of its own, as
//! `examples/axum-service` does; a capture holds nothing that must be put back.

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{OriginalUri, Request};
use axum::http::Method;
use axum::response::Response;
use axum::routing::any;

use crate::Profiler;
use crate::http::{Handler, SeenPath};

/// The longest list of addresses that `/debug/pprof/symbol` takes.
const MAX_BODY: usize = 4 << 20;

/// All endpoints of [`crate::http`], for everybody who can reach the server.
pub fn router(profiler: Profiler) -> Router {
    router_with(Handler::new(profiler))
}

/// All endpoints of [`crate::http`] as `handler` answers them, for instance after
/// [`Handler::authorize`].
#[cfg_attr(not(feature = "view"), allow(clippy::needless_pass_by_value, reason = "the viewer keeps it"))]
pub fn router_with(handler: Handler) -> Router {
    #[cfg(feature = "view")]
    let handler = handler.with_viewer();
    let theirs = handler.clone();
    let answer = any(move |request: Request| answer(theirs.clone(), request));
    let prefix = literal(handler.prefix());
    // The wildcard also takes what is not there, so that the handler can say so.
    let paths = ["/debug/pprof", "/debug/pprof/", "/debug/pprof/{*profile}"]
        .into_iter()
        .chain(crate::http::beside_go());
    let paths = paths.map(|path| format!("{prefix}{path}"));
    let router = paths.fold(Router::new(), |router, path| router.route(&path, answer.clone()));
    #[cfg(feature = "view")]
    let router = router.nest(&format!("{prefix}/debug/pprof/view/"), viewer(handler));
    router
}

/// `path` as a route that matches it and nothing else.
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
        let refusal = handler.admit(&parts).map_err(|refusal| handler.refuse_stranger(&parts, &refusal));
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

async fn answer(handler: Handler, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    // Within `nest` the other one lacks the prefix.
    if let Some(OriginalUri(uri)) = parts.extensions.get::<OriginalUri>() {
        let path = uri.path().to_owned();
        parts.extensions.insert(SeenPath(path));
    }
    // Nothing is read for those who may not ask.
    if let Err(refusal) = handler.admit(&parts) {
        return handler.refuse_stranger(&parts, &refusal).map(Body::from);
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
    handler.counted(answer).map(Body::from)
}

/// Nothing, of which axum does not say that it is 0 bytes long: to HEAD it would say so of the profile.
fn of_unknown_length() -> Body {
    Body::from_stream(Body::empty().into_data_stream())
}
