//! Responses, with the headers that Go's handlers set.

use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    HeaderName, LOCATION, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use crate::{Error, ErrorKind};

/// The response to a client.
pub(super) type Answer = Response<Vec<u8>>;

pub(super) const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const HTML: &str = "text/html; charset=utf-8";
pub(super) const SVG: &str = "image/svg+xml";
pub(super) const JSON: &str = "application/json";
const BINARY: &str = "application/octet-stream";

const X_GO_PPROF: HeaderName = HeaderName::from_static("x-go-pprof");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The reason why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) message: String,
    /// The methods that are allowed, if the request used another one.
    allowed: Option<&'static str>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), allowed: None }
    }

    pub(super) fn bad_parameter(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, message)
    }

    /// The client is not authorized, or used the wrong host name.
    pub(super) fn unauthorized() -> Self {
        Self::forbidden("this service does not allow you to profile it")
    }

    pub(super) fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    pub(super) fn wrong_method(method: &Method, allowed: &'static str) -> Self {
        // A client can send a method of any length.
        let method: String = method.as_str().chars().take(20).collect();
        let message = format!("{method} is not allowed, only {allowed}");
        Self { allowed: Some(allowed), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, message) }
    }

    /// Returns the message as text, with the header by which `go tool pprof` recognises a message for a person.
    pub(super) fn answer(&self) -> Answer {
        let mut answer = inline(TEXT, format!("{}\n", self.message));
        *answer.status_mut() = self.status;
        let headers = answer.headers_mut();
        headers.insert(X_GO_PPROF, HeaderValue::from_static("1"));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if let Some(allowed) = self.allowed {
            headers.insert(ALLOW, HeaderValue::from_static(allowed));
        }
        answer
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::InvalidOption => StatusCode::BAD_REQUEST,
            ErrorKind::NotEnabled | ErrorKind::Unsupported => StatusCode::FORBIDDEN,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            // The client is gone: nothing reads this answer.
            ErrorKind::Cancelled => StatusCode::REQUEST_TIMEOUT,
            ErrorKind::Denied => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

/// Returns the answer to a request that is refused with `status` before the handler saw it.
pub(crate) fn refusal(status: StatusCode, message: &str) -> Answer {
    Refusal::new(status, message).answer()
}

/// Returns an answer to be displayed.
pub(super) fn inline(kind: &'static str, body: impl Into<Vec<u8>>) -> Answer {
    let mut answer = Response::new(body.into());
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    hide_from_other_sites(headers);
    answer
}

/// Keeps the answer from other sites' pages. A page that hides its origin can start a capture, as any client can;
/// with these headers, browsers do not show it the answer in a picture, a script or a frame.
pub(crate) fn hide_from_other_sites(headers: &mut HeaderMap) {
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    let policy = HeaderValue::from_static("frame-ancestors 'none'");
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(policy);
}

/// Returns an answer to be saved as `name`.
pub(super) fn attachment(name: &str, body: Vec<u8>) -> Answer {
    let mut answer = inline(BINARY, body);
    let disposition = HeaderValue::try_from(format!("attachment; filename=\"{name}\""));
    if let Ok(disposition) = disposition {
        answer.headers_mut().insert(CONTENT_DISPOSITION, disposition);
    }
    answer
}

/// Redirects to the page with its trailing slash, without which its links would not work. The redirect is relative,
/// so that it also works below a prefix.
pub(super) fn moved_to(page: &'static str) -> Answer {
    let mut answer = inline(TEXT, format!("the page is at {page}\n"));
    *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
    answer.headers_mut().insert(LOCATION, HeaderValue::from_static(page));
    answer
}

/// Removes the body of an answer to HEAD, and sets the length of the body that GET would get. Servers remove it too,
/// but a handler may run without a server.
pub(super) fn cut_body_for(method: &Method, answer: &mut Answer) {
    if method != Method::HEAD {
        return;
    }
    let body = std::mem::take(answer.body_mut());
    if !body.is_empty() {
        answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
}
