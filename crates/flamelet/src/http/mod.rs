//! The endpoints, as a handler of plain [`http`] requests and a tower service.
//!
//! With axum, use `flamelet::axum::router`. Without, hand requests to a [`Handler`]:
//!
//! ```
//! # async fn example(profiler: flamelet::Profiler) {
//! let handler = flamelet::http::Handler::new(profiler);
//! let request = http::Request::get("/debug/pprof/cmdline").body(Vec::new()).unwrap();
//! let response: http::Response<Vec<u8>> = handler.answer(request).await;
//! # }
//! ```
//!
//! # Endpoints
//!
//! | path | answers |
//! |---|---|
//! | `/debug/pprof/` | a page with links |
//! | `/debug/pprof/profile?seconds=30&frequency=99` | CPU; `?last=60` the minute before, where continuous sampling is on |
//! | `/debug/pprof/heap`, `/debug/pprof/allocs` | heap; `?seconds=N` for what changes meanwhile |
//! | `/debug/pprof/freed`, `lifetime`, `temporary`, `peak` | who frees, how long memory lives, what lives for nothing, the highest moment |
//! | `/debug/pprof/growth?seconds=10&windows=8` | what grows, watched in so many windows (100 at most) |
//! | `/debug/pprof/block`, `mutex`, `goroutine`, `wall` | valid profiles without samples, so that scrapers that ask for them are content |
//! | `/debug/pprof/threadcreate` | the threads that there are, by name |
//! | `/debug/pprof/cmdline`, `/debug/pprof/symbol` | as Go has them |
//! | `/debug/pprof/view/` | the web viewer, with the feature `view` and axum |
//! | `/debug/pprof/trace` | 404 with what to ask for instead: an execution trace is of Go's own scheduler |
//! | `/pprof/profile/report`, `/pprof/profile/flamegraph` | CPU, `seconds=10`, `frequency=200`, `image_width=2500` |
//! | `/pprof/heap/report`, `/pprof/heap/flamegraph` | heap |
//!
//! Profiles are gzipped pprof; with `Accept: text/html` a flame graph as a page, with `image/svg+xml` as a
//! picture; with `debug=1` Go's text form. Errors are text with `X-Go-Pprof: 1`. Without flamelet's allocator the
//! profiles of memory are 403, but for `allocs`, which scrapers ask for by default: that one is empty. Parameters that
//! are not known here are ignored, as Go does it: `gc=1`, and the `interval` that heappy's endpoint had, which is the
//! service's to choose ([`ProfilerBuilder`](crate::ProfilerBuilder)).
//!
//! # Requests of other sites
//!
//! A picture, a script or a frame on any page could take profiles here, by the browser of somebody who can reach the
//! service. Such requests are answered with 403, whatever [`Handler::authorize`] would say:
//!
//! - Browsers say when a page of another site makes a request (`Sec-Fetch-Site: cross-site`), over HTTPS and on loopback.
//!   Links are followed, from a chat for instance.
//! - To plain HTTP off loopback they do not. There, the host and port of `Origin`, or else of `Referer`, must be those of
//!   `Host`, of `X-Forwarded-Host` (for a proxy in front) or of [`Handler::hosts`]. A link on another page of plain HTTP is
//!   refused too, since it cannot be told from a picture; from HTTPS, browsers send no `Referer` there.
//! - A page that hides where it comes from (`referrerpolicy="no-referrer"`) cannot be told from curl. What it sets off is
//!   blind: every answer carries `Cross-Origin-Resource-Policy: same-origin`, `nosniff` and `frame-ancestors 'none'`, so
//!   browsers do not let the page see it. And it is capped, as for everybody: so many captures at once
//!   ([`max_captures`](crate::ProfilerBuilder::max_captures)), so long, and with so much of the CPU time
//!   (`overhead_budget`). Where that is too much, use [`Handler::authorize`].
//!
//! Programs such as curl, pprof and scrapers send none of these headers and are not concerned. A page of your own, a
//! dashboard say, that fetches profiles is served from the same origin, or asks through its own server.
//!
//! # Memory
//!
//! What the endpoints take of the service's memory is bounded: the samples of captures
//! ([`memory_budget`](crate::ProfilerBuilder), 64 MiB for all of them), names
//! ([`symbol_memory`](crate::ProfilerBuilder::symbol_memory), 64 MiB), answers that wait for slow clients
//! ([`max_unread`](crate::ProfilerBuilder::max_unread), 32 MiB) and the web viewer (`view_memory`, 64 MiB). Profiles are
//! made one after another, on one thread, so that the memory for that is used again and not kept by the heap of each
//! capture's thread.
//!
//! # As a user, your responsibilities are
//!
//! - to serve this only where you would serve a debugger: on loopback, on an internal port, or behind
//!   [`Handler::authorize`]; where browsers reach it, with [`Handler::hosts`];
//! - to drop the future when the client hangs up (hyper and axum do), which ends its capture;
//! - not to wait for a capture when the service is to end: a graceful shutdown needs an end of its own.

mod accept;
mod address;
mod answer;
mod captures;
mod cpu;
mod delivery;
mod empty;
mod endpoints;
mod fuzz;
mod handler;
mod heap;
mod incoming;
mod index;
mod job;
mod plan;
mod query;
mod rules;
mod sites;
mod symbol;
mod text;

#[cfg(feature = "view")]
pub(crate) use answer::hide_from_other_sites;
#[cfg(feature = "axum")]
pub(crate) use endpoints::beside_go;
#[doc(hidden)]
pub use fuzz::fuzz_request;
pub(crate) use handler::SeenPath;
pub use handler::{Answering, AnsweringService, Handler};
