//! The HTTP client of buckets: ureq, which the command has anyway.

use std::fmt;
use std::io::Read;
use std::net::Ipv4Addr;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use ureq::http::{Method, Request, Response, Uri};

use crate::profiles::fetch::is_on_this_machine;

/// The longest answer that is read: the longest file of a block.
const MAX_ANSWER: u64 = 513 << 20;
const CONNECT: Duration = Duration::from_secs(10);
/// How long one request may take.
const WAIT: Duration = Duration::from_secs(120);

/// Makes clients.
#[derive(Debug)]
pub(super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let may_be_plain = options.get_config_value(&ClientConfigKey::AllowHttp);
        let may_be_plain = may_be_plain.as_deref() == Some("true");
        let config = || {
            ureq::Agent::config_builder()
                .timeout_global(Some(WAIT))
                .timeout_connect(Some(CONNECT))
                .http_status_as_error(false)
                .max_redirects(0)
        };
        let (usual, direct) = (config().build().into(), config().proxy(None).build().into());
        Ok(HttpClient::new(BucketClient { may_be_plain, usual, direct }))
    }
}

#[derive(Debug)]
struct BucketClient {
    /// Whether other machines may be talked to without encryption.
    may_be_plain: bool,
    usual: ureq::Agent,
    /// For this machine and what it alone reaches, without a proxy.
    direct: ureq::Agent,
}

/// Why there is no answer.
#[derive(Debug)]
struct NoAnswer(String);

impl fmt::Display for NoAnswer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for NoAnswer {}

fn failed(kind: HttpErrorKind, why: impl Into<String>) -> HttpError {
    HttpError::new(kind, NoAnswer(why.into()))
}

impl HttpService for BucketClient {
    fn call<'life0, 'async_trait>(
        &'life0 self,
        request: HttpRequest,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let is_here = is_on_this_machine(&parts.uri.to_string());
            if parts.uri.scheme_str() != Some("https") && !self.may_be_plain && !is_here {
                let why = "this is not encrypted; use https, or set AWS_ALLOW_HTTP=true in a network that you trust";
                return Err(failed(HttpErrorKind::Unknown, why));
            }
            let body = to_bytes(Body::new(body), usize::MAX);
            let body = body.await.map_err(|error| failed(HttpErrorKind::Request, error.to_string()))?;
            let is_direct = is_here || is_link_local(&parts.uri);
            let agent = if is_direct { self.direct.clone() } else { self.usual.clone() };
            let request = Request::from_parts(parts, body.into());
            let answer = tokio::task::spawn_blocking(move || send(&agent, request));
            answer.await.map_err(|error| failed(HttpErrorKind::Unknown, error.to_string()))?
        })
    }
}

fn send(agent: &ureq::Agent, request: Request<Vec<u8>>) -> Result<HttpResponse, HttpError> {
    let has_body = matches!(*request.method(), Method::PUT | Method::POST);
    let (parts, body) = request.into_parts();
    let answer = match has_body {
        true => agent.run(Request::from_parts(parts, body)),
        false => agent.run(Request::from_parts(parts, ())),
    };
    let answer = answer.map_err(|error| failed(kind_of(&error), error.to_string()))?;
    let (parts, mut body) = answer.into_parts();
    let mut bytes = Vec::new();
    let reader = body.with_config().limit(MAX_ANSWER).reader();
    reader
        .take(MAX_ANSWER)
        .read_to_end(&mut bytes)
        .map_err(|error| failed(HttpErrorKind::Interrupted, error.to_string()))?;
    Ok(Response::from_parts(parts, bytes.into()))
}

/// Returns whether an address means another thing on each machine, as that of a cloud's credentials does.
fn is_link_local(uri: &Uri) -> bool {
    let address: Option<Ipv4Addr> = uri.host().and_then(|host| host.parse().ok());
    address.is_some_and(|address| address.is_link_local())
}

/// Says whether it helps to try again.
fn kind_of(error: &ureq::Error) -> HttpErrorKind {
    match error {
        ureq::Error::Timeout(_) => HttpErrorKind::Timeout,
        ureq::Error::ConnectionFailed | ureq::Error::HostNotFound => HttpErrorKind::Connect,
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            HttpErrorKind::Connect
        }
        ureq::Error::Io(_) => HttpErrorKind::Interrupted,
        _ => HttpErrorKind::Unknown,
    }
}
