//! The pages for a browser: who may see them, the services, and the viewer.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::middleware::{self, Next};
use axum::response::Response;

use super::access::Access;
use super::answer::response;
use super::call::{Asking, parameters};
use super::dialect::Dialect;
use super::{CollectorServer, ask, check_host, check_site};
use crate::ask::Given;
use crate::clock::now;
use crate::collector::Refused;
use crate::site::{self, Visit};

/// The pages load their style and nothing else, and their forms lead to themselves.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; \
                      frame-ancestors 'none'";

/// Returns whether the viewer is served. It is one for all, so it is not where there are tenants.
pub(super) fn has_viewer(access: &Access) -> bool {
    !access.has_tenants()
}

/// Returns a router that has the viewer, if it is served.
pub(super) fn router(server: &Arc<CollectorServer>) -> axum::Router {
    let router = axum::Router::new();
    if !has_viewer(&server.access) {
        return router;
    }
    let guarding = server.clone();
    let guard = move |request: Request, next: Next| show(guarding.clone(), request, next);
    router.nest(site::VIEWER, site::viewer(server.tenants.main().reader()).layer(middleware::from_fn(guard)))
}

/// Lets a request through to the viewer.
async fn show(server: Arc<CollectorServer>, request: Request, next: Next) -> Response {
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

/// Answers a browser with the page of services, and others with a list of them.
pub(super) fn first(asking: &Asking<'_>) -> Result<Response, Refused> {
    match asking.call.header(header::ACCEPT).contains("text/html") {
        true => page(asking, site::services),
        false => ask::index(asking.collector),
    }
}

pub(super) fn style(_: &Asking<'_>) -> Result<Response, Refused> {
    Ok(response(200, "text/css; charset=utf-8", site::STYLE))
}

pub(super) fn top(asking: &Asking<'_>) -> Result<Response, Refused> {
    page(asking, site::top)
}

pub(super) fn what_changed(asking: &Asking<'_>) -> Result<Response, Refused> {
    page(asking, site::what_changed)
}

/// Answers with a page.
fn page(
    asking: &Asking<'_>,
    write: fn(&Visit<'_>) -> flamelet_profile::Result<String>,
) -> Result<Response, Refused> {
    let Asking { collector, call, has_viewer } = *asking;
    let parameters = parameters(&call.query);
    let given = Given { parameters: &parameters, now: now(), price: collector.options.price };
    let html = write(&Visit { reader: collector.reader(), given, has_viewer })?;
    let mut page = response(200, "text/html; charset=utf-8", html);
    let headers = page.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(page)
}
