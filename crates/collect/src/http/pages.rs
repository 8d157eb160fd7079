//! The pages for a browser: who may see them, the services, and the viewer.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use tokio::sync::OwnedSemaphorePermit;

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
    if let Some(response) = log_in(&server, &path, request.uri().query(), request.headers()) {
        return response;
    }
    let allowed = server.access.tenant_of(request.headers());
    if let Err(refused) = allowed.and_then(|_| check_site(request.method(), &path, request.headers())) {
        return Dialect::Plain.refusal(&refused);
    }
    let Ok(permit) = server.asking.at_once.clone().acquire_owned().await else {
        return Dialect::Plain.refusal(&Refused::new(503, "the collector is stopping"));
    };
    to_the_end(permit, next.run(request)).await
}

/// Answers, and keeps the permit until the answer is there: the work goes on if the client closes the connection.
async fn to_the_end(
    permit: OwnedSemaphorePermit,
    answer: impl Future<Output = Response> + Send + 'static,
) -> Response {
    let work = tokio::spawn(async move {
        let _until_the_end = permit;
        answer.await
    });
    let failed = || Dialect::Plain.refusal(&Refused::new(500, "the collector failed (a bug in flamelet)"));
    work.await.unwrap_or_else(|_| failed())
}

/// Answers a request for a page that has a token in its address.
pub(super) fn logged_in(server: &CollectorServer, address: &Uri, headers: &HeaderMap) -> Option<Response> {
    log_in(server, address.path(), address.query(), headers)
}

fn log_in(
    server: &CollectorServer,
    path: &str,
    query: Option<&str>,
    headers: &HeaderMap,
) -> Option<Response> {
    let parameters = parameters(query?);
    let (_, token) = parameters.iter().find(|(name, _)| name == "token")?;
    server.access.has(token).then(|| site::login(path, token, headers, server.is_encrypted))?
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::{Semaphore, oneshot};
    use tokio::time::timeout;

    use super::*;

    #[test]
    fn work_for_a_client_that_is_gone_keeps_its_place() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let places = Arc::new(Semaphore::new(1));
            let permit = places.clone().acquire_owned().await.expect("a place");
            let (end, ended) = oneshot::channel::<()>();
            let answering = to_the_end(permit, async move {
                let _ = ended.await;
                response(200, "text/plain", "")
            });
            // Dropped before there is an answer, as when a connection is closed.
            timeout(Duration::from_millis(50), answering).await.expect_err("it works still");
            assert_eq!(places.available_permits(), 0);
            end.send(()).expect("it works still");
            let place = timeout(Duration::from_secs(60), places.acquire()).await;
            drop(place.expect("the work has ended").expect("a place"));
        });
    }
}
