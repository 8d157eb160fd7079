//! The form in which a profile is returned.

use std::borrow::Cow;

use flamelet_capture::profile::{Profile, pprof};
use flamelet_report::flame::{self, FlameOptions};
use flamelet_report::page;

use super::accept::{Preference, preference};
use super::answer::{self, Answer, Refusal};
use super::incoming::Incoming;
use super::rules::Rules;
use super::text;

/// The form and the name under which a profile is returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    /// The name of the file.
    pub(super) name: String,
    /// The title of a picture.
    pub(super) title: String,
    pub(super) form: Form,
}

/// The form in which a profile is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Pprof,
    Text,
    Html,
    Svg { width: u32 },
}

impl Form {
    /// Returns the form that `debug` and `Accept` select.
    pub(super) fn negotiate(request: &Incoming<'_>) -> Result<Self, Refusal> {
        if request.query.wants_text()? {
            return Ok(Self::Text);
        }
        Ok(match preference(&request.parts.headers) {
            Preference::Pprof => Self::Pprof,
            Preference::Html => Self::Html,
            Preference::Svg => Self::Svg { width: FlameOptions::default().image_width },
        })
    }

    /// Returns the form of the `/pprof/…` flame graphs: a picture as wide as `image_width` says.
    pub(super) fn picture(request: &Incoming<'_>) -> Result<Self, Refusal> {
        let most = request.rules.limits.max_image_width;
        let width =
            request.query.number("image_width", 1..=u64::from(most), " (the limit of this service)")?;
        let width = width.and_then(|width| u32::try_from(width).ok()).unwrap_or(2500.min(most));
        Ok(Self::Svg { width })
    }
}

impl Delivery {
    /// Returns the delivery of what a request asks for; a change over some seconds has a name of its own.
    pub(super) fn of(request: &Incoming<'_>, form: Form, seconds: Option<u64>) -> Self {
        let suffix = if seconds.is_some() { "-delta" } else { "" };
        Self::new(request.rules, &format!("{}{suffix}", request.name), form)
    }

    pub(super) fn new(rules: &Rules<'_>, name: &str, form: Form) -> Self {
        Self::titled(rules, name, name, form)
    }

    pub(super) fn titled(rules: &Rules<'_>, name: &str, title: &str, form: Form) -> Self {
        Self { name: name.to_owned(), title: format!("{} · {title}", rules.name), form }
    }

    /// Returns the answer without its body.
    pub(super) fn head(&self) -> Answer {
        self.wrap(Vec::new())
    }

    fn wrap(&self, body: Vec<u8>) -> Answer {
        match self.form {
            Form::Pprof => answer::attachment(&self.name, body),
            Form::Text => answer::inline(answer::TEXT, body),
            Form::Html => answer::inline(answer::HTML, body),
            Form::Svg { .. } => answer::inline(answer::SVG, body),
        }
    }

    pub(super) fn answer(&self, profile: &Profile) -> Result<Answer, Refusal> {
        let options = FlameOptions { title: self.title.clone(), ..FlameOptions::default() };
        let mut body = match self.form {
            Form::Pprof => gzipped(profile)?,
            Form::Text => text::text(profile, &self.name).into_bytes(),
            Form::Html => page::html(&pictured(profile), &options).into_bytes(),
            Form::Svg { width } => {
                flame::svg(&pictured(profile), &FlameOptions { image_width: width, ..options }).into_bytes()
            }
        };
        // A slow client may take long to read it, so it should not occupy twice its size meanwhile.
        body.shrink_to_fit();
        Ok(self.wrap(body))
    }
}

/// Returns the profile as pictures show it: the innermost frames of a heap are those that needed the memory, not the
/// allocator's.
fn pictured(profile: &Profile) -> Cow<'_, Profile> {
    if profile.header.drop_frames.is_empty() {
        return Cow::Borrowed(profile);
    }
    let mut profile = profile.clone();
    profile.drop_allocation_frames();
    Cow::Owned(profile)
}

fn gzipped(profile: &Profile) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::new();
    pprof::write_gzip(profile, &mut bytes).map_err(|error| {
        Refusal::new(http::StatusCode::INTERNAL_SERVER_ERROR, format!("cannot write the profile: {error}"))
    })?;
    Ok(bytes)
}
