//! How a caller wants its answer written, refusals included.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::header::HeaderValue;
use axum::http::{HeaderMap, Version, header};
use axum::response::Response;
use flamelet_remote::push::{OTLP_PATH, PYROSCOPE_PATH};
use flamelet_remote::querier::Codec;
use flamelet_remote::receive::parca::GATEWAY_PATHS;
use flamelet_remote::receive::{grpc, otlp};
use http_body::Frame;

use super::QUERIER;
use super::answer::{response, text};
use super::call::Call;
use super::symbols::SYMBOLS;
use crate::collector::Refused;

/// How a caller wants its answer written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Text for a person.
    Plain,
    /// A unary call of Connect.
    Connect,
    /// OTLP/HTTP, and the JSON gateway of gRPC: errors are a `google.rpc.Status`.
    Status(Codec),
    /// gRPC: the status is in the trailers.
    Grpc,
    /// gRPC-Web: the trailers are the end of the body.
    GrpcWeb,
}

impl Dialect {
    /// Returns what a caller of `path` expects.
    pub(super) fn of(version: Version, path: &str, content_type: &str) -> Self {
        match (path, &*kind(content_type)) {
            // HTTP/1.1 has no trailers that clients read.
            (_, "application/grpc" | "application/grpc+proto") if version >= Version::HTTP_2 => Self::Grpc,
            (_, "application/grpc-web" | "application/grpc-web+proto") => Self::GrpcWeb,
            (OTLP_PATH, "application/json") => Self::Status(Codec::Json),
            (OTLP_PATH, _) => Self::Status(Codec::Proto),
            (path, _) if GATEWAY_PATHS.contains(&path) => Self::Status(Codec::Json),
            (path, _)
                if path == PYROSCOPE_PATH || [QUERIER, SYMBOLS].iter().any(|call| path.starts_with(call)) =>
            {
                Self::Connect
            }
            _ => Self::Plain,
        }
    }

    /// Returns the message of a call, unpacked, and how it is written.
    pub(super) fn message(self, call: &Call, most: usize) -> Result<(Codec, Vec<u8>), Refused> {
        if matches!(self, Self::Grpc | Self::GrpcWeb) {
            let message = grpc::message(&call.body, call.header("grpc-encoding"), most)?;
            return Ok((Codec::Proto, message));
        }
        let codec = match &*kind(call.header(header::CONTENT_TYPE)) {
            "application/json" => Codec::Json,
            "application/proto" | "application/x-protobuf" => Codec::Proto,
            _ => return Err(Refused::new(415, WRONG_TYPE)),
        };
        Ok((codec, call.unpacked(most)?))
    }

    /// Returns the answer to a call that was carried out.
    pub(super) fn accepted(self, codec: Codec, message: Vec<u8>) -> Response {
        match self {
            Self::Plain | Self::Connect => response(200, codec.content_type(), message),
            Self::Status(codec) => response(200, status_type(codec), message),
            Self::Grpc => {
                let trailers = Some(trailers(0, ""));
                let message = Some(grpc::framed(&message).unwrap_or_default().into());
                response(200, GRPC, Body::new(Trailed { message, trailers }))
            }
            Self::GrpcWeb => {
                let message = grpc::framed(&message).unwrap_or_default();
                response(200, GRPC_WEB, [message, grpc::web_trailers(0, "")].concat())
            }
        }
    }

    /// Returns the answer to a call that was refused.
    pub(super) fn refusal(self, refused: &Refused) -> Response {
        let (Refused { status, message }, (number, name)) = (refused, code(refused.status));
        match self {
            Self::Plain => text(*status, format!("{message}\n")),
            Self::Connect => {
                let body = serde_json::json!({ "code": name, "message": message });
                response(*status, "application/json", body.to_string())
            }
            Self::Status(codec) => {
                response(*status, status_type(codec), otlp::status(codec, number, message))
            }
            Self::Grpc => {
                let mut response = response(200, GRPC, Vec::new());
                response.headers_mut().extend(trailers(number, message));
                response
            }
            Self::GrpcWeb => response(200, GRPC_WEB, grpc::web_trailers(number, message)),
        }
    }
}

const WRONG_TYPE: &str = "the content type must be application/json, application/proto, \
                                     application/x-protobuf, application/grpc-web+proto, or application/grpc over HTTP/2";
const GRPC: &str = "application/grpc";
const GRPC_WEB: &str = "application/grpc-web+proto";

/// Returns a content type without its parameters.
fn kind(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn status_type(codec: Codec) -> &'static str {
    match codec {
        Codec::Json => "application/json",
        Codec::Proto => "application/x-protobuf",
    }
}

/// Returns the code of gRPC and Connect for a status of HTTP, as number and as name.
fn code(status: u16) -> (u32, &'static str) {
    match status {
        400 | 415 => (3, "invalid_argument"),
        401 => (16, "unauthenticated"),
        403 => (7, "permission_denied"),
        404 | 405 | 501 => (12, "unimplemented"),
        413 | 429 => (8, "resource_exhausted"),
        408 | 503 => (14, "unavailable"),
        _ => (13, "internal"),
    }
}

fn trailers(code: u32, why: &str) -> HeaderMap {
    let message = HeaderValue::try_from(grpc::percent_encoded(why));
    let message = message.unwrap_or_else(|_| HeaderValue::from_static(""));
    let fields = [("grpc-status", HeaderValue::from(code)), ("grpc-message", message)];
    fields.into_iter().map(|(name, value)| (header::HeaderName::from_static(name), value)).collect()
}

/// A message and the trailers after it.
struct Trailed {
    message: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl http_body::Body for Trailed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let body = self.get_mut();
        let frame = body.message.take().map(Frame::data);
        Poll::Ready(frame.or_else(|| body.trailers.take().map(Frame::trailers)).map(Ok))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_and_the_content_type_decide() {
        for (path, content_type, dialect) in [
            ("/ready", "", Dialect::Plain),
            (PYROSCOPE_PATH, "application/proto", Dialect::Connect),
            (PYROSCOPE_PATH, "application/grpc", Dialect::Grpc),
            (OTLP_PATH, "application/x-protobuf", Dialect::Status(Codec::Proto)),
            (OTLP_PATH, "Application/JSON; charset=utf-8", Dialect::Status(Codec::Json)),
            ("/profiles/writeraw", "", Dialect::Status(Codec::Json)),
            ("/querier.v1.QuerierService/Diff", "", Dialect::Connect),
            ("/anything", "application/grpc+proto", Dialect::Grpc),
            ("/anything", "application/grpc-web+proto", Dialect::GrpcWeb),
            ("/anything", "application/grpc-web-text", Dialect::Plain),
        ] {
            assert_eq!(Dialect::of(Version::HTTP_2, path, content_type), dialect, "{path} {content_type}");
        }
        assert_eq!(Dialect::of(Version::HTTP_11, "/anything", "application/grpc"), Dialect::Plain);
    }

    #[test]
    fn a_refusal_of_grpc_is_in_the_headers() {
        let answer = Dialect::Grpc.refusal(&Refused::new(429, "slow\ndown"));
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["grpc-status"], "8");
        assert_eq!(answer.headers()["grpc-message"], "slow%0Adown");
    }
}
