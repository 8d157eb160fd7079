//! tracing-opentelemetry: samples carry the `trace_id` and `span_id` of the span that they were taken in.
//!
//! ```text
//! flamelet top 'http://127.0.0.1:6060/debug/pprof/profile?seconds=5' --tagfocus trace_id=4bf92f3577b34da6a3ce929d0e0e4736
//! ```

use flamelet::TraceIds;
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::layer::SubscriberExt;

/// Returns the ids of the span that tracing-opentelemetry has made current.
fn current_trace() -> Option<TraceIds> {
    let context = opentelemetry::Context::current();
    let span = context.span().span_context().clone();
    TraceIds::new(span.trace_id().to_bytes(), span.span_id().to_bytes())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    flamelet::serve("127.0.0.1:6060")?;
    // With an exporter, in a real service.
    let provider = SdkTracerProvider::builder().build();
    let opentelemetry = tracing_opentelemetry::layer().with_tracer(provider.tracer("recipe"));
    // flamelet's layer comes after the one that it asks for the ids.
    let flamelet = flamelet::spans::layer().trace_ids(current_trace);
    let subscriber = tracing_subscriber::registry().with(opentelemetry).with(flamelet);
    tracing::subscriber::set_global_default(subscriber)?;
    loop {
        let _job = tracing::info_span!("job").entered();
        std::hint::black_box((0..1_000_000u64).fold(0, |sum, number| std::hint::black_box(sum ^ number)));
    }
}
