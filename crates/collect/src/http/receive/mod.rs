//! Receives profiles: what other systems' senders send becomes profiles that are offered to a collector.

mod form;
mod ingest;
mod otlp;
mod outcome;
mod parca;
mod pyroscope;

pub(super) use ingest::ingest;

use axum::response::Response;
use flamelet_remote::push::{OTLP_PATH, PARCA_PATH, PYROSCOPE_PATH};
use flamelet_remote::querier::Codec;
use flamelet_remote::receive::INGEST_PATH;
use flamelet_remote::receive::otlp::EXPORT_PATH;
use flamelet_remote::receive::parca::GATEWAY_PATHS;

use super::call::Call;
use super::dialect::Dialect;
use crate::collector::{Collector, Refused};

/// Reads a message and keeps its profiles. Returns the message to answer with.
pub(super) type Receiver = fn(&Collector, Codec, &[u8]) -> Result<Vec<u8>, Refused>;

/// Returns what receives messages at a path.
pub(super) fn receiver(path: &str) -> Option<Receiver> {
    match path {
        PYROSCOPE_PATH => Some(pyroscope::push),
        OTLP_PATH | EXPORT_PATH => Some(otlp::export),
        PARCA_PATH => Some(parca::write_raw),
        path if GATEWAY_PATHS.contains(&path) => Some(parca::write_raw),
        _ => None,
    }
}

/// Returns whether profiles are received at a path.
pub(super) fn is_receiving(path: &str) -> bool {
    path == INGEST_PATH || receiver(path).is_some()
}

/// Receives the message of a call.
pub(super) fn receive(
    collector: &Collector,
    receiver: Receiver,
    dialect: Dialect,
    call: &Call,
) -> Result<Response, Refused> {
    let (codec, message) = dialect.message(call, collector.options.caps.body)?;
    Ok(dialect.accepted(codec, receiver(collector, codec, &message)?))
}

/// Returns a message without fields.
fn empty(codec: Codec) -> Vec<u8> {
    match codec {
        Codec::Json => b"{}".to_vec(),
        Codec::Proto => Vec::new(),
    }
}
