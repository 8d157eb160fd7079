//! The HTTP side of a collector: receives profiles, and answers queries.

mod access;
mod answer;
mod ask;
mod call;
mod dialect;
pub(crate) mod folded;
mod listen;
mod pages;
mod receive;
mod routes;
mod symbols;
mod tls;

pub use access::Access;
pub use tls::Certificate;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderMap, Method, header};
use axum::response::Response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::answer::text;
use self::call::{Asking, Call, is_of_another_site, read_body, text_of};
use self::dialect::Dialect;
use self::listen::{Connections, listen};
use self::routes::{Route, Work};
use crate::collector::tenant::Tenant;
use crate::collector::tenants::Tenants;
use crate::collector::{Collector, Refused};
use crate::site;

const QUERIER: &str = "/querier.v1.QuerierService/";
/// How long a sender may take for a body.
const BODY_TIME: Duration = Duration::from_secs(60);
/// How long an upload of symbols may take.
const UPLOAD_TIME: Duration = Duration::from_secs(600);
/// Bodies that are held at once, and how long others wait for their turn.
const BODIES: usize = 32;
const TURN: Duration = Duration::from_secs(30);
/// Profiles that are received at once, each of which may take 128 MiB, and questions that are answered at once, each of
/// which may take 512 MiB. Others wait.
const SENDING: usize = 4;
const ASKING: usize = 3;
/// Connections at once, how long the head of a request may take, how long nothing may move (longer than any body and the work
/// on it), and how many bytes of answers may wait for slow peers.
const CONNECTIONS: Connections = Connections {
    most: 1024,
    head: Duration::from_secs(10),
    stuck: Duration::from_secs(900),
    unread: 512 << 20,
};

struct CollectorServer {
    tenants: Arc<Tenants>,
    access: Access,
    /// Only this machine can reach it, and needs no token. Then a page of another site must not either, by a name of its own
    /// for this address (DNS rebinding).
    is_private: bool,
    /// It is served over TLS.
    is_encrypted: bool,
    sending: Lane,
    asking: Lane,
    uploading: Lane,
}

/// Requests of one kind. Senders do not keep queries waiting, nor queries senders.
struct Lane {
    reading: Arc<Semaphore>,
    at_once: Arc<Semaphore>,
}

impl Lane {
    fn new(bodies: usize, at_once: usize) -> Self {
        Self { reading: Arc::new(Semaphore::new(bodies)), at_once: Arc::new(Semaphore::new(at_once)) }
    }
}

impl CollectorServer {
    fn lane(&self, path: &str) -> &Lane {
        match path {
            path if symbols::is_upload(path) => &self.uploading,
            path if is_receiving(path) => &self.sending,
            _ => &self.asking,
        }
    }
}

/// Returns whether profiles are received at a path.
fn is_receiving(path: &str) -> bool {
    Route::of(path).is_some_and(Route::is_receiving)
}

/// Serves until `is_over` returns true, over TLS if there is a certificate.
pub fn serve(
    listener: TcpListener,
    tenants: Arc<Tenants>,
    access: Access,
    certificate: Option<Certificate>,
    is_over: impl Fn() -> bool,
) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let (sending, asking) = (Lane::new(BODIES, SENDING), Lane::new(BODIES, ASKING));
    // A file is in memory as a whole.
    let uploading = Lane::new(1, 1);
    let is_private = listener.local_addr()?.ip().is_loopback() && access.is_open();
    let (is_encrypted, main) = (certificate.is_some(), tenants.main().clone());
    let server =
        Arc::new(CollectorServer { tenants, access, is_private, is_encrypted, sending, asking, uploading });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let router = pages::router(&server).fallback(move |request: Request| handle(server.clone(), request));
        let note = |message: &str| main.outside.note(message);
        listen(listener, router, CONNECTIONS, certificate, note, is_over).await;
        Ok::<_, std::io::Error>(())
    })?;
    runtime.shutdown_timeout(Duration::from_secs(10));
    Ok(())
}

async fn handle(server: Arc<CollectorServer>, request: Request) -> Response {
    if let Err(refused) = check_host(&server, &request) {
        return Dialect::Plain.refusal(&refused);
    }
    if let Some(response) = pages::logged_in(&server, request.uri(), request.headers()) {
        return response;
    }
    let content_type = text_of(request.headers(), header::CONTENT_TYPE);
    let dialect = Dialect::of(request.version(), request.uri().path(), content_type);
    let (is_sending, main) = (is_receiving(request.uri().path()), server.tenants.main().clone());
    match answered(server, dialect, request).await {
        Ok(response) => response,
        Err(refused) => {
            main.counters.requests_refused.fetch_add(u64::from(is_sending), Ordering::Relaxed);
            dialect.refusal(&refused)
        }
    }
}

