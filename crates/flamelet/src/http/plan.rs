//! What will be done for a request, once it is allowed to run.

use flamelet_capture::profile::{Profile, pprof};
use flamelet_report::flame::{self, FlameOptions};
use http::HeaderMap;

use super::accept::{Preference, preference};
use super::answer::{self, Answer, Refusal};
use super::query::Query;
use super::text;
use crate::task::Cancel;
#[cfg(any(feature = "cpu", all(feature = "heap", target_os = "linux")))]
use crate::task::cancelled;

/// Work for a thread of its own.
pub(super) type Work = Box<dyn FnOnce(&Cancel) -> Result<Answer, Refusal> + Send>;

/// What a thread is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// It may take long, so only so many run at once.
    Capture,
    /// It is done in no time.
    Nothing,
}

/// What to do for a request whose parameters are good.
pub(super) enum Plan {
    /// It is answered already.
    Now(Answer),
    /// It needs a thread. `head` is the answer without its body.
    Later { head: Answer, work: Work, cost: Cost },
}

impl Plan {
    /// Makes a profile and delivers it.
    #[cfg(any(feature = "cpu", all(feature = "heap", target_os = "linux")))]
    pub(super) fn deliver(
        delivery: Delivery,
        make: impl FnOnce(&Cancel) -> Result<Profile, Refusal> + Send + 'static,
    ) -> Self {
        let head = delivery.wrap(Vec::new());
        let work = Box::new(move |cancel: &Cancel| {
            let profile = make(cancel)?;
            // Nobody is left to draw it for.
            if cancel.is_cancelled() {
                return Err(cancelled().into());
            }
            delivery.answer(&profile)
        });
        Self::Later { head, work, cost: Cost::Capture }
    }

    /// Delivers a profile that needs no capture, and so no turn.
    pub(super) fn deliver_at_once(
        delivery: Delivery,
        make: impl FnOnce() -> Profile + Send + 'static,
    ) -> Self {
        let head = delivery.wrap(Vec::new());
        let work = Box::new(move |_: &Cancel| delivery.answer(&make()));
        Self::Later { head, work, cost: Cost::Nothing }
    }
}

/// In which form, and under which name, a profile goes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    /// The name of the file.
    pub(super) name: String,
    /// The title of a picture.
    pub(super) title: String,
    pub(super) form: Form,
}

/// The form in which a profile goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Pprof,
    Text,
    Html,
    Svg { width: u32 },
}

impl Form {
    /// As `debug` and `Accept` say.
    pub(super) fn negotiate(query: &Query, headers: &HeaderMap) -> Result<Self, Refusal> {
        if query.wants_text()? {
            return Ok(Self::Text);
        }
        Ok(match preference(headers) {
            Preference::Pprof => Self::Pprof,
            Preference::Html => Self::Html,
            Preference::Svg => Self::Svg { width: FlameOptions::default().image_width },
        })
    }

    /// The picture of the `/pprof/…` family.
    pub(super) fn flamegraph(query: &Query, max_width: u32) -> Result<Self, Refusal> {
        let default = 2500.min(max_width);
        let width = query.number("image_width", 1..=u64::from(max_width), " (the cap of this service)")?;
        let width = width.and_then(|width| u32::try_from(width).ok()).unwrap_or(default);
        Ok(Self::Svg { width })
    }
}

impl Delivery {
    fn wrap(&self, body: Vec<u8>) -> Answer {
        match self.form {
            Form::Pprof => answer::attachment(&self.name, body),
            Form::Text => answer::inline(answer::TEXT, body),
            Form::Html => answer::inline(answer::HTML, body),
            Form::Svg { .. } => answer::inline(answer::SVG, body),
        }
    }

    fn answer(&self, profile: &Profile) -> Result<Answer, Refusal> {
        let options = FlameOptions { title: self.title.clone(), ..FlameOptions::default() };
        let body = match self.form {
            Form::Pprof => gzipped(profile)?,
            Form::Text => text::text(profile, &self.name).into_bytes(),
            Form::Html => flame::html(profile, &options).into_bytes(),
            Form::Svg { width } => {
                flame::svg(profile, &FlameOptions { image_width: width, ..options }).into_bytes()
            }
        };
        Ok(self.wrap(body))
    }
}

fn gzipped(profile: &Profile) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::new();
    pprof::write_gzip(profile, &mut bytes).map_err(|error| {
        Refusal::new(http::StatusCode::INTERNAL_SERVER_ERROR, format!("cannot write the profile: {error}"))
    })?;
    Ok(bytes)
}
