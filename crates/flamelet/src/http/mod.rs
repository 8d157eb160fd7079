//! The endpoints, as a handler of plain [`http`] requests and a tower service.
//!
//! With axum, use `flamelet::axum::router`. For a port of their own, `flamelet::serve` needs one line and no HTTP
//! server. Inside any other server, pass requests to a [`Handler`]:
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
//! | `/debug/pprof/profile?seconds=30&frequency=99` | CPU; with `?last=60` the last minute, if continuous sampling is on; with `?from=-2h&to=-1h` any range, if there is a history (also of `heap`, `allocs`, `block`, `mutex`, `await` and `blocked`) |
//! | `/debug/pprof/heap`, `/debug/pprof/allocs` | heap; `?seconds=N` for what changes in that time |
//! | `/debug/pprof/freed`, `lifetime`, `temporary`, `peak` | which code frees memory, how long memory lives, short-lived allocations, the heap at its peak |
//! | `/debug/pprof/growth?seconds=10&windows=8` | what grows, measured in this many windows (100 at most) |
//! | `/debug/pprof/block` | where threads wait for locks, channels and other threads, and for how long; `?seconds=N` for that time only |
//! | `/debug/pprof/mutex` | where locks are released that others wait for |
//! | `/debug/pprof/goroutine` | the live [tasks](mod@crate::tasks), by where they await, and the threads beside them (label `thread`); `debug=2` as text with names and times |
//! | `/debug/pprof/tasks` | the same as JSON: each task with its name, labels, state, times and stacks, the longest wait first; and each thread. With `?id=N`, the one task |
//! | `/debug/pprof/await` | where tasks await, and for how long; `?seconds=N` for that time only |
//! | `/debug/pprof/requests` | JSON: how long the requests of each route took, and what they spent it on, see [`mod@crate::requests`] |
//! | `/debug/pprof/blocked` | which tasks hold up the executor with polls longer than 10 ms, where, and why |
//! | `/debug/pprof/wall?seconds=10&frequency=20` | where all threads are, running or not, without idle ones |
//! | `/debug/pprof/spans` | how long `tracing` spans were busy and idle, with the feature `tracing` and the layer `flamelet::spans`; `?seconds=N` for that time only |
//! | `/debug/pprof/threadcreate` | the threads of the process, by name |
//! | `/debug/pprof/cmdline`, `/debug/pprof/symbol` | as in Go |
//! | `/debug/pprof/view/` | the web viewer, with the feature `view` and axum |
//! | `/debug/pprof/trace` | 404 with an alternative: an execution trace exists only for Go's scheduler |
//! | `/pprof/profile/report`, `/pprof/profile/flamegraph` | CPU, `seconds=10`, `frequency=200`, `image_width=2500` |
//! | `/pprof/heap/report`, `/pprof/heap/flamegraph` | heap |
//! | `/querier.v1.QuerierService/ProfileTypes`, `LabelNames`, `LabelValues`, `Series`, `SelectSeries`, `SelectHeatmap`, `SelectMergeStacktraces`, `SelectMergeSpanProfile`, `SelectMergeProfile`, `Diff`, `GetProfileStats` | with a history: Pyroscope's query calls (POST; JSON or protobuf), so that Grafana's Pyroscope data source can point at the service |
//! | `/pyroscope/render`, `/pyroscope/render-diff` | with a history: Pyroscope's flame graphs as JSON |
//!
//! Profiles are gzipped pprof; with `Accept: text/html` a flame graph as a page, with `image/svg+xml` as a picture;
//! with `debug=1` Go's text form. Errors are text with `X-Go-Pprof: 1`. Without flamelet's allocator, requests for
//! memory profiles get 403, except `allocs`, which scrapers request by default: that profile is empty. So are `block` and
//! `mutex` without [`lock_profiling!`](crate::lock_profiling). Unknown
//! parameters are ignored, as in Go. That includes `gc=1`, and heappy's `interval`: the service sets the sampling
//! interval ([`ProfilerBuilder`](crate::ProfilerBuilder)), not a request.
//!
//! # Requests of other sites
//!
//! A picture, a script or a frame on any web page could start captures through the browser of a user who can reach
//! the service. Such requests are answered with 403, whatever [`Handler::authorize`] would return:
//!
//! - Browsers mark requests that a page of another site makes (`Sec-Fetch-Site: cross-site`), over HTTPS and on
//!   loopback. Links, from a chat for instance, still work.
//! - Over plain HTTP to any address but loopback, browsers do not mark them. There, the host and port of `Origin`, or
//!   else of `Referer`, must be those of `Host`, of `X-Forwarded-Host` (for a proxy in front) or of
//!   [`Handler::hosts`]. A link on another plain HTTP page is refused too, since it cannot be distinguished from a picture;
//!   from HTTPS pages, browsers send no `Referer` there.
//! - A page that hides its origin (`referrerpolicy="no-referrer"`) cannot be distinguished from curl. It can start a capture
//!   but not see the result: every answer carries `Cross-Origin-Resource-Policy: same-origin`, `nosniff` and
//!   `frame-ancestors 'none'`, so browsers keep it from the page. The same caps apply as to all clients: on the
//!   number of captures at once ([`max_captures`](crate::ProfilerBuilder::max_captures)), on their duration, and on
//!   their CPU time (`overhead_budget`). Where that is too much, use [`Handler::authorize`].
//!
//! Programs such as curl, pprof and scrapers send none of these headers and are not affected. A page of your own,
//! such as a dashboard, that fetches profiles must be served from the same origin, or fetch them through its own
//! server.
//!
//! # Memory
//!
//! The memory that the endpoints use in the service is bounded: the samples of captures
//! ([`memory_budget`](crate::ProfilerBuilder), 64 MiB for all of them), names
//! ([`symbol_memory`](crate::ProfilerBuilder::symbol_memory), 64 MiB), answers that wait for slow clients
//! ([`max_unread`](crate::ProfilerBuilder::max_unread), 32 MiB) and the web viewer (`view_memory`, 64 MiB). Profiles
//! are made one after another, on one thread, so that the memory for that is reused instead of being kept by the heap
//! of each capture's thread.
//!
//! # Your responsibilities
//!
//! - Serve the endpoints only where you would serve a debugger: on loopback, on an internal port, or behind
//!   [`Handler::authorize`]; where browsers can reach them, with [`Handler::hosts`].
//! - Drop the future when the client hangs up (hyper and axum do), which ends its capture.
//! - Do not let a shutdown wait for a capture: call [`Profiler::shutdown`](crate::Profiler::shutdown) when it begins.

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
#[cfg(feature = "history")]
mod past;
mod plan;
#[cfg(feature = "history")]
mod querier;
mod query;
mod range;
mod rules;
mod sites;
mod symbol;
mod text;
mod waits;

#[cfg(feature = "view")]
pub(crate) use answer::hide_from_other_sites;
pub(crate) use answer::refusal;
#[cfg(feature = "axum")]
pub(crate) use endpoints::beside_go;
#[doc(hidden)]
pub use fuzz::fuzz_request;
pub use handler::{Answering, AnsweringService, Handler};
pub(crate) use handler::{MAX_BODY, SeenPath};
