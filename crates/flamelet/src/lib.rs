//! A profiler for Rust services.
//!
//! Add a few lines, and from then on anyone who can reach the running service can ask it where its CPU time and its
//! memory go, with `go tool pprof`, a browser, a scraper, `curl` or the `flamelet` command; in a container, without
//! any privileges.
//!
//! ```no_run
//! # #[cfg(all(feature = "axum", feature = "heap"))]
//! # mod service {
//! flamelet::global_allocator!(); // or (jemalloc), (mimalloc); heap profiling
//!
//! # async fn home() -> &'static str { "hello" }
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let profiler = flamelet::Profiler::builder().name("checkout").start()?;
//!     let app = axum::Router::new()
//!         .route("/", axum::routing::get(home))
//!         .merge(flamelet::axum::router(profiler.clone()));
//!     axum::serve(tokio::net::TcpListener::bind("127.0.0.1:3000").await?, app).await?;
//!     Ok(())
//! }
//! # }
//! ```
//!
//! and then
//!
//! ```text
//! go tool pprof 'http://127.0.0.1:3000/debug/pprof/profile?seconds=10'
//! ```
//!
//! | to … | use |
//! |---|---|
//! | profile for a set time, or between two points in the code | [`Profiler::cpu`], [`Profiler::start`] |
//! | find out which code holds memory | [`global_allocator!`], [`Profiler::heap`], [`mod@heap`] |
//! | find out which locks the service waits for | [`lock_profiling!`], [`mod@locks`] |
//! | find out what async code awaits, and what requests spend their time on | [`task`](fn@task), [`mod@tasks`], [`mod@requests`] |
//! | sample threads from their first instruction | [`thread_sampling!`], [`mod@threads`] |
//! | serve profiles over HTTP | [`serve`](fn@serve) for a port of their own, [`axum::router`], or [`http::Handler`] for other servers |
//! | keep the past on disk and get any range of it | [`ProfilerBuilder::history`], `Profiler::range` |
//! | write a profile every two minutes | [`setup_profiling`], [`IntervalFiles`] |
//! | label samples with what a thread or a future works on | [`labels!`], [`mod@labels`] |
//! | see profiles by `tracing` span, or of one trace | `flamelet::spans`, `TraceIds` |
//! | find out what the profiler itself costs | [`Profiler::metrics`] |
//!
//! # Features
//!
//! `cpu`, `heap` and `axum` are on by default. All features are additive; the optional ones:
//!
//! | feature | adds |
//! |---|---|
//! | `jemalloc`, `mimalloc` | these allocators, for [`global_allocator!`] |
//! | `jemalloc-for-c` | the same as `jemalloc`, and C code allocates from it too |
//! | `http` | the endpoints without axum |
//! | `tokio` | `flamelet::spawn`, `spawn_blocking` and `JoinSet` |
//! | `tracing` | spans in profiles |
//! | `view` | the web viewer inside the service |
//! | `continuous` | sampling all the time, so that a profile of the last minute is available at once |
//! | `history` | the past on disk, which survives restarts |
//! | `push`, `push-tls` | sending the history to Pyroscope, Parca or OTLP, also over https |
//! | `otel-context` | what threads work on, for OpenTelemetry's profiler outside the process |
//!
//! # Other systems
//!
//! Profiles are taken on Linux only. On macOS and Windows the same program builds, but starting a capture returns an
//! error. The builder's heap options have no effect there, and [`Profiler::heap`] always fails; [`global_allocator!`] and
//! `Alloc` install the chosen allocator, without profiles. Only the contents of [`mod@heap`] do not exist there: use them
//! under `cfg(target_os = "linux")`.

// Elsewhere nothing is captured, so parts that only captures use have no caller.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

#[cfg(feature = "heap")]
pub mod allocators;
#[cfg(feature = "http")]
mod anatomy;
#[cfg(feature = "axum")]
pub mod axum;
#[cfg(all(feature = "tracing", target_os = "linux"))]
mod blocked_events;
#[cfg(feature = "cpu")]
mod files;
#[cfg(all(feature = "heap", target_os = "linux"))]
pub mod heap;
#[cfg(all(feature = "heap", not(target_os = "linux")))]
mod heap_elsewhere;
#[cfg(all(feature = "heap", target_os = "linux"))]
mod heap_sampling;
#[cfg(feature = "history")]
mod history;
#[cfg(feature = "http")]
pub mod http;
pub mod labels;
#[cfg(any(feature = "cpu", feature = "heap", feature = "http"))]
pub mod locks;
#[cfg(feature = "otel-context")]
mod otel_context;
#[cfg(any(feature = "cpu", feature = "heap", feature = "http"))]
mod profiler;
#[cfg(feature = "push")]
mod push;
#[cfg(feature = "http")]
pub mod requests;
#[cfg(feature = "http")]
pub mod serve;
#[cfg(feature = "tracing")]
pub mod spans;
#[cfg(any(feature = "cpu", feature = "heap", feature = "http"))]
mod symbols;
#[cfg(any(feature = "cpu", feature = "heap", feature = "http"))]
pub mod tasks;
#[cfg(feature = "cpu")]
pub mod threads;
#[cfg(any(feature = "http", feature = "tracing"))]
mod trace_ids;
#[cfg(feature = "view")]
mod view;
#[cfg(all(any(feature = "cpu", feature = "heap", feature = "http"), target_os = "linux"))]
mod waits;
mod work;

#[cfg(feature = "cpu")]
pub use files::{DetachedFiles, IntervalFiles, IntervalFilesBuilder, setup_profiling};
#[cfg(feature = "heap")]
pub use flamelet_capture::Alloc;
#[cfg(feature = "cpu")]
pub use flamelet_capture::cpu::Engine;
pub use flamelet_capture::profile::Profile;
pub use flamelet_capture::profile::pprof::write_gzip as write_pprof;
#[cfg(any(feature = "cpu", feature = "heap", feature = "http"))]
pub use flamelet_capture::profile::{Error, ErrorKind, Result};
#[cfg(all(feature = "heap", target_os = "linux"))]
pub use heap::HeapSnapshot;
#[cfg(all(feature = "heap", not(target_os = "linux")))]
pub use heap_elsewhere::HeapSnapshot;
#[cfg(feature = "history")]
pub use history::History;
#[cfg(feature = "continuous")]
pub use profiler::Continuous;
#[cfg(feature = "cpu")]
pub use profiler::{CpuCapture, CpuRequest, CpuTask};
#[cfg(any(feature = "cpu", feature = "heap", feature = "http"))]
pub use profiler::{Limits, Metrics, Profiler, ProfilerBuilder};
#[cfg(feature = "push")]
pub use push::Push;
#[cfg(feature = "http")]
pub use serve::{Server, serve};
#[cfg(any(feature = "cpu", feature = "heap", feature = "http"))]
pub use tasks::task;
#[cfg(feature = "tokio")]
pub use tasks::{JoinSet, spawn, spawn_blocking, spawn_local, spawn_named};
#[cfg(any(feature = "http", feature = "tracing"))]
pub use trace_ids::TraceIds;

/// Compiles the code that the documents show.
#[cfg(all(doctest, feature = "axum", feature = "cpu", feature = "heap", target_os = "linux"))]
mod documents {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/coming-from.md")]
    mod coming_from {}
    #[doc = include_str!("../../../docs/continuous.md")]
    mod continuous {}
    #[doc = include_str!("../../../docs/memory.md")]
    mod memory {}
    #[doc = include_str!("../../../docs/recipes.md")]
    mod recipes {}
    #[doc = include_str!("../../../docs/waiting.md")]
    mod waiting {}
}
