//! Executes a plan.
//!
//! ```text
//!  capture: a thread for each request, which mostly waits
//!     └─► make: names, pprof, pictures, one after another in the workshop
//! ```

use std::sync::Arc;

use flamelet_capture::profile::Profile;
#[cfg(target_os = "linux")]
use http::StatusCode;

use super::answer::{self, Answer, Refusal};
use super::captures::Make;
use super::delivery::Delivery;
use super::plan::{Capture, Plan};
use super::{captures, empty, index, symbol};
use crate::Profiler;
use crate::work::background::{Cancel, cancelled};
use crate::work::workshop;

/// Work that runs on its own thread.
pub(super) type Work = Box<dyn FnOnce(&Arc<Cancel>) -> Result<Answer, Refusal> + Send>;

/// How expensive a thread's work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkCost {
    /// It may take long, so the number that run at once is limited.
    Capture,
    /// It takes next to no time.
    Nothing,
}

/// A plan that is being executed.
pub(super) enum Job {
    /// The answer is ready.
    Done(Answer),
    /// The answer needs a thread. `head` is the answer without its body.
    Thread { head: Answer, work: Work, cost: WorkCost },
}

impl Job {
    pub(super) fn new(profiler: &Profiler, has_viewer: bool, plan: Plan) -> Self {
        match plan {
            Plan::Page { address } => Self::Done(index::page(profiler, &address, has_viewer)),
            Plan::Moved(page) => Self::Done(answer::moved_to(page)),
            Plan::Now(answer) => Self::Done(answer(profiler)),
            Plan::Text(write) => Self::text(profiler.clone(), answer::TEXT, write),
            Plan::Json(write) => Self::text(profiler.clone(), answer::JSON, write),
            #[cfg(target_os = "linux")]
            Plan::Task(id) => Self::task(profiler.clone(), id),
            Plan::Names(addresses) => Self::name(profiler.clone(), addresses),
            Plan::Profile(Capture::Empty(kind), delivery) => {
                let head = delivery.head();
                let work = Box::new(move |_: &Arc<Cancel>| delivery.answer(&empty::profile(kind)));
                Self::Thread { head, work, cost: WorkCost::Nothing }
            }
            Plan::Profile(capture, delivery) => Self::deliver(profiler.clone(), capture, delivery),
            #[cfg(feature = "history")]
            Plan::Query(question) => Self::query(profiler.clone(), question),
        }
    }

    #[cfg(feature = "history")]
    fn query(profiler: Profiler, question: super::plan::PastQuestion) -> Self {
        let work =
            Box::new(move |_: &Arc<Cancel>| workshop::run(move || super::past::answer(&profiler, question)));
        Self::Thread { head: answer::inline("application/json", ""), work, cost: WorkCost::Capture }
    }

    fn name(profiler: Profiler, addresses: Vec<u64>) -> Self {
        let head = answer::inline(answer::TEXT, symbol::HEADING);
        if addresses.is_empty() {
            return Self::Done(head);
        }
        let work = Box::new(move |_: &Arc<Cancel>| {
            let names = workshop::run(move || symbol::names(&profiler, &addresses));
            Ok(answer::inline(answer::TEXT, names))
        });
        Self::Thread { head, work, cost: WorkCost::Capture }
    }

    fn text(profiler: Profiler, content_type: &'static str, write: fn(&Profiler) -> String) -> Self {
        let head = answer::inline(content_type, "");
        let work = Box::new(move |_: &Arc<Cancel>| {
            Ok(answer::inline(content_type, workshop::run(move || write(&profiler))))
        });
        Self::Thread { head, work, cost: WorkCost::Capture }
    }

    #[cfg(target_os = "linux")]
    fn task(profiler: Profiler, id: u64) -> Self {
        let work = Box::new(move |_: &Arc<Cancel>| {
            let json = workshop::run(move || crate::waits::one_task_json(&profiler, id));
            json.map(|json| answer::inline(answer::JSON, json))
                .ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, format!("no live task has the id {id}")))
        });
        Self::Thread { head: answer::inline(answer::JSON, ""), work, cost: WorkCost::Capture }
    }

    /// Captures, makes a profile and delivers it.
    fn deliver(profiler: Profiler, capture: Capture, delivery: Delivery) -> Self {
        let head = delivery.head();
        let work = Box::new(move |cancel: &Arc<Cancel>| {
            let make = captures::take(&profiler, capture, cancel)?;
            let cancel = cancel.clone();
            workshop::run(move || made(make, &delivery, &cancel))
        });
        Self::Thread { head, work, cost: WorkCost::Capture }
    }
}

fn made(make: Make<Profile>, delivery: &Delivery, cancel: &Cancel) -> Result<Answer, Refusal> {
    let profile = make()?;
    // The client is gone: do not draw anything.
    if cancel.is_cancelled() {
        return Err(cancelled().into());
    }
    delivery.answer(&profile)
}
