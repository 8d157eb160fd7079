//! The router: the page, and the requests it sends.

use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use flamelet_report::page;

use crate::answers::{self, Answer};
use crate::cache::Cache;
use crate::cancel::CancelToken;
use crate::memory::{Memory, within_budget};
use crate::query::ViewQuery;
use crate::source::Source;
use crate::{Error, ErrorKind};

/// The content security policy: the page may run its own script, ask its own server, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const DOCUMENT: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>flamelet</title>\n\
    <link rel=\"icon\" href=\"data:,\">\n<link rel=\"stylesheet\" href=\"app.css\">\n</head>\n<body>\n\
    <div id=\"app\"></div>\n<noscript>This page needs JavaScript to draw the profile.</noscript>\n\
    <script src=\"app.js\" defer></script>\n</body>\n</html>\n";

type Question = fn(&Cache, &ViewQuery) -> Answer;

/// Returns the viewer as a router, to be served by [`Server`](crate::Server) or nested in a service under a path that
/// ends in a slash. It checks neither `Host` names nor authorization: that is up to the service.
pub fn router(source: Source) -> Router {
    router_of(Arc::new(Cache::new(source)))
}

/// Returns the viewer as a router, and a handle to its memory, for a service that limits it. See [`Source::within`].
pub fn router_within(source: Source) -> (Router, Memory) {
    let cache = Arc::new(Cache::new(source));
    let memory = Memory::new(&cache);
    (router_of(cache), memory)
}

pub(crate) fn router_of(cache: Arc<Cache>) -> Router {
    let questions: [(&str, Question); 17] = [
        ("/api/open", answers::open),
        ("/api/judged", answers::judged),
        ("/api/flame", answers::flame),
        ("/api/children", answers::children),
        ("/api/functions", answers::functions),
        ("/api/search", answers::search),
        ("/api/holding", answers::holding),
        ("/api/graph", answers::graph),
        ("/api/timeline", answers::timeline),
        ("/api/heatmap", answers::heat),
        ("/api/tags", answers::tags),
        ("/api/summary", answers::summary),
        ("/api/heap", answers::heap),
        ("/api/code", answers::code),
        ("/api/course", answers::course),
        ("/api/labels", answers::past_labels),
        ("/api/requests", answers::requests),
    ];
    let mut router = Router::new()
        .route("/", get(|| async { asset("text/html; charset=utf-8", DOCUMENT) }))
        .route("/app.js", get(|| async { asset("text/javascript; charset=utf-8", page::script()) }))
        .route("/app.css", get(|| async { asset("text/css; charset=utf-8", page::style()) }))
        .route("/api/take", post(take))
        .route("/api/range", post(range));
    for (path, question) in questions {
        router = router.route(
            path,
            get(move |State(cache): State<Arc<Cache>>, RawQuery(query): RawQuery| {
                answer(cache, query, question)
            }),
        );
    }
    router.with_state(cache)
}

/// Only the page itself can set this header: another site's form or script cannot make this machine take a profile.
async fn take(State(cache): State<Arc<Cache>>, RawQuery(query): RawQuery, headers: HeaderMap) -> Response {
    if !headers.contains_key("x-flamelet") {
        return failure(StatusCode::FORBIDDEN, "only the viewer's own page may make this request");
    }
    let cancel = Arc::new(CancelToken::default());
    // Dropped with this future, and so also when the connection closes.
    let _leaves = Leaves(cancel.clone());
    work_apart(query, move |query| {
        let taken = answers::take(&cache, query, &cancel);
        cache.settle();
        taken
    })
    .await
}

/// Like [`take`], of the past.
async fn range(State(cache): State<Arc<Cache>>, RawQuery(query): RawQuery, headers: HeaderMap) -> Response {
    if !headers.contains_key("x-flamelet") {
        return failure(StatusCode::FORBIDDEN, "only the viewer's own page may make this request");
    }
    work_apart(query, move |query| {
        let added = answers::range(&cache, query);
        cache.settle();
        added
    })
    .await
}

struct Leaves(Arc<CancelToken>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

async fn answer(cache: Arc<Cache>, query: Option<String>, question: Question) -> Response {
    work_apart(query, move |query| within_budget(&cache, || question(&cache, query))).await
}

/// Answers on another thread than those that serve connections.
async fn work_apart(
    query: Option<String>,
    question: impl FnOnce(&ViewQuery) -> Answer + Send + 'static,
) -> Response {
    let work = move || question(&ViewQuery::parse(query.as_deref().unwrap_or_default())?);
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(json)) => asset("application/json", json),
        Ok(Err(error)) => failure(status(&error), &error.to_string()),
        Err(_) => failure(
            StatusCode::INTERNAL_SERVER_ERROR,
            "flamelet failed on this request; see its terminal for the error",
        ),
    }
}

fn status(error: &Error) -> StatusCode {
    match error.kind() {
        ErrorKind::InvalidOption => StatusCode::BAD_REQUEST,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Busy => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Unreadable => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn asset(kind: &'static str, content: impl Into<axum::body::Body>) -> Response {
    (StatusCode::OK, safe_headers(kind), content.into()).into_response()
}

pub(crate) fn failure(status: StatusCode, message: &str) -> Response {
    (status, safe_headers("text/plain; charset=utf-8"), format!("{message}\n")).into_response()
}

fn safe_headers(kind: &'static str) -> [(header::HeaderName, &'static str); 5] {
    [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ]
}
