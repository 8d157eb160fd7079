//! The anatomy of requests: for each route, how long they took and what they spent that time on.
//!
//! ```no_run
//! # async fn home() -> &'static str { "hello" }
//! # fn example(profiler: flamelet::Profiler) -> axum::Router {
//! # #[cfg(feature = "axum")]
//! axum::Router::new()
//!     .route("/", axum::routing::get(home))
//!     .layer(flamelet::axum::layer(&profiler))
//!     .merge(flamelet::axum::router(profiler))
//! # }
//! ```
//!
//! Each request is a [task](mod@crate::tasks) with the labels `route` and `method`, which CPU, heap, lock and await samples
//! carry. Its wall time is the sum of four parts:
//!
//! | part | the request … | its profile |
//! |---|---|---|
//! | `cpu` | is polled, on the CPU | `/debug/pprof/profile` |
//! | `blocked` | is polled, but not on the CPU: it holds up its thread by a lock or a system call, or was preempted | `/debug/pprof/block` for locks, `/debug/pprof/blocked` for polls that took long, by whatever |
//! | `awaiting` | waits to be woken: a timer, a socket, an async lock, other tasks | `/debug/pprof/await` |
//! | `runnable` | was woken, and waits for a thread of the executor | |
//!
//! The samples of these profiles carry the part as the label `part`, next to `route` and `method`.
//!
//! `/debug/pprof/requests` and `flamelet requests URL` print them, for all requests and for the slowest hundredth. A
//! request counts when its response is ready; streaming the body is not part of it. What it does on other threads
//! or in other tasks is `awaiting`. Errors are responses with a status of 500 or more, and handlers that panic. A request that is
//! dropped before it has a response is `cancelled`: its client has gone away, or a timeout around it has ended it.
//!
//! A request with a W3C `traceparent` header also carries `trace_id` and `span_id`, those of the caller's span, on the samples of
//! its CPU time and in the list of tasks: `flamelet top URL --tagfocus trace_id=4bf92f35…` answers for one trace.
//!
//! The number of routes is bounded: requests are counted by the template of the route (`/users/{id}`), never by their
//! path, those without a route together, and after 500 routes all others together. Methods that HTTP does not define are
//! `(other)`.

mod layer;

pub use layer::{Answering, RequestLayer, WatchedService};

use crate::Profiler;

impl Profiler {
    /// Returns what `/debug/pprof/requests` answers: a JSON object with the `routes`, the one that took the most time first.
    pub fn requests_json(&self) -> String {
        self.shared().requests.json()
    }
}
