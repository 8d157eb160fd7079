//! The heap over HTTP.

use flamelet_capture::profile::HeapView;
use http::{HeaderMap, StatusCode};

use super::answer::Refusal;
use super::asked::{Asked, Wanted};
use super::delivery::{Delivery, Form};
use super::empty::Kind;
use super::query::Query;
use super::route;
use super::rules::Rules;

/// The most windows in which growth is watched.
const MOST_WINDOWS: u64 = 100;

/// How long growth is watched where the request does not say.
const GROWTH_SECONDS: u64 = 10;

/// Whether a view can be asked what changes over some seconds.
const fn has_delta(view: HeapView) -> bool {
    matches!(view, HeapView::InUse | HeapView::Allocated | HeapView::Growth)
}

/// `/debug/pprof/heap`, `/debug/pprof/allocs` and what goes beyond Go.
pub(super) fn read(
    rules: &Rules<'_>,
    query: &Query,
    headers: &HeaderMap,
    view: HeapView,
) -> Result<Asked, Refusal> {
    let form = Form::negotiate(query, headers)?;
    let seconds = delta_seconds(rules, query)?;
    if seconds.is_some() && !has_delta(view) {
        return Err(Refusal::bad_parameter("\"seconds\" parameter is not supported for this profile type"));
    }
    let suffix = if seconds.is_some() && view != HeapView::Growth { "-delta" } else { "" };
    let delivery = Delivery::new(rules, &format!("{}{suffix}", view.endpoint()), form);
    let windows = query.number("windows", 1..=MOST_WINDOWS, "")?;
    if windows.is_some() && view != HeapView::Growth {
        return Err(Refusal::bad_parameter("\"windows\" parameter is only supported for growth"));
    }
    match wanted(rules, view, seconds, windows) {
        // Scrapers ask for `allocs` by default and should be content; who asks for another wants to know.
        Err(refusal) if refusal.status == StatusCode::FORBIDDEN && view == HeapView::Allocated => {
            Ok(Asked::Profile(Wanted::Empty(Kind::Allocs), delivery))
        }
        wanted => Ok(Asked::Profile(wanted?, delivery)),
    }
}

/// `/pprof/heap/report` and `/pprof/heap/flamegraph`.
pub(super) fn read_family(rules: &Rules<'_>, query: &Query, form: route::Form) -> Result<Asked, Refusal> {
    let form = Form::of_family(rules, query, form)?;
    let view = HeapView::InUse;
    let delivery = Delivery::new(rules, view.endpoint(), form);
    Ok(Asked::Profile(wanted(rules, view, None, None)?, delivery))
}

fn wanted(
    rules: &Rules<'_>,
    view: HeapView,
    seconds: Option<u64>,
    windows: Option<u64>,
) -> Result<Wanted, Refusal> {
    rules.heap.map_err(Refusal::forbidden)?;
    if view != HeapView::Growth {
        return Ok(Wanted::Heap { view, seconds });
    }
    let seconds = seconds.unwrap_or(GROWTH_SECONDS.min(rules.limits.max_duration.as_secs()));
    Ok(Wanted::Growth { seconds, windows: windows.and_then(|windows| usize::try_from(windows).ok()) })
}

/// `seconds`, where it means the change over so many seconds.
pub(super) fn delta_seconds(rules: &Rules<'_>, query: &Query) -> Result<Option<u64>, Refusal> {
    let most = rules.limits.max_duration.as_secs();
    let seconds = query.number("seconds", 1..=most, " (the cap of this service)")?;
    if seconds.is_some() && query.wants_text()? {
        return Err(Refusal::bad_parameter("seconds and debug params are incompatible"));
    }
    Ok(seconds)
}
