//! Answers questions: Pyroscope's query calls, metrics, and the list of services.

use std::sync::atomic::Ordering;

use axum::http::header;
use axum::response::Response;
use flamelet_profile::{Budget, ErrorKind, Limits};
use flamelet_remote::querier::{self, Codec};

use super::QUERIER;
use super::answer::{response, text};
use super::call::{Asking, Call, parameters};
use crate::ask;
use crate::clock::now;
use crate::collector::{Collector, Refused};
use crate::reader::querier::Fleet;

fn fleet(collector: &Collector) -> Fleet {
    Fleet { reader: collector.reader(), service: None }
}

/// Answers a call of Pyroscope's querier.
pub(super) fn query(asking: &Asking<'_>) -> Result<Response, Refused> {
    let Asking { collector, call, .. } = asking;
    let name = call.path.trim_start_matches(QUERIER);
    let Some(method) = querier::METHODS.iter().find(|method| **method == name) else {
        return Err(Refused::new(501, "this call of Pyroscope's API is not supported here"));
    };
    let Some(codec) = Codec::of(call.header(header::CONTENT_TYPE)) else {
        return Err(Refused::new(415, "the content type must be application/json or application/proto"));
    };
    let body = querier::unpack(call.header(header::CONTENT_ENCODING), call.body.clone());
    Ok(finished(match body {
        Ok(body) => querier::answer(&fleet(collector), method, codec, &body),
        Err(error) => querier::failure(&error),
    }))
}

/// Answers Pyroscope's older calls.
pub(super) fn render(asking: &Asking<'_>) -> Result<Response, Refused> {
    let Asking { collector, call, .. } = asking;
    let is_diff = call.path.ends_with("-diff");
    Ok(finished(querier::render(&fleet(collector), is_diff, &parameters(&call.query), now())))
}

fn finished(answer: querier::QueryAnswer) -> Response {
    response(answer.status, answer.content_type, answer.body)
}

/// Returns what was accepted and refused, as Prometheus reads it.
pub(super) fn metrics(asking: &Asking<'_>) -> Result<Response, Refused> {
    let counters = &asking.collector.counters;
    let lines = [
        ("profiles_accepted_total", &counters.accepted),
        ("profiles_duplicate_total", &counters.duplicates),
        ("profiles_refused_total", &counters.refused),
        ("profile_bytes_total", &counters.bytes),
        ("requests_refused_total", &counters.requests_refused),
    ];
    let line = |(name, value): (&str, &std::sync::atomic::AtomicU64)| {
        format!(
            "# TYPE flamelet_collect_{name} counter\nflamelet_collect_{name} {}\n",
            value.load(Ordering::Relaxed)
        )
    };
    let watch = asking.collector.options.watch.map(|_| asking.collector.watch.metrics());
    Ok(text(200, lines.map(line).concat() + &watch.unwrap_or_default()))
}

/// Answers with what the watch found last.
pub(super) fn watch(asking: &Asking<'_>) -> Result<Response, Refused> {
    let none = || Refused::new(404, "this collector does not compare versions; start it with --watch 1h");
    let every = asking.collector.options.watch.ok_or_else(none)?;
    Ok(response(200, "application/json", asking.collector.watch.report(every)))
}

/// Answers what people ask a fleet.
pub(super) fn api(collector: &Collector, question: &ask::ApiCall, call: &Call) -> Result<Response, Refused> {
    let price = collector.options.price;
    let answer = question.answer(&collector.reader(), &parameters(&call.query), now(), price);
    let json = answer.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Refused::new(404, error.to_string()),
        _ => error.into(),
    })?;
    Ok(response(200, "application/json", json))
}

/// Lists the services.
pub(super) fn index(collector: &Collector) -> Result<Response, Refused> {
    let services = collector.reader().services(&Budget::new(Limits::SERVICE))?;
    let list: String = services.iter().map(|service| format!("  {service}\n")).collect();
    Ok(text(200, format!("flamelet collect: {} services\n{list}", services.len())))
}
