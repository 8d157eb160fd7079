//! What the windows of a history measure.

use flamelet_profile::{Profile, ProfileBuilder, ValueType};

/// The name of windows that each show the heap at a moment.
pub const HEAP: &str = "heap";

/// What windows of one name measure: their values and the sampling period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kind {
    /// The name: `cpu`, `heap`, ….
    pub name: String,
    /// The values of each sample, as (kind, unit).
    pub values: Vec<(String, String)>,
    /// What one sampling period counts, as (kind, unit).
    pub period_type: Option<(String, String)>,
    /// How many units lie between two samples.
    pub period: i64,
    /// The value that is shown first; empty for the last one.
    pub shown_first: String,
    /// Which functions are left out together with what they call, as a regular expression.
    pub drop_frames: String,
}

impl Kind {
    /// Returns the kind of `profile`, under this name.
    pub fn of(name: &str, profile: &Profile) -> Self {
        let text = |value: &ValueType| (profile.string(value.kind).into(), profile.string(value.unit).into());
        Self {
            name: name.to_owned(),
            values: profile.sample_types().iter().map(text).collect(),
            period_type: profile.header.period_type.as_ref().map(text),
            period: profile.header.period,
            shown_first: profile.string(profile.header.default_sample_type).into(),
            drop_frames: profile.string(profile.header.drop_frames).into(),
        }
    }

    /// Returns a builder for a profile of this kind.
    pub(crate) fn builder(&self) -> ProfileBuilder {
        let values: Vec<(&str, &str)> = self.values.iter().map(|(kind, unit)| (&**kind, &**unit)).collect();
        let mut builder = ProfileBuilder::new(&values);
        if let Some((kind, unit)) = &self.period_type {
            builder.set_period(kind, unit, self.period);
        }
        if !self.shown_first.is_empty() {
            builder.set_default_sample_type(&self.shown_first);
        }
        if !self.drop_frames.is_empty() {
            builder.set_drop_frames(&self.drop_frames);
        }
        builder
    }
}
