//! What a profile is about.

use flamelet_profile::Profile;

use crate::report::Report;

/// Which profiles a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// Time, or samples of it.
    Time,
    /// Memory in use or allocated.
    Memory,
    /// Waits of threads for locks, channels and each other.
    Locks,
    /// Awaits of tasks.
    Awaits,
    /// Polls that held up the executor.
    Polls,
    /// Any profile.
    Any,
}

pub(super) fn about(report: &Report) -> About {
    match report.unit() {
        "bytes" | "byte" => About::Memory,
        _ if report.value_name().ends_with("_objects") => About::Memory,
        _ => about_counts(&report.profile),
    }
}

/// Tells profiles of waiting by what their first value counts.
fn about_counts(profile: &Profile) -> About {
    match profile.sample_types().first().map(|value| profile.string(value.kind)) {
        Some("contentions") => About::Locks,
        Some("awaits") => About::Awaits,
        Some("polls") => About::Polls,
        _ => About::Time,
    }
}
