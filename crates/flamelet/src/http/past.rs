//! The service's history as Pyroscope's query calls see it.

use flamelet_capture::profile::{Budget, Limits, Profile};
use flamelet_remote::querier::{self, Codec, EachTotal, Keep, Measured, QueryAnswer, Source, Span};
use flamelet_store::{Query, Reader};

use super::answer::{self, Refusal};
use super::plan::PastQuestion;
use crate::Profiler;
use crate::history::{ALLOCS, CPU, HEAP};
use crate::{Error, ErrorKind, Result};

const MILLISECOND: i64 = 1_000_000;

/// Answers a query.
pub(super) fn answer(profiler: &Profiler, question: PastQuestion) -> Result<answer::Answer, Refusal> {
    let past = Past { profiler };
    let answer = match question {
        PastQuestion::Call { method, content_type, encoding, body } => {
            let Some(codec) = Codec::of(&content_type) else {
                let message = "the content type must be application/json or application/proto";
                return Err(Refusal::new(http::StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
            };
            match querier::unpack(&encoding, body) {
                Ok(body) => querier::answer(&past, method, codec, &body),
                Err(error) => querier::failure(&error),
            }
        }
        PastQuestion::Render { is_diff, parameters, now } => {
            querier::render(&past, is_diff, &parameters, now)
        }
    };
    Ok(finished(answer))
}

fn finished(found: QueryAnswer) -> answer::Answer {
    let mut answer = answer::inline(found.content_type, found.body);
    *answer.status_mut() =
        http::StatusCode::from_u16(found.status).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    answer
}

/// The history of a service.
struct Past<'a> {
    profiler: &'a Profiler,
}

impl Past<'_> {
    fn reader(&self) -> Result<Reader> {
        let missing = || Error::new(ErrorKind::NotEnabled, "the service keeps no history");
        Reader::open(self.profiler.history_folder().ok_or_else(missing)?)
    }
}

/// Returns Pyroscope's name for a kind of windows, and how many of its values can be added up over time; `None` for the heap
/// at a moment, which cannot.
fn as_pyroscope(kind: &str) -> Option<(&str, usize)> {
    match kind {
        CPU => Some(("process_cpu", usize::MAX)),
        // What was allocated; the change of what is in use comes after it.
        ALLOCS => Some(("memory", 2)),
        HEAP => None,
        other => Some((other, usize::MAX)),
    }
}

fn nanos(span: Span) -> (i64, i64) {
    (span.from.saturating_mul(MILLISECOND), span.to.saturating_mul(MILLISECOND))
}

impl Source for Past<'_> {
    fn service(&self) -> &str {
        self.profiler.name()
    }

    fn measured(&self, span: Span) -> Result<Vec<Measured>> {
        let (from, to) = nanos(span);
        let kinds = self.reader()?.kinds(&Query::new("", from, to), &Budget::new(Limits::SERVICE))?;
        let mut measured: Vec<Measured> = Vec::new();
        for kind in kinds {
            let Some((name, values)) = as_pyroscope(&kind.name) else { continue };
            let period = kind.period_type.clone().unwrap_or_default();
            let found = Measured {
                name: name.to_owned(),
                source_name: kind.name.clone(),
                values: kind.values.into_iter().take(values).collect(),
                period,
            };
            // The sampling rate may have changed.
            if !measured.contains(&found) {
                measured.push(found);
            }
        }
        Ok(measured)
    }

    fn profile(&self, source_name: &str, span: Span, keep: &Keep<'_>) -> Result<Option<Profile>> {
        let (from, to) = nanos(span);
        let keep = |labels: &[(&str, &str)]| keep(labels);
        let mut query = Query::new(source_name, from, to);
        query.keep = Some(&keep);
        self.profiler.selected(&self.reader()?, &query)
    }

    fn totals(&self, source_name: &str, span: Span, each: &mut EachTotal<'_>) -> Result<()> {
        let (from, to) = nanos(span);
        let query = Query::new(source_name, from, to);
        let mut each = |middle: i64, labels: &[(&str, &str)], values: &[i64]| {
            each(middle / MILLISECOND, labels, values);
        };
        self.reader()?.totals(&query, &Budget::new(Limits::SERVICE), &mut each).map(drop)
    }

    fn extent(&self) -> Result<Option<Span>> {
        let span = self.reader()?.span(&Budget::new(Limits::SERVICE))?;
        Ok(span.map(|(from, to)| Span { from: from / MILLISECOND, to: to / MILLISECOND }))
    }
}
