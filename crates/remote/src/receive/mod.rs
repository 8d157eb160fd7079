//! What the senders of other systems send.
//!
//! | sender | call | read by |
//! |---|---|---|
//! | Pyroscope's agents | `push.v1.PusherService/Push` | [`push`] |
//! | older ones | `/ingest` | [`Ingest`] |
//! | Parca's | `ProfileStoreService/WriteRaw`, or its JSON gateway | [`parca::write_raw`] |
//! | OpenTelemetry's | `/v1development/profiles`, `ProfilesService/Export` | [`otlp`]: labels and answers |
//!
//! Bodies of Pyroscope and Parca are read into series of raw profiles; what is in the profiles is for the caller to read,
//! and so is an OTLP message, which is a file format of its own. [`grpc`] has the frames of gRPC and gRPC-Web.

pub mod grpc;
mod ingest;
pub mod otlp;
pub mod parca;
mod pyroscope;
mod series;

pub use crate::gzip::{gunzip, unpack_body};
pub use ingest::{INGEST_PATH, Ingest};
pub use pyroscope::push;
pub use series::{PushedProfile, PushedSeries, base64};
