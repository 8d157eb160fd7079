//! Tasks: async work whose awaits are watched.
//!
//! ```
//! # async fn refill() {}
//! // On any executor: a future that is watched.
//! let work = flamelet::task("refill", refill());
//! # drop(work);
//! ```
//!
//! `/debug/pprof/goroutine` lists the live tasks, by where they await; with `debug=2` as text, each with its name, its
//! age and for how long it has awaited. `/debug/pprof/await` says where tasks awaited, and for how long. Neither
//! needs `tokio_unstable` or a change of the code inside the task.
//!
//! The layer of `flamelet::requests` makes tasks of requests; with the feature `tokio`, `flamelet::spawn`,
//! `flamelet::spawn_blocking` and `flamelet::JoinSet` take the place of tokio's.
//!
//! A future that polls others with a waker of its own, such as `FuturesUnordered`, is seen up to there; wrap the
//! futures that it polls to see further.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(feature = "tokio")]
mod on_tokio;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::Task;
#[cfg(target_os = "linux")]
pub use flamelet_capture::wait::tasks::{Info, Phase, Task, Times, all};
#[cfg(feature = "tokio")]
pub use on_tokio::{JoinSet, spawn, spawn_blocking, spawn_local, spawn_named};

use flamelet_capture::labels::LabelSet;

/// Returns `future` as a task called `name`: where it awaits is in `/debug/pprof/goroutine` and `/debug/pprof/await`, and
/// its samples carry the label `task`, in addition to the labels of the thread that calls this.
///
/// A task adds about 30 ns to each poll.
pub fn task<F: Future>(name: impl AsRef<str>, future: F) -> Task<F> {
    let name = name.as_ref();
    Task::new(name, LabelSet::current_with("task", name), future)
}
