//! What a profile is about.

use flamelet_profile::Profile;

use crate::report::Report;

/// Which profiles a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
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

pub(super) fn about(report: &Report) -> Subject {
    match report.unit() {
        "bytes" | "byte" => Subject::Memory,
        _ if report.value_name().ends_with("_objects") => Subject::Memory,
        // Threads also wait in this time: what keeps a processor busy is not what takes it.
        _ if ["off_cpu", "wall"].contains(&report.value_name().as_str()) => Subject::Any,
        _ => about_counts(&report.profile),
    }
}

/// Tells profiles of waiting by what their first value counts.
fn about_counts(profile: &Profile) -> Subject {
    match profile.sample_types().first().map(|value| profile.string(value.kind)) {
        Some("contentions") => Subject::Locks,
        Some("awaits") => Subject::Awaits,
        Some("polls") => Subject::Polls,
        _ => Subject::Time,
    }
}
