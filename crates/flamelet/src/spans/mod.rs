//! `tracing` spans in profiles: samples carry the span that they were taken in, and `/debug/pprof/spans` says how long spans
//! were busy and idle.
//!
//! ```
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! tracing::subscriber::set_global_default(tracing_subscriber::registry().with(flamelet::spans::layer()))?;
//! # Ok(())
//! # }
//! ```
//!
//! CPU, heap, lock, wall-clock and await samples carry the label `span`: the names of the spans around them, outermost
//! first, such as `request:load_user:query`. Spans follow async code across threads if the code uses
//! `#[instrument]` or `Instrument::instrument`, as `tracing` itself requires.
//!
//! # Traces
//!
//! With tracing-opentelemetry, samples also carry `trace_id` and `span_id`. Let the layer read the ids of the context that
//! tracing-opentelemetry activates, and add it after that layer:
//!
//! ```
//! use flamelet::TraceIds;
//!
//! let layer = flamelet::spans::layer().trace_ids(|| {
//!     // let context = opentelemetry::Context::current();
//!     // let span = context.span().span_context();
//!     // TraceIds::new(span.trace_id().to_bytes(), span.span_id().to_bytes())
//!     # let (trace, span) = ([1; 16], [1; 8]);
//!     # TraceIds::new(trace, span)
//! });
//! # drop::<flamelet::spans::SpanLayer>(layer);
//! ```
//!
//! Without tracing-opentelemetry, the layer of [`mod@crate::requests`] takes both from the `traceparent` header of a request.
//! The ids are in profiles that cover a period: CPU, wall clock and live tasks. `heap`, `block`, `mutex`, `await` and
//! `blocked` count since the start of the process, and leave them out, since they would grow with every request.
//!
//! # What is counted
//!
//! | value | what it is |
//! |---|---|
//! | `spans` | spans that were closed |
//! | `busy` | time in which the span was the innermost one that its thread was in |
//! | `idle` | time in which the span was open and no thread was in it: an await, as a rule. Where a span and its child are idle at the same time, it is counted for the child |
//!
//! There are at most 2,000 different paths of spans, 64 deep; spans beyond that are counted for the span around them.

mod entered;
mod layer;
mod profile;
mod tree;

pub use layer::{SpanLayer, layer};
#[cfg(all(feature = "http", target_os = "linux"))]
pub(crate) use profile::{SpanCounts, profile, rows};
#[cfg(feature = "http")]
pub(crate) use tree::were_made;

use flamelet_capture::profile::Profile;

use crate::Profiler;

impl Profiler {
    /// Returns how long spans were busy and idle since the start, as at `/debug/pprof/spans`.
    pub fn spans(&self) -> Profile {
        profile::profile(self, &profile::rows())
    }
}
