//! Pyroscope's `push.v1.PushRequest`.

use flamelet_profile::protobuf::MessageWriter;
use flamelet_profile::{LabelSetId, Profile, Result};

use super::cardinality::LeftOut;
use super::{Series, id, labels, parca};

/// Returns the labels of a series, with those that Pyroscope needs.
fn all_labels(series: &Series<'_>) -> Vec<(String, String)> {
    // Windows of time are not to be taken for totals since the start.
    let own = [("__name__", series.name), ("service_name", series.service), ("__delta__", "false")];
    labels::sorted(&own, series.labels)
}

/// Returns the profile with labels that Pyroscope takes; `None` if it has no others. Text labels of samples become labels
/// of series there: one that is not allowed makes it refuse the whole profile, and too many of them all profiles.
pub(super) fn with_clean_labels(profile: &Profile, series: &Series<'_>) -> Option<Profile> {
    let (of_series, left_out) = (all_labels(series), LeftOut::of(profile));
    let clean_texts = |texts: &[(&str, &str)]| {
        let kept = texts.iter().copied().filter(|(name, _)| !left_out.contains(profile, name));
        labels::beside(&of_series, &kept.collect::<Vec<_>>())
    };
    let is_clean = |set: usize| {
        let set = profile.labels(LabelSetId::from_index(set)).iter().filter(|label| label.is_text());
        let texts: Vec<(&str, &str)> =
            set.map(|label| (profile.string(label.key), profile.string(label.text))).collect();
        clean_texts(&texts).iter().map(|(name, value)| (&**name, &**value)).eq(texts.iter().copied())
    };
    if left_out.is_empty() && (0..profile.label_set_count()).all(is_clean) {
        return None;
    }
    let mut clean = profile.clone();
    clean.relabel_samples(clean_texts);
    Some(clean)
}

/// Returns `series { labels, samples { raw_profile, ID } }`.
pub(super) fn body(pprof: &[u8], series: &Series<'_>, id: u128) -> Result<Vec<u8>> {
    let all = all_labels(series);
    let raw = parca::gzip(pprof)?;
    let mut message = MessageWriter::default();
    message.message(1, |out| {
        all.iter().for_each(|label| out.message(1, |out| parca::write_label(label, out)));
        out.message(2, |sample| {
            sample.bytes(1, &raw);
            sample.bytes(2, id::uuid(id).as_bytes());
        });
    });
    Ok(message.into_bytes())
}
