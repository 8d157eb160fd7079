//! Answers, as text and as bytes.

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::Response;

pub(super) fn text(status: u16, body: String) -> Response {
    response(status, "text/plain; charset=utf-8", body.into_bytes())
}

pub(super) fn response(status: u16, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    response
}
