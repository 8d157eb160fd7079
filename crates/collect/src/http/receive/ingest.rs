//! Pyroscope's older `/ingest`.

use axum::http::header;
use flamelet_remote::receive::Ingest;

use super::form;
use crate::clock::now;
use crate::collector::{Collector, Offered, Refused};
use crate::http::call::{Call, parameters};

/// Keeps the profile of a request.
pub(in crate::http) fn ingest(collector: &Collector, call: &Call) -> Result<(), Refused> {
    let ingest = Ingest::read(&parameters(&call.query), now())?;
    let content_type = call.header(header::CONTENT_TYPE);
    let body = call.unpacked(collector.options.caps.body)?;
    let bytes =
        if content_type.starts_with("multipart/form-data") { form::file(content_type, &body)? } else { body };
    let bytes = if ingest.format == "folded" || ingest.format == "lines" {
        flamelet_profile::pprof::encode(&crate::http::folded::read(&bytes, &ingest)?)
    } else {
        bytes
    };
    collector.accept(&Offered {
        service: ingest.service,
        labels: ingest.labels,
        from: ingest.from,
        until: ingest.until,
        is_delta: true,
        bytes,
        ..Offered::default()
    })
}
