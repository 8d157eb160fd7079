//! The endpoints for profiles of waiting.

use super::answer::{self, Refusal};
#[cfg(target_os = "linux")]
use super::delivery::{Delivery, Form};
use super::empty;
use super::incoming::Incoming;
#[cfg(target_os = "linux")]
use super::plan::Capture;
use super::plan::{EmptyProfile, Plan};
#[cfg(target_os = "linux")]
use super::range;
#[cfg(target_os = "linux")]
use crate::waits::WaitView;

/// `/debug/pprof/block`, `mutex`, `await` and `blocked`: what was counted, or an empty profile where nothing is.
pub(super) fn plan(request: &Incoming<'_>, kind: EmptyProfile) -> Result<Plan, Refusal> {
    #[cfg(target_os = "linux")]
    if let Some(view) = view_of(request, kind) {
        let (form, seconds) = (Form::negotiate(request)?, request.delta_seconds()?);
        if let Some(past) = range::asked(request) {
            range::refuse_with(request, past, &["seconds"])?;
            return range::plan(request, view.name(), Delivery::of(request, form, None));
        }
        return Ok(Plan::Profile(Capture::Waits { view, seconds }, Delivery::of(request, form, seconds)));
    }
    empty::plan(request, kind)
}

/// Returns the view that shows these waits, if they are counted here or if the request is about the past.
#[cfg(target_os = "linux")]
fn view_of(request: &Incoming<'_>, kind: EmptyProfile) -> Option<WaitView> {
    let (view, is_counted) = match kind {
        EmptyProfile::Block => (WaitView::Block, request.rules.locks.is_ok()),
        EmptyProfile::Mutex => (WaitView::Mutex, request.rules.locks.is_ok()),
        EmptyProfile::Await => (WaitView::Await, request.rules.has_tasks),
        EmptyProfile::Blocked => (WaitView::Blocked, request.rules.has_tasks),
        _ => return None,
    };
    (is_counted || range::asked(request).is_some()).then_some(view)
}

/// `/debug/pprof/wall`.
#[cfg(target_os = "linux")]
pub(super) fn plan_wall(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    let Incoming { rules, query, .. } = request;
    let form = Form::negotiate(request)?;
    let most = rules.limits.max_duration.as_secs();
    let seconds =
        query.number("seconds", 1..=most, " (the limit of this service)")?.unwrap_or(WALL_SECONDS.min(most));
    let most = MOST_LOOKS.min(u64::from(rules.limits.max_frequency));
    let frequency = query.number("frequency", 1..=most, " Hz (the limit of this service)")?;
    let frequency = frequency.and_then(|frequency| u32::try_from(frequency).ok());
    let frequency = frequency.unwrap_or(crate::waits::WALL_FREQUENCY.min(rules.limits.max_frequency));
    Ok(Plan::Profile(Capture::Wall { seconds, frequency }, Delivery::of(request, form, None)))
}

/// How long threads are looked at if the request does not say.
#[cfg(target_os = "linux")]
const WALL_SECONDS: u64 = 10;

/// How often in a second they may be looked at.
#[cfg(target_os = "linux")]
const MOST_LOOKS: u64 = 100;

/// `/debug/pprof/wall`.
#[cfg(not(target_os = "linux"))]
pub(super) fn plan_wall(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    empty::plan(request, EmptyProfile::Wall)
}

/// More tasks than any process makes.
#[cfg(target_os = "linux")]
const LARGEST_ID: u64 = 1_000_000_000_000;

/// `/debug/pprof/goroutine`.
#[cfg(target_os = "linux")]
pub(super) fn plan_tasks(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    let seconds = request.delta_seconds()?;
    if request.query.number("debug", 0..=2, "")? == Some(2) {
        return Ok(Plan::Text(crate::waits::task_text));
    }
    // A difference of two moments makes no sense for what lives: the second one counts, as in Go.
    let delivery = Delivery::of(request, Form::negotiate(request)?, seconds);
    // Without tasks, there are still threads.
    Ok(Plan::Profile(Capture::Tasks, delivery))
}

/// `/debug/pprof/goroutine`.
#[cfg(not(target_os = "linux"))]
pub(super) fn plan_tasks(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    empty::plan(request, EmptyProfile::Goroutine)
}

/// `/debug/pprof/tasks`, all or the one with `id`.
#[cfg_attr(not(target_os = "linux"), allow(unused_variables, reason = "nothing is watched there"))]
pub(super) fn plan_task_json(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    #[cfg(target_os = "linux")]
    return Ok(match request.query.number("id", 1..=LARGEST_ID, "")? {
        Some(id) => Plan::Task(id),
        None => Plan::Json(crate::waits::task_json),
    });
    #[cfg(not(target_os = "linux"))]
    Ok(Plan::Now(|_| answer::inline(answer::JSON, "{\"tasks\": [], \"threads\": []}\n")))
}

/// `/debug/pprof/spans`.
pub(super) fn plan_spans(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    #[cfg(all(feature = "tracing", target_os = "linux"))]
    if request.rules.has_spans {
        let (form, seconds) = (Form::negotiate(request)?, request.delta_seconds()?);
        return Ok(Plan::Profile(Capture::Spans { seconds }, Delivery::of(request, form, seconds)));
    }
    empty::plan(request, EmptyProfile::Spans)
}

/// `/debug/pprof/requests`.
pub(super) fn plan_requests(_: &Incoming<'_>) -> Result<Plan, Refusal> {
    Ok(Plan::Now(|profiler| answer::inline(answer::JSON, profiler.requests_json())))
}
