//! Pyroscope's query calls (`querier.v1.QuerierService`), as its Connect server answers them: unary calls by HTTP POST,
//! JSON (`application/json`) or protobuf (`application/proto`), and `/pyroscope/render`.
//!
//! A [`Source`] is what is asked: the history of a service. [`answer`] is the whole protocol.

mod calls;
mod pprof_json;
mod render;
mod request;
mod response;

use flamelet_profile::{Error, ErrorKind, Profile, Result};

use crate::gzip::unpack_body;

pub use calls::METHODS;
pub use render::render;

/// Labels of a sample, as (name, value).
pub type Labels<'a> = [(&'a str, &'a str)];
/// Decides by their labels which samples are wanted.
pub type Keep<'a> = dyn Fn(&Labels<'_>) -> bool + 'a;
/// Takes the time of a window in milliseconds since 1970, labels, and the sums of the values that have them.
pub type EachTotal<'a> = dyn FnMut(i64, &Labels<'_>, &[i64]) + 'a;

/// Takes the labels of samples, and the number of the value that samples with these labels have; `None` if they have all.
pub type EachLabels<'a> = dyn FnMut(&Labels<'_>, Option<usize>) + 'a;

/// A time in milliseconds since 1970, from and until.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first millisecond.
    pub from: i64,
    /// The millisecond after the last one.
    pub to: i64,
}

/// What one name of profiles measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The name by which the source knows it, such as `cpu`.
    pub source_name: String,
    /// Pyroscope's name for it, such as `process_cpu`.
    pub name: String,
    /// The values of each sample, as (kind, unit).
    pub values: Vec<(String, String)>,
    /// What one sampling period counts, as (kind, unit).
    pub period: (String, String),
}

/// What answers are made of.
pub trait Source {
    /// Returns the name of the service, which is the label `service_name` of samples that have no such label.
    fn service(&self) -> &str;

    /// Returns a source of only the samples of this service, if that is less work than reading everything.
    fn only(&self, _service: &str) -> Option<Box<dyn Source + '_>> {
        None
    }

    /// Returns what was measured in a time.
    fn measured(&self, span: Span) -> Result<Vec<Measured>>;

    /// Returns one profile, with names, of the samples that are wanted; `None` if there are none.
    fn profile(&self, source_name: &str, span: Span, keep: &Keep<'_>) -> Result<Option<Profile>>;

    /// Calls `each` for every window and every set of labels in it.
    fn totals(&self, source_name: &str, span: Span, each: &mut EachTotal<'_>) -> Result<()>;

    /// Calls `each` for every set of labels.
    fn label_sets(&self, source_name: &str, span: Span, each: &mut EachLabels<'_>) -> Result<()> {
        self.totals(source_name, span, &mut |_, labels, _| each(labels, None))
    }

    /// Returns the first and the last moment for which there is anything.
    fn extent(&self) -> Result<Option<Span>>;
}

/// How a message is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// `application/json`.
    Json,
    /// `application/proto`.
    Proto,
}

impl Codec {
    /// Returns the codec of a content type, if it is one of a unary Connect call.
    pub fn of(content_type: &str) -> Option<Self> {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        match kind.to_ascii_lowercase().as_str() {
            "application/json" => Some(Self::Json),
            "application/proto" => Some(Self::Proto),
            _ => None,
        }
    }

    /// Returns the content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Proto => "application/proto",
        }
    }
}

/// An answer, to be sent by the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The content type.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

/// The longest body after unpacking.
const MAX_BODY: usize = 4 << 20;

/// Unpacks the body of a request by its `Content-Encoding`.
pub fn unpack(encoding: &str, body: Vec<u8>) -> Result<Vec<u8>> {
    unpack_body(encoding, body.into(), MAX_BODY)
}

/// Answers a call of `method`, which is one of [`METHODS`], with this body.
pub fn answer(source: &dyn Source, method: &str, codec: Codec, body: &[u8]) -> QueryAnswer {
    let outcome =
        request::Request::read(method, codec, body).and_then(|request| calls::call(source, method, &request));
    match outcome {
        Ok(response) => {
            QueryAnswer { status: 200, content_type: codec.content_type(), body: response.write(codec) }
        }
        Err(error) => failure(&error),
    }
}

/// Returns an error as Connect writes it.
pub fn failure(error: &Error) -> QueryAnswer {
    let (status, code) = match error.kind() {
        ErrorKind::NotFound => (404, "not_found"),
        ErrorKind::Unsupported => (501, "unimplemented"),
        ErrorKind::OutOfMemory | ErrorKind::OutOfWork | ErrorKind::TooLarge => (429, "resource_exhausted"),
        ErrorKind::InvalidOption
        | ErrorKind::WrongFormat
        | ErrorKind::Truncated
        | ErrorKind::Corrupt
        | ErrorKind::UnknownFormat => (400, "invalid_argument"),
        _ => (500, "internal"),
    };
    let body = serde_json::json!({ "code": code, "message": error.to_string() });
    QueryAnswer { status, content_type: "application/json", body: body.to_string().into_bytes() }
}
