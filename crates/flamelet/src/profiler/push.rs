//! Pushing the history to other systems.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flamelet_capture::profile::Profile;

use super::{Metrics, Profiler, ProfilerBuilder, Settings};
use crate::push::{self, Push, PushThread, Receivers};
use crate::symbols::Symbols;
use crate::{Error, Result};

impl ProfilerBuilder {
    /// Sends the windows of the [history](ProfilerBuilder::history) to a receiver as well: Pyroscope, Parca or OTLP. May
    /// be called for several receivers; each has a thread of its own, which never blocks the service.
    ///
    /// While a receiver is away, windows wait in the history on disk, and are sent in order when it is back. What the
    /// receiver does not take, because it is too old for instance, stays in the history and is reported on standard
    /// error. [`Metrics::pushed`] and the fields after it count what was sent.
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
        for counters in self.shared.push.counters() {
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
    history: Option<&crate::history::HistoryThread>,
    settings: &Settings,
    symbols: &Arc<Symbols>,
) -> Result<Receivers> {
    if with_environment {
        chosen.extend(push::from_environment()?);
    }
    if chosen.is_empty() {
        return Ok(Receivers::default());
    }
    let Some(history) = history else {
        let message =
            "pushing needs a history, where profiles wait while the receiver is away: add `.history(…)`";
        return Err(Error::invalid(message));
    };
    let numbers = numbers(&chosen, &settings.name)?;
    let start = |(push, receiver): (Push, u64)| {
        let symbols = symbols.clone();
        let symbolize = move |profile: &mut Profile| symbols.symbolize(profile);
        let needs = push::PusherNeeds {
            name: settings.name.clone(),
            receiver,
            symbolize: settings.symbolize.then(|| Box::new(symbolize) as _),
        };
        PushThread::start(push, history.path(), needs, settings.shutdown_timeout)
    };
    // Threads that were started before one fails end with the list.
    let mut receivers = Receivers::new(settings.shutdown_timeout);
    for chosen in chosen.into_iter().zip(numbers) {
        receivers.add(start(chosen)?);
    }
    Ok(receivers)
}

/// Returns a number for each receiver, by which it is known again after a restart. Fails if two are the same.
fn numbers(chosen: &[Push], service: &str) -> Result<Vec<u64>> {
    let without: Vec<u64> = chosen.iter().map(|push| push.identity(service, false)).collect();
    // Their labels count where receivers differ in nothing else.
    let is_alone = |number: &u64| without.iter().filter(|other| *other == number).count() == 1;
    let number = |(push, number): (&Push, &u64)| {
        if is_alone(number) { *number } else { push.identity(service, true) }
    };
    let numbers: Vec<u64> = chosen.iter().zip(&without).map(number).collect();
    for (at, number) in numbers.iter().enumerate() {
        if numbers[..at].contains(number) {
            return Err(Error::invalid(format!(
                "{} is named twice, with the same tenant, service name and labels: it would get everything twice",
                chosen[at].shown_address()
            )));
        }
    }
    Ok(numbers)
}
