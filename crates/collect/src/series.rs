//! What identifies a series of profiles: a service, what is measured, and labels.

use flamelet_profile::{Error, ErrorKind, Profile, Result};
use flamelet_store::ContentHash;

use crate::caps::Caps;

/// The label that has the name of the service.
pub(crate) const SERVICE: &str = "service_name";
/// The labels of samples that are columns of their own, and of no series.
pub(crate) const TRACE: &str = "trace_id";
pub(crate) const SPAN: &str = "span_id";

/// The longest `trace_id` or `span_id`; those of OpenTelemetry have 32 and 16 digits.
const MAX_ID: usize = 64;
/// The longest type or unit of a value.
const MAX_TYPE: usize = 100;
/// The longest name of a service (`NAMESPACE/CONTAINER` of Kubernetes has up to 127 bytes), and the longest name of its
/// folder, in which a byte may take three: followed by the hour and the block, it is the name of a file.
const MAX_SERVICE: usize = 128;
const MAX_FOLDER: usize = 180;

/// Labels, sorted by name, each once.
pub(crate) type Labels = Vec<(String, String)>;

/// A series: one value of one kind of profile, of one service, with one set of labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Series {
    pub(crate) service: String,
    /// Pyroscope's name of the profile: `process_cpu`, `memory`, ….
    pub(crate) name: String,
    /// What the value counts: `cpu`, `inuse_space`, ….
    pub(crate) kind: String,
    pub(crate) unit: String,
    pub(crate) period_kind: String,
    pub(crate) period_unit: String,
    pub(crate) period: i64,
    pub(crate) labels: Labels,
}

impl Series {
    /// Returns what identifies the series on any machine.
    pub(crate) fn hash(&self) -> u128 {
        let period = self.period.to_string();
        let own = [
            &self.service,
            &self.name,
            &self.kind,
            &self.unit,
            &self.period_kind,
            &self.period_unit,
            &period,
        ];
        let labels = self.labels.iter().flat_map(|(name, value)| [name, value]);
        hash_texts(own.into_iter().chain(labels).map(String::as_bytes))
    }

    /// Returns Pyroscope's id of the type.
    pub(crate) fn type_id(&self) -> String {
        let parts = [&self.name, &self.kind, &self.unit, &self.period_kind, &self.period_unit];
        parts.map(String::as_str).join(":")
    }

    /// Returns about how much memory it takes.
    pub(crate) fn memory(&self) -> usize {
        let Self { service, name, kind, unit, period_kind, period_unit, period: _, labels } = self;
        let own: usize = [service, name, kind, unit, period_kind, period_unit].map(String::len).iter().sum();
        let labels: usize = labels.iter().map(|(name, value)| name.len() + value.len() + 80).sum();
        size_of::<Self>() + own + labels + 256
    }

    /// Returns whether the values say how much there is at a moment, so that several moments cannot be added up.
    pub(crate) fn is_gauge(&self) -> bool {
        is_gauge(&self.kind)
    }
}

/// Returns the hash of texts; `["ab", "c"]` and `["a", "bc"]` differ.
pub(crate) fn hash_texts<'a>(texts: impl Iterator<Item = &'a [u8]>) -> u128 {
    let mut bytes = Vec::with_capacity(256);
    for text in texts {
        bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(text);
    }
    ContentHash::of_bytes(&bytes).0
}

/// Returns whether a kind of value says how much there is at a moment.
pub(crate) fn is_gauge(kind: &str) -> bool {
    kind.starts_with("inuse_") || matches!(kind, "goroutine" | "goroutines" | "threadcreate" | "threads")
}

/// Returns whether a kind of value counts since the start of the process.
pub(crate) fn is_cumulative(kind: &str) -> bool {
    kind.starts_with("alloc_") || matches!(kind, "contentions" | "delay" | "awaits" | "polls")
}

/// Kinds of values in the order of pprof; others come before them by name, since the last is the one to show first.
const ORDER: &[&str] = &[
    "alloc_objects",
    "alloc_space",
    "inuse_objects",
    "inuse_space",
    "contentions",
    "delay",
    "samples",
    "cpu",
    "wall",
];

/// Returns what to sort kinds of values by.
pub(crate) fn order(kind: &str) -> (usize, &str) {
    let at = ORDER.iter().position(|known| *known == kind);
    (at.map_or(0, |at| at + 1), kind)
}

/// Returns Pyroscope's name of a profile that a person calls `cpu` or `heap`.
pub fn profile_name(text: &str) -> &str {
    match text {
        "cpu" => "process_cpu",
        "heap" | "allocs" => "memory",
        "goroutine" => "goroutines",
        other => other,
    }
}