async fn answered(
    server: Arc<CollectorServer>,
    dialect: Dialect,
    request: Request,
) -> Result<Response, Refused> {
    let path = request.uri().path();
    check_site(request.method(), path, request.headers())?;
    if let Some(probe) = Route::of(path).filter(|route| matches!(route.work, Work::Probe)) {
        // Also while the collector is busy. What a stranger sends with it is not read.
        return probe.check_method(request.method()).map(|()| text(200, "ready\n".to_owned()));
    }
    // Before there is a place for the request: those without a token must not take the places of others.
    let tenant = server.access.tenant_of(request.headers())?;
    let reading = server.lane(path).reading.clone().acquire_owned();
    let Ok(Ok(turn)) = tokio::time::timeout(TURN, reading).await else {
        return Err(Refused::new(429, "too many requests at once; send it again later"));
    };
    let call = received(&server, request).await?;
    worked_on(server, dialect, call, tenant, turn).await
}

async fn worked_on(
    server: Arc<CollectorServer>,
    dialect: Dialect,
    call: Call,
    tenant: Option<Tenant>,
    turn: OwnedSemaphorePermit,
) -> Result<Response, Refused> {
    let Ok(permit) = server.lane(&call.path).at_once.clone().acquire_owned().await else {
        return Err(Refused::new(503, "the collector is stopping"));
    };
    let work = server.clone();
    let work = move || {
        // They end with the work, which goes on if the client closes the connection.
        let _until_the_end = (permit, turn);
        let collector = work.tenants.of(tenant.as_ref(), is_receiving(&call.path))?;
        answer(&collector, dialect, &call, pages::has_viewer(&work.access))
    };
    let answer = tokio::task::spawn_blocking(work).await;
    answer.unwrap_or_else(|_| Err(Refused::new(500, "the collector failed (a bug in flamelet)")))
}

/// Reads the body up to the cap.
async fn received(server: &CollectorServer, request: Request) -> Result<Call, Refused> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let caps = &server.tenants.main().options.caps;
    let (most, limit, time) = match symbols::is_upload(&path) {
        true => (caps.symbols, "limits.symbols", UPLOAD_TIME),
        false => (caps.body, "limits.body", BODY_TIME),
    };
    let body = tokio::time::timeout(time, read_body(body, most, limit)).await;
    let body = body.map_err(|_| Refused::new(408, "the body took too long"))??;
    let query = parts.uri.query().unwrap_or_default().to_owned();
    Ok(Call { method: parts.method, path, query, headers: parts.headers, body })
}

/// Refuses requests for a host name that is not this machine's, where everybody on this machine may ask.
fn check_host(server: &CollectorServer, request: &Request) -> Result<(), Refused> {
    let authority = request.uri().authority().map(|authority| authority.as_str());
    let host = authority.unwrap_or_else(|| text_of(request.headers(), header::HOST));
    match server.is_private && !is_own_host(host) {
        true => Err(Refused::new(
            403,
            "without tokens, a collector on a loopback address answers for localhost and IP addresses only",
        )),
        false => Ok(()),
    }
}

/// Returns whether a host, perhaps with a port, is an address or a name that no other site can have.
fn is_own_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_local =
        name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost");
    name.is_empty() || is_local || name.parse::<std::net::IpAddr>().is_ok()
}

/// Refuses the requests of other sites' pages, except for links to a page that a user follows.
fn check_site(method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Refused> {
    match is_of_another_site(headers) && !site::is_visit(method, path, headers) {
        true => Err(Refused::new(403, "requests from pages of other sites are refused")),
        false => Ok(()),
    }
}

fn answer(
    collector: &Collector,
    dialect: Dialect,
    call: &Call,
    has_viewer: bool,
) -> Result<Response, Refused> {
    let unknown = || {
        let message = match call.path.contains("/debug/pprof") {
            true => "this is a collector: give reports its folder, or pyroscope://HOST:PORT?query=…",
            false => "this path is not served by flamelet collect",
        };
        Refused::new(404, message)
    };
    let route = Route::of(&call.path).ok_or_else(unknown)?;
    if matches!(route.work, Work::View) && !has_viewer {
        return Err(Refused::new(
            404,
            "a collector with tenants does not serve the viewer; use flamelet view",
        ));
    }
    route.check_method(&call.method)?;
    match &route.work {
        Work::Ask(ask) => ask(&Asking { collector, call, has_viewer }),
        Work::Api(question) => ask::api(collector, question, call),
        Work::Symbols => symbols::receive(collector, call),
        Work::Ingest => receive::ingest(collector, call).map(|()| text(200, String::new())),
        Work::Receive(receiver) => receive::receive(collector, *receiver, dialect, call),
        // They are answered before.
        Work::Probe | Work::View => Err(unknown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_sites_have_names() {
        for own in [
            "",
            "127.0.0.1:4040",
            "127.0.0.1",
            "localhost:4040",
            "LocalHost",
            "a.localhost",
            "[::1]:4040",
            "[::1]",
        ] {
            assert!(is_own_host(own), "{own}");
        }
        for other in [
            "evil.example",
            "evil.example:4040",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "[evil]:80",
        ] {
            assert!(!is_own_host(other), "{other}");
        }
    }
}
