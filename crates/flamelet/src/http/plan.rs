//! What will be done for a request, once it is allowed to run.
//!
//! ```text
//!  capture: a thread for each request, which mostly waits
//!     └─► make: names, pprof, pictures, one after another in the workshop
//! ```

use std::sync::Arc;

use flamelet_capture::profile::Profile;

use super::answer::{self, Answer, Refusal};
use super::asked::{Asked, Wanted};
use super::delivery::Delivery;
use super::{captures, empty, index, symbol};
use crate::Profiler;
use crate::task::{Cancel, cancelled};
use crate::workshop;

/// Work for a thread of its own.
pub(super) type Work = Box<dyn FnOnce(&Arc<Cancel>) -> Result<Answer, Refusal> + Send>;

/// Work for the workshop, which takes no time but the processor's.
pub(super) type Make<T> = Box<dyn FnOnce() -> Result<T, Refusal> + Send>;

/// What a thread is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// It may take long, so only so many run at once.
    Capture,
    /// It is done in no time.
    Nothing,
}

/// What to do for a request whose parameters are good.
pub(super) enum Plan {
    /// It is answered already.
    Now(Answer),
    /// It needs a thread. `head` is the answer without its body.
    Later { head: Answer, work: Work, cost: Cost },
}

impl Plan {
    pub(super) fn new(profiler: &Profiler, has_viewer: bool, asked: Asked) -> Self {
        match asked {
            Asked::Page { address } => Self::Now(index::page(profiler, &address, has_viewer)),
            Asked::Moved(page) => Self::Now(answer::moved_to(page)),
            Asked::Cmdline => Self::Now(symbol::cmdline()),
            Asked::Names(addresses) => symbol::plan(profiler, addresses),
            Asked::Profile(Wanted::Empty(kind), delivery) => {
                let head = delivery.head();
                let work = Box::new(move |_: &Arc<Cancel>| delivery.answer(&empty::profile(kind)));
                Self::Later { head, work, cost: Cost::Nothing }
            }
            Asked::Profile(wanted, delivery) => Self::deliver(profiler.clone(), wanted, delivery),
        }
    }

    /// Captures, makes a profile and delivers it.
    fn deliver(profiler: Profiler, wanted: Wanted, delivery: Delivery) -> Self {
        let head = delivery.head();
        let work = Box::new(move |cancel: &Arc<Cancel>| {
            let make = captures::take(&profiler, wanted, cancel)?;
            let cancel = cancel.clone();
            workshop::run(move || made(make, &delivery, &cancel))
        });
        Self::Later { head, work, cost: Cost::Capture }
    }
}

fn made(make: Make<Profile>, delivery: &Delivery, cancel: &Cancel) -> Result<Answer, Refusal> {
    let profile = make()?;
    // Nobody is left to draw it for.
    if cancel.is_cancelled() {
        return Err(cancelled().into());
    }
    delivery.answer(&profile)
}
