//! Answers as JSON.

use flamelet_profile::{Error, ErrorKind, Result, moment};
use serde::{Serialize, Serializer};

/// Writes a moment for people and programs: `2026-11-15T03:00:00Z`.
pub(super) fn as_moment<S: Serializer>(nanos: &i64, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(&moment::format(*nanos))
}

/// Returns an answer as JSON.
pub(super) fn bytes(answer: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(answer)
        .map_err(|error| Error::new(ErrorKind::Internal, format!("the answer is no JSON: {error}")))
}
