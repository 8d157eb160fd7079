//! Tasks: what async work waits for, for how long, and how its time is spent.
//!
//! A [`Task`] wraps a future and polls it with a waker of its own. The future that cannot continue, deep inside, clones that
//! waker to be woken later: at this moment the stack shows the await with every async function around it. So await
//! points are seen on any executor, without its help.
//!
//! ```text
//!  poll ─► inner poll ─► … ─► clone the waker: unwind, if this poll is sampled
//!   │                                │
//!   ├─ running: CPU + blocked        └─► wake: from awaiting to runnable ─► the executor's own waker
//!   ▼
//!  between polls: awaiting until it is woken, then runnable until it is polled
//! ```
//!
//! All of a task's time is in one of the four parts, which add up to its age. Polls are sampled: all of them where there
//! are few, and one in a power of two where a thread polls so often that unwinding would cost more than a thousandth; each
//! then stands for as many.
//!
//! # Why no wake-up is lost
//!
//! A waker that is handed out points to something that holds one waker of the executor, which never changes: the state of
//! the task holds that of its first poll, and a `Moved` (in `waker`) that of a poll with another one. A later poll
//! uses either only if the executor's waker is still the same (`will_wake`), so whichever waker a future has kept, it wakes
//! what the executor's own would wake.

mod cause;
pub mod long_polls;
mod name;
mod off_cpu;
mod pace;
mod registry;
mod rest;
mod set_once;
mod state;
mod task;
mod waker;

pub use registry::{MOST_TASKS, all, untracked, were_made};
pub use state::{Info, Phase, Times};
pub use task::Task;

use std::sync::OnceLock;

use super::{Delays, Rows};
use crate::{Error, ErrorKind, Result, loaded_modules};

/// The await points: made when the first task is.
static AWAITS: OnceLock<Option<Delays>> = OnceLock::new();

/// Returns the table of await points; `None` if there is no memory for it.
fn awaits() -> Option<&'static Delays> {
    if AWAITS.get().is_none() {
        // Without modules, stacks are short; the next profile learns them.
        let _ = loaded_modules::refresh();
    }
    Delays::in_cell(&AWAITS)
}

/// Returns how long tasks have awaited, by await point. Empty if there was no task yet.
pub fn snapshot() -> Rows {
    AWAITS.get().and_then(Option::as_ref).map(Delays::snapshot).unwrap_or_default()
}

/// Checks that tasks can be watched on this system.
pub fn check() -> Result<()> {
    match awaits() {
        Some(_) => Ok(()),
        None => Err(Error::new(ErrorKind::Denied, "no memory for the table of await points")),
    }
}
