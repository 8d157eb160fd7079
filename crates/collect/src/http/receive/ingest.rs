//! Pyroscope's older `/ingest`.

use axum::http::header;
use flamelet_profile::pprof;
use flamelet_remote::receive::Ingest;

use super::form;
use crate::clock::now;
use crate::collector::{Collector, Offered, Refused};
use crate::http::call::{Call, parameters};
use crate::http::folded;

/// Keeps the profile of a request.
pub(in crate::http) fn ingest(collector: &Collector, call: &Call) -> Result<(), Refused> {
    let ingest = Ingest::read(&parameters(&call.query), now())?;
    let content_type = call.header(header::CONTENT_TYPE);
    let body = call.unpacked(collector.options.caps.body)?;
    let bytes =
        if content_type.starts_with("multipart/form-data") { form::file(content_type, &body)? } else { body };
    let bytes = match is_folded(&ingest.format, &bytes) {
        true => match folded::read(&bytes, &ingest) {
            Ok(profile) => pprof::encode(&profile),
            // Another text, which is recognized like a file.
            Err(_) if ingest.format.is_empty() => bytes,
            Err(error) => return Err(error.into()),
        },
        false => bytes,
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

/// Returns whether a body is folded stacks. That is Pyroscope's format where the sender names none.
fn is_folded(format: &str, bytes: &[u8]) -> bool {
    match format {
        "folded" | "lines" | "groups" => true,
        // A packed body, pprof and JSON are recognized by their content.
        "" => {
            let is_text =
                std::str::from_utf8(bytes).is_ok_and(|text| !text.trim_start().starts_with(['{', '[']));
            is_text && !bytes.is_empty() && !pprof::looks_like_pprof(bytes)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use flamelet_profile::ProfileBuilder;

    use super::*;

    #[test]
    fn what_has_no_format_is_folded_unless_it_is_something_else() {
        let profile = pprof::encode(&ProfileBuilder::new(&[("cpu", "nanoseconds")]).finish());
        for (format, bytes, expected) in [
            ("", &b"main;work 5\nmain 1\n"[..], true),
            ("groups", b"main 1", true),
            ("lines", b"main", true),
            ("", &profile, false),
            ("", b"\x1f\x8b\x08", false),
            ("", b"FLR\0\xff", false),
            ("", b" {\"a\":1}", false),
            ("", b"", false),
            ("pprof", b"main 1", false),
        ] {
            assert_eq!(is_folded(format, bytes), expected, "{format:?} {bytes:?}");
        }
    }
}
