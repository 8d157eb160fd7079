//! Answers questions: Pyroscope's query calls, metrics, and the list of services.

use std::sync::atomic::Ordering;

use axum::http::header;
use axum::response::Response;
use flamelet_profile::{Budget, Limits};
use flamelet_remote::querier::{self, Codec};

use super::QUERIER;
use super::answer::{response, text};
use super::call::{Call, parameters};
use crate::ask;
use crate::clock::now;
use crate::collector::{Collector, Refused};
use crate::querier::Fleet;

fn fleet(collector: &Collector) -> Fleet {
    Fleet { reader: collector.reader(), service: None }
}

/// Answers a call of Pyroscope's querier.
pub(super) fn query(collector: &Collector, call: &Call) -> Result<Response, Refused> {
    let name = call.path.trim_start_matches(QUERIER);
    let Some(method) = querier::METHODS.iter().find(|method| **method == name) else {
        return Err(Refused::new(501, "this call of Pyroscope is not answered here"));
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
pub(super) fn render(collector: &Collector, call: &Call) -> Response {
    let is_diff = call.path.ends_with("-diff");
    finished(querier::render(&fleet(collector), is_diff, &parameters(&call.query), now()))
}

fn finished(answer: querier::QueryAnswer) -> Response {
    response(answer.status, answer.content_type, answer.body)
}

/// Returns what was accepted and refused, as Prometheus reads it.
pub(super) fn metrics(collector: &Collector) -> Response {
    let counters = &collector.counters;
    let lines = [
        ("profiles_accepted_total", &counters.accepted),
        ("profiles_duplicate_total", &counters.duplicates),
        ("profiles_refused_total", &counters.refused),
        ("profile_bytes_total", &counters.bytes),
    ];
    let line = |(name, value): (&str, &std::sync::atomic::AtomicU64)| {
        format!(
            "# TYPE flamelet_collect_{name} counter\nflamelet_collect_{name} {}\n",
            value.load(Ordering::Relaxed)
        )
    };
    text(200, lines.map(line).concat())
}

/// Answers what people ask a fleet.
pub(super) fn api(collector: &Collector, call: &Call) -> Result<Response, Refused> {
    match ask::answer(&collector.reader(), &call.path, &parameters(&call.query), now()) {
        Some(json) => Ok(response(200, "application/json", json?)),
        None => Err(Refused::new(404, "this path is not served by flamelet collect")),
    }
}

/// Lists the services.
pub(super) fn index(collector: &Collector) -> Result<Response, Refused> {
    let services = collector.reader().services(&Budget::new(Limits::SERVICE))?;
    let list: String = services.iter().map(|service| format!("  {service}\n")).collect();
    Ok(text(200, format!("flamelet collect: {} services\n{list}", services.len())))
}
