//! The questions as HTTP calls, which answer with JSON.

use flamelet_profile::{Error, Limits, Result, moment};

use super::asked::Asked;
use super::changes::changes;
use super::json;
use crate::reader::Reader;

/// What a call may use.
const CALL: Limits = Limits::of_memory(512 << 20);
/// What a call is about unless it says from when.
const USUAL_RANGE: &str = "-1d";

/// Answers `GET /api/NAME` with JSON; `None` if there is no such call.
pub(crate) fn answer(
    reader: &Reader,
    path: &str,
    parameters: &[(String, String)],
    now: i64,
) -> Option<Result<Vec<u8>>> {
    match path.strip_prefix("/api/")? {
        "changes" => Some(changed(reader, parameters, now).and_then(|answer| json::bytes(&answer))),
        _ => None,
    }
}

fn changed(reader: &Reader, parameters: &[(String, String)], now: i64) -> Result<super::Changes> {
    let given = |wanted: &str| {
        let found = parameters.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| &**value).filter(|value| !value.is_empty())
    };
    let from = moment::parse(given("from").unwrap_or(USUAL_RANGE), now)?;
    let to = given("to").map_or(Ok(i64::MAX), |text| moment::parse(text, now))?;
    if from >= to {
        return Err(Error::invalid("the range is empty: from is not before to"));
    }
    changes(reader, &Asked { service: given("service"), from, to, limits: CALL }, |_| {})
}
