//! The endpoints, as a handler of plain [`http`] requests and a tower service.
//!
//! With axum, use [`crate::axum::router`]. Without, hand requests to a [`Handler`]:
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
//! Browsers say when a page of another site makes a request (`Sec-Fetch-Site: cross-site`). Such requests are answered
//! with 403, whatever [`Handler::authorize`] would say: a picture, a script or a frame on any page could take profiles
//! here. Links are followed, from a chat for instance, and programs such as curl, pprof and scrapers, which send no
//! such header, are not concerned. A page of your own, a dashboard say, that fetches profiles is served from the same
//! site, or asks through its own server.
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
mod cpu;
mod empty;
mod handler;
mod heap;
mod index;
mod plan;
mod query;
mod route;
mod symbol;
mod text;

#[cfg(feature = "axum")]
pub(crate) use handler::SeenPath;
pub use handler::{Answering, AnsweringService, Handler};
