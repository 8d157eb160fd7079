//! The endpoints for heap profiles.

use flamelet_capture::profile::HeapView;
use http::StatusCode;

use super::answer::Refusal;
use super::delivery::{Delivery, Form};
use super::incoming::Incoming;
use super::plan::{Capture, EmptyProfile, Plan};
use super::range;
use super::rules::Rules;

/// The maximum number of windows in which growth is watched.
const MOST_WINDOWS: u64 = 100;

/// How long growth is watched if the request does not say.
const GROWTH_SECONDS: u64 = 10;

/// Returns whether a view can show the change over a period of time.
const fn has_delta(view: HeapView) -> bool {
    matches!(view, HeapView::InUse | HeapView::Allocated | HeapView::Growth)
}

/// `/debug/pprof/heap`, `/debug/pprof/allocs`, and the endpoints that Go does not have.
pub(super) fn plan(request: &Incoming<'_>, view: HeapView) -> Result<Plan, Refusal> {
    let Incoming { rules, query, .. } = request;
    let form = Form::negotiate(request)?;
    let seconds = request.delta_seconds()?;
    if let Some(past) = range::asked(request) {
        range::refuse_with(request, past, &["seconds", "windows"])?;
        let kind = match view {
            HeapView::InUse => "heap",
            HeapView::Allocated => "allocs",
            _ => {
                return Err(Refusal::bad_parameter(
                    "of the memory profiles, a history has only heap and allocs",
                ));
            }
        };
        return range::plan(request, kind, Delivery::of(request, form, None));
    }
    if seconds.is_some() && !has_delta(view) {
        return Err(Refusal::bad_parameter("\"seconds\" parameter is not supported for this profile type"));
    }
    let delivery = Delivery::of(request, form, seconds.filter(|_| view != HeapView::Growth));
    let windows = query.number("windows", 1..=MOST_WINDOWS, "")?;
    if windows.is_some() && view != HeapView::Growth {
        return Err(Refusal::bad_parameter("\"windows\" parameter is only supported for growth"));
    }
    match capture(rules, view, seconds, windows) {
        // Scrapers request `allocs` by default and get an empty profile; clients that request another one get an
        // error.
        Err(refusal) if refusal.status == StatusCode::FORBIDDEN && view == HeapView::Allocated => {
            Ok(Plan::Profile(Capture::Empty(EmptyProfile::Allocs), delivery))
        }
        capture => Ok(Plan::Profile(capture?, delivery)),
    }
}

/// `/pprof/heap/report`.
pub(super) fn plan_report(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    plan_in_use(request, Form::Pprof)
}

/// `/pprof/heap/flamegraph`.
pub(super) fn plan_flamegraph(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    plan_in_use(request, Form::picture(request)?)
}

fn plan_in_use(request: &Incoming<'_>, form: Form) -> Result<Plan, Refusal> {
    let delivery = Delivery::new(request.rules, "heap", form);
    if range::asked(request).is_some() {
        return range::plan(request, "heap", delivery);
    }
    Ok(Plan::Profile(capture(request.rules, HeapView::InUse, None, None)?, delivery))
}

fn capture(
    rules: &Rules<'_>,
    view: HeapView,
    seconds: Option<u64>,
    windows: Option<u64>,
) -> Result<Capture, Refusal> {
    rules.heap.map_err(Refusal::forbidden)?;
    if view != HeapView::Growth {
        return Ok(Capture::Heap { view, seconds });
    }
    let seconds = seconds.unwrap_or(GROWTH_SECONDS.min(rules.limits.max_duration.as_secs()));
    Ok(Capture::Growth { seconds, windows: windows.and_then(|windows| usize::try_from(windows).ok()) })
}
