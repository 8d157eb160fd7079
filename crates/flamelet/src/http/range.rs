//! Profiles of the past: `?from=-2h&to=-1h`, or `?last=60` seconds.

use flamelet_capture::profile::moment;

use super::answer::Refusal;
use super::delivery::Delivery;
use super::incoming::Incoming;
use super::plan::{Capture, Plan};

/// Returns the parameter that selects a range of the past, if there is one.
pub(super) fn asked(request: &Incoming<'_>) -> Option<&'static str> {
    ["from", "to", "last"].into_iter().find(|name| request.query.has(name))
}

/// The most seconds that `last` may ask for: a year.
const LAST: u64 = 366 * 86_400;

/// Plans a profile of the past, of windows of this kind; without `to`, until now.
pub(super) fn plan(request: &Incoming<'_>, kind: &'static str, delivery: Delivery) -> Result<Plan, Refusal> {
    let Incoming { rules, query, .. } = request;
    rules.history.map_err(Refusal::forbidden)?;
    let moment = |name| -> Result<Option<i64>, Refusal> {
        // An empty one is no time: a script whose variable is empty does not want a new capture instead.
        let text = query.has(name).then(|| query.first(name).unwrap_or_default());
        let parsed = text.map(|text| moment::parse(text, rules.now)).transpose();
        parsed.map_err(|error| Refusal::bad_parameter(format!("invalid value for {name:?}: {error}")))
    };
    let (mut from, to) = (moment("from")?, moment("to")?.unwrap_or(rules.now));
    if let Some(seconds) = query.number("last", 1..=LAST, " s")? {
        refuse_with(request, "last", &["from", "to"])?;
        from = Some(rules.now.saturating_sub(seconds as i64 * 1_000_000_000));
    }
    let Some(from) = from else {
        return Err(Refusal::bad_parameter("to without from: give both, such as from=-2h&to=-1h"));
    };
    moment::range(from, to).map_err(|error| Refusal::bad_parameter(error.to_string()))?;
    Ok(Plan::Profile(Capture::Range { kind, from, to }, delivery))
}

/// Fails if the request also has a parameter for a new capture.
pub(super) fn refuse_with(request: &Incoming<'_>, past: &str, others: &[&str]) -> Result<(), Refusal> {
    match others.iter().find(|name| **name != past && request.query.first(name).is_some()) {
        Some(name) => Err(Refusal::bad_parameter(format!("{name} and {past} params are incompatible"))),
        None => Ok(()),
    }
}
