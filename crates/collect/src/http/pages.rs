//! The pages for a browser: who may see them, the services, and the viewer.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::middleware::{self, Next};
use axum::response::Response;

use super::access::Access;
use super::answer::response;
use super::call::{Call, parameters};
use super::dialect::Dialect;
use super::{ApiServer, check_host, check_site};
use crate::clock::now;
use crate::collector::{Collector, Refused};
use crate::site;

/// The page of services loads its style and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// Returns whether the viewer is served. It is one for all, so it is not where there are tenants.
pub(super) fn has_viewer(access: &Access) -> bool {
    !access.has_tenants()
}

/// Returns a router that has the viewer, if it is served.
pub(super) fn router(server: &Arc<ApiServer>) -> axum::Router {
    let router = axum::Router::new();
    if !has_viewer(&server.access) {
        return router;
    }
    let guarding = server.clone();
    let guard = move |request: Request, next: Next| show(guarding.clone(), request, next);
    router.nest(site::VIEWER, site::viewer(server.tenants.main().reader()).layer(middleware::from_fn(guard)))
}

/// Lets a request through to the viewer.
async fn show(server: Arc<ApiServer>, request: Request, next: Next) -> Response {
    if let Err(refused) = check_host(&server, &request) {
        return Dialect::Plain.refusal(&refused);
    }
    // The layer is inside of the path of the viewer.
    let path = format!("{}{}", site::VIEWER, request.uri().path().trim_start_matches('/'));
    if let Some(response) = log_in(&server.access, &path, request.uri().query(), request.headers()) {
        return response;
    }
    let allowed = server.access.tenant_of(request.headers());
    if let Err(refused) = allowed.and_then(|_| check_site(request.method(), &path, request.headers())) {
        return Dialect::Plain.refusal(&refused);
    }
    let Ok(_permit) = server.asking.at_once.acquire().await else {
        return Dialect::Plain.refusal(&Refused::new(503, "the collector is stopping"));
    };
    next.run(request).await
}

/// Answers a request for a page that has a token in its address.
pub(super) fn logged_in(access: &Access, address: &Uri, headers: &HeaderMap) -> Option<Response> {
    log_in(access, address.path(), address.query(), headers)
}

fn log_in(access: &Access, path: &str, query: Option<&str>, headers: &HeaderMap) -> Option<Response> {
    let parameters = parameters(query?);
    let (_, token) = parameters.iter().find(|(name, _)| name == "token")?;
    access.has(token).then(|| site::login(path, token, headers))?
}

/// Answers a browser with the page of services.
pub(super) fn services(collector: &Collector, call: &Call, has_viewer: bool) -> Result<Response, Refused> {
    let parameters = parameters(&call.query);
    let from = parameters.iter().find(|(name, _)| name == "from").map(|(_, from)| &**from);
    let html = site::services(&collector.reader(), from, now(), has_viewer)?;
    let mut page = response(200, "text/html; charset=utf-8", html);
    let headers = page.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(page)
}
