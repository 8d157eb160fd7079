//! A profiler for Rust services.
//!
//! Add a few lines, and from then on anyone can ask the running service where its CPU time and its memory go,
//! with `go tool pprof`, a browser, a scraper, `curl` or the `flamelet` command; in a container, without any
//! privilege.
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
//! | profile a while, or from here to there | [`Profiler::cpu`], [`Profiler::start`] |
//! | know who holds memory | [`global_allocator!`], [`Profiler::heap`], [`mod@heap`] |
//! | let others ask over HTTP | [`axum::router`], or [`http::Handler`] without axum |
//! | write a profile every two minutes | [`setup_profiling`], [`IntervalFiles`] |
//! | say what a thread or a future works on | [`labels!`], [`mod@labels`] |
//! | know what the profiler itself costs | [`Profiler::metrics`] |
//!
//! # Features
//!
//! `cpu`, `heap` and `axum` are on by default. To be chosen: `jemalloc`, `mimalloc` (allocators to wrap),
//! `http` (the endpoints without axum), `view` (the web viewer inside the service), `continuous` (always-on
//! sampling, so that the minute before can be asked for). All are additive.
//!
//! # Other systems
//!
//! Profiles are taken on Linux. On macOS and Windows the same program builds and says that there are none: what the
//! builder is told about the heap has no effect there, and [`Profiler::heap`] is an error. Only what stands in
//! [`mod@heap`], and `Alloc`, is not there: use it under `cfg(target_os = "linux")`.

#[cfg(feature = "axum")]
pub mod axum;
#[cfg(feature = "cpu")]
mod files;
#[cfg(all(feature = "heap", target_os = "linux"))]
pub mod heap;
#[cfg(all(feature = "heap", not(target_os = "linux")))]
mod heap_elsewhere;
#[cfg(all(feature = "heap", target_os = "linux"))]
mod heap_sampling;
#[cfg(feature = "http")]
pub mod http;
pub mod labels;
#[cfg(any(feature = "cpu", feature = "heap", feature = "http"))]
mod lock;
#[cfg(any(feature = "cpu", feature = "heap", feature = "http"))]
mod profiler;
#[cfg(any(feature = "cpu", feature = "http"))]
mod task;
#[cfg(feature = "view")]
mod view;
#[cfg(feature = "http")]
mod workshop;

#[cfg(feature = "cpu")]
pub use files::{DetachedFiles, IntervalFiles, IntervalFilesBuilder, setup_profiling};
#[cfg(feature = "cpu")]
pub use flamelet_capture::cpu::Engine;
#[cfg(all(feature = "heap", target_os = "linux"))]
pub use flamelet_capture::heap::Alloc;
pub use flamelet_capture::profile::Profile;
pub use flamelet_capture::profile::pprof::write_gzip as write_pprof;
#[cfg(any(feature = "cpu", feature = "heap", feature = "http"))]
pub use flamelet_capture::profile::{Error, ErrorKind, Result};
#[cfg(all(feature = "heap", target_os = "linux"))]
pub use heap::HeapSnapshot;
#[cfg(all(feature = "heap", not(target_os = "linux")))]
pub use heap_elsewhere::HeapSnapshot;
#[cfg(feature = "continuous")]
pub use profiler::Continuous;
#[cfg(feature = "cpu")]
pub use profiler::{CpuCapture, CpuRequest, CpuTask};
#[cfg(any(feature = "cpu", feature = "heap", feature = "http"))]
pub use profiler::{Limits, Metrics, Profiler, ProfilerBuilder};

/// Allocators that [`global_allocator!`] can wrap.
#[cfg(feature = "heap")]
pub mod allocators {
    #[cfg(feature = "mimalloc")]
    pub use mimalloc::MiMalloc;
    #[cfg(feature = "jemalloc")]
    pub use tikv_jemallocator::Jemalloc;
}

/// The code that the documents show compiles.
#[cfg(all(doctest, feature = "axum", feature = "cpu", feature = "heap", target_os = "linux"))]
mod documents {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/coming-from.md")]
    mod coming_from {}
    #[doc = include_str!("../../../docs/memory.md")]
    mod memory {}
}
