//! Pushing the history to other systems.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flamelet_capture::profile::Profile;

use super::{Metrics, Profiler, ProfilerBuilder, Settings};
use crate::push::{self, Push, Running};
use crate::symbols::Symbols;
use crate::{Error, Result};

impl ProfilerBuilder {
    /// Sends the windows of the [history](ProfilerBuilder::history) to a receiver as well: Pyroscope, Parca or OTLP. May
    /// be called for several receivers; each has a thread of its own, which never blocks the service.
    ///
    /// While a receiver is away, windows wait in the history on disk, and are sent in order when it is back. What the
    /// receiver does not take, because it is too old for instance, stays in the history and is reported on standard
    /// error. [`Metrics::pushed`] and its neighbours count.
    pub fn push(mut self, push: Push) -> Self {
        self.push.push(push);
        self
    }

    /// Sends the history to the receivers that the environment names, with the variables of their own SDKs; to none if
    /// they are not set.
    ///
    /// | receiver | variables |
    /// |---|---|
    /// | Pyroscope | `PYROSCOPE_SERVER_ADDRESS`, `PYROSCOPE_APPLICATION_NAME`, `PYROSCOPE_AUTH_TOKEN`, `PYROSCOPE_BASIC_AUTH_USER`, `PYROSCOPE_BASIC_AUTH_PASSWORD`, `PYROSCOPE_TENANT_ID`, `PYROSCOPE_LABELS` |
    /// | OTLP | `OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_PROFILES_HEADERS`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` |
    pub fn push_from_environment(mut self) -> Self {
        self.push_from_environment = true;
        self
    }
}

impl Profiler {
    pub(super) fn with_push(&self, mut metrics: Metrics) -> Metrics {
        for counters in self.shared.push.iter().map(Running::counters) {
            metrics.pushed += counters.sent.load(Ordering::Relaxed);
            metrics.push_retries += counters.retries.load(Ordering::Relaxed);
            metrics.push_dropped += counters.dropped.load(Ordering::Relaxed);
            let lag = Duration::from_nanos(counters.lag.load(Ordering::Relaxed));
            metrics.push_lag = metrics.push_lag.max(lag);
        }
        metrics
    }
}

/// Starts to send to all receivers.
pub(super) fn start(
    mut chosen: Vec<Push>,
    with_environment: bool,
    history: Option<&crate::history::Running>,
    settings: &Settings,
    symbols: &Arc<Symbols>,
) -> Result<Vec<Running>> {
    if with_environment {
        chosen.extend(push::from_environment()?);
    }
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    let Some(history) = history else {
        let message =
            "pushing needs a history, where profiles wait while the receiver is away: add `.history(…)`";
        return Err(Error::invalid(message));
    };
    let start = |push: Push| {
        let symbols = symbols.clone();
        let symbolize = move |profile: &mut Profile| symbols.symbolize(profile);
        let service = push::Service {
            name: settings.name.clone(),
            symbolize: settings.symbolize.then(|| Box::new(symbolize) as _),
        };
        Running::start(push, history.path(), service)
    };
    chosen.into_iter().map(start).collect()
}
