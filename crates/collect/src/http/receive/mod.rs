//! Receives profiles: what other systems' senders send becomes profiles that are offered to a collector.

mod form;
mod ingest;
pub(super) mod otlp;
mod outcome;
pub(super) mod parca;
pub(super) mod pyroscope;

pub(super) use ingest::ingest;

use axum::response::Response;
use flamelet_remote::querier::Codec;

use super::call::Call;
use super::dialect::Dialect;
use crate::collector::{Collector, Refused};

/// Reads a message and keeps its profiles. Returns the message to answer with.
pub(super) type Receiver = fn(&Collector, Codec, &[u8]) -> Result<Vec<u8>, Refused>;

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
