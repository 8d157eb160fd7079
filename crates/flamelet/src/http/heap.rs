//! The heap over HTTP.

use http::HeaderMap;

use super::answer::Refusal;
use super::empty::{self, Kind};
use super::plan::{Delivery, Form, Plan};
use super::query::Query;
use super::route::{self, HeapView};
use crate::Profiler;

/// `/debug/pprof/heap`, `/debug/pprof/allocs` and what goes beyond Go.
pub(super) fn plan(
    profiler: &Profiler,
    query: &Query,
    headers: &HeaderMap,
    view: HeapView,
) -> Result<Plan, Refusal> {
    let form = Form::negotiate(query, headers)?;
    let seconds = delta_seconds(profiler, query)?;
    if seconds.is_some() && !view.has_delta() {
        return Err(Refusal::bad_parameter("\"seconds\" parameter is not supported for this profile type"));
    }
    let suffix = if seconds.is_some() && view != HeapView::Growth { "-delta" } else { "" };
    let name = format!("{}{suffix}", view.name());
    let delivery = Delivery { title: format!("{} · {name}", profiler.name()), name, form };
    let windows = query.number("windows", 1..=MOST_WINDOWS, "")?;
    if windows.is_some() && view != HeapView::Growth {
        return Err(Refusal::bad_parameter("\"windows\" parameter is only supported for growth"));
    }
    let span = Span { seconds, windows };
    match enabled::plan(profiler, view, span, delivery.clone()) {
        // Scrapers ask for `allocs` by default and should be content; who asks for another wants to know.
        Err(refusal) if refusal.status == http::StatusCode::FORBIDDEN && view == HeapView::Allocated => {
            Ok(Plan::deliver_at_once(delivery, || empty::profile(Kind::Allocs)))
        }
        plan => plan,
    }
}

/// `/pprof/heap/report` and `/pprof/heap/flamegraph`.
pub(super) fn family(profiler: &Profiler, query: &Query, form: route::Form) -> Result<Plan, Refusal> {
    let form = match form {
        route::Form::Report => Form::Pprof,
        route::Form::Flamegraph => Form::flamegraph(query, profiler.limits().max_image_width)?,
    };
    let view = HeapView::InUse;
    let delivery =
        Delivery { name: view.name().into(), title: format!("{} · {}", profiler.name(), view.name()), form };
    enabled::plan(profiler, view, Span::default(), delivery)
}

/// The most windows in which growth is watched.
const MOST_WINDOWS: u64 = 100;

/// How long, and in how many parts.
#[cfg_attr(not(all(feature = "heap", target_os = "linux")), allow(dead_code, reason = "it is only checked"))]
#[derive(Clone, Copy, Default)]
struct Span {
    seconds: Option<u64>,
    windows: Option<u64>,
}

/// `seconds`, where it means the change over so many seconds.
pub(super) fn delta_seconds(profiler: &Profiler, query: &Query) -> Result<Option<u64>, Refusal> {
    let most = profiler.limits().max_duration.as_secs();
    let seconds = query.number("seconds", 1..=most, " (the cap of this service)")?;
    if seconds.is_some() && query.wants_text()? {
        return Err(Refusal::bad_parameter("seconds and debug params are incompatible"));
    }
    Ok(seconds)
}

#[cfg(all(feature = "heap", target_os = "linux"))]
mod enabled {
    use std::time::Duration;

    use flamelet_capture::profile::Profile;

    use super::*;
    use crate::heap::{DEFAULT_WINDOWS, HeapSnapshot, not_enabled};
    use crate::profiler::count;
    use crate::task::Cancel;

    /// How long growth is watched where the request does not say.
    const GROWTH_SECONDS: u64 = 10;

    pub(super) fn plan(
        profiler: &Profiler,
        view: HeapView,
        span: Span,
        delivery: Delivery,
    ) -> Result<Plan, Refusal> {
        if !profiler.shared().has_heap {
            return Err(Refusal::forbidden(not_enabled()));
        }
        let most = profiler.limits().max_duration.as_secs();
        let profiler = profiler.clone();
        if view == HeapView::Growth {
            let time = Duration::from_secs(span.seconds.unwrap_or(GROWTH_SECONDS.min(most)));
            let windows = span.windows.map_or(DEFAULT_WINDOWS, |windows| windows as usize);
            return Ok(Plan::deliver(delivery, move |cancel| {
                Ok(profiler.watch_growth(time, windows, |time| wait(&profiler, cancel, time))?)
            }));
        }
        Ok(Plan::deliver(delivery, move |cancel| profile(&profiler, view, span.seconds, cancel)))
    }

    fn profile(
        profiler: &Profiler,
        view: HeapView,
        seconds: Option<u64>,
        cancel: &Cancel,
    ) -> Result<Profile, Refusal> {
        let first = profiler.heap()?;
        let Some(seconds) = seconds else { return Ok(view.of(&first)) };
        wait(profiler, cancel, Duration::from_secs(seconds))?;
        let second = profiler.heap()?;
        Ok(match view {
            HeapView::Allocated => second.allocated_since(&first),
            _ => second.since(&first),
        })
    }

    /// Waits, and counts the capture as cancelled when nobody waits for it any more.
    fn wait(profiler: &Profiler, cancel: &Cancel, time: Duration) -> crate::Result<()> {
        cancel.sleep(time).inspect_err(|_| count(&profiler.shared().counters.cancelled))
    }

    impl HeapView {
        /// The profile of one moment.
        fn of(self, heap: &HeapSnapshot) -> Profile {
            match self {
                Self::Allocated => heap.allocated(),
                Self::Freed => heap.freed(),
                Self::Lifetime => heap.lifetime(),
                Self::Temporary => heap.temporary(),
                Self::Peak => heap.peak(),
                Self::InUse | Self::Growth => heap.in_use(),
            }
        }
    }
}

#[cfg(not(all(feature = "heap", target_os = "linux")))]
mod enabled {
    use super::*;

    pub(super) fn plan(_: &Profiler, _: HeapView, _: Span, _: Delivery) -> Result<Plan, Refusal> {
        Err(Refusal::forbidden(
            "heap profiling is not compiled into this service (feature `heap` of flamelet, on Linux)",
        ))
    }
}
