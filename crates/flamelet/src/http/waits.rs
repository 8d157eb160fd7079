//! The endpoints for profiles of waiting.

use super::answer::{self, Refusal};
#[cfg(target_os = "linux")]
use super::delivery::{Delivery, Form};
use super::empty;
use super::incoming::Incoming;
use super::plan::{EmptyProfile, Plan};
#[cfg(target_os = "linux")]
use super::range;

/// `/debug/pprof/block`.
pub(super) fn plan_block(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    #[cfg(target_os = "linux")]
    if request.rules.locks.is_ok() || range::asked(request).is_some() {
        return plan(request, crate::waits::WaitView::Block);
    }
    empty::plan(request, EmptyProfile::Block)
}

/// `/debug/pprof/mutex`.
pub(super) fn plan_mutex(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    #[cfg(target_os = "linux")]
    if request.rules.locks.is_ok() || range::asked(request).is_some() {
        return plan(request, crate::waits::WaitView::Mutex);
    }
    empty::plan(request, EmptyProfile::Mutex)
}

/// `/debug/pprof/await`.
pub(super) fn plan_await(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    #[cfg(target_os = "linux")]
    if request.rules.has_tasks || range::asked(request).is_some() {
        return plan(request, crate::waits::WaitView::Await);
    }
    empty::plan(request, EmptyProfile::Await)
}

/// `/debug/pprof/blocked`.
pub(super) fn plan_blocked(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    #[cfg(target_os = "linux")]
    if request.rules.has_tasks || range::asked(request).is_some() {
        return plan(request, crate::waits::WaitView::Blocked);
    }
    empty::plan(request, EmptyProfile::Blocked)
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
    let delivery = Delivery::new(rules, request.name, form);
    Ok(Plan::Profile(super::plan::Capture::Wall { seconds, frequency }, delivery))
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

/// `/debug/pprof/goroutine`.
#[cfg(target_os = "linux")]
pub(super) fn plan_tasks(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    let seconds = request.delta_seconds()?;
    if request.query.number("debug", 0..=2, "")? == Some(2) {
        return Ok(Plan::Text(crate::waits::task_text));
    }
    // A difference of two moments makes no sense for what lives: the second one counts, as in Go.
    let suffix = seconds.map_or("", |_| "-delta");
    let delivery =
        Delivery::new(request.rules, &format!("{}{suffix}", request.name), Form::negotiate(request)?);
    // Without tasks, there are still threads.
    Ok(Plan::Profile(super::plan::Capture::Tasks, delivery))
}

/// `/debug/pprof/goroutine`.
#[cfg(not(target_os = "linux"))]
pub(super) fn plan_tasks(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    empty::plan(request, EmptyProfile::Goroutine)
}

/// `/debug/pprof/tasks`.
pub(super) fn plan_task_json(_: &Incoming<'_>) -> Result<Plan, Refusal> {
    #[cfg(target_os = "linux")]
    return Ok(Plan::Json(crate::waits::task_json));
    #[cfg(not(target_os = "linux"))]
    Ok(Plan::Now(|_| answer::inline(answer::JSON, "{\"tasks\": [], \"threads\": []}\n")))
}

/// `/debug/pprof/spans`.
pub(super) fn plan_spans(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    #[cfg(all(feature = "tracing", target_os = "linux"))]
    if request.rules.has_spans {
        let (form, seconds) = (Form::negotiate(request)?, request.delta_seconds()?);
        let suffix = seconds.map_or("", |_| "-delta");
        let delivery = Delivery::new(request.rules, &format!("{}{suffix}", request.name), form);
        return Ok(Plan::Profile(super::plan::Capture::Spans { seconds }, delivery));
    }
    empty::plan(request, EmptyProfile::Spans)
}

/// `/debug/pprof/requests`.
pub(super) fn plan_requests(_: &Incoming<'_>) -> Result<Plan, Refusal> {
    Ok(Plan::Now(|profiler| answer::inline(answer::JSON, profiler.requests_json())))
}

#[cfg(target_os = "linux")]
fn plan(request: &Incoming<'_>, view: crate::waits::WaitView) -> Result<Plan, Refusal> {
    let form = Form::negotiate(request)?;
    let seconds = request.delta_seconds()?;
    if let Some(past) = range::asked(request) {
        range::refuse_with(request, past, &["seconds"])?;
        return range::plan(request, view.name(), Delivery::new(request.rules, request.name, form));
    }
    let suffix = seconds.map_or("", |_| "-delta");
    let delivery = Delivery::new(request.rules, &format!("{}{suffix}", request.name), form);
    Ok(Plan::Profile(super::plan::Capture::Waits { view, seconds }, delivery))
}