/// Refuses names that are empty or too long, with the place that has room for less.
pub(crate) fn check_service(service: &str) -> Result<()> {
    if service.is_empty() {
        return Err(Error::invalid("the label service_name is missing"));
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let in_folder: usize = service.bytes().map(|byte| if is_plain(byte) { 1 } else { 3 }).sum();
    let is_long = service.len() > MAX_SERVICE || in_folder > MAX_FOLDER;
    if is_long || service.chars().any(char::is_control) {
        let shown: String = service.chars().take(40).collect();
        let other = (MAX_FOLDER - MAX_SERVICE) / 2;
        return Err(Error::invalid(format!(
            "the service name {shown:?} is longer than {MAX_SERVICE} bytes, has control characters, or more than {other} \
             other characters than letters, digits, -, _ and ."
        )));
    }
    Ok(())
}

/// Refuses labels over the caps.
pub(crate) fn check_labels(labels: &[(String, String)], caps: &Caps) -> Result<()> {
    let too_large = |message: String| Err(Error::new(ErrorKind::InvalidOption, message));
    if labels.len() > caps.labels {
        return too_large(format!(
            "the series has {} labels; the cap is {} (limits.labels)",
            labels.len(),
            caps.labels
        ));
    }
    for (name, value) in labels {
        let shown: String = name.chars().take(40).collect();
        if name.is_empty() || name.len() > caps.label_name {
            return too_large(format!(
                "the label name {shown:?} is empty or longer than {} bytes (limits.label_name)",
                caps.label_name
            ));
        }
        if value.len() > caps.label_value {
            return too_large(format!(
                "the value of label {shown:?} has {} bytes; the cap is {} (limits.label_value)",
                value.len(),
                caps.label_value
            ));
        }
    }
    Ok(())
}

/// Refuses a sample whose `trace_id` or `span_id` is too long.
pub(crate) fn check_ids(profile: &Profile, own: &[flamelet_profile::Label]) -> Result<()> {
    for label in own.iter().filter(|label| label.is_text()) {
        let (name, length) = (profile.string(label.key), profile.string(label.text).len());
        if (name == TRACE || name == SPAN) && length > MAX_ID {
            return Err(Error::invalid(format!(
                "the {name} of a sample has {length} bytes; the limit is {MAX_ID}"
            )));
        }
    }
    Ok(())
}

/// Refuses types and units of values that are too long.
pub(crate) fn check_types(profile: &Profile) -> Result<()> {
    let types = profile.sample_types().iter().copied().chain(profile.header.period_type);
    let mut lengths = types.flat_map(|value| [value.kind, value.unit]).map(|id| profile.string(id).len());
    match lengths.find(|&length| length > MAX_TYPE) {
        Some(length) => Err(Error::invalid(format!(
            "the type or unit of a value has {length} bytes; the limit is {MAX_TYPE}"
        ))),
        None => Ok(()),
    }
}

/// Returns the type or unit of a value without colons, which separate the parts of a series' type
/// (`sched:sched_switch` becomes `sched_sched_switch`).
pub(crate) fn without_colons(text: &str) -> String {
    text.replace(':', "_")
}

/// Sorts labels and leaves out empty ones, those that Pyroscope reserves, and later ones of the same name.
pub(crate) fn cleaned(labels: impl IntoIterator<Item = (String, String)>) -> Labels {
    let is_own = |name: &str| name != SERVICE && !(name.starts_with("__") && name.ends_with("__"));
    let mut labels: Labels =
        labels.into_iter().filter(|(name, value)| is_own(name) && !value.is_empty()).collect();
    labels.sort_by(|a, b| a.0.cmp(&b.0));
    labels.dedup_by(|later, first| later.0 == first.0);
    labels
}

/// Returns the labels of a series whose samples have text labels of their own, which win.
pub(crate) fn with_sample_labels(
    labels: &Labels,
    profile: &Profile,
    own: &[flamelet_profile::Label],
) -> Labels {
    let texts = own.iter().filter(|label| label.is_text());
    let own =
        texts.map(|label| (profile.string(label.key).to_owned(), profile.string(label.text).to_owned()));
    let own = own.filter(|(name, _)| name != TRACE && name != SPAN);
    cleaned(own.chain(labels.iter().cloned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn labels_are_sorted_and_reserved_ones_are_left_out() {
        let all = labels(&[
            ("b", "2"),
            ("__name__", "x"),
            ("service_name", "s"),
            ("a", "1"),
            ("b", "3"),
            ("c", ""),
        ]);
        assert_eq!(cleaned(all), labels(&[("a", "1"), ("b", "2")]));
    }

    #[test]
    fn series_differ_by_each_of_their_parts() {
        let one = Series { service: "a".into(), name: "bc".into(), ..Series::default() };
        let other = Series { service: "ab".into(), name: "c".into(), ..Series::default() };
        let more = Series { labels: labels(&[("x", "")]), ..one.clone() };
        assert_ne!(one.hash(), other.hash());
        assert_ne!(one.hash(), more.hash());
        assert_eq!(one.hash(), one.clone().hash());
    }

    #[test]
    fn the_value_to_show_first_is_last() {
        let mut kinds = ["cpu", "samples", "inuse_space", "zebra", "alloc_space"];
        kinds.sort_by_key(|kind| order(kind));
        assert_eq!(kinds, ["zebra", "alloc_space", "inuse_space", "samples", "cpu"]);
    }

    #[test]
    fn labels_over_the_caps_are_refused_with_the_name_of_the_cap() {
        let caps = Caps { labels: 2, label_name: 4, label_value: 4, ..Caps::default() };
        assert!(check_labels(&labels(&[("a", "b"), ("c", "d")]), &caps).is_ok());
        for (bad, cap) in [
            (labels(&[("a", "1"), ("b", "2"), ("c", "3")]), "limits.labels"),
            (labels(&[("aaaaa", "1")]), "limits.label_name"),
            (labels(&[("", "1")]), "limits.label_name"),
            (labels(&[("a", "12345")]), "limits.label_value"),
        ] {
            let error = check_labels(&bad, &caps).expect_err(cap).to_string();
            assert!(error.contains(cap), "{error}");
        }
        assert!(check_service("").is_err() && check_service(&"a".repeat(129)).is_err());
        let pod = format!("{}/{}", "n".repeat(63), "c".repeat(63));
        assert!(check_service(&pod).is_ok() && check_service(&"/".repeat(61)).is_err());
        assert!(check_service("a\nb").is_err() && check_service("shop.api/v1").is_ok());
    }
}
